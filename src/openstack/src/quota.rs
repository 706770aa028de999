//! Quotas: how much of what clusters and machines need a project may have, and how much it has.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

use crate::{Cloud, Error, Service, load_balancer::LoadBalancerFilter, request::Call};
use capo_core::Priority;

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedResource {
    /// Nova's servers.
    Servers,
    /// Nova's virtual processors.
    Cores,
    /// Nova's memory.
    Memory,
    /// Neutron's ports.
    Ports,
    /// Neutron's floating IPs.
    FloatingIps,
    /// Neutron's security groups.
    SecurityGroups,
    /// Octavia's load balancers.
    LoadBalancers,
    /// Octavia's members of pools.
    Members,
    /// Cinder's volumes.
    Volumes,
    /// The total size of Cinder's volumes.
    VolumeSize,
}

impl fmt::Display for LimitedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => "servers",
            Self::Cores => "cores",
            Self::Memory => "MiB of memory",
            Self::Ports => "ports",
            Self::FloatingIps => "floating IPs",
            Self::SecurityGroups => "security groups",
            Self::LoadBalancers => "load balancers",
            Self::Members => "load balancer members",
            Self::Volumes => "volumes",
            Self::VolumeSize => "GiB of volumes",
        })
    }
}

/// One limit of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// What is limited.
    pub resource: LimitedResource,
    /// How much is in use.
    pub used: i64,
    /// How much is allowed; a negative number means that there is no limit.
    pub limit: i64,
}

impl Quota {
    /// Whether nothing can be added.
    pub fn is_exhausted(&self) -> bool {
        self.limit >= 0 && self.used >= self.limit
    }
}

/// The absolute limits of Nova or Cinder by their names. The number in use has a name of its own, such as
/// `totalCoresUsed`.
#[derive(Deserialize)]
struct Limits {
    // Some services send entries that are not numbers.
    absolute: BTreeMap<String, Value>,
}

impl Limits {
    /// The quotas of this list that the service sends. Each entry of the list has what is limited, the name of the
    /// limit, and the name of the number in use.
    fn quotas(&self, names: &[(LimitedResource, &str, &str)]) -> Vec<Quota> {
        let number = |name: &str| self.absolute.get(name).and_then(Value::as_i64);
        let quotas = names.iter().filter_map(|(resource, limit, used)| {
            Some(Quota {
                resource: *resource,
                used: number(used).unwrap_or_default(),
                limit: number(limit)?,
            })
        });
        quotas.collect()
    }
}

impl Cloud {
    /// Nova's quotas of servers, cores and memory.
    pub async fn compute_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        let call = Call::get(Service::Compute, "limits_get", ["limits"]).at(priority);
        let limits: Limits = self.one(call, "limits").await?;
        Ok(limits.quotas(&[
            (
                LimitedResource::Servers,
                "maxTotalInstances",
                "totalInstancesUsed",
            ),
            (LimitedResource::Cores, "maxTotalCores", "totalCoresUsed"),
            (LimitedResource::Memory, "maxTotalRAMSize", "totalRAMUsed"),
        ]))
    }

    /// Cinder's quotas of volumes and their size.
    pub async fn volume_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        let call = Call::get(Service::Volume, "limits_get", ["limits"]).at(priority);
        let limits: Limits = self.one(call, "limits").await?;
        Ok(limits.quotas(&[
            (
                LimitedResource::Volumes,
                "maxTotalVolumes",
                "totalVolumesUsed",
            ),
            (
                LimitedResource::VolumeSize,
                "maxTotalVolumeGigabytes",
                "totalGigabytesUsed",
            ),
        ]))
    }

    /// Neutron's quotas of ports, floating IPs and security groups.
    pub async fn network_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        #[derive(Deserialize)]
        struct Detail {
            limit: i64,
            used: i64,
        }
        #[derive(Deserialize)]
        struct Details {
            port: Detail,
            // Neutron shows these two if it has their extensions.
            floatingip: Option<Detail>,
            security_group: Option<Detail>,
        }
        let project = self.project_id().await?;
        let path = ["quotas", project.as_str(), "details.json"];
        let call = Call::get(Service::Network, "quota_get", path).at(priority);
        let details: Details = self.one(call, "quota").await?;
        let quotas = [
            (LimitedResource::Ports, Some(details.port)),
            (LimitedResource::FloatingIps, details.floatingip),
            (LimitedResource::SecurityGroups, details.security_group),
        ];
        let known = quotas.into_iter().filter_map(|(resource, detail)| {
            let Detail { limit, used } = detail?;
            Some(Quota {
                resource,
                used,
                limit,
            })
        });
        Ok(known.collect())
    }

    /// Octavia's quotas of load balancers and members. Octavia does not show how many are in use, so the objects of the
    /// project are counted here if there is a limit.
    pub async fn load_balancer_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        #[derive(Deserialize)]
        struct Limits {
            // Octavia shows the limit under both names.
            load_balancer: Option<i64>,
            loadbalancer: Option<i64>,
            member: Option<i64>,
        }
        let project = self.project_id().await?;
        let path = ["quotas", project.as_str()];
        let call = Call::get(Service::LoadBalancer, "quota_get", path).at(priority);
        let limits: Limits = self.one(call, "quota").await?;
        let is_limited = |limit: &i64| *limit >= 0;
        let mut quotas = Vec::new();
        let mut add = |resource, used: usize, limit| {
            quotas.push(Quota {
                resource,
                used: i64::try_from(used).unwrap_or(i64::MAX),
                limit,
            });
        };
        let of_balancers = limits.load_balancer.or(limits.loadbalancer);
        if let Some(limit) = of_balancers.filter(is_limited) {
            let filter = LoadBalancerFilter {
                project_id: Some(project.clone()),
                ..LoadBalancerFilter::default()
            };
            let used = self.load_balancers(&filter, priority).await?.len();
            add(LimitedResource::LoadBalancers, used, limit);
        }
        if let Some(limit) = limits.member.filter(is_limited) {
            let pools = self.pools_of_project(&project, priority).await?;
            let used = pools.iter().map(|pool| pool.members.len()).sum();
            add(LimitedResource::Members, used, limit);
        }
        Ok(quotas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_quota_is_exhausted_at_its_limit_and_never_without_one() {
        for (used, limit, exhausted) in [(3, 4, false), (4, 4, true), (5, 4, true), (9, -1, false)]
        {
            let quota = Quota {
                resource: LimitedResource::Servers,
                used,
                limit,
            };
            assert_eq!(quota.is_exhausted(), exhausted, "{used} of {limit}");
        }
    }

    #[test]
    fn a_limit_that_the_service_does_not_name_is_none() {
        let limits: Limits = serde_json::from_value(json!({"absolute": {
            "maxTotalVolumes": 10, "totalVolumesUsed": 2, "maxTotalVolumeGigabytes": null}}))
        .unwrap();
        let quotas = limits.quotas(&[
            (
                LimitedResource::Volumes,
                "maxTotalVolumes",
                "totalVolumesUsed",
            ),
            (
                LimitedResource::VolumeSize,
                "maxTotalVolumeGigabytes",
                "totalGigabytesUsed",
            ),
        ]);
        let expected = Quota {
            resource: LimitedResource::Volumes,
            used: 2,
            limit: 10,
        };
        assert_eq!(quotas, [expected]);
    }
}
