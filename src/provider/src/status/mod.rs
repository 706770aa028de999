//! What users read: reasons, conditions, the Ready roll-up, events, and patches that change something.

pub mod conditions;
pub mod events;
mod explained;
pub mod news;
pub mod patch;
pub mod roll_up;

pub use explained::{Explanation, explanation};
