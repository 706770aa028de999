//! The core against a small Octavia, a small Cluster API, and time.

mod figures;
mod histories;
mod model;
mod scenarios;
mod world;
