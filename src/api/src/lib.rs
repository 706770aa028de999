//! Custom resource types of every served version, and their schema rules.
//!
//! The types are the only source: `kubectl explain` prints their doc comments, their attributes become the schema, and
//! [`crds()`] assembles the definitions.

mod crds;
mod resource;
mod schema;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;
mod wire;

pub use crds::{ConversionTarget, crds, manifests};

/// The API group of every kind.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// CAPO's annotation with a copy of the whole object in its other version.
pub const CAPO_STASH: &str = "cluster.x-k8s.io/conversion-data";
