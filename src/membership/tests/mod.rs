//! The core against a small Octavia, a small Cluster API, and time.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::type_complexity,
    reason = "tests count in seconds, and play calls as they are made"
)]

mod figures;
mod histories;
mod model;
mod scenarios;
mod tables;
mod world;
