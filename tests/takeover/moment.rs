//! What is under way in a cluster at the moment when CAPO is stopped, and that capo-rs brings it to its end.

use fake_cloud::Provisioning;
use serde_json::{Value, json};
use test_support::env::cluster_api::is_provisioned;

use crate::{
    kinds::Kind,
    tested_cluster::{TestedCluster, Version},
};

/// The machine that is created or deleted at that moment.
const LATE: &str = "cp-late";
/// A longer time than from the beginning of a moment to the first passes of capo-rs, in seconds.
pub(crate) const LONG: f64 = 90.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nothing is under way, so capo-rs must not send a single call that writes.
    Settled,
    /// A new machine serves beside the old ones, and the first old one is deleting.
    RollingUpdate,
    /// The member of a new machine is PENDING_CREATE below an ACTIVE load balancer.
    HeldMember,
    /// A machine is deleting and its member is PENDING_DELETE.
    DeletingMachine,
    /// The cluster is deleting and its load balancer is PENDING_DELETE.
    DeletingCluster,
    /// The cluster was just created and its load balancer is PENDING_CREATE.
    HalfCreatedCluster,
}

impl Moment {
    pub(crate) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::RollingUpdate => Self::RollingUpdate,
            Kind::HeldMember => Self::HeldMember,
            Kind::DeletingMachine => Self::DeletingMachine,
            Kind::DeletingCluster => Self::DeletingCluster,
            Kind::HalfCreatedCluster => Self::HalfCreatedCluster,
            _ => Self::Settled,
        }
    }

    /// Lets CAPO begin what is under way at this moment.
    pub(crate) async fn begin(self, cluster: &TestedCluster) -> Result<(), String> {
        let v = Version::V1Beta1;
        match self {
            Self::Settled => Ok(()),
            Self::RollingUpdate => cluster.control_plane().roll_halfway(cluster).await,
            Self::HeldMember => {
                command(
                    cluster,
                    json!({"hold": {"member": LATE, "status": "PENDING_CREATE"}}),
                );
                cluster.machine(LATE, true, v).await?;
                cluster
                    .until_balancer("its new member is PENDING", |members| {
                        members.iter().any(|(name, status)| {
                            name.ends_with(LATE) && *status == Provisioning::PendingCreate
                        })
                    })
                    .await?;
                // CAPO 0.14 waits for a new member, and a gate that only observes does not.
                cluster.pause(true).await;
                Ok(())
            }
            Self::DeletingMachine => {
                cluster.machine(LATE, true, v).await?;
                cluster
                    .until_object("OpenStackMachine", LATE, v, |it| {
                        it["status"]["ready"] == true
                    })
                    .await?;
                cluster.members_of(LATE).await?;
                let slow = json!({"operation": "member-delete", "name": LATE, "duration": LONG, "count": 1});
                command(cluster, json!({"operation": slow}));
                cluster.delete("Machine", LATE).await;
                cluster
                    .until_balancer("its leaving member is PENDING", |members| {
                        members.iter().any(|(name, status)| {
                            name.ends_with(LATE) && *status == Provisioning::PendingDelete
                        })
                    })
                    .await
            }
            Self::DeletingCluster => {
                let slow =
                    json!({"operation": "load-balancer-delete", "duration": LONG, "count": 1});
                command(cluster, json!({"operation": slow}));
                cluster.delete("Cluster", &cluster.name).await;
                cluster
                    .until_balancer("it is PENDING_DELETE", |members| {
                        members.contains(&(String::new(), Provisioning::PendingDelete))
                    })
                    .await
            }
            Self::HalfCreatedCluster => {
                cluster.create().await?;
                cluster
                    .until_balancer("it is PENDING_CREATE", |members| {
                        members.contains(&(String::new(), Provisioning::PendingCreate))
                    })
                    .await
            }
        }
    }

    /// Waits until capo-rs has finished it, with its gate in force.
    pub(crate) async fn end(self, cluster: &TestedCluster) -> Result<(), String> {
        let v = Version::V1Beta2;
        let admitted = is_provisioned;
        match self {
            Self::Settled => Ok(()),
            Self::RollingUpdate => cluster.control_plane().roll_to_the_end(cluster).await,
            Self::HeldMember => {
                cluster.pause(false).await;
                cluster
                    .until_object("OpenStackMachine", LATE, v, |it| {
                        let gate = test_support::env::cluster_api::condition(
                            it,
                            "APIServerLoadBalancerReady",
                        );
                        gate.is_some_and(|(_, reason, _)| reason == "MemberPending")
                    })
                    .await?;
                if admitted(&cluster.get("OpenStackMachine", LATE, v).await) {
                    return Err("a machine was admitted whose member is PENDING".to_owned());
                }
                command(cluster, json!({"release": LATE}));
                cluster
                    .until_object("OpenStackMachine", LATE, v, admitted)
                    .await?;
                cluster.members_of(LATE).await
            }
            Self::DeletingMachine => {
                cluster
                    .until_object("Machine", LATE, v, Value::is_null)
                    .await?;
                cluster
                    .until_balancer("its member is gone", |members| {
                        members.iter().all(|(name, _)| !name.ends_with(LATE))
                    })
                    .await
            }
            Self::DeletingCluster => cluster.is_deleted().await,
            Self::HalfCreatedCluster => {
                for machine in ["cp-0", "w-0"] {
                    cluster
                        .until_object("OpenStackMachine", machine, v, admitted)
                        .await?;
                }
                cluster.members_of("cp-0").await?;
                let duplicates = cluster.cloud.control().duplicates();
                if !duplicates.is_empty() {
                    return Err(format!("twice in the cloud: {duplicates:?}"));
                }
                let initialised =
                    json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
                cluster
                    .patch_status("Cluster", &cluster.name, initialised)
                    .await;
                Ok(())
            }
        }
    }
}

fn command(cluster: &TestedCluster, command: Value) {
    let text = command.to_string();
    let answer = cluster.cloud.control().run(command);
    assert!(answer.is_ok(), "{text}: {answer:?}");
}

/// The provisioning statuses of the members of a load balancer by name. The load balancer itself has an empty name.
pub(crate) type Statuses = Vec<(String, Provisioning)>;
