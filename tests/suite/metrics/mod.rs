//! What Prometheus scrapes, what Grafana shows, and which alerts fire.

mod grafana;
mod promtool;
mod rollout;
mod serving;
