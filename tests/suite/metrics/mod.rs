//! What Prometheus scrapes, what Grafana shows, and what wakes the operator.

mod boards;
mod catalogue;
mod deploying;
mod exposition;
use test_support::fleet;
mod rollout;
mod rules;
mod selectors;
mod serving;
