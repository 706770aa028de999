//! `src/membership/mod.rs` without its shell: edge, mail, probe, registry, task, wakes.

#[path = "../../src/membership/absorb.rs"]
mod absorb;
#[path = "../../src/membership/classify.rs"]
pub mod classify;
#[path = "../../src/membership/desired.rs"]
pub mod desired;
#[path = "../../src/membership/effect.rs"]
pub mod effect;
#[path = "../../src/membership/event.rs"]
pub mod event;
#[path = "../../src/membership/findings.rs"]
pub mod findings;
#[path = "../../src/membership/gate.rs"]
pub mod gate;
#[path = "../../src/membership/ground.rs"]
mod ground;
#[path = "../../src/membership/judge.rs"]
mod judge;
#[path = "../../src/membership/links.rs"]
mod links;
#[path = "../../src/membership/list.rs"]
mod list;
#[path = "../../src/membership/machines.rs"]
mod machines;
#[path = "../../src/membership/members.rs"]
mod members;
#[path = "../../src/membership/mend.rs"]
mod mend;
#[path = "../../src/membership/observe.rs"]
mod observe;
#[path = "../../src/membership/observer.rs"]
mod observer;
#[path = "../../src/membership/octavia.rs"]
pub mod octavia;
#[path = "../../src/membership/parts.rs"]
mod parts;
#[path = "../../src/membership/plan.rs"]
mod plan;
#[path = "../../src/membership/provider.rs"]
mod provider;
#[path = "../../src/membership/release.rs"]
mod release;
#[path = "../../src/membership/report.rs"]
mod report;
#[path = "../../src/membership/schedule.rs"]
mod schedule;
#[path = "../../src/membership/serves.rs"]
pub mod serves;
#[path = "../../src/membership/settings.rs"]
mod settings;
#[path = "../../src/membership/state.rs"]
pub mod state;
#[path = "../../src/membership/step.rs"]
mod step;
#[path = "../../src/membership/structure.rs"]
mod structure;
#[cfg(test)]
#[path = "../../src/membership/tests/mod.rs"]
mod tests;
#[path = "../../src/membership/verdict.rs"]
mod verdict;
#[path = "../../src/membership/words.rs"]
mod words;
#[path = "../../src/membership/written.rs"]
mod written;
pub use observer::{Decision, GateName, Observer, Operation, OperationOutcome, Unobserved};
pub use parts::JOINING;
pub use provider::Provider;
pub use report::report;
pub use settings::{GateMode, Schedule, Settings};
pub use step::step;
