//! Fields that the other version can't hold, and the annotations that CAPO leaves.

use super::*;

#[test]
fn a_flavor_name_beside_an_id_is_kept_until_the_id_is_edited() {
    let old = object(
        "OpenStackMachineTemplate",
        V1BETA1,
        json!({"spec": {"template": {"spec": {"flavor": "m1", "flavorID": "f-1"}}}}),
    );
    let mut new = convert(old.clone(), V1BETA2).unwrap();
    assert_eq!(
        new["spec"]["template"]["spec"]["flavor"],
        json!({"id": "f-1"})
    );
    assert!(new["metadata"]["annotations"][V1BETA1_FIELDS].is_string());
    assert_eq!(convert(new.clone(), V1BETA1).unwrap(), old);

    new["spec"]["template"]["spec"]["flavor"] = json!({"id": "f-2"});
    let edited = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        edited["spec"]["template"]["spec"],
        json!({"flavorID": "f-2"})
    );
    assert_eq!(edited["metadata"].get("annotations"), None);

    new["spec"]["template"]["spec"]["flavor"] = json!({"filter": {"name": "m2"}});
    let edited = convert(new, V1BETA1).unwrap();
    assert_eq!(edited["spec"]["template"]["spec"], json!({"flavor": "m2"}));
}

#[test]
fn fields_that_only_v1beta2_has_survive_an_edit_in_v1beta1() {
    let new = object(
        "OpenStackClusterTemplate",
        V1BETA2,
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"apiServer": {}}}}}),
    );
    let mut old = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        old["spec"]["template"],
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {}})
    );
    assert_eq!(convert(old.clone(), V1BETA2).unwrap(), new);

    old["spec"]["template"]["spec"]["apiServerPort"] = json!(443);
    let edited = convert(old, V1BETA2).unwrap();
    assert_eq!(
        edited["spec"]["template"],
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"apiServer": {"port": 443}}})
    );
}

#[test]
fn an_unset_endpoint_is_absent_in_v1beta2_and_kept_until_it_is_set() {
    let old = object(
        "OpenStackCluster",
        V1BETA1,
        json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}),
    );
    let mut new = convert(old.clone(), V1BETA2).unwrap();
    assert_eq!(new["spec"], json!({}));
    assert_eq!(convert(new.clone(), V1BETA1).unwrap(), old);
    new["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 6443});
    let set = convert(new, V1BETA1).unwrap();
    assert_eq!(
        set["spec"]["controlPlaneEndpoint"],
        json!({"host": "h", "port": 6443})
    );
}

#[test]
fn capos_copy_is_read_where_it_still_applies_and_is_removed() {
    let stash = json!({
        "spec": {"flavor": "m1", "flavorID": "f-1", "sshKeyName": "old"},
        "status": {"ready": false},
    });
    let mut new = object(
        "OpenStackMachine",
        V1BETA2,
        json!({
            "metadata": annotated(CAPO_STASH, &stash),
            "spec": {"flavor": {"id": "f-1"}, "sshKeyName": "new"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }),
    );
    let old = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        old["spec"],
        json!({"flavor": "m1", "flavorID": "f-1", "sshKeyName": "new"})
    );
    assert_eq!(old["status"]["ready"], json!(true));
    assert_eq!(old["metadata"], json!({"name": "c", "namespace": "n"}));

    new["spec"]["flavor"] = json!({"id": "f-2"});
    let old = convert(new, V1BETA1).unwrap();
    assert_eq!(old["spec"], json!({"flavorID": "f-2", "sshKeyName": "new"}));

    // CAPO 0.12 and before left copies of v1alpha versions on v1beta1 objects.
    let old = object(
        "OpenStackCluster",
        V1BETA1,
        json!({
            "metadata": annotated(CAPO_STASH, &json!({"spec": {"cloudName": "x", "template": "y"}})),
            "spec": {"apiServerPort": 1},
        }),
    );
    let new = convert(old, V1BETA2).unwrap();
    assert_eq!(new["spec"], json!({"apiServer": {"port": 1}}));
    assert_eq!(new["metadata"], json!({"name": "c", "namespace": "n"}));

    let old = object(
        "OpenStackClusterTemplate",
        V1BETA1,
        json!({
            "metadata": annotated(CAPO_STASH, &json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})),
            "spec": {"template": {"spec": {}}},
        }),
    );
    let new = convert(old, V1BETA2).unwrap();
    assert_eq!(
        new["spec"]["template"]["metadata"],
        json!({"labels": {"a": "b"}})
    );
}

#[test]
fn broken_annotations_are_dropped() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"spec.flavor\": 7}",
        "{\"spec.flavor\": {\"id\": [1]}}",
    ] {
        for key in [V1BETA1_FIELDS, CAPO_STASH] {
            let new = object(
                "OpenStackMachine",
                V1BETA2,
                json!({
                    "metadata": {"name": "c", "annotations": {(key): text}},
                    "spec": {"flavor": {"id": "f"}},
                }),
            );
            let old = convert(new, V1BETA1).unwrap();
            assert_eq!(old["spec"], json!({"flavorID": "f"}), "{key}: {text}");
            assert_eq!(old["metadata"], json!({"name": "c"}));
        }
    }
}
