//! Tests of the gate with a model of Octavia, a model of Cluster API, and a clock.

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
mod data;
mod events;
mod evidence;
mod explore;
mod figures;
mod findings;
mod floating_ip;
mod guards;
mod histories;
mod joining;
mod links;
mod member_reads;
mod member_writes;
mod model;
mod next_call;
mod next_step;
mod open_without_proof;
mod pair;
mod parts;
mod precedence;
mod prunes;
mod refused;
mod releasing;
mod repairs;
mod replies;
mod reports;
mod requests;
mod restores;
mod rules;
mod schedule;
mod sentences;
mod serving;
mod stories;
mod tables;
mod tidy;
mod tree_reads;
mod turns;
mod two;
mod verdict;
mod verdict_on_members;
mod world;
mod writes;
mod written;
