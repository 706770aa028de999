//! README.md and docs/quickstart.md as a newcomer follows them, with the real clusterctl and the real Cluster API; then
//! what clusterctl does in the life of an installation: an upgrade, a move in the middle of a rollout, and the deletion
//! of everything.

mod environment;

use std::{
    net::TcpListener,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use fake_cloud::{Durations, FakeCloud, Options, Provisioning, octavia::model::Member};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;
use test_support::{
    figures,
    rollout::{
        self,
        machines::{Cluster, Machines},
        workload_cluster::WorkloadCluster,
    },
    timeline::Timeline,
    waiting::until,
};

use crate::env::{Clusterctl, cluster_api::condition};
use environment::{NAME, QuickstartEnvironment, block, install_openstack, with_external_etcd};

const README: &str = include_str!("../../../../README.md");
const QUICKSTART: &str = include_str!("../../../../docs/quickstart.md");
const GATE: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";
/// From `clusterctl init` to a cluster that is Available, at most. `make quickstart` measures it on a machine that does
/// nothing else.
const PROMISED: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_cluster_and_what_clusterctl_does_afterwards() {
    let environment = QuickstartEnvironment::start().await;
    let clusterctl = Arc::new(Clusterctl::new(&["v1.0.0"]).unwrap());
    let cloud = FakeCloud::start(Options {
        durations: Durations {
            load_balancer_create: 2.0,
            ..Durations::default()
        },
        ..Options::default()
    })
    .await
    .unwrap();
    install_openstack(clusterctl.home(), &cloud);
    let workload = WorkloadCluster::start(NAME, &rollout::folder("quickstart")).unwrap();
    let workload = Arc::new(workload);
    let machines = Machines::start(
        Cluster {
            client: environment.client.clone(),
            name: NAME.to_owned(),
            workload: workload.clone(),
            more_ports: Vec::new(),
            timeline: Timeline::start(),
        },
        cloud.control(),
    );
    // The nodes of the fake cloud are on the loopback network, and there are no workers, because a worker would need a
    // kubelet.
    let claim = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let subnet = rollout::subnet(claim.local_addr().unwrap().port());
    let own = format!("export WORKER_MACHINE_COUNT=0 NODE_CIDR={subnet}\n");

    // These are the steps of README.md, from the installation to the API's answer.
    let began = Instant::now();
    let printed = environment.run(&clusterctl, block(README, "init")).await;
    assert!(printed.contains("infrastructure-openstack"), "{printed}");
    let (variables, generate) = (block(README, "variables"), block(README, "generate"));
    environment
        .run(&clusterctl, &format!("{variables}{own}{generate}"))
        .await;
    make_bootable(&clusterctl.home().join("demo.yaml"), &workload);
    environment.run(&clusterctl, block(README, "apply")).await;
    let nodes = environment.run(&clusterctl, block(README, "answer")).await;
    assert!(nodes.contains("Ready"), "{nodes}");
    environment.until_available().await;
    let took = began.elapsed();
    if std::env::var_os("CAPO_RS_MEASURE").is_some() {
        figures::record(
            "quickstart",
            "make quickstart",
            &[(
                "clusterctl init to the first cluster Available",
                "s",
                took.as_secs_f64().ceil(),
                PROMISED.as_secs_f64(),
            )],
        );
        assert!(took <= PROMISED, "it took {took:?}");
    }

    upgrade(&environment, &clusterctl).await;

    // These are the steps of docs/quickstart.md on another management cluster. The cluster itself is moved there.
    let target = QuickstartEnvironment::start().await;
    target.run(&clusterctl, block(QUICKSTART, "init")).await;
    let [variables, generate, apply] =
        ["variables", "generate", "apply"].map(|name| block(QUICKSTART, name));
    let create = format!("{variables}{generate}{apply}");
    let dry = create.replace("kubectl apply", "kubectl apply --dry-run=server");
    let created = target.run(&clusterctl, &dry).await;
    assert!(
        created.contains("cluster.cluster.x-k8s.io/demo created (server dry run)"),
        "{created}"
    );
    move_in_the_middle_of_a_rollout(&environment, &target, &clusterctl, &cloud, &machines).await;
    let nodes = target
        .run(&clusterctl, block(QUICKSTART, "control-plane"))
        .await;
    assert!(nodes.contains("Ready"), "{nodes}");
    let described = target.run(&clusterctl, block(QUICKSTART, "wait")).await;
    for shown in [
        "Cluster demo/demo",
        "OpenStackCluster demo/demo",
        "PORT 6443",
    ] {
        assert!(described.contains(shown), "{described}");
    }
    target.run(&clusterctl, block(QUICKSTART, "delete")).await;
    let left = cloud
        .control()
        .leftovers("k8s-clusterapi-cluster-demo-demo");
    assert_eq!(left, []);
    delete_everything(&environment, &clusterctl).await;
}

fn make_bootable(file: &Path, workload: &WorkloadCluster) {
    let generated = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, with_external_etcd(&generated, workload)).unwrap();
}

/// Upgrades from one release to the next.
async fn upgrade(environment: &QuickstartEnvironment, clusterctl: &Arc<Clusterctl>) {
    clusterctl.add_release("v1.0.1").unwrap();
    let plan = environment.run(clusterctl, "clusterctl upgrade plan").await;
    assert!(
        plan.lines()
            .any(|line| line.contains("infrastructure-openstack")
                && line.contains("v1.0.0")
                && line.contains("v1.0.1")),
        "{plan}"
    );
    environment
        .run(
            clusterctl,
            "clusterctl upgrade apply --infrastructure openstack:v1.0.1 --wait-providers",
        )
        .await;
    let image = environment
        .run(
            clusterctl,
            "kubectl -n capo-system get deployment capo-controller-manager -o jsonpath='{..image}'",
        )
        .await;
    assert!(image.ends_with("capo-rs:v1.0.1"), "{image}");
    environment.until_available().await;
}

/// While the new machine waits for its member, clusterctl refuses to move. Once it has joined and the old one is held,
/// it moves, and the rollout ends on the other side.
async fn move_in_the_middle_of_a_rollout(
    environment: &QuickstartEnvironment,
    target: &QuickstartEnvironment,
    clusterctl: &Arc<Clusterctl>,
    cloud: &FakeCloud,
    machines: &Machines,
) {
    let target_kubeconfig = target.kubernetes.admin_kubeconfig();
    let command = format!(
        "clusterctl move --namespace demo --to-kubeconfig {}",
        target_kubeconfig.display()
    );
    let old = environment.all("Machine").await[0].name_any();
    let held =
        json!({"metadata": {"annotations": {GATE: "hold reason=the test moves the cluster"}}});
    environment.patch("OpenStackMachine", &old, held).await;
    cloud
        .control()
        .run(json!({"hold": {"member": "", "status": "PENDING_CREATE"}}))
        .unwrap();
    environment
        .patch(
            "KubeadmControlPlane",
            "demo-control-plane",
            // The rollout is begun by a change of the spec and not by `rollout.after`, because a move gives every
            // Machine a new creation time.
            json!({"spec": {"kubeadmConfigSpec": {"postKubeadmCommands": ["true"]}}}),
        )
        .await;
    let new = until("a new machine is held at its admission", async || {
        let all = environment.all("OpenStackMachine").await;
        let new = all.iter().find(|machine| machine.name_any() != old)?;
        let value = serde_json::to_value(new).ok()?;
        let (_, reason, _) = condition(&value, "APIServerLoadBalancerReady")?;
        (reason == "MemberPending").then(|| new.name_any())
    })
    .await;
    let (moved, printed) = environment.attempt(clusterctl, &command).await;
    assert!(
        !moved && printed.contains("still provisioning"),
        "{printed}"
    );

    cloud.control().run(json!({"release": ""})).unwrap();
    until(
        "the new machine has joined and the old one is held",
        async || {
            let new = environment.get("Machine", &new).await?;
            let old = environment.get("Machine", &old).await?;
            (new["status"]["nodeRef"].is_object()
                && old["metadata"]["deletionTimestamp"].is_string())
            .then_some(())
        },
    )
    .await;
    // A new member is enabled by a call when its API server is up. The test waits until this call is over.
    until("every member gets traffic", async || {
        let name = "k8s-clusterapi-cluster-demo-demo-kubeapi";
        let (_, balancers) = cloud.control().load_balancers(name);
        let pools = balancers.iter().flat_map(|(balancer, _)| &balancer.pools);
        let gets_traffic = |member: &&Member| {
            member.head.enabled && member.head.provisioning == Provisioning::Active
        };
        let members = pools.flat_map(|pool| &pool.members).filter(gets_traffic);
        (members.count() == 2).then_some(())
    })
    .await;
    machines.follow(None);
    let mark = cloud.control().last_call();
    environment.run(clusterctl, &command).await;
    machines.follow(Some(target.client.clone()));
    assert!(environment.all("OpenStackMachine").await.is_empty());
    // The first pass over each object at the target.
    for name in [&old, &new] {
        until("the target has seen the machine", async || {
            let machine = target.get("OpenStackMachine", name).await?;
            condition(&machine, "Ready").map(|_| ())
        })
        .await;
    }
    let written: Vec<String> = cloud
        .control()
        .calls_since(mark)
        .into_iter()
        .filter(|call| call.method != "GET" && call.label != "token_create")
        .map(|call| format!("{} {}", call.method, call.path))
        .collect();
    assert_eq!(written, Vec::<String>::new());
    assert_eq!(target.all("OpenStackMachine").await.len(), 2);

    let free = json!({"metadata": {"annotations": {GATE: null}}});
    target.patch("OpenStackMachine", &old, free).await;
    until("the old machine is gone", async || {
        let all = target.all("Machine").await;
        (all.len() == 1 && all[0].name_any() != old).then_some(())
    })
    .await;
    target.until_available().await;
}

/// `clusterctl delete`, first of the provider with its definitions kept, then of everything.
async fn delete_everything(environment: &QuickstartEnvironment, clusterctl: &Arc<Clusterctl>) {
    let definitions: Api<CustomResourceDefinition> = Api::all(environment.client.clone());
    let ours = async || {
        let list = definitions.list(&ListParams::default()).await.unwrap();
        let ours = list
            .iter()
            .filter(|one| one.spec.group == "infrastructure.cluster.x-k8s.io");
        ours.count()
    };
    environment
        .run(clusterctl, "clusterctl delete --infrastructure openstack")
        .await;
    assert_eq!(ours().await, 7);
    environment
        .run(
            clusterctl,
            "clusterctl delete --all --include-crd --include-namespace",
        )
        .await;
    // A namespace that is being deleted is gone when everything in it is.
    until("what clusterctl deleted is gone", async || {
        let list = "kubectl get namespaces,deployments --all-namespaces --output name";
        let left = environment.run(clusterctl, list).await;
        let is_gone = |name: &str| !left.contains(name);
        (is_gone("controller-manager") && is_gone("capi-")).then_some(())
    })
    .await;
}
