//! Carries out the plan for a pool.

use std::net::IpAddr;

use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    ADDRESS_FINALIZER, FINALIZER, RECORDED_NAME, kubernetes, network,
    observation::Observed,
    openstack,
    pass::{Action, Pass},
    plan::{PoolClaimPlan, PoolEnd, PoolPlan, available, claimed, failed},
    report::{self, Report},
    validate::Desired,
};
use crate::{
    kubernetes::{
        conditions::kind::FLOATING_IP_POOL_READY,
        events::{CloudObject, Verb},
        patch::{is_conflict, is_not_found, set_finalizer},
    },
    reconcile::{
        StepError, StepResult,
        identity::Identity,
        ipam::{self, IPAddress, IPAddressClaim, IPAddressSpec, NameReference, PoolReference},
    },
};
use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::{Priority, Reason, ids::FloatingIpId};
use capo_openstack::{
    Error,
    network::{FloatingIp, FloatingIpFilter, NewFloatingIp, Tagged},
};

impl Pass<'_> {
    /// Carries out `plan`. What is known independently of the steps' results is put into `report` first.
    pub(super) async fn act(
        &mut self,
        identity: &Identity,
        observed: &Observed,
        desired: &Desired,
        plan: PoolPlan,
        report: &mut Report,
    ) -> StepResult<Action> {
        let texts = |list: Vec<IpAddr>| list.iter().map(ToString::to_string).collect();
        let mut holders: Vec<String> = claimed(observed)
            .map(|address| address.object.spec.address.clone())
            .collect();
        holders.sort();
        report.claimed = Some(holders);
        report.available = Some(texts(available(observed, desired)));
        report.failed = Some(texts(failed(observed, desired)));
        for release in &plan.releases {
            if let Some((id, ip)) = &release.delete {
                self.delete(identity, id, *ip).await?;
            }
            self.release(observed, &release.address).await?;
        }
        match &plan.end {
            PoolEnd::Goes(floating_ips) => {
                for (id, ip) in floating_ips {
                    self.delete(identity, id, *ip).await?;
                }
                self.context
                    .set_finalizer(&mut self.object, FINALIZER, false)
                    .await
                    .map_err(|e| kubernetes("Removing the finalizer", &e))?;
                return Ok(Action::Removed);
            }
            PoolEnd::Waits(left) => {
                return Ok(Action::Settled(report::deleting(left, &plan, report)));
            }
            PoolEnd::Stays => {}
        }
        let network = network::resolve(self, identity).await?;
        let network_id = network.id.clone();
        report.network = Some(network);
        self.answer_claims(identity, observed, &plan.claims, &network_id, report)
            .await?;
        let (ready, outcome) = report::readiness(observed, desired, &plan, Timestamp::now());
        report.ready = Some(ready);
        Ok(Action::Settled(outcome))
    }

    /// Answers the claims in order. The report is updated after every step.
    async fn answer_claims(
        &self,
        identity: &Identity,
        observed: &Observed,
        plans: &[PoolClaimPlan],
        network: &str,
        report: &mut Report,
    ) -> StepResult<()> {
        for plan in plans {
            let (claim, fip) = match plan {
                PoolClaimPlan::Blocked { .. } | PoolClaimPlan::Waits { .. } => continue,
                PoolClaimPlan::Answer { claim } => (claim, None),
                PoolClaimPlan::Give { claim, ip } => {
                    let found = observed.floating_ips.get(ip);
                    (
                        claim,
                        found.map(|found| (found.fip.clone(), found.allocated_for_pool)),
                    )
                }
                PoolClaimPlan::Allocate { claim } => {
                    let fip = self.allocate(identity, network).await?;
                    (claim, Some((fip, true)))
                }
            };
            let Some(claim) = observed.claims.get(*claim) else {
                continue;
            };
            if let Some((fip, allocated)) = fip {
                let Some(ip) = fip.floating_ip_address else {
                    continue;
                };
                if allocated && observed.tags && !fip.tags.contains(&self.names.tag) {
                    self.tag(identity, &fip).await?;
                }
                self.create_address(claim, ip).await?;
                report.give(ip);
            }
            self.answer(claim).await?;
        }
        Ok(())
    }

    async fn allocate(&self, identity: &Identity, network: &str) -> StepResult<FloatingIp> {
        let new = NewFloatingIp {
            floating_network_id: network.into(),
            floating_ip_address: None,
            port_id: None,
            description: self.names.description.clone(),
        };
        let kind = CloudObject::FloatingIp;
        self.creations
            .begin(FLOATING_IP_POOL_READY, kind, RECORDED_NAME)
            .await?;
        let answer = identity
            .cloud
            .create_floating_ip(&new, Priority::Settling)
            .await;
        self.creations.settle(kind, RECORDED_NAME, &answer);
        let fip = answer
            .map_err(|e| openstack(Reason::OpenStackError, "Allocating a floating IP", &e))?;
        self.event(
            Verb::Create,
            &format!("Allocated floating IP {}", fip.address_or_id()),
        );
        Ok(fip)
    }

    async fn tag(&self, identity: &Identity, fip: &FloatingIp) -> StepResult<()> {
        let mut tags = fip.tags.clone();
        tags.push(self.names.tag.clone());
        identity
            .cloud
            .replace_tags(Tagged::FloatingIp(&fip.id), &tags, Priority::Settling)
            .await
            .map_err(|e| {
                let doing = format!("Tagging floating IP {}", fip.address_or_id());
                openstack(Reason::OpenStackError, &doing, &e)
            })
    }

    /// Deletes a floating IP and checks whether it is gone.
    async fn delete(&self, identity: &Identity, id: &FloatingIpId, ip: IpAddr) -> StepResult<()> {
        let doing = format!("Deleting floating IP {ip}");
        let failed = |error: &Error| openstack(Reason::OpenStackError, &doing, error);
        match identity
            .cloud
            .delete_floating_ip(id, Priority::Settling)
            .await
        {
            Ok(()) => self.event(Verb::Delete, &format!("Deleted floating IP {ip}")),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed(&error)),
        }
        let filter = FloatingIpFilter {
            floating_ip_address: Some(ip),
            project_id: Some(identity.project.clone()),
            ..FloatingIpFilter::default()
        };
        let left = identity.cloud.floating_ips(&filter, Priority::Settling);
        if left
            .await
            .map_err(|e| failed(&e))?
            .iter()
            .any(|fip| fip.id == *id)
        {
            return Err(StepError::wait(
                FLOATING_IP_POOL_READY,
                Reason::Deleting,
                format!("Floating IP {ip} is being deleted"),
                std::time::Duration::from_secs(2),
            ));
        }
        Ok(())
    }

    /// Removes the finalizer of an `IPAddress` whose floating IP was released.
    async fn release(&self, observed: &Observed, name: &str) -> StepResult<()> {
        let Some(address) = observed.addresses.get(name) else {
            return Ok(());
        };
        let api = self.context.api::<IPAddress>(&self.name.namespace);
        set_finalizer(&api, &address.object, ADDRESS_FINALIZER, false)
            .await
            .map(drop)
            .map_err(|e| kubernetes(&format!("Releasing IPAddress {name}"), &e))
    }

    async fn create_address(&self, claim: &IPAddressClaim, ip: IpAddr) -> StepResult<()> {
        let name = claim.name_any();
        let resource = ApiResource::erase::<IPAddress>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.context.client.clone(), &self.name.namespace, &resource);
        let object = DynamicObject::new(&name, &resource)
            .within(&self.name.namespace)
            .data(json!({"spec": self.address_spec(&name, ip)}));
        let mut object = object;
        object.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.to_owned()]);
        object.metadata.owner_references = Some(vec![
            k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                api_version: format!("{}/{}", ipam::GROUP, ipam::VERSION),
                kind: "IPAddressClaim".to_owned(),
                name: name.clone(),
                uid: claim.uid().unwrap_or_default(),
                ..Default::default()
            },
        ]);
        api.create(&PostParams::default(), &object)
            .await
            .map(drop)
            .map_err(|e| kubernetes(&format!("Creating IPAddress {name}"), &e))
    }

    fn address_spec(&self, claim: &str, ip: IpAddr) -> Value {
        let spec = IPAddressSpec {
            claim_ref: NameReference {
                name: claim.to_owned(),
            },
            pool_ref: PoolReference {
                api_group: OpenStackFloatingIPPool::group(&()).into_owned(),
                kind: OpenStackFloatingIPPool::kind(&()).into_owned(),
                name: self.name.name.clone(),
            },
            address: ip.to_string(),
            prefix: if ip.is_ipv4() { 32 } else { 128 },
        };
        serde_json::to_value(spec).unwrap_or_default()
    }

    /// Writes the name of the `IPAddress`, which is the same as the claim's, into the claim's status.
    async fn answer(&self, claim: &IPAddressClaim) -> StepResult<()> {
        let name = claim.name_any();
        let api = self.context.api::<IPAddressClaim>(&self.name.namespace);
        let patch = json!({
            "metadata": {"resourceVersion": claim.resource_version()},
            "status": {"addressRef": {"name": name}},
        });
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match written {
            Ok(_) => Ok(()),
            // The claim was changed or deleted meanwhile, which starts another pass.
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(()),
            Err(error) => Err(kubernetes(
                &format!("Writing the status of IPAddressClaim {name}"),
                &error,
            )),
        }
    }

    fn event(&self, verb: Verb, note: &str) {
        tracing::info!(OpenStackFloatingIPPool = %self.name, "{note}");
        let about = self.object.object_ref(&());
        let events = &self.context.events;
        events.changed(&about, verb, CloudObject::FloatingIp, note);
    }
}
