//! Tracks the inside of a load balancer: which listeners, pools, monitors and members exist and which should, what
//! state they are in, when to read them again, and whether the gates are open.
//!
//! [`step()`] is pure: it applies one event to a [`state::State`], decides, and returns what is to be done. Each load
//! balancer has one worker that does this, because Octavia locks a whole load balancer during an operation. Controllers
//! hand the worker what they want ([`desired`]) and read what it found ([`findings`]). They never wait for it.
//!
//! | folder | what it does |
//! |---|---|
//! | `model` | data only |
//! | `apply` | takes an event into the state |
//! | `decide` | one file per gate, and what the gates share |
//! | `plan` | the next read, write or probe |
//! | `report` | findings and messages |

mod apply;
#[cfg(any(test, feature = "test-builders"))]
pub mod builders;
mod decide;
mod model;
mod plan;
mod report;
mod step;
#[cfg(test)]
mod tests;

pub use decide::floating_ip::{ReleaseInputs, next_release};
pub use model::{
    call::{Call, Operation},
    clock::{Now, Stamp},
    decision::{GateCause, GateDecision, GateName},
    desired, effect, event,
    findings::{self, Publication},
    floating_ip,
    member::{JOINING, LEAVING, before_release},
    metric_event::{GateObserver, MetricEvent, OperationOutcome, Unobserved},
    octavia,
    part::{PartId, PartKind},
    proof::{EndpointReply, EndpointRequest, EndpointResult},
    settings::{Schedule, Settings},
    state,
};
pub use plan::withdrawal::is_call_wanted;
pub use report::{floating_ip::floating_ip_findings, report};
pub use step::step;
