//! Octavia's requests and answers.

use capo_core::{OperatingStatus, Priority, ProvisioningStatus};
use capo_openstack::{
    ApiVersion,
    load_balancer::{
        HealthMonitorFilter, HealthMonitorUpdate, LbAlgorithm, ListenerProtocol, ListenerUpdate,
        LoadBalancerFilter, MemberUpdate, MonitorParameters, MonitorType, NewHealthMonitor,
        NewListener, NewLoadBalancer, NewMember, NewPool, PoolProtocol, PoolUpdate,
    },
};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{answer, cloud, ok, pairs};

const GATE: Priority = Priority::Gate;

#[tokio::test]
async fn load_balancers() {
    let test = cloud().await;
    let lb = json!({"id": "lb1", "name": "k8s", "description": null, "provisioning_status": "PENDING_CREATE",
        "operating_status": "OFFLINE", "provider": "amphora", "vip_address": "10.0.0.5",
        "vip_port_id": "port1", "tags": null, "listeners": [], "pools": [{"id": "p1"}],
        "updated_at": null, "a_new_field": {"x": 1}});
    let list = json!({"loadbalancers": [lb], "loadbalancers_links": []});
    answer(&test, "GET", "/lb/v2/lbaas/loadbalancers", ok(list)).await;
    answer(
        &test,
        "POST",
        "/lb/v2/lbaas/loadbalancers",
        ResponseTemplate::new(201).set_body_json(json!({"loadbalancer": lb})),
    )
    .await;
    answer(
        &test,
        "DELETE",
        "/lb/v2/lbaas/loadbalancers/lb1",
        ResponseTemplate::new(204),
    )
    .await;

    let filter = LoadBalancerFilter {
        name: Some("a b&c".into()),
        project_id: Some("p".into()),
        ..Default::default()
    };
    let found = test.cloud.load_balancers(&filter, GATE).await.unwrap();
    assert_eq!(
        found[0].provisioning_status,
        ProvisioningStatus::PendingCreate
    );
    assert_eq!(found[0].vip_address, Some([10, 0, 0, 5].into()));
    assert_eq!(found[0].pools[0].id, "p1");
    let (query, _) = test.the_request("GET", "/lb/v2/lbaas/loadbalancers").await;
    assert_eq!(
        query,
        pairs(&[("name", "a b&c"), ("project_id", "p"), ("limit", "1000")])
    );

    let new = NewLoadBalancer {
        name: "k8s".into(),
        vip_subnet_id: Some("s".into()),
        provider: Some("amphora".into()),
        ..Default::default()
    };
    test.cloud.create_load_balancer(&new, GATE).await.unwrap();
    let (_, body) = test.the_request("POST", "/lb/v2/lbaas/loadbalancers").await;
    assert_eq!(
        body,
        json!({"loadbalancer": {"name": "k8s", "vip_subnet_id": "s", "provider": "amphora"}})
    );
    test.cloud
        .delete_load_balancer(&"lb1".into(), GATE)
        .await
        .unwrap();
    let (query, _) = test
        .the_request("DELETE", "/lb/v2/lbaas/loadbalancers/lb1")
        .await;
    assert_eq!(query, pairs(&[("cascade", "true")]));
}

#[tokio::test]
async fn the_status_tree() {
    let test = cloud().await;
    let member = |id: &str, status: &str| {
        json!({"id": id, "name": format!("lb-6443-{id}"), "provisioning_status": status,
            "operating_status": "NO_MONITOR", "address": "10.0.0.1", "protocol_port": 6443})
    };
    let pool = json!({"id": "p1", "name": "lb-6443", "provisioning_status": "ACTIVE",
        "operating_status": "ONLINE", "health_monitor": {"id": "h1", "name": "lb-6443", "type": "TCP",
        "provisioning_status": "ACTIVE", "operating_status": "ONLINE"},
        "members": [member("m1", "ACTIVE"), member("m2", "PENDING_CREATE"), member("m3", "SLEEPING")]});
    let other = json!({"id": "p2", "name": "lb-80", "provisioning_status": "ERROR",
        "operating_status": "OFFLINE", "healthmonitor": {}, "members": null});
    let listener = |id: &str, pools: serde_json::Value| json!({"id": id, "name": id, "provisioning_status": "ACTIVE", "operating_status": "ONLINE", "pools": pools});
    let tree = json!({"statuses": {"loadbalancer": {"id": "lb1", "name": "lb",
        "provisioning_status": "ACTIVE", "operating_status": "ONLINE",
        "listeners": [listener("l1", json!([pool])), listener("l2", json!([pool, other]))]}}});
    answer(
        &test,
        "GET",
        "/lb/v2/lbaas/loadbalancers/lb1/status",
        ok(tree),
    )
    .await;
    let tree = test.cloud.status_tree(&"lb1".into(), GATE).await.unwrap();
    assert_eq!(tree.listeners.len(), 2);
    assert_eq!(tree.listeners[1].pools, ["p1", "p2"]);
    assert_eq!(tree.pools.len(), 2, "a shared pool comes once");
    let shared = &tree.pools[0];
    assert_eq!(
        shared.health_monitor.as_ref().unwrap().monitor_type,
        MonitorType::Tcp
    );
    let statuses: Vec<_> = shared
        .members
        .iter()
        .map(|member| member.provisioning_status.clone())
        .collect();
    assert_eq!(
        statuses,
        [
            ProvisioningStatus::Active,
            ProvisioningStatus::PendingCreate,
            ProvisioningStatus::Unknown("SLEEPING".into())
        ]
    );
    assert_eq!(
        shared.members[0].operating_status,
        OperatingStatus::NoMonitor
    );
    assert!(tree.pools[1].health_monitor.is_none() && tree.pools[1].members.is_empty());
}

#[tokio::test]
async fn listeners_pools_and_monitors() {
    let test = cloud().await;
    let listener = json!({"id": "l1", "name": "lb-6443", "provisioning_status": "ACTIVE", "protocol": "TCP",
        "protocol_port": 6443, "default_pool_id": null, "allowed_cidrs": ["10.0.0.0/8", "nonsense"]});
    let pool = json!({"id": "p1", "name": "lb-6443", "provisioning_status": "ACTIVE", "protocol": "TCP",
        "lb_algorithm": "LEAST_BUSY", "members": [{"id": "m1"}]});
    let monitor = json!({"id": "h1", "name": "lb-6443", "provisioning_status": "ACTIVE", "type": "TCP",
        "delay": 10, "timeout": 5, "max_retries": 5, "max_retries_down": 3, "pools": [{"id": "p1"}]});
    for (kind, object) in [
        ("listener", &listener),
        ("pool", &pool),
        ("healthmonitor", &monitor),
    ] {
        let list = format!("/lb/v2/lbaas/{kind}s");
        let one = format!("{list}/{}", object["id"].as_str().unwrap());
        answer(
            &test,
            "GET",
            &list,
            ok(json!({format!("{kind}s"): [object]})),
        )
        .await;
        answer(&test, "POST", &list, ok(json!({ kind: object }))).await;
        answer(&test, "PUT", &one, ok(json!({ kind: object }))).await;
        answer(&test, "GET", &one, ok(json!({ kind: object }))).await;
    }
    let cloud = &test.cloud;
    let found = cloud.listeners(&"lb1".into(), GATE).await.unwrap();
    assert_eq!(found[0].allowed_cidrs, ["10.0.0.0/8".parse().unwrap()]);
    let found = cloud.pools(&"lb1".into(), GATE).await.unwrap();
    assert_eq!(
        found[0].lb_algorithm,
        LbAlgorithm::Unknown("LEAST_BUSY".into())
    );
    let filter = HealthMonitorFilter {
        pool_id: Some("p1".into()),
        ..Default::default()
    };
    cloud.health_monitors(&filter, GATE).await.unwrap();
    let found = cloud.health_monitor(&"h1".into(), GATE).await.unwrap();
    assert_eq!(
        (found.parameters.delay, found.parameters.max_retries_down),
        (10, 3)
    );

    let new = NewListener {
        loadbalancer_id: "lb1".into(),
        name: "lb-6443".into(),
        protocol: ListenerProtocol::Tcp,
        protocol_port: 6443,
        allowed_cidrs: Some(vec!["10.0.0.0/8".parse().unwrap()]),
        tags: vec!["t".into()],
    };
    cloud.create_listener(&new, GATE).await.unwrap();
    let (_, body) = test.the_request("POST", "/lb/v2/lbaas/listeners").await;
    assert_eq!(
        body,
        json!({"listener": {"loadbalancer_id": "lb1", "name": "lb-6443", "protocol": "TCP",
            "protocol_port": 6443, "allowed_cidrs": ["10.0.0.0/8"], "tags": ["t"]}})
    );
    let update = ListenerUpdate {
        allowed_cidrs: Some(vec![]),
        ..Default::default()
    };
    cloud
        .update_listener(&"l1".into(), &update, GATE)
        .await
        .unwrap();
    let (_, body) = test.the_request("PUT", "/lb/v2/lbaas/listeners/l1").await;
    assert_eq!(body, json!({"listener": {"allowed_cidrs": []}}));

    let new = NewPool {
        name: "lb-6443".into(),
        protocol: PoolProtocol::Tcp,
        lb_algorithm: LbAlgorithm::RoundRobin,
        listener_id: Some("l1".into()),
        loadbalancer_id: None,
        tags: vec![],
    };
    cloud.create_pool(&new, GATE).await.unwrap();
    let (_, body) = test.the_request("POST", "/lb/v2/lbaas/pools").await;
    assert_eq!(
        body,
        json!({"pool": {"name": "lb-6443", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listener_id": "l1"}})
    );
    cloud
        .update_pool(&"p1".into(), &PoolUpdate::default(), GATE)
        .await
        .unwrap();
    let (_, body) = test.the_request("PUT", "/lb/v2/lbaas/pools/p1").await;
    assert_eq!(
        body,
        json!({"pool": {}}),
        "an empty write is how a pool is pushed again"
    );

    let new = NewHealthMonitor {
        pool_id: "p1".into(),
        name: "lb-6443".into(),
        monitor_type: MonitorType::Https,
        url_path: Some("/readyz".into()),
        parameters: MonitorParameters {
            delay: 10,
            timeout: 5,
            max_retries: 5,
            max_retries_down: 3,
        },
    };
    cloud.create_health_monitor(&new, GATE).await.unwrap();
    let (_, body) = test
        .the_request("POST", "/lb/v2/lbaas/healthmonitors")
        .await;
    let asks = ["type", "url_path"].map(|field| body["healthmonitor"][field].clone());
    assert_eq!(asks, [json!("HTTPS"), json!("/readyz")]);
    let update = HealthMonitorUpdate {
        parameters: Some(MonitorParameters {
            delay: 5,
            ..new.parameters
        }),
    };
    cloud
        .update_health_monitor(&"h1".into(), &update, GATE)
        .await
        .unwrap();
    let (_, body) = test
        .the_request("PUT", "/lb/v2/lbaas/healthmonitors/h1")
        .await;
    let sent = json!({"delay": 5, "timeout": 5, "max_retries": 5, "max_retries_down": 3});
    assert_eq!(body, json!({"healthmonitor": sent}));
}

#[tokio::test]
async fn members() {
    let test = cloud().await;
    let member = json!({"id": "m1", "name": "lb-6443-a", "provisioning_status": "ERROR",
        "operating_status": "DRAINING", "address": "fd00::1", "protocol_port": 6443, "weight": 0,
        "backup": false, "subnet_id": null, "admin_state_up": false, "tags": ["capo-rs-joining"],
        "monitor_address": null, "monitor_port": null, "created_at": "2026-11-21T12:00:00", "updated_at": null});
    let at = "/lb/v2/lbaas/pools/p1/members";
    answer(&test, "GET", at, ok(json!({"members": [member]}))).await;
    answer(&test, "POST", at, ok(json!({ "member": member }))).await;
    answer(
        &test,
        "PUT",
        &format!("{at}/m1"),
        ok(json!({ "member": member })),
    )
    .await;
    answer(
        &test,
        "DELETE",
        &format!("{at}/m1"),
        ResponseTemplate::new(204),
    )
    .await;
    let cloud = &test.cloud;
    let found = cloud.members(&"p1".into(), GATE).await.unwrap();
    assert_eq!(found[0].weight, 0);
    assert!(!found[0].admin_state_up);
    let new = NewMember {
        name: "lb-6443-a".into(),
        address: [10, 0, 0, 1].into(),
        protocol_port: 6443,
        subnet_id: None,
        weight: None,
        admin_state_up: true,
        tags: vec![],
    };
    cloud.create_member(&"p1".into(), &new, GATE).await.unwrap();
    let (_, body) = test.the_request("POST", at).await;
    assert_eq!(
        body,
        json!({"member": {"name": "lb-6443-a", "address": "10.0.0.1", "protocol_port": 6443, "admin_state_up": true}})
    );
    let update = MemberUpdate {
        weight: Some(0),
        tags: Some(vec![]),
        ..Default::default()
    };
    cloud
        .update_member(&"p1".into(), &"m1".into(), &update, GATE)
        .await
        .unwrap();
    let (_, body) = test.the_request("PUT", &format!("{at}/m1")).await;
    assert_eq!(body, json!({"member": {"weight": 0, "tags": []}}));
    cloud
        .delete_member(&"p1".into(), &"m1".into(), GATE)
        .await
        .unwrap();
    test.the_request("DELETE", &format!("{at}/m1")).await;
}

#[tokio::test]
async fn providers_flavors_and_versions() {
    let test = cloud().await;
    answer(
        &test,
        "GET",
        "/lb/v2/lbaas/providers",
        ok(json!({"providers": [{"name": "amphora", "description": "x"}, {"name": "ovn"}]})),
    )
    .await;
    answer(
        &test,
        "GET",
        "/lb/v2/lbaas/flavors",
        ok(json!({"flavors": [{"id": "f", "name": "big", "enabled": true}]})),
    )
    .await;
    answer(
        &test,
        "GET",
        "/lb/",
        ok(json!({"versions": [{"id": "v2.0"}, {"id": "v2.9"}, {"id": "v2.30", "status": "CURRENT"}]})),
    )
    .await;
    let providers = test.cloud.load_balancer_providers(GATE).await.unwrap();
    assert_eq!(providers[1].name, "ovn");
    let flavors = test.cloud.load_balancer_flavors("big", GATE).await.unwrap();
    assert_eq!(flavors[0].id, "f");
    for _ in 0..3 {
        let version = test.cloud.load_balancer_api_version(GATE).await.unwrap();
        assert_eq!(version, ApiVersion::new(2, 30));
    }
    assert_eq!(test.requests("GET", "/lb/").await.len(), 1, "asked once");
}
