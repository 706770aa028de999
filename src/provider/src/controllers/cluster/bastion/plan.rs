//! Decides what to do about the bastion's `OpenStackServer`. The functions are pure.

use kube::ResourceExt;

use super::server_spec::DesiredServer;
use capo_api::v1alpha1::{OpenStackServer, OpenStackServerSpec};

/// The inputs of the decision about the bastion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BastionInputs<'a> {
    /// The name of the `OpenStackCluster`.
    pub cluster: &'a str,
    /// The server that the spec describes.
    pub desired: Desired<'a>,
    /// The `OpenStackServer` that has the bastion's name.
    pub found: Option<&'a OpenStackServer>,
    /// Whether the status or an earlier read shows a bastion, so that its floating IP or security group may still
    /// exist.
    pub is_recorded: bool,
}

/// The server that the spec describes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Desired<'a> {
    /// No bastion is desired.
    Off,
    /// A bastion is desired, but the network or the security group that it would be in is unknown.
    Unknown,
    /// This server is desired.
    Server(&'a DesiredServer),
}

/// What to do about the bastion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BastionPlan {
    /// There is no bastion, and none is desired.
    Nothing,
    /// The bastion's server is gone; its floating IP and security group are removed next.
    CleanUp,
    /// No bastion is desired; the server and its floating IP are deleted.
    Remove,
    /// The server is being deleted. A server that replaces it gets its floating IP.
    AwaitDeletion,
    /// The server is deleted, because the spec describes another one.
    Replace,
    /// The server is created.
    Create(Box<OpenStackServerSpec>),
    /// The server is created as soon as its network and security group are known.
    CreateLater,
    /// The server is as the spec describes it.
    Keep,
    /// The name belongs to an object that is not this cluster's bastion.
    Foreign {
        /// The kind and name of the object's owner.
        owner: String,
    },
}

/// Decides on the bastion's server object.
pub(crate) fn plan(inputs: &BastionInputs<'_>) -> BastionPlan {
    let Some(found) = inputs.found else {
        return match inputs.desired {
            Desired::Off if inputs.is_recorded => BastionPlan::CleanUp,
            Desired::Off => BastionPlan::Nothing,
            Desired::Unknown => BastionPlan::CreateLater,
            Desired::Server(desired) => BastionPlan::Create(Box::new(desired.spec.clone())),
        };
    };
    if let Some(owner) = foreign_owner(found, inputs.cluster) {
        return match inputs.desired {
            Desired::Off => BastionPlan::Nothing,
            Desired::Unknown | Desired::Server(_) => BastionPlan::Foreign { owner },
        };
    }
    if found.metadata.deletion_timestamp.is_some() {
        return BastionPlan::AwaitDeletion;
    }
    match inputs.desired {
        Desired::Off => BastionPlan::Remove,
        Desired::Server(desired) if !desired.matches(&found.spec) => BastionPlan::Replace,
        Desired::Unknown | Desired::Server(_) => BastionPlan::Keep,
    }
}

/// The owner of an `OpenStackServer` that is not the bastion of `cluster`. UIDs are not compared, because owner
/// references have the former UIDs after a restore from a backup.
fn foreign_owner(server: &OpenStackServer, cluster: &str) -> Option<String> {
    let owners = server.owner_references();
    let is_ours = owners
        .iter()
        .any(|owner| owner.kind == "OpenStackCluster" && owner.name == cluster);
    let owner = owners.first().filter(|_| !is_ours)?;
    Some(format!("{} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_api::v1beta2::{Bastion, OpenStackCluster};
    use serde_json::{Value, from_value, json};

    fn desired(flavor: &str) -> DesiredServer {
        let cluster: OpenStackCluster = from_value(json!({"metadata": {"name": "c"},
            "spec": {"identityRef": {"name": "s", "cloudName": "c"}}}))
        .unwrap();
        let bastion: Bastion =
            from_value(json!({"spec": {"flavor": {"id": flavor}, "image": {"id": "i"}}})).unwrap();
        DesiredServer::new(&cluster, &bastion, "net", None)
    }

    fn server(owners: Value, deleting: bool) -> OpenStackServer {
        let mut server = OpenStackServer::new("c-bastion", desired("m1").spec);
        server.metadata.owner_references = from_value(owners).unwrap();
        if deleting {
            server.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        }
        server
    }

    fn owner(kind: &str, name: &str) -> Value {
        json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "of-before-a-restore"}])
    }

    #[test]
    fn the_table() {
        let (same, other) = (desired("m1"), desired("m2"));
        let (same, other) = (Desired::Server(&same), Desired::Server(&other));
        let ours = || server(owner("OpenStackCluster", "c"), false);
        let machines = || server(owner("OpenStackMachine", "c-bastion"), false);
        let create = BastionPlan::Create(Box::new(desired("m1").spec));
        let foreign = |owner: &str| BastionPlan::Foreign {
            owner: owner.to_owned(),
        };
        let in_deletion = || server(owner("OpenStackCluster", "c"), true);
        let cases = vec![
            ("none", None, Desired::Off, false, BastionPlan::Nothing),
            (
                "a part is left",
                None,
                Desired::Off,
                true,
                BastionPlan::CleanUp,
            ),
            ("enabled", None, same, false, create.clone()),
            ("enabled again", None, same, true, create),
            (
                "enabled, network unknown",
                None,
                Desired::Unknown,
                false,
                BastionPlan::CreateLater,
            ),
            ("as desired", Some(ours()), same, true, BastionPlan::Keep),
            (
                "network unknown",
                Some(ours()),
                Desired::Unknown,
                true,
                BastionPlan::Keep,
            ),
            (
                "without an owner",
                Some(server(Value::Null, false)),
                same,
                true,
                BastionPlan::Keep,
            ),
            ("changed", Some(ours()), other, true, BastionPlan::Replace),
            (
                "switched off",
                Some(ours()),
                Desired::Off,
                true,
                BastionPlan::Remove,
            ),
            (
                "being replaced",
                Some(in_deletion()),
                other,
                true,
                BastionPlan::AwaitDeletion,
            ),
            (
                "being removed",
                Some(in_deletion()),
                Desired::Off,
                true,
                BastionPlan::AwaitDeletion,
            ),
            (
                "a Machine of the bastion's name",
                Some(machines()),
                same,
                false,
                foreign("OpenStackMachine c-bastion"),
            ),
            (
                "another cluster's",
                Some(server(owner("OpenStackCluster", "d"), false)),
                same,
                false,
                foreign("OpenStackCluster d"),
            ),
            (
                "a Machine of the bastion's name, switched off",
                Some(machines()),
                Desired::Off,
                false,
                BastionPlan::Nothing,
            ),
        ];
        for (name, found, desired, is_recorded, expected) in cases {
            let inputs = BastionInputs {
                cluster: "c",
                desired,
                found: found.as_ref(),
                is_recorded,
            };
            assert_eq!(plan(&inputs), expected, "{name}");
        }
    }
}
