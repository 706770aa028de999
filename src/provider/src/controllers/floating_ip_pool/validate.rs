//! Parses the spec of a pool. The functions are pure.

use std::net::IpAddr;

use capo_api::v1alpha1::{OpenStackFloatingIPPoolSpec, ReclaimPolicy};

/// The desired state of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Desired {
    /// The floating IPs that the user created, in the order of the spec and without duplicates.
    pub pre_allocated: Vec<IpAddr>,
    /// The number of assigned addresses from which on no further floating IP is allocated. `None` means no limit.
    pub max: Option<usize>,
    /// Whether a floating IP that was allocated for the pool is deleted when its claim is released.
    pub delete_released: bool,
    /// The values that can't be used. The rest of the spec is carried out.
    pub problems: Vec<String>,
}

/// Parses the spec.
pub(super) fn validate(spec: &OpenStackFloatingIPPoolSpec) -> Desired {
    let mut desired = Desired::default();
    for (index, text) in spec.pre_allocated_floating_ips.iter().enumerate() {
        match text.parse() {
            Ok(address) if desired.pre_allocated.contains(&address) => {}
            Ok(address) => desired.pre_allocated.push(address),
            Err(_) => desired.problems.push(format!(
                "spec.preAllocatedFloatingIPs[{index}] is \"{text}\"; the address of a floating IP is needed"
            )),
        }
    }
    // In CAPO, -1 means no limit.
    match spec.max_ips.filter(|max| *max != -1).map(usize::try_from) {
        None => {}
        Some(Ok(max)) => desired.max = Some(max),
        Some(Err(_)) => {
            desired.max = Some(0);
            desired.problems.push(format!(
                "spec.maxIPs is {}; 0 or more is needed, and nothing is allocated until then",
                spec.max_ips.unwrap_or_default()
            ));
        }
    }
    match &spec.reclaim_policy {
        ReclaimPolicy::Delete => desired.delete_released = true,
        ReclaimPolicy::Retain => {}
        ReclaimPolicy::Unknown(other) => desired.problems.push(format!(
            "spec.reclaimPolicy is \"{other}\"; Retain or Delete is needed, and floating IPs are retained until then"
        )),
    }
    desired
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validated(spec: serde_json::Value) -> Desired {
        validate(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn one_odd_value_stops_nothing_else() {
        let desired = validated(json!({
            "preAllocatedFloatingIPs": ["203.0.113.7", "x", "203.0.113.7", "2001:db8::1"], "maxIPs": -3,
            "reclaimPolicy": "Recycle"}));
        assert_eq!(
            desired.pre_allocated,
            ["203.0.113.7", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap())
        );
        assert_eq!((desired.max, desired.delete_released), (Some(0), false));
        assert_eq!(
            desired.problems,
            [
                "spec.preAllocatedFloatingIPs[1] is \"x\"; the address of a floating IP is needed",
                "spec.maxIPs is -3; 0 or more is needed, and nothing is allocated until then",
                "spec.reclaimPolicy is \"Recycle\"; Retain or Delete is needed, and floating IPs are retained until then",
            ]
        );
    }

    #[test]
    fn no_limit_is_no_number_or_minus_one() {
        for (max, expected) in [
            (json!(null), None),
            (json!(-1), None),
            (json!(0), Some(0)),
            (json!(2), Some(2)),
        ] {
            let desired = validated(json!({"maxIPs": max, "reclaimPolicy": "Delete"}));
            assert_eq!((desired.max, desired.delete_released), (expected, true));
            assert!(desired.problems.is_empty(), "{:?}", desired.problems);
        }
    }
}
