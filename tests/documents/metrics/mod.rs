//! The catalogue of metrics, the boards, the rules and what `capo-rs manifests --with=monitoring` prints.

mod board_linter;
mod boards;
mod catalogue;
mod manifests;
mod rules;
