//! What users read: explanations of reasons, transitions between findings, and the roll-up of all objects.

mod explained;
pub mod roll_up;
pub mod transitions;

pub use explained::{Explanation, explanation};
