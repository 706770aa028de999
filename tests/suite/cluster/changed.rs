//! Changes by a user in the spec of an existing cluster.

use capo_core::Priority;
use capo_openstack::load_balancer::{HealthMonitor, HealthMonitorFilter};
use serde_json::{Value, json};
use test_support::env::{Environment, environment::is};

use super::{quick, until_reported};

/// A cluster that is ready, and its object.
async fn start(namespace: &str, spec: Value) -> (Environment, Value) {
    let environment = Environment::in_namespace(namespace)
        .cloud(quick())
        .start()
        .await;
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", spec))
        .await;
    let made = environment.until_ready("c1").await;
    (environment, made)
}

/// The spec of a cluster whose endpoint is an address that the user looks after.
fn without_load_balancer() -> Value {
    json!({"apiServer": {
        "enableFloatingIP": false, "fixedIP": "10.6.0.9", "managedLoadBalancer": {"enabled": false},
    }})
}

/// Merges `spec` into the cluster's, and waits until all of it is done.
async fn change(environment: &Environment, spec: Value) -> Value {
    let change = json!({ "spec": spec });
    environment.patch("OpenStackCluster", "c1", change).await;
    environment.until_ready("c1").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_servers_of_the_subnet_and_their_order_follow_the_spec() {
    let (environment, made) = start("changed-name-servers", without_load_balancer()).await;
    let id = &made["status"]["network"]["subnets"][0]["id"];
    let name_servers = || {
        let cloud = environment.cloud.control().dump();
        let mut subnets = cloud["network"]["subnets"].as_array().unwrap().iter();
        let own = subnets.find(|subnet| subnet["id"] == *id).unwrap();
        own["dns_nameservers"].clone()
    };
    assert_eq!(name_servers(), json!(["9.9.9.9"]));
    // The order matters, because machines use the first name server first.
    for wanted in [["1.1.1.1", "9.9.9.9"], ["9.9.9.9", "1.1.1.1"]] {
        let mark = environment.cloud.control().last_call();
        let subnet = json!({"cidr": "10.6.0.0/24", "dnsNameservers": wanted});
        change(&environment, json!({"managedSubnets": [subnet]})).await;
        assert_eq!(name_servers(), json!(wanted));
        assert_eq!(environment.writes_since(mark), ["subnet_update"]);
        let text = format!("name servers {}", wanted.join(", "));
        until_reported(&environment, "Successfulupdatesubnet", &text).await;
    }
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_takes_the_place_of_one_that_is_the_same_for_neutron() {
    const CREATE: &str = "security_group_rule_create";
    const DELETE: &str = "security_group_rule_delete";
    let rule = |more: &Value| {
        let mut rule = json!({"name": "all", "direction": "ingress", "etherType": "IPv4"});
        json_patch::merge(&mut rule, more);
        json!({"managedSecurityGroups": {"controlPlaneNodesSecurityGroupRules": [rule]}})
    };
    let mut spec = without_load_balancer();
    let all_ports = json!({"protocol": "tcp", "portRangeMin": 1, "portRangeMax": 65535});
    json_patch::merge(&mut spec, &rule(&all_ports));
    let (environment, made) = start("changed-rule", spec).await;
    let group = &made["status"]["controlPlaneSecurityGroup"]["id"];
    // The ports that every address may reach.
    let open = || {
        let cloud = environment.cloud.control().dump();
        let rules = cloud["network"]["security_group_rules"].as_array().unwrap();
        let mut ports: Vec<_> = rules
            .iter()
            .filter(|rule| {
                rule["security_group_id"] == *group
                    && rule["direction"] == "ingress"
                    && rule["remote_group_id"].is_null()
            })
            .map(|rule| ["port_range_min", "port_range_max"].map(|end| rule[end].as_i64()))
            .collect();
        ports.sort_unstable();
        ports
    };
    let api: [Option<i64>; 2] = [Some(6443); 2];
    // Neutron stores a rule for the ports 1 to 65535 without ports, and to it both are the same rule.
    assert_eq!(open(), [[None, None], api]);
    let of_rules = |mark| {
        let calls = environment.cloud.control().calls_since(mark);
        let of_rules = calls
            .into_iter()
            .filter(|call| [CREATE, DELETE].contains(&call.label.as_str()));
        let answers = of_rules.map(|call| (call.label, call.status));
        answers.collect::<Vec<_>>()
    };
    let mark = environment.cloud.control().last_call();
    let mut described = all_ports.clone();
    described["description"] = json!("Neutron does not compare it");
    for same in [described, json!({"protocol": "tcp"})] {
        let changed = change(&environment, rule(&same)).await;
        assert!(is(&changed, "SecurityGroupsReady", "True"));
    }
    assert_eq!(of_rules(mark), []);

    // To Neutron, ip and hopopt are the protocol 0.
    change(&environment, rule(&json!({"protocol": "ip"}))).await;
    let mark = environment.cloud.control().last_call();
    let changed = change(&environment, rule(&json!({"protocol": "hopopt"}))).await;
    assert!(is(&changed, "SecurityGroupsReady", "True"));
    assert_eq!(open(), [[None, None], api]);
    let of_rules = of_rules(mark);
    let of_rules: Vec<_> = of_rules
        .iter()
        .map(|(label, status)| (label.as_str(), *status))
        .collect();
    assert!(of_rules.contains(&(CREATE, Some(409))), "{of_rules:?}");
    // The rule is created again in the same pass.
    assert!(
        of_rules.ends_with(&[(DELETE, Some(204)), (CREATE, Some(201))]),
        "{of_rules:?}"
    );
    environment.delete("c1").await;
}

/// The health monitors, in the order of their ports.
async fn monitors(environment: &Environment) -> Vec<HealthMonitor> {
    let filter = HealthMonitorFilter::default();
    let openstack = environment.openstack();
    let found = openstack.health_monitors(&filter, Priority::Gate).await;
    let mut found = found.unwrap();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn parameters(monitor: &HealthMonitor) -> [u32; 4] {
    let parameters = monitor.parameters;
    [
        parameters.delay,
        parameters.timeout,
        parameters.max_retries,
        parameters.max_retries_down,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parameters_of_health_monitors_follow_the_spec_and_go_back_to_the_defaults() {
    let of_monitor =
        |parameters: Value| json!({"apiServer": {"managedLoadBalancer": {"monitor": parameters}}});
    let custom = json!({"delay": 20, "timeout": 7, "maxRetries": 4, "maxRetriesDown": 2});
    let mut spec = of_monitor(custom);
    spec["apiServer"]["managedLoadBalancer"]["additionalPorts"] = json!([9345]);
    let (environment, _) = start("changed-monitor", spec).await;
    let made = monitors(&environment).await;
    let all = |monitors: &[HealthMonitor]| monitors.iter().map(parameters).collect::<Vec<_>>();
    assert_eq!(all(&made), [[20, 7, 4, 2]; 2]);
    // The spec without the monitor asks for CAPO's defaults.
    for (spec, expected) in [
        (json!({"delay": 30}), [30_u32, 7, 4, 2]),
        (Value::Null, [10, 5, 5, 3]),
    ] {
        change(&environment, of_monitor(spec)).await;
        let now = monitors(&environment).await;
        assert_eq!(all(&now), [expected; 2]);
        for (before, after) in made.iter().zip(&now) {
            assert_eq!(before.id, after.id, "members are checked all the time");
        }
        let [delay, timeout, up, down] = expected;
        let text =
            format!("delay {delay}, timeout {timeout}, maxRetries {up}, maxRetriesDown {down}");
        until_reported(&environment, "Successfulupdatemonitor", &text).await;
    }
    environment.delete("c1").await;
}
