//! What a pass over a pool reads: claims and addresses, without a cache, and floating IPs.

use std::{collections::BTreeSet, net::IpAddr};

use kube::{Resource, ResourceExt, api::ListParams, runtime::reflector::ObjectRef};

use super::{
    ADDRESS_FINALIZER, RECORDED_NAME, kubernetes,
    observation::{Address, Found, Observed},
    openstack,
    pass::Pass,
    validate::Desired,
};
use crate::{
    kubernetes::events::CloudObject,
    reconcile::{
        SharedContext, StepResult,
        capi::{self, CLUSTER_NAME_LABEL},
        creations::described,
        finalizer,
        identity::Identity,
        ipam::{IPAddress, IPAddressClaim},
        name_of,
    },
};
use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::{Priority, Reason};
use capo_openstack::network::{FloatingIp, FloatingIpFilter, TagFilter};

impl Pass<'_> {
    /// Reads the pool's claims, addresses and floating IPs.
    pub(super) async fn observe(
        &self,
        identity: &Identity,
        desired: &Desired,
    ) -> StepResult<Observed> {
        let context = self.context;
        let list = ListParams::default();
        let claims = context
            .api::<IPAddressClaim>(&self.name.namespace)
            .list(&list)
            .await
            .map_err(|e| kubernetes("Listing IPAddressClaims", &e))?;
        let pools =
            SharedContext::watched::<OpenStackFloatingIPPool>(&context.client, &context.settings)
                .list(&list)
                .await
                .map_err(|e| kubernetes("Listing OpenStackFloatingIPPools", &e))?
                .items;
        let addresses = SharedContext::watched::<IPAddress>(&context.client, &context.settings)
            .list(&list)
            .await
            .map_err(|e| kubernetes("Listing IPAddresses", &e))?;
        let created = described(CloudObject::FloatingIp, RECORDED_NAME);
        let mut observed = Observed {
            creation_until: context.pool_creations.until(&self.name, &created),
            deleting: self.object.metadata.deletion_timestamp.is_some(),
            ..Observed::default()
        };
        observed.sort_addresses(self, addresses.items, &pools);
        observed.sort_claims(self, claims.items);
        let another = pools
            .iter()
            .any(|pool| pool.name_any() == self.name.name && name_of(pool) != self.name);
        observed
            .read_floating_ips(self, identity, desired, another)
            .await?;
        Ok(observed)
    }
}

impl Observed {
    fn sort_claims(&mut self, pass: &Pass<'_>, claims: Vec<IPAddressClaim>) {
        self.claims = claims
            .into_iter()
            .filter(|claim| {
                claim.spec.pool_ref.floating_ip_pool() == Some(pass.name.name.as_str())
                    && claim.metadata.deletion_timestamp.is_none()
                    && !is_paused(claim, pass)
            })
            .collect();
        self.claims.sort_by_key(|claim| {
            let created = claim.metadata.creation_timestamp.as_ref();
            (created.map(|time| time.0), claim.name_any())
        });
    }

    fn sort_addresses(
        &mut self,
        pass: &Pass<'_>,
        addresses: Vec<IPAddress>,
        pools: &[OpenStackFloatingIPPool],
    ) {
        let network = |pool: &OpenStackFloatingIPPool| {
            let status = pool.status.as_ref()?;
            Some(status.floating_ip_network.as_ref()?.id.clone())
        };
        let ours = network(&pass.object);
        for object in addresses {
            let name = object.name_any();
            let here = object.namespace().as_deref() == Some(pass.name.namespace.as_str());
            let ip = object.spec.address.parse().ok();
            let pool = object.spec.pool_ref.floating_ip_pool();
            if here && pool == Some(pass.name.name.as_str()) {
                let address = Address {
                    ip,
                    deleting: object.metadata.deletion_timestamp.is_some(),
                    has_finalizer: finalizer::is_on(&object.metadata, ADDRESS_FINALIZER),
                    object,
                };
                self.addresses.insert(name, address);
                continue;
            }
            let Some(pool) = pool else {
                if here {
                    self.foreign_names.insert(name);
                }
                continue;
            };
            let theirs = pools
                .iter()
                .find(|other| other.name_any() == pool && other.namespace() == object.namespace())
                .and_then(network);
            // The same address can exist twice only in two different networks, so it is free here if both networks are
            // known and differ.
            let elsewhere = theirs.is_some() && ours.is_some() && theirs != ours;
            if let Some(ip) = ip.filter(|_| !elsewhere) {
                self.elsewhere.insert(ip);
                if object.metadata.deletion_timestamp.is_none() {
                    self.used_elsewhere.insert(ip);
                }
            }
            if here {
                self.foreign_names.insert(name);
            }
        }
    }

    async fn read_floating_ips(
        &mut self,
        pass: &Pass<'_>,
        identity: &Identity,
        desired: &Desired,
        another: bool,
    ) -> StepResult<()> {
        let cloud = &identity.cloud;
        let failed = |error: &_| openstack(Reason::OpenStackError, "Listing floating IPs", error);
        let extensions = cloud
            .network_extensions(Priority::Steady)
            .await
            .map_err(|e| openstack(Reason::OpenStackError, "Listing network extensions", &e))?;
        self.tags = extensions.contains("standard-attr-tag");
        let mut filters = vec![FloatingIpFilter {
            description: Some(pass.names.description.clone()),
            project_id: Some(identity.project.clone()),
            ..FloatingIpFilter::default()
        }];
        if self.tags {
            filters.push(FloatingIpFilter {
                project_id: Some(identity.project.clone()),
                tags: TagFilter {
                    tags: vec![pass.names.tag.clone()],
                    ..TagFilter::default()
                },
                ..FloatingIpFilter::default()
            });
        }
        let mut found: Vec<FloatingIp> = Vec::new();
        for filter in filters {
            let list = cloud.floating_ips(&filter, Priority::Settling).await;
            found.extend(list.map_err(|e| failed(&e))?);
        }
        let status = pass.object.status.clone().unwrap_or_default();
        let known: BTreeSet<IpAddr> = self
            .addresses
            .values()
            .filter_map(|address| address.ip)
            .chain(status.available_ips.iter().filter_map(|ip| ip.parse().ok()))
            .collect();
        // The status that CAPO wrote also names floating IPs that lack the tag because CAPO failed to set it.
        let mut unseen: BTreeSet<IpAddr> = known.clone();
        unseen.extend(&desired.pre_allocated);
        unseen.retain(|ip| found.iter().all(|fip| fip.floating_ip_address != Some(*ip)));
        // The length of a URL limits the number of addresses in one request to about this many.
        for some in unseen.into_iter().collect::<Vec<_>>().chunks(50) {
            let filter = FloatingIpFilter {
                floating_ip_addresses: some.to_vec(),
                ..FloatingIpFilter::default()
            };
            let list = cloud.floating_ips(&filter, Priority::Settling).await;
            found.extend(list.map_err(|e| failed(&e))?);
        }
        for fip in found {
            let Some(ip) = fip.floating_ip_address else {
                continue;
            };
            let own = fip.project_id.as_ref() == Some(&identity.project);
            let allocated = own
                && pass
                    .names
                    .allocated_for_pool(&fip, another, known.contains(&ip));
            let given = desired.pre_allocated.contains(&ip);
            if allocated || given || known.contains(&ip) {
                // With an administrator's credentials, floating IPs of other projects are listed too. Those of the own
                // project take precedence.
                let entry = self.floating_ips.entry(ip);
                let entry = entry.or_insert_with(|| Found {
                    fip: fip.clone(),
                    allocated_for_pool: allocated && !given,
                });
                if own && entry.fip.project_id.as_ref() != Some(&identity.project) {
                    *entry = Found {
                        fip,
                        allocated_for_pool: allocated && !given,
                    };
                }
            }
        }
        Ok(())
    }
}

/// Whether the claim or its Cluster is paused.
fn is_paused(claim: &IPAddressClaim, pass: &Pass<'_>) -> bool {
    let cluster = Some(&claim.spec.cluster_name)
        .filter(|name| !name.is_empty())
        .or_else(|| claim.labels().get(CLUSTER_NAME_LABEL));
    capi::has_annotation(claim.meta(), capi::PAUSED_ANNOTATION)
        || cluster.is_some_and(|cluster| {
            let key = ObjectRef::new(cluster).within(&pass.name.namespace);
            let cluster = pass.context.stores.clusters.get(&key);
            cluster.is_some_and(|cluster| cluster.spec.paused)
        })
}
