//! How urgent an OpenStack call is.

/// Where calls wait for the request budget, the smaller priority goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// A write, or a read that a gate waits for.
    Gate,
    /// A read of something that is changing.
    Settling,
    /// A read of something settled.
    Steady,
}
