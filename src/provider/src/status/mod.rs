//! The reports for users: explanations of reasons, transitions between findings, and the state of all objects in four
//! conditions.

mod explained;
pub mod roll_up;
pub mod transitions;

pub use explained::{Explanation, explanation};
