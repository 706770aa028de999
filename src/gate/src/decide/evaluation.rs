//! What one pass over the gates has found, and what has to be read for the next one.

use crate::model::decision::GateDecision;

/// What has to be read before a question can be answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// A newer read of the tree.
    pub(crate) tree: bool,
    /// The health of members, over a span of time.
    pub(crate) health: bool,
    /// Lists of members.
    pub(crate) lists: bool,
}

/// What one pass has found about one machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evaluation {
    pub(crate) admission: GateDecision,
    pub(crate) release: GateDecision,
    pub(crate) finalizer: GateDecision,
    /// The rules decide on the machine's release.
    pub(crate) ruled: bool,
}
