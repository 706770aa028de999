//! The vocabulary that every crate of capo-rs shares. It knows no Kubernetes, no HTTP and no clock.
//!
//! A closed set of values is one enum here. Its spelling is in `Display`, in serde and in metric labels only.

pub mod backoff;
pub mod build_info;
mod condition;
mod endpoint;
mod failure;
mod gate_mode;
pub mod gate_override;
mod gate_state;
pub mod ids;
mod label_enum;
mod lookup;
mod object_name;
pub mod octavia;
mod priority;
mod reason;
pub mod wire;
mod wire_enum;

pub use condition::{ConditionState, ConditionStatus};
pub use endpoint::{Endpoint, EndpointAnswer, EndpointFailure, Excerpt};
pub use failure::FailureClass;
pub use gate_mode::{GateMode, UnknownGateMode};
pub use gate_override::GateOverride;
pub use gate_state::GateState;
pub use lookup::Lookup;
pub use object_name::ObjectName;
pub use octavia::{MemberStatus, MonitorType, OperatingStatus, Provider, ProvisioningStatus};
pub use priority::Priority;
pub use reason::Reason;
