//! The values that the fields of clusters may have.

use super::*;

/// A value that a cluster already has must not prevent other changes, such as the removal of its finalizer.
fn other_changes_are_accepted(cluster: &Value) {
    let more = patched(cluster, &json!({"metadata": {"finalizers": ["x"]}}));
    assert_eq!(
        errors(Kind::Cluster, Some(cluster), &more),
        Vec::<String>::new()
    );
}

#[test]
fn a_rule_has_one_other_side() {
    let rules = |rule: Value| {
        cluster(json!({"managedSecurityGroups": {"workerNodesSecurityGroupRules": [{}, rule]}}))
    };
    for good in [
        json!({"remoteIPPrefix": "0.0.0.0/0"}),
        json!({"remoteGroupID": "g", "remoteIPPrefix": null}),
        json!({"remoteManagedGroups": ["worker"]}),
    ] {
        assert_eq!(
            errors(Kind::Cluster, None, &rules(good)),
            Vec::<String>::new()
        );
    }
    let bad = rules(json!({"remoteManagedGroups": ["worker"], "remoteIPPrefix": "0.0.0.0/0"}));
    let refused = [
        "spec.managedSecurityGroups.workerNodesSecurityGroupRules[1]: Forbidden: \"remoteManagedGroups, \
        remoteIPPrefix\": a rule can have only one of remoteManagedGroups, remoteGroupID and remoteIPPrefix",
    ];
    assert_eq!(errors(Kind::Cluster, None, &bad), refused);
    let good = rules(json!({"remoteIPPrefix": "0.0.0.0/0"}));
    assert_eq!(errors(Kind::Cluster, Some(&good), &bad), refused);
    other_changes_are_accepted(&bad);
}

#[test]
fn a_monitor_checks_by_https_only_where_the_provider_can() {
    let of = |provider: Value, wanted: Value| {
        let balancer = json!({"provider": provider, "monitor": {"type": wanted}});
        cluster(json!({"apiServer": {"managedLoadBalancer": balancer}}))
    };
    let refused = [
        "spec.apiServer.managedLoadBalancer.monitor.type: Invalid value: \"HTTPS\": the health monitors of Octavia's \
        provider ovn only open connections: TCP is needed",
    ];
    let by_tcp = of(json!("ovn"), json!("TCP"));
    let by_https = of(json!("ovn"), json!("HTTPS"));
    for old in [None, Some(&by_tcp)] {
        assert_eq!(errors(Kind::Cluster, old, &by_https), refused);
    }
    for good in [
        by_tcp,
        of(json!("amphora"), json!("HTTPS")),
        of(Value::Null, json!("HTTPS")),
    ] {
        assert_eq!(errors(Kind::Cluster, None, &good), Vec::<String>::new());
    }
    other_changes_are_accepted(&by_https);
}

#[test]
fn annotations_are_validated_when_they_change() {
    let with = |annotations: Value| {
        patched(
            &cluster(json!({})),
            &json!({"metadata": {"annotations": annotations}}),
        )
    };
    let key = "infrastructure.cluster.x-k8s.io/load-balancer-gate";
    let expired = with(json!({(key): "bypass until=2020-01-01T00:00:00Z reason=x"}));
    for kind in [Kind::Cluster, Kind::Machine] {
        for good in [
            "hold reason=x",
            "bypass until=2027-01-01T00:00:00Z reason=x",
        ] {
            assert_eq!(
                errors(kind, None, &with(json!({(key): good}))),
                Vec::<String>::new()
            );
        }
        for old in [None, Some(&with(json!({})))] {
            let errors = errors(kind, old, &expired);
            assert!(errors.join("").contains("is in the past"), "{errors:?}");
        }
        // The bypass has expired since, but the object must stay editable.
        assert_eq!(errors(kind, Some(&expired), &expired), Vec::<String>::new());
        assert_eq!(
            errors(kind, Some(&expired), &with(json!({}))),
            Vec::<String>::new()
        );
    }

    // This is Cluster API's annotation for infrastructure that another program manages. A user who has set it by
    // mistake can remove it.
    let managed = with(json!({"cluster.x-k8s.io/managed-by": "crossplane"}));
    for allowed in [
        json!({"cluster.x-k8s.io/managed-by": ""}),
        json!({"a": "b"}),
    ] {
        assert_eq!(
            errors(Kind::Cluster, Some(&managed), &with(allowed)),
            Vec::<String>::new()
        );
    }
}
