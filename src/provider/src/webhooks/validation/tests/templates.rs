//! Templates.

use super::*;

fn template(spec: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "t", "namespace": "n"}, "spec": {"template": {"spec": spec}},
    })
}

#[test]
fn templates_do_not_change() {
    let base = template(&full_machine()["spec"]);
    let to = |patch: Value| patched(&base, &json!({"spec": {"template": {"spec": patch}}}));
    let pairs = to(json!({"ports": [{"nameSuffix": "a"}, {"nameSuffix": "b"}]}));
    assert_eq!(
        errors(Kind::MachineTemplate, Some(&base), &pairs),
        Vec::<String>::new()
    );
    let changed = to(json!({"flavor": {"id": "g"}}));
    let text = errors(Kind::MachineTemplate, Some(&base), &changed).join("");
    assert!(
        text.contains("spec.template.spec.flavor.id: Invalid value: \"g\": can't be changed"),
        "{text}"
    );

    let id = to(json!({"providerID": "openstack:///1"}));
    let text = errors(Kind::MachineTemplate, None, &id).join("");
    assert!(
        text.contains("spec.template.spec.providerID: Forbidden"),
        "{text}"
    );

    let base = template(&full_cluster()["spec"]);
    let metadata = patched(
        &base,
        &json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
    );
    assert_eq!(
        errors(Kind::ClusterTemplate, Some(&base), &metadata),
        Vec::<String>::new()
    );
    let tags = patched(
        &base,
        &json!({"spec": {"template": {"spec": {"bastion": null}}}}),
    );
    let text = errors(Kind::ClusterTemplate, Some(&base), &tags).join("");
    assert!(
        text.contains("spec.template.spec.bastion: Invalid value: null: can't be changed"),
        "{text}"
    );
}

#[test]
fn topology_dry_runs_may_compare_templates() {
    let base = template(&full_machine()["spec"]);
    let marked = json!({
        "metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}},
        "spec": {"template": {"spec": {"flavor": {"id": "g"}}}, "flavor": {"id": "g"}},
    });
    for kind in [Kind::MachineTemplate, Kind::Server] {
        let new = patched(&base, &marked);
        let judged = |dry_run| {
            validate(
                kind,
                &ObjectChange {
                    old: Some(&base),
                    new: &new,
                    dry_run,
                },
                now(),
            )
        };
        assert!(judged(true).is_empty());
        assert!(!judged(false).is_empty());
        let unmarked = patched(&new, &json!({"metadata": {"annotations": null}}));
        let change = ObjectChange {
            old: Some(&base),
            new: &unmarked,
            dry_run: true,
        };
        assert!(!validate(kind, &change, now()).is_empty());
    }
}
