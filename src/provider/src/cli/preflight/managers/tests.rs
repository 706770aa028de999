use serde_json::json;

use super::{super::finding::Finding, *};

fn manager(arguments: &[&str]) -> Manager {
    let deployment = json!({
        "metadata": {"namespace": "capo-system", "name": "capo-controller-manager"},
        "spec": {
            "selector": {},
            "template": {"spec": {"containers": [
                {"name": "sidecar", "args": ["--namespace=of-the-sidecar"]},
                {"name": "manager", "args": arguments},
            ]}},
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    Manager::from(deployment)
}

fn found(managers: &Managers, reach: &Reach) -> Vec<(Level, String)> {
    let mut findings: Vec<Finding> = Vec::new();
    assess(managers, reach, &mut About::installation(&mut findings));
    let findings = findings.into_iter();
    findings.map(|one| (one.level, one.message)).collect()
}

fn reach(namespace: &str, watch_filter: &str) -> Reach {
    Reach {
        namespace: namespace.to_owned(),
        watch_filter: watch_filter.to_owned(),
    }
}

const OF_0_14: [&str; 5] = [
    "--leader-elect",
    "--v=2",
    "--diagnostics-address=127.0.0.1:8080",
    "--insecure-diagnostics=true",
    "--feature-gates=PriorityQueue=false,AutoScaleFromZero=false",
];

#[test]
fn the_arguments_of_a_release_need_nothing() {
    assert_eq!(found(&Ok(vec![manager(&OF_0_14)]), &Reach::default()), []);
    assert_eq!(found(&Ok(Vec::new()), &Reach::default()), []);
}

#[test]
fn a_manager_that_works_on_other_objects_than_were_looked_at_is_a_problem() {
    for arguments in [
        &["--namespace=tenants"][..],
        &["--namespace", "tenants"],
        &["--watch_filter=blue"],
    ] {
        let managers = Ok(vec![manager(arguments)]);
        let findings = found(&managers, &Reach::default());
        assert_eq!(findings[0].0, Level::Problem, "{arguments:?}");
        // The argument is also reported as one that is not of a release.
        assert_eq!(findings[1].0, Level::Note, "{arguments:?}");
    }
    let managers = Ok(vec![manager(&["--namespace=tenants"])]);
    assert_eq!(found(&managers, &reach("tenants", ""))[0].0, Level::Note);
    let findings = found(&managers, &reach("tenants", "blue"));
    assert_eq!(findings[0].0, Level::Problem);
    assert!(
        findings[0]
            .1
            .contains("works on the objects of --namespace=tenants, and this run looked at the objects of --namespace=tenants --watch-filter=blue"),
        "{findings:?}"
    );
}

#[test]
fn of_several_managers_each_is_named_and_one_is_enough() {
    let managers = Ok(vec![
        manager(&["--watch-filter=blue"]),
        manager(&["--watch-filter=red"]),
    ]);
    let findings = found(&managers, &reach("", "blue"));
    assert!(findings.iter().all(|(level, _)| *level == Level::Note));
    let others = findings
        .iter()
        .filter(|(_, message)| message.contains("run preflight and plan"));
    assert_eq!(others.count(), 1, "{findings:?}");
    let findings = found(&managers, &reach("", "green"));
    let problems = findings
        .iter()
        .filter(|(level, _)| *level == Level::Problem);
    assert_eq!(problems.count(), 2, "{findings:?}");
}

#[test]
fn other_arguments_are_listed_for_the_installation() {
    let own = ["--leader-elect-lease-duration=60s", "--v=4"];
    let managers = Ok(vec![manager(&[&OF_0_14[..], &own].concat())]);
    let findings = found(&managers, &Reach::default());
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0]
            .1
            .contains("own, --leader-elect-lease-duration=60s --v=4: give"),
        "{findings:?}"
    );
}

#[test]
fn an_argument_that_capo_rs_does_not_know_is_a_problem() {
    let findings = found(&Ok(vec![manager(&["--of-a-fork=1"])]), &Reach::default());
    assert_eq!(findings[0].0, Level::Problem);
    assert!(findings[0].1.contains("--of-a-fork"), "{findings:?}");
}

#[test]
fn managers_that_can_not_be_read_are_not_known() {
    let findings = found(&Err("HTTP 403".to_owned()), &Reach::default());
    assert_eq!(findings[0].0, Level::Unknown);
}
