//! What is under way in a cluster at the moment when CAPO is stopped, and that capo-rs brings it to its end.

use fake_cloud::Provisioning;
use serde_json::{Value, json};
use test_support::env::cluster_api::is_provisioned;

use crate::{
    kinds::Kind,
    site::{Site, Version},
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
    pub(crate) async fn begin(self, site: &Site) -> Result<(), String> {
        let v = Version::V1Beta1;
        match self {
            Self::Settled => Ok(()),
            Self::RollingUpdate => site.control_plane().roll_halfway(site).await,
            Self::HeldMember => {
                command(
                    site,
                    json!({"hold": {"member": LATE, "status": "PENDING_CREATE"}}),
                );
                site.machine(LATE, true, v).await?;
                site.until_balancer("its new member is PENDING", |members| {
                    members.iter().any(|(name, status)| {
                        name.ends_with(LATE) && *status == Provisioning::PendingCreate
                    })
                })
                .await?;
                // CAPO 0.14 waits for a new member, and a gate that only observes does not.
                site.pause(true).await;
                Ok(())
            }
            Self::DeletingMachine => {
                site.machine(LATE, true, v).await?;
                site.until_object("OpenStackMachine", LATE, v, |it| {
                    it["status"]["ready"] == true
                })
                .await?;
                site.members_of(LATE).await?;
                let slow = json!({"operation": "member-delete", "name": LATE, "duration": LONG, "count": 1});
                command(site, json!({"operation": slow}));
                site.delete("Machine", LATE).await;
                site.until_balancer("its leaving member is PENDING", |members| {
                    members.iter().any(|(name, status)| {
                        name.ends_with(LATE) && *status == Provisioning::PendingDelete
                    })
                })
                .await
            }
            Self::DeletingCluster => {
                let slow =
                    json!({"operation": "load-balancer-delete", "duration": LONG, "count": 1});
                command(site, json!({"operation": slow}));
                site.delete("Cluster", &site.name).await;
                site.until_balancer("it is PENDING_DELETE", |members| {
                    members.contains(&(String::new(), Provisioning::PendingDelete))
                })
                .await
            }
            Self::HalfCreatedCluster => {
                site.create().await?;
                site.until_balancer("it is PENDING_CREATE", |members| {
                    members.contains(&(String::new(), Provisioning::PendingCreate))
                })
                .await
            }
        }
    }

    /// Waits until capo-rs has finished it, with its gate in force.
    pub(crate) async fn end(self, site: &Site) -> Result<(), String> {
        let v = Version::V1Beta2;
        let admitted = is_provisioned;
        match self {
            Self::Settled => Ok(()),
            Self::RollingUpdate => site.control_plane().roll_to_the_end(site).await,
            Self::HeldMember => {
                site.pause(false).await;
                site.until_object("OpenStackMachine", LATE, v, |it| {
                    let gate =
                        test_support::env::cluster_api::condition(it, "APIServerLoadBalancerReady");
                    gate.is_some_and(|(_, reason, _)| reason == "MemberPending")
                })
                .await?;
                if admitted(&site.get("OpenStackMachine", LATE, v).await) {
                    return Err("a machine was admitted whose member is PENDING".to_owned());
                }
                command(site, json!({"release": LATE}));
                site.until_object("OpenStackMachine", LATE, v, admitted)
                    .await?;
                site.members_of(LATE).await
            }
            Self::DeletingMachine => {
                site.until_object("Machine", LATE, v, Value::is_null)
                    .await?;
                site.until_balancer("its member is gone", |members| {
                    members.iter().all(|(name, _)| !name.ends_with(LATE))
                })
                .await
            }
            Self::DeletingCluster => site.is_deleted().await,
            Self::HalfCreatedCluster => {
                for machine in ["cp-0", "w-0"] {
                    site.until_object("OpenStackMachine", machine, v, admitted)
                        .await?;
                }
                site.members_of("cp-0").await?;
                let duplicates = site.cloud.control().duplicates();
                if !duplicates.is_empty() {
                    return Err(format!("twice in the cloud: {duplicates:?}"));
                }
                let initialised =
                    json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
                site.patch_status("Cluster", &site.name, initialised).await;
                Ok(())
            }
        }
    }
}

fn command(site: &Site, command: Value) {
    let text = command.to_string();
    let answer = site.cloud.control().run(command);
    assert!(answer.is_ok(), "{text}: {answer:?}");
}

/// The provisioning statuses of the members of a load balancer by name. The load balancer itself has an empty name.
pub(crate) type Statuses = Vec<(String, Provisioning)>;
