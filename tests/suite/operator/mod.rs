//! What operators see: the command line, events, kube-state-metrics, Argo CD, the ClusterOperator, and no secrets.

mod argo;
mod cli;
mod cluster_operator;
mod install;
mod log;
mod manifests;
mod quickstart;
mod release;
mod release_environment;
mod secrets;
mod state_metrics;
mod swap;
mod templates;

use test_support::waiting::until;
