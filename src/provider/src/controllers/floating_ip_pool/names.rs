//! The descriptions and tags of floating IPs that are allocated for a pool.

use capo_core::ObjectName;
use capo_openstack::network::FloatingIp;

/// How the floating IPs of one pool are recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolNames {
    /// The description that capo-rs gives a floating IP. It is part of the request that creates the floating IP, so
    /// that the floating IP is found even if the answer to that request is lost.
    pub description: String,
    /// CAPO's description, which lacks the namespace.
    pub capo_description: String,
    /// CAPO's tag, which lacks the namespace too. capo-rs sets it as well, so that CAPO finds the floating IPs that
    /// capo-rs allocated.
    pub tag: String,
}

impl PoolNames {
    /// The description and tags of the pool `name`.
    pub(super) fn of(name: &ObjectName) -> Self {
        let made = "Created by cluster-api-provider-openstack OpenStackFloatingIPPool";
        Self {
            description: format!("{made} {name}"),
            capo_description: format!("{made} {}", name.name),
            tag: format!("cluster-api-provider-openstack-fip-pool-{}", name.name),
        }
    }

    /// Whether a floating IP was allocated for this pool. CAPO's description and tag are the same for pools of one name
    /// in different namespaces. If there is such another pool (`another`), they count only for addresses that this
    /// pool's status or its `IPAddress`es contain (`known`).
    pub(super) fn allocated_for_pool(&self, fip: &FloatingIp, another: bool, known: bool) -> bool {
        if fip.description == self.description {
            return true;
        }
        let capo_described = fip.description == self.capo_description;
        // The description contains a namespace, so capo-rs allocated the floating IP for the other pool.
        let other_namespace = !capo_described
            && fip
                .description
                .starts_with("Created by cluster-api-provider-openstack OpenStackFloatingIPPool ");
        let marked = capo_described || fip.tags.contains(&self.tag);
        marked && !other_namespace && (!another || known)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pools_of_one_name_in_two_namespaces_never_take_each_others_floating_ips() {
        let names = PoolNames::of(&ObjectName::new("a", "pool"));
        let fip = |description: &str, tags: &[&str]| -> FloatingIp {
            serde_json::from_value(json!({"id": "f", "description": description, "tags": tags}))
                .unwrap()
        };
        let made = "Created by cluster-api-provider-openstack OpenStackFloatingIPPool";
        let tag = "cluster-api-provider-openstack-fip-pool-pool";
        for (fip, another, known, expected) in [
            (fip(&format!("{made} a/pool"), &[]), true, false, true),
            (fip(&format!("{made} b/pool"), &[tag]), true, true, false),
            (fip(&format!("{made} pool"), &[]), false, false, true),
            (fip(&format!("{made} pool"), &[tag]), true, false, false),
            (fip(&format!("{made} pool"), &[tag]), true, true, true),
            (fip("edited", &[tag]), false, false, true),
            (fip("the user's", &["mine"]), false, true, false),
        ] {
            assert_eq!(
                names.allocated_for_pool(&fip, another, known),
                expected,
                "{fip:?}"
            );
        }
    }
}
