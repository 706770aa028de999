//! The boards and rules of `dashboards/`, Prometheus's text format, and findings of many clusters to fill them with.

pub mod boards;
pub mod exposition;
pub mod findings;
pub mod rules;
pub mod selectors;
