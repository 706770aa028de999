//! What operators see: the command line, events, kube-state-metrics, Argo CD, the ClusterOperator, and no secrets.

mod argo;
mod cli;
mod cluster_operator;
mod log;
mod manifests;
mod release;
mod secrets;
mod state_metrics;
mod templates;

use test_support::waiting::until;
