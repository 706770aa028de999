//! How urgent an OpenStack call is.

/// The urgency of a call. Of the calls that wait for the request budget, the one with the smallest priority is sent
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// A write, or a read that a gate waits for.
    Gate,
    /// A read of an object that is changing.
    Settling,
    /// A read of an object that is not changing.
    Steady,
}
