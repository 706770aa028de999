//! The result of a lookup.

use std::ops::Deref;

/// The result of a lookup. A failed lookup does not mean that the object is absent: only [`Lookup::Absent`] is a reason
/// to open a gate, or to create or delete an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lookup<T> {
    /// It was not looked up yet, or the lookup failed.
    #[default]
    Unknown,
    /// It was looked up and does not exist.
    Absent,
    /// It was looked up and exists.
    Found(T),
}

impl<T> Lookup<T> {
    /// The object, if it was found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(object) => Some(object),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// Whether the lookup came to a result.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Whether it was looked up and does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The result of the lookup with a reference to what the object dereferences to.
    pub fn as_deref(&self) -> Lookup<&T::Target>
    where
        T: Deref,
    {
        match self {
            Self::Unknown => Lookup::Unknown,
            Self::Absent => Lookup::Absent,
            Self::Found(object) => Lookup::Found(object),
        }
    }

    /// The result of the lookup for a part of the object.
    pub fn map<U>(self, part: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Unknown => Lookup::Unknown,
            Self::Absent => Lookup::Absent,
            Self::Found(object) => Lookup::Found(part(object)),
        }
    }
}

/// What a successful lookup found.
impl<T> From<Option<T>> for Lookup<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::Absent, Self::Found)
    }
}
