//! Rights in one namespace instead of in all, for a manager with `--namespace`.

use serde_json::{Value, json};

use super::{
    ManifestError,
    edit::{edit, written},
};

/// Resources without a namespace: rights on them need a ClusterRole.
const CLUSTER_SCOPED: [&str; 5] = [
    "namespaces",
    "openstackclusteridentities",
    "openstackclusteridentities/status",
    "tokenreviews",
    "subjectaccessreviews",
];
const ROLE: &str = "capo-manager-role";
const BINDING: &str = "capo-manager-rolebinding";
const LABEL: &str = "cluster.x-k8s.io/provider";
const PROVIDER: &str = "infrastructure-openstack";

/// Moves the manager's rights on namespaced resources into a Role of `watched`, and leaves out the storage migration,
/// which needs the objects of every namespace. `own` is the manager's namespace.
pub(super) fn restrict(
    documents: &mut Vec<String>,
    watched: &str,
    own: &str,
) -> Result<(), ManifestError> {
    documents.retain(|text| !text.contains("\n  name: capo-storage-migration-role"));
    let mut rules = Vec::new();
    edit(documents, "ClusterRole", ROLE, |role| {
        let all = role["rules"].take();
        let all = all.as_array().into_iter().flatten();
        let (cluster, namespaced): (Vec<_>, Vec<_>) = all.map(split).unzip();
        rules = namespaced.into_iter().flatten().collect();
        role["rules"] = cluster.into_iter().flatten().collect();
    })?;
    let metadata =
        |name: &str| json!({"name": name, "namespace": watched, "labels": {LABEL: PROVIDER}});
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    documents.push(written(&json!({
        "apiVersion": version, "kind": "Role", "metadata": metadata(ROLE), "rules": rules,
    }))?);
    documents.push(written(&json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata(BINDING),
        "roleRef": {"apiGroup": group, "kind": "Role", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "capo-manager", "namespace": own}],
    }))?);
    Ok(())
}

/// The parts of a rule that need a ClusterRole, and those for which a Role is enough.
fn split(rule: &Value) -> (Option<Value>, Option<Value>) {
    let resources = rule["resources"].as_array().cloned().unwrap_or_default();
    let (cluster, namespaced): (Vec<_>, Vec<_>) = resources
        .into_iter()
        .partition(|resource| CLUSTER_SCOPED.iter().any(|one| resource == one));
    let part = |resources: Vec<Value>| {
        let mut rule = rule.clone();
        let is_empty = resources.is_empty();
        rule["resources"] = Value::from(resources);
        (!is_empty).then_some(rule)
    };
    (part(cluster), part(namespaced))
}
