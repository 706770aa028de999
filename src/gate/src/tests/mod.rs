//! The core against a small Octavia, a small Cluster API, and time.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::type_complexity,
    reason = "tests count in seconds, and play calls as they are made"
)]

mod acts;
mod answers;
mod calls;
mod canonical;
mod checks;
mod cluster;
mod evidence;
mod explore;
mod figures;
mod guards;
mod histories;
mod list;
mod model;
mod pair;
mod releasing;
mod repairs;
mod rules;
mod stories;
mod tables;
mod tidy;
mod two;
mod verdict;
mod verdict_on_members;
mod world;
mod writes;
