//! The metric catalogue, in one place.
