//! Quotas: how much a project may have of what a replaced machine needs once more, and how much it has.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Cloud, Error, Service, load_balancer::Pool, request::Call};
use capo_core::Priority;

/// One limit of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// What is limited, in the plural.
    pub resource: &'static str,
    /// How much is in use.
    pub used: i64,
    /// How much is allowed; a negative number is no limit.
    pub limit: i64,
}

impl Quota {
    /// Whether nothing can be added.
    pub fn is_exhausted(&self) -> bool {
        self.limit >= 0 && self.used >= self.limit
    }
}

/// Nova's and Cinder's limits by their names, which have the one in use under another name.
#[derive(Deserialize)]
struct Limits {
    // Some entries of some services are no numbers.
    absolute: BTreeMap<String, Value>,
}

impl Limits {
    /// The limits of this list that the service names: what is limited, its limit, and how much is in use.
    fn quotas(&self, names: &[(&'static str, &str, &str)]) -> Vec<Quota> {
        let number = |name: &str| self.absolute.get(name).and_then(Value::as_i64);
        let quotas = names.iter().filter_map(|(resource, limit, used)| {
            Some(Quota {
                resource,
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
            ("servers", "maxTotalInstances", "totalInstancesUsed"),
            ("cores", "maxTotalCores", "totalCoresUsed"),
            ("MiB of memory", "maxTotalRAMSize", "totalRAMUsed"),
        ]))
    }

    /// Cinder's quotas of volumes and their size.
    pub async fn volume_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        let call = Call::get(Service::Volume, "limits_get", ["limits"]).at(priority);
        let limits: Limits = self.one(call, "limits").await?;
        Ok(limits.quotas(&[
            ("volumes", "maxTotalVolumes", "totalVolumesUsed"),
            (
                "GiB of volumes",
                "maxTotalVolumeGigabytes",
                "totalGigabytesUsed",
            ),
        ]))
    }

    /// Neutron's quota of ports.
    pub async fn network_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        #[derive(Deserialize)]
        struct Detail {
            limit: i64,
            used: i64,
        }
        #[derive(Deserialize)]
        struct Details {
            port: Detail,
        }
        let project = self.project_id().await?;
        let path = ["quotas", project.as_str(), "details.json"];
        let call = Call::get(Service::Network, "quota_get", path).at(priority);
        let details: Details = self.one(call, "quota").await?;
        Ok(vec![Quota {
            resource: "ports",
            used: details.port.used,
            limit: details.port.limit,
        }])
    }

    /// Octavia's quota of members. Octavia does not count them: those of the project's pools are counted here.
    pub async fn load_balancer_quotas(&self, priority: Priority) -> Result<Vec<Quota>, Error> {
        #[derive(Deserialize)]
        struct Limit {
            member: Option<i64>,
        }
        let project = self.project_id().await?;
        let path = ["quotas", project.as_str()];
        let call = Call::get(Service::LoadBalancer, "quota_get", path).at(priority);
        let quota: Limit = self.one(call, "quota").await?;
        let Some(limit) = quota.member.filter(|limit| *limit >= 0) else {
            return Ok(Vec::new());
        };
        let call = Call::get(Service::LoadBalancer, "loadbalancer_pool_list", ["pools"])
            .query("project_id", project.as_str())
            .at(priority);
        let pools: Vec<Pool> = self.list(call, "pools").await?;
        let used: usize = pools.iter().map(|pool| pool.members.len()).sum();
        Ok(vec![Quota {
            resource: "load balancer members",
            used: i64::try_from(used).unwrap_or(i64::MAX),
            limit,
        }])
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
                resource: "servers",
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
            ("volumes", "maxTotalVolumes", "totalVolumesUsed"),
            (
                "GiB of volumes",
                "maxTotalVolumeGigabytes",
                "totalGigabytesUsed",
            ),
        ]);
        let expected = Quota {
            resource: "volumes",
            used: 2,
            limit: 10,
        };
        assert_eq!(quotas, [expected]);
    }
}
