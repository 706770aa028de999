//! What users read: reasons, conditions, the Ready roll-up, events, and patches that change something.

pub mod conditions;
pub mod events;
pub mod patch;
mod reason;

pub use reason::Reason;
