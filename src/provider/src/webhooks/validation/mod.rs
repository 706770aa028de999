//! The rules that the schemas can't express: which fields may change, and when.
//!
//! They are pure functions of the old and the new object, both as v1beta2 (v1alpha1 for an OpenStackServer). The rules
//! are CAPO's without two of its bugs: an OpenStackServer's `identityRef` may change, and a port may be added to an
//! endpoint whose host name the user set.

mod cluster;
mod difference;
mod field_error;
mod gate;
mod machine;
mod names;
mod review;
#[cfg(test)]
mod tests;

pub use field_error::{FieldError, Problem};
pub use review::{ReviewResponse, review};

use jiff::Timestamp;
use serde_json::Value;

/// The kinds that are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenStackCluster
    Cluster,
    /// OpenStackClusterTemplate
    ClusterTemplate,
    /// OpenStackMachine
    Machine,
    /// OpenStackMachineTemplate
    MachineTemplate,
    /// OpenStackServer
    Server,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Cluster,
        Self::ClusterTemplate,
        Self::Machine,
        Self::MachineTemplate,
        Self::Server,
    ];

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "OpenStackCluster",
            Self::ClusterTemplate => "OpenStackClusterTemplate",
            Self::Machine => "OpenStackMachine",
            Self::MachineTemplate => "OpenStackMachineTemplate",
            Self::Server => "OpenStackServer",
        }
    }

    /// The kind's plural, as in URLs.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Cluster => "openstackclusters",
            Self::ClusterTemplate => "openstackclustertemplates",
            Self::Machine => "openstackmachines",
            Self::MachineTemplate => "openstackmachinetemplates",
            Self::Server => "openstackservers",
        }
    }

    /// The version whose objects are validated.
    pub fn version(self) -> &'static str {
        match self {
            Self::Server => "v1alpha1",
            _ => "v1beta2",
        }
    }

    /// The paths that the API server calls: CAPO's since 0.15 first, then those of CAPO 0.12 to 0.14. The older entries
    /// of the webhook configuration have other names, so they remain when those of capo-rs are applied over them.
    pub fn paths(self) -> &'static [&'static str] {
        match self {
            Self::Cluster => &[
                "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackcluster",
                "/validate-infrastructure-cluster-x-k8s-io-v1beta1-openstackcluster",
            ],
            Self::ClusterTemplate => &[
                "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackclustertemplate",
                "/validate-infrastructure-cluster-x-k8s-io-v1beta1-openstackclustertemplate",
            ],
            Self::Machine => &[
                "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackmachine",
                "/validate-infrastructure-cluster-x-k8s-io-v1beta1-openstackmachine",
            ],
            Self::MachineTemplate => &[
                "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackmachinetemplate",
                "/validate-infrastructure-cluster-x-k8s-io-v1beta1-openstackmachinetemplate",
            ],
            Self::Server => &["/validate-infrastructure-cluster-x-k8s-io-v1alpha1-openstackserver"],
        }
    }
}

/// A creation or an update to validate.
#[derive(Debug, Clone, Copy)]
pub struct ObjectChange<'a> {
    /// The object before; `None` for a creation.
    pub old: Option<&'a Value>,
    /// The object as it would be.
    pub new: &'a Value,
    /// Whether nothing would be stored.
    pub dry_run: bool,
}

/// Marks the dry runs of Cluster API's topology controller.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

impl ObjectChange<'_> {
    /// Whether this is a dry run of the topology controller. In it the API server applies defaults to changed templates
    /// for a comparison, which immutability would prevent.
    fn is_topology_dry_run(&self) -> bool {
        self.dry_run && annotation(self.new, TOPOLOGY_DRY_RUN).is_some()
    }
}

/// All violations of the rules; empty when the change is allowed.
pub fn validate(kind: Kind, change: &ObjectChange<'_>, now: Timestamp) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match kind {
        Kind::Cluster => cluster::validate(change, &mut errors),
        Kind::ClusterTemplate => cluster::validate_template(change, &mut errors),
        Kind::Machine => machine::validate(change, &mut errors),
        Kind::MachineTemplate => machine::validate_template(change, &mut errors),
        Kind::Server => machine::validate_server(change, &mut errors),
    }
    if matches!(kind, Kind::Cluster | Kind::Machine) {
        gate::validate(change, now, &mut errors);
    }
    errors
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}
