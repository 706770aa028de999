//! A rollout with every anomaly of the demo and the outages around it, recorded by a real Prometheus: every alert
//! that should fire fires and no other, every query of every board has an answer, and a scrape is as promised.

mod monitored;
mod picture;
mod quick;

use std::{
    collections::BTreeSet,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use fake_cloud::FakeCloud;
use futures::future::join_all;
use serde_json::{Value, json};

use monitored::{MonitoredClusters, WAIT, cloud};
use test_support::monitoring::{
    boards,
    exposition::{families, matches_the_catalogue},
    rules,
};

use crate::env::prometheus::promtool;

/// What must fire: the alert, and the labels that say what about.
const EXPECTED: [(&str, &str); 12] = [
    // The demo's second member is pending under a load balancer that reads ACTIVE.
    ("CapoLBMemberStuck", "demo demo-cp-1 6443"),
    ("CapoRolloutGateHeld", "demo demo-cp-1 admission"),
    // The new members are not healthy, so the old one may not go.
    ("CapoRolloutGateHeld", "demo demo-cp-0 release"),
    // The creation of a member fails again and again.
    ("CapoRolloutGateHeld", "red red-cp-1 admission"),
    // The only member of a cluster fails, and its repairs too.
    ("CapoLBMemberError", "dark dark-cp-0 6443"),
    ("CapoLBNoActiveMember", "dark 6443"),
    // Octavia breaks every connection.
    ("CapoOpenStackErrorRatioHigh", "broken load-balancer"),
    ("CapoLBObservationStale", "blind"),
    // Octavia answers every request with 429.
    ("CapoOpenStackThrottled", "busy load-balancer"),
    ("CapoLBObservationStale", "slow"),
    // Keystone refuses the credentials.
    ("CapoOpenStackAuthFailing", "locked"),
    ("CapoLBObservationStale", "shut"),
];

/// The alerts that may fire. Whether a fifth of a controller's passes fails while three clouds of four are in trouble
/// depends on the number of passes over the others, and so on how busy this machine is. The same holds for how long the
/// members of `red-cp-1` and `demo-cp-2` are in ERROR before they are recreated, and their machines held.
const MAY: [(&str, &str); 4] = [
    ("CapoReconcileErrorRatioHigh", "openstackcluster"),
    ("CapoLBMemberError", "red red-cp-1 6443"),
    ("CapoLBMemberError", "demo demo-cp-2 6443"),
    ("CapoRolloutGateHeld", "demo demo-cp-2 admission"),
];

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_prometheus_sees_every_anomaly_and_wakes_for_nothing_else() {
    let environment = MonitoredClusters::start().await;
    let clouds = [
        ("green", cloud().await),
        ("broken", cloud().await),
        ("busy", cloud().await),
        ("locked", cloud().await),
    ];
    for (name, cloud) in &clouds {
        environment.credentials(name, cloud).await;
    }
    let [(_, green), (_, broken), (_, busy), (_, locked)] = &clouds;
    for command in [
        json!({"hold": {"member": "demo-cp-1", "status": "PENDING_CREATE", "count": 1}}),
        json!({"operation": {"operation": "member-create", "name": "demo-cp-2", "count": 1, "fail": true}}),
        json!({"operation": {"operation": "member-create", "name": "red-cp-1", "fail": true}}),
        json!({"operation": {"operation": "member-update", "name": "dark-cp-0", "fail": true}}),
    ] {
        green.control().run(command).unwrap();
    }
    let clusters = [
        ("demo", "green"),
        ("red", "green"),
        ("dark", "green"),
        ("blind", "broken"),
        ("slow", "busy"),
        ("shut", "locked"),
    ];
    join_all(clusters.map(|(cluster, cloud)| environment.cluster(cluster, cloud))).await;
    environment.until_all_is_quiet().await;

    let begun = now();
    let dark = member(green, "dark-cp-0");
    let octavia = |what: Value| {
        let mut fault = json!({"match": {"service": "load-balancer"}});
        fault
            .as_object_mut()
            .unwrap()
            .extend(what.as_object().unwrap().clone());
        json!({"fault": fault})
    };
    for (cloud, command) in [
        (
            green,
            json!({"set_status": {"object": dark, "kind": "member", "provisioning": "ERROR"}}),
        ),
        (broken, octavia(json!({"reset": true}))),
        (
            busy,
            octavia(json!({"status": 429, "headers": {"Retry-After": "10"}})),
        ),
        (
            locked,
            json!({"fault": {"match": {"label": "token_create"}, "status": 401}}),
        ),
        (locked, json!({"revoke_tokens": ""})),
    ] {
        cloud.control().run(command).unwrap();
    }
    environment.machine("red", "green", 1).await;
    let rolled = roll(&environment, green, begun).await;

    let expected = named(&EXPECTED);
    let fired = until_fired(&environment, begun, &expected).await;
    let missing: Vec<_> = expected.difference(&fired).collect();
    let surplus: Vec<_> = fired
        .difference(&expected)
        .filter(|(alert, about)| !MAY.contains(&(alert, about)))
        .collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "did not fire: {missing:?}; fired besides: {surplus:?}"
    );

    let scrape = environment.scrape().await;
    matches_the_catalogue(&scrape, true);
    let output = promtool(Path::new("."), &["check", "metrics"], &scrape).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = families(&scrape);
    let at_most = 17 * found["capo_lb_member_info"].series + 50 * 6 + 3_000;
    let series: usize = found.values().map(|family| family.series).sum();
    assert!(series <= at_most, "{series} series, promised {at_most}");

    every_query_has_an_answer(&environment, (begun, now())).await;
    let drawn = picture::draw(&environment.prometheus, (begun, rolled)).await;
    if std::env::var_os("CAPO_RS_WRITE_DOCS").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rollout-gates.svg"),
            drawn,
        )
        .unwrap();
    }
}

/// Adds two machines to `demo`, the first of which is held until an alert fires, and removes its oldest machine while
/// the health checks of the new ones fail until another alert fires. Returns the time at which that was done.
async fn roll(environment: &MonitoredClusters, cloud: &FakeCloud, begun: f64) -> f64 {
    environment.machine("demo", "green", 1).await;
    let alerts = [
        ("CapoLBMemberStuck", "demo demo-cp-1 6443"),
        ("CapoRolloutGateHeld", "demo demo-cp-1 admission"),
    ];
    until_fired(environment, begun, &named(&alerts)).await;
    cloud
        .control()
        .run(json!({"release": "demo-cp-1"}))
        .unwrap();
    environment.until_joined("demo", 1).await;
    environment.machine("demo", "green", 2).await;
    environment.until_joined("demo", 2).await;
    let new = ["demo-cp-1", "demo-cp-2"].map(|machine| member(cloud, machine));
    for member in &new {
        let status = json!({"object": member, "kind": "member", "operating": "ERROR"});
        cloud.control().run(json!({"set_status": status})).unwrap();
    }
    let heal = async {
        let held = [("CapoRolloutGateHeld", "demo demo-cp-0 release")];
        until_fired(environment, begun, &named(&held)).await;
        for member in &new {
            cloud
                .control()
                .run(json!({"set_status": {"object": member, "kind": "member", "operating": "ONLINE"}}))
                .unwrap();
        }
    };
    futures::join!(environment.replace("demo-cp-0"), heal);
    now()
}

fn named(alerts: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    let named = alerts.iter();
    named
        .map(|(alert, about)| ((*alert).to_owned(), (*about).to_owned()))
        .collect()
}

/// The id of the member whose name ends with `name`.
fn member(cloud: &FakeCloud, name: &str) -> String {
    let dump = cloud.control().dump();
    let balancers = dump["load_balancers"].as_array().unwrap().iter();
    let pools = balancers.flat_map(|balancer| balancer["pools"].as_array().unwrap());
    let mut members = pools.flat_map(|pool| pool["members"].as_array().unwrap());
    let found = members.find(|member| member["name"].as_str().is_some_and(|n| n.ends_with(name)));
    found.unwrap()["id"].as_str().unwrap().to_owned()
}

/// The alerts that have fired since `begun`, as soon as all wanted ones have fired, or when even a busy machine would
/// have let them fire.
async fn until_fired(
    environment: &MonitoredClusters,
    begun: f64,
    wanted: &BTreeSet<(String, String)>,
) -> BTreeSet<(String, String)> {
    let seen = WAIT.ok(async || {
        let alerts = environment
            .prometheus
            .range(r#"ALERTS{alertstate="firing"}"#, (begun, now()), 1.0)
            .await
            .unwrap();
        let fired: BTreeSet<(String, String)> = alerts["result"]
            .as_array()
            .unwrap()
            .iter()
            .map(|series| name_and_object(&series["metric"]))
            .collect();
        if wanted.is_subset(&fired) {
            Ok(fired)
        } else {
            Err(fired)
        }
    });
    seen.await.unwrap_or_else(|fired| fired)
}

fn name_and_object(labels: &Value) -> (String, String) {
    let about = [
        "cluster_name",
        "machine",
        "gate",
        "port",
        "cloud",
        "api",
        "controller",
    ];
    let about: Vec<&str> = about
        .iter()
        .filter_map(|label| labels[label].as_str())
        .collect();
    (
        labels["alertname"].as_str().unwrap().to_owned(),
        about.join(" "),
    )
}

async fn every_query_has_an_answer(environment: &MonitoredClusters, range: (f64, f64)) {
    let mut empty = Vec::new();
    for board in boards::all() {
        for panel in &board.panels {
            for query in &panel.queries {
                let asked = boards::filled_in(&query.expression, "10s", range.1 - range.0);
                let answer = environment
                    .prometheus
                    .range(&asked, range, 2.0)
                    .await
                    .unwrap();
                let values = answer["result"].as_array().unwrap().iter();
                let mut values = values.flat_map(|series| series["values"].as_array().unwrap());
                if !values.any(|point| {
                    point[1]
                        .as_str()
                        .unwrap()
                        .parse::<f64>()
                        .unwrap()
                        .is_finite()
                }) {
                    empty.push(format!("{}: {}: {asked}", board.uid, panel.title));
                }
            }
        }
        for query in board.queries_of_annotations() {
            environment
                .prometheus
                .range(&boards::filled_in(&query, "10s", 60.0), range, 2.0)
                .await
                .unwrap();
        }
    }
    assert!(empty.is_empty(), "no data:\n{}", empty.join("\n"));
    for query in of_the_page() {
        let answer = environment
            .prometheus
            .range(&query, range, 2.0)
            .await
            .unwrap();
        assert_ne!(answer["result"], json!([]), "{query}");
    }
    for record in rules::recorded() {
        let answer = environment
            .prometheus
            .range(&record, range, 2.0)
            .await
            .unwrap();
        assert_ne!(answer["result"], json!([]), "{record}");
    }
}

/// The queries that docs/monitoring.md shows.
fn of_the_page() -> Vec<String> {
    let page = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/monitoring.md"
    ));
    let (_, after) = page.split_once("## Three queries to know\n").unwrap();
    let (shown, _) = after.split_once("\n[Every metric]").unwrap();
    let queries = shown.split("    # ").skip(1).map(|query| {
        let lines = query.lines().skip(1).map(str::trim);
        lines.collect::<Vec<_>>().join(" ")
    });
    let queries: Vec<String> = queries.collect();
    assert_eq!(queries.len(), 3);
    queries
}
