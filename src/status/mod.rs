//! What users read: reasons, conditions, the Ready roll-up, events, and patches that change something.

mod reason;

pub use reason::Reason;
