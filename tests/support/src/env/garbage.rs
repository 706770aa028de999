//! The garbage collection of kube-controller-manager, which no test starts, for the objects of IPAM.

use std::time::Duration;

use kube::{
    Client,
    api::{DeleteParams, ListParams},
};
use tokio::task::JoinHandle;

use super::cluster_api::api;

/// Deletes objects whose owner is gone, until the returned task is aborted or the test ends.
pub fn collect(admin: &Client, namespace: &str) -> JoinHandle<()> {
    let (admin, namespace) = (admin.clone(), namespace.to_owned());
    tokio::spawn(async move {
        loop {
            for kind in ["IPAddressClaim", "IPAddress"] {
                let objects = api(&admin, &namespace, kind);
                // An API server that does not answer is asked again in the next round.
                let listed = objects.list(&ListParams::default()).await;
                for object in listed.into_iter().flatten() {
                    for owner in object.metadata.owner_references.iter().flatten() {
                        let owners = api(&admin, &namespace, &owner.kind);
                        let Ok(found) = owners.get_opt(&owner.name).await else {
                            continue;
                        };
                        let uid = found.and_then(|found| found.metadata.uid);
                        let name = object.metadata.name.as_deref().unwrap();
                        if uid.as_ref() != Some(&owner.uid) {
                            let _ = objects.delete(name, &DeleteParams::default()).await;
                        }
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}
