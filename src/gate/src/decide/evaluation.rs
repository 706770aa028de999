//! What one pass over the gates finds out, and what it still needs.

use crate::model::decision::GateDecision;

/// What has to be read before a question can be answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// A newer read of the tree.
    pub(crate) tree: bool,
    /// Health, over time.
    pub(crate) health: bool,
    /// Lists of members.
    pub(crate) lists: bool,
}

/// What was found out about one machine in this pass.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evaluation {
    pub(crate) admission: GateDecision,
    pub(crate) release: GateDecision,
    pub(crate) finalizer: GateDecision,
    /// The rules decide on its release.
    pub(crate) ruled: bool,
}
