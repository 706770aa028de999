//! kubectl with manifests of v1beta1, while a controller writes spec and status in v1beta2: this is what users do after
//! the change of the version. No field may be stale, and none may get lost.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use capo_rs::webhooks::conversion::convert;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::env::programs;
use test_support::webhooks::{Served, api, namespace};

const NAMESPACE: &str = "kubectl";
const OLD: &str = "openstackcluster.v1beta1.infrastructure.cluster.x-k8s.io";
const NEW: &str = "openstackcluster.v1beta2.infrastructure.cluster.x-k8s.io";

/// kubectl as cluster-admin, with a cache of its own.
struct Kubectl {
    served: &'static Served,
    cache: TempDir,
}

impl Kubectl {
    async fn prepare() -> Self {
        let served = Served::shared().await;
        namespace(&served.client().await, NAMESPACE).await;
        Self {
            served,
            cache: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs::kubectl().unwrap());
        command
            .arg("--kubeconfig")
            .arg(self.served.kubernetes.admin_kubeconfig())
            .arg("--cache-dir")
            .arg(self.cache.path())
            .args(["--namespace", NAMESPACE])
            .args(arguments);
        command
    }

    /// Runs it with `input`. Returns whether it succeeded, and its output.
    fn run(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut running = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut standard_input = running.stdin.take().unwrap();
        standard_input.write_all(input.as_bytes()).unwrap();
        drop(standard_input);
        let output = running.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    /// Runs it and returns its output. It must succeed.
    fn good(&self, arguments: &[&str], input: &str) -> String {
        let (good, said) = self.run(arguments, input);
        assert!(good, "kubectl {arguments:?}: {said}\n{input}");
        said
    }

    /// An object as `kubectl get` shows it.
    fn get(&self, kind: &str, name: &str) -> Value {
        let text = self.good(&["get", kind, name, "--output=json"], "");
        serde_json::from_str(&text).unwrap()
    }

    /// The object in both versions, after a check that they convert into each other.
    fn both(&self, name: &str) -> (Value, Value) {
        let (old, new) = (self.get(OLD, name), self.get(NEW, name));
        assert_eq!(
            convert(new.clone(), "infrastructure.cluster.x-k8s.io/v1beta1").unwrap(),
            old
        );
        let back = convert(old.clone(), "infrastructure.cluster.x-k8s.io/v1beta2").unwrap();
        assert_eq!(
            (&back["spec"], &back["status"]),
            (&new["spec"], &new["status"])
        );
        (old, new)
    }
}

/// A manifest that a user of CAPO 0.14 keeps in git.
fn manifest(name: &str, nameserver: &str, allowed: &str) -> String {
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackCluster
metadata:
  name: {name}
  labels: {{team: a}}
spec:
  identityRef: {{name: cloud, cloudName: openstack}}
  apiServerLoadBalancer:
    enabled: true
    additionalPorts: [22]
{allowed}
  apiServerPort: 443
  disableAPIServerFloatingIP: true
  networkMTU: 1400
  managedSubnets:
  - cidr: 10.6.0.0/24
    dnsNameservers: [{nameserver}]
  managedSecurityGroups:
    allNodesSecurityGroupRules:
    - {{name: bgp, direction: ingress, protocol: tcp, portRangeMin: 179, portRangeMax: 179, remoteManagedGroups: [worker]}}
  bastion:
    enabled: true
    spec:
      flavor: m1.tiny
      flavorID: f-1
      image: {{filter: {{name: debian}}}}
      ports:
      - disablePortSecurity: true
"
    )
}

const ALLOWED: &str = "    allowedCIDRs: [10.0.0.0/8]";

/// Writes spec and status through v1beta2, as the controller does.
async fn controller_writes(clusters: &Api<DynamicObject>, name: &str, round: i64) {
    let parameters = PatchParams::default();
    let spec = json!({"spec": {
        "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443},
        "controlPlaneAvailabilityZones": [format!("az{round}")],
    }});
    clusters
        .patch(name, &parameters, &Patch::Merge(spec))
        .await
        .unwrap();
    let status = json!({"status": {
        "observedGeneration": round, "initialization": {"provisioned": true},
        "network": {"id": format!("n-{round}"), "name": "net"},
        "failureDomains": [{"name": format!("az{round}"), "controlPlane": true}],
        "apiServerManagedLoadBalancer": {"name": "lb", "id": "l", "activeMembers": format!("{round}/3")},
        "conditions": [{"type": "Ready", "status": if round % 2 == 0 { "True" } else { "False" },
            "reason": "Told", "message": format!("round {round}"), "observedGeneration": round,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    clusters
        .patch_status(name, &parameters, &Patch::Merge(status))
        .await
        .unwrap();
}

/// Checks that v1beta1 shows what the controller has written last.
fn assert_shows(old: &Value, round: i64) {
    assert_eq!(old["spec"]["controlPlaneEndpoint"]["host"], "203.0.113.5");
    assert_eq!(
        old["spec"]["controlPlaneAvailabilityZones"],
        json!([format!("az{round}")])
    );
    let status = &old["status"];
    assert_eq!(status["ready"], round % 2 == 0);
    assert_eq!(status["network"]["id"], format!("n-{round}"));
    assert_eq!(
        status["failureDomains"],
        json!({format!("az{round}"): {"controlPlane": true}})
    );
    assert_eq!(
        status["apiServerLoadBalancer"]["activeMembers"],
        format!("{round}/3")
    );
    assert_eq!(status["conditions"][0]["message"], format!("round {round}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_edit_and_apply_again_with_a_controller_in_between() {
    let kubectl = Kubectl::prepare().await;
    let clusters = api(
        &kubectl.served.client().await,
        "OpenStackCluster",
        "v1beta2",
        NAMESPACE,
    );
    let apply = ["apply", "--filename=-"];

    let first = manifest("c", "1.1.1.1", ALLOWED);
    assert!(kubectl.good(&apply, &first).contains("created"));
    kubectl.both("c");
    controller_writes(&clusters, "c", 1).await;
    let (old, _) = kubectl.both("c");
    assert_shows(&old, 1);
    // No field of the user differs, and no field of the controller is removed.
    kubectl.good(&["diff", "--filename=-"], &first);
    assert!(kubectl.good(&apply, &first).contains("unchanged"));

    // The user changes one field and leaves one out.
    let second = manifest("c", "9.9.9.9", "");
    kubectl.good(&apply, &second);
    let (old, new) = kubectl.both("c");
    assert_shows(&old, 1);
    assert_eq!(
        old["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["9.9.9.9"])
    );
    assert_eq!(
        new["spec"]["apiServer"]["managedLoadBalancer"],
        json!({"enabled": true, "additionalPorts": [22]})
    );
    assert_eq!(old["spec"]["bastion"]["spec"]["flavor"], "m1.tiny");

    // The user has an editor open while the controller writes.
    let kubectl_path = programs::kubectl().unwrap();
    let kubeconfig = kubectl.served.kubernetes.admin_kubeconfig();
    let written_meanwhile = json!({"status": {"network": {"id": "n-2"}}}).to_string();
    let editor = kubectl.cache.path().join("editor.sh");
    let script = format!(
        "#!/bin/sh\nset -e\n'{}' --kubeconfig '{}' --namespace {NAMESPACE} patch {NEW} c --subresource=status \
         --type=merge --patch='{written_meanwhile}' >&2\nsed -i -e 's/team: a/team: b/' -e 's/9.9.9.9/8.8.8.8/' \"$1\"\n",
        kubectl_path.display(),
        kubeconfig.display(),
    );
    std::fs::write(&editor, script).unwrap();
    let edited = kubectl
        .command(&["edit", OLD, "c"])
        .env("KUBE_EDITOR", format!("sh {}", editor.display()))
        .output()
        .unwrap();
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    let (old, _) = kubectl.both("c");
    assert_eq!(old["metadata"]["labels"], json!({"team": "b"}));
    assert_eq!(
        old["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["8.8.8.8"])
    );
    assert_eq!(
        old["status"]["network"],
        json!({"id": "n-2", "name": "net"})
    );
    assert_eq!(old["status"]["conditions"][0]["message"], "round 1");

    // A controller changes a field of the user. The user's next apply restores this field and changes no other one.
    let theirs = json!({"spec": {"bastion": {"spec": {"flavor": {"id": "f-2"}}}}});
    clusters
        .patch("c", &PatchParams::default(), &Patch::Merge(theirs))
        .await
        .unwrap();
    let (old, _) = kubectl.both("c");
    assert_eq!(old["spec"]["bastion"]["spec"]["flavorID"], "f-2");
    assert_eq!(old["spec"]["bastion"]["spec"].get("flavor"), None);
    kubectl.good(&apply, &second);
    let (old, _) = kubectl.both("c");
    assert_eq!(old["spec"]["bastion"]["spec"]["flavorID"], "f-1");
    assert_eq!(old["spec"]["bastion"]["spec"]["flavor"], "m1.tiny");
    assert_eq!(old["status"]["network"]["id"], "n-2");
    assert_eq!(
        old["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["9.9.9.9"])
    );

    // A user who writes back an object that was read before the controller's write gets a conflict.
    let stale = kubectl.good(&["get", OLD, "c", "--output=yaml"], "");
    controller_writes(&clusters, "c", 2).await;
    let (good, said) = kubectl.run(&["replace", "--filename=-"], &stale);
    assert!(!good && said.contains("Conflict"), "{said}");
    let fresh = kubectl.good(&["get", OLD, "c", "--output=yaml"], "");
    let fresh = fresh.replace("9.9.9.9", "7.7.7.7");
    kubectl.good(&["replace", "--filename=-"], &fresh);
    let (old, _) = kubectl.both("c");
    assert_shows(&old, 2);
    assert_eq!(
        old["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["7.7.7.7"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_field_managers_apply_on_the_server_with_a_controller_in_between() {
    let kubectl = Kubectl::prepare().await;
    let clusters = api(
        &kubectl.served.client().await,
        "OpenStackCluster",
        "v1beta2",
        NAMESPACE,
    );
    let gitops = [
        "apply",
        "--server-side",
        "--field-manager=gitops",
        "--filename=-",
    ];
    let team = [
        "apply",
        "--server-side",
        "--field-manager=team",
        "--filename=-",
    ];
    let monitor = |delay: u8| {
        format!(
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackCluster
metadata: {{name: s, annotations: {{owner: team}}}}
spec:
  identityRef: {{name: cloud, cloudName: openstack}}
  apiServerLoadBalancer: {{monitor: {{delay: {delay}, timeout: 5}}}}
"
        )
    };
    let first = manifest("s", "1.1.1.1", ALLOWED);
    kubectl.good(&gitops, &first);
    kubectl.good(&team, &monitor(5));
    controller_writes(&clusters, "s", 1).await;
    let (old, _) = kubectl.both("s");
    assert_shows(&old, 1);
    assert_eq!(
        old["spec"]["apiServerLoadBalancer"]["monitor"],
        json!({"delay": 5, "timeout": 5})
    );

    // Each applies again. Nothing changes, not even the resource version, after both versions have been written once.
    kubectl.good(&gitops, &first);
    kubectl.good(&team, &monitor(5));
    let version = |value: &Value| {
        value["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (before, _) = kubectl.both("s");
    kubectl.good(&gitops, &first);
    kubectl.good(&team, &monitor(5));
    let (after, _) = kubectl.both("s");
    assert_eq!(version(&before), version(&after));
    assert_shows(&after, 1);

    // One user leaves a field out and changes another while the controller writes. The fields of the other user stay.
    controller_writes(&clusters, "s", 2).await;
    kubectl.good(&gitops, &manifest("s", "9.9.9.9", ""));
    kubectl.good(&team, &monitor(7));
    let (old, new) = kubectl.both("s");
    assert_shows(&old, 2);
    assert_eq!(
        new["spec"]["apiServer"]["managedLoadBalancer"],
        json!({"enabled": true, "additionalPorts": [22], "monitor": {"delay": 7, "timeout": 5}})
    );
    assert_eq!(
        old["spec"]["managedSubnets"][0]["dnsNameservers"],
        json!(["9.9.9.9"])
    );
    assert_eq!(old["metadata"]["annotations"]["owner"], "team");

    // A field that another manager owns is not taken without a conflict, whichever version names it.
    let greedy = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackCluster
metadata: {name: s, annotations: {owner: team}}
spec:
  identityRef: {name: cloud, cloudName: openstack}
  apiServer: {port: 8443, managedLoadBalancer: {monitor: {delay: 7, timeout: 5}}}
";
    let (good, said) = kubectl.run(&team, greedy);
    assert!(!good && said.contains("conflict with \"gitops\""), "{said}");
    let (unchanged, _) = kubectl.both("s");
    assert_eq!(version(&unchanged), version(&old));
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_of_every_kind_apply_in_both_versions_without_a_difference() {
    let kubectl = Kubectl::prepare().await;
    let old_machine = "flavor: m1.small\n      image: {filter: {name: ubuntu}}\n      ports: [{disablePortSecurity: false}]";
    let new_machine = "flavor: {filter: {name: m1.small}}\n      image: {filter: {name: ubuntu}}\n      ports: [{enablePortSecurity: true}]";
    let cluster = "identityRef: {name: cloud, cloudName: openstack}";
    for (kind, old, new) in [
        ("OpenStackMachineTemplate", old_machine, new_machine),
        ("OpenStackClusterTemplate", cluster, cluster),
    ] {
        let text = |version: &str, spec: &str| {
            format!(
                "apiVersion: infrastructure.cluster.x-k8s.io/{version}\nkind: {kind}\nmetadata: {{name: t}}\n\
                 spec:\n  template:\n    spec:\n      {spec}\n"
            )
        };
        let (old, new) = (text("v1beta1", old), text("v1beta2", new));
        assert!(
            kubectl
                .good(&["apply", "--filename=-"], &old)
                .contains("created")
        );
        kubectl.good(&["diff", "--filename=-"], &old);
        // The manifest may move to the new version at any time.
        let shown = |version: &str| {
            let kind = format!(
                "{}.{version}.infrastructure.cluster.x-k8s.io",
                kind.to_lowercase()
            );
            kubectl.get(&kind, "t")["spec"].clone()
        };
        let before = (shown("v1beta1"), shown("v1beta2"));
        kubectl.good(&["apply", "--filename=-"], &new);
        kubectl.good(&["diff", "--filename=-"], &new);
        assert_eq!((shown("v1beta1"), shown("v1beta2")), before, "{kind}");
    }
}
