//! Address families.

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}
