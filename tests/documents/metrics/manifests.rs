//! The objects that `deploy/` and `capo-rs manifests --with=monitoring` create for Prometheus and Grafana.

use std::process::Command;

use serde_json::Value;
use test_support::{
    env::apply::documents,
    monitoring::{boards, rules},
};

fn printed() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .args(["manifests", "--with=monitoring", "--namespace=there"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("capo-system"), "another namespace");
    documents(&text).unwrap()
}

#[test]
fn monitoring_comes_along_where_it_is_asked_for() {
    let all = printed();
    let of_kind =
        |kind: &str| -> Vec<&Value> { all.iter().filter(|one| one["kind"] == kind).collect() };
    let printed_rules: Vec<Value> = of_kind("PrometheusRule")[0]["spec"]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect();
    let mut expected = serde_json::to_string(&rules::rules()).unwrap();
    // The links to the runbooks do not depend on the name of the namespace.
    expected = expected.replace("capo-system", "there");
    assert_eq!(serde_json::to_string(&printed_rules).unwrap(), expected);
    let maps = of_kind("ConfigMap");
    assert_eq!(maps.len(), 3);
    for (map, board) in maps.iter().zip(boards::all()) {
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        let text = map["data"][format!("{}.json", board.uid)].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), board.json());
    }
    let monitor = of_kind("PodMonitor")[0];
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let deployment = of_kind("Deployment")[0];
    let template = &deployment["spec"]["template"];
    // Every object and port that it names exists.
    let ports = template["spec"]["containers"][0]["ports"]
        .as_array()
        .unwrap();
    assert!(ports.iter().any(|port| port["name"] == endpoint["port"]));
    for (label, value) in monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap()
    {
        assert_eq!(&template["metadata"]["labels"][label], value);
    }
    let job = monitor["spec"]["jobLabel"].as_str().unwrap();
    assert_eq!(
        template["metadata"]["labels"][job],
        "capo-controller-manager"
    );
    let certificate = of_kind("Certificate")[0];
    assert_eq!(
        endpoint["tlsConfig"]["ca"]["secret"]["name"],
        certificate["spec"]["secretName"]
    );
    let names = certificate["spec"]["dnsNames"].as_array().unwrap();
    assert!(names.contains(&endpoint["tlsConfig"]["serverName"]));
    let token = &endpoint["authorization"]["credentials"]["name"];
    assert!(
        of_kind("Secret")
            .iter()
            .any(|secret| &secret["metadata"]["name"] == token)
    );
}
