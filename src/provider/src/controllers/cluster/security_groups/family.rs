//! Families of addresses.

/// The family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}
