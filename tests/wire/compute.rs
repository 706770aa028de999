//! Nova's requests and answers, and its microversions.

use std::collections::BTreeMap;

use capo_core::{FailureClass, Priority};
use capo_openstack::{
    LeaseToken,
    compute::{BlockDevice, NewServer, ServerFilter, ServerStatus},
};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{answer, bare_cloud, cloud, ok, pairs, settings, token};

const GATE: Priority = Priority::Gate;

fn version(newest: &str) -> ResponseTemplate {
    ok(json!({"version": {"id": "v2.1", "version": newest, "min_version": "2.1"}}))
}

#[tokio::test]
async fn servers() {
    let test = cloud().await;
    let server = |name: &str| {
        json!({"id": "s1", "name": name, "status": "ACTIVE", "tenant_id": "p",
        "addresses": {"net": [{"addr": "10.6.0.7", "version": 4, "OS-EXT-IPS:type": "fixed",
            "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}]},
        "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:task_state": null, "fault": null,
        "os-extended-volumes:volumes_attached": [{"id": "v1", "delete_on_termination": true}]})
    };
    let list = json!({"servers": [server("a.b"), server("axb")]});
    answer(&test, "GET", "/compute/v2.1/servers/detail", ok(list)).await;
    answer(
        &test,
        "GET",
        "/compute/v2.1/servers/s1",
        ok(
            json!({"server": {"id": "s1", "name": "a", "status": "VERIFY_RESIZE", "addresses": {},
            "fault": {"code": 500, "message": "No valid host was found."}}}),
        ),
    )
    .await;
    answer(
        &test,
        "DELETE",
        "/compute/v2.1/servers/s1",
        ResponseTemplate::new(204),
    )
    .await;
    let filter = ServerFilter {
        name: Some("a.b".into()),
        tags: vec!["t".into()],
    };
    let found = test.cloud.servers(&filter, GATE).await.unwrap();
    assert_eq!(found.len(), 1, "the pattern's other hit is none");
    assert_eq!(
        found[0].addresses["net"][0].address,
        Some([10, 6, 0, 7].into())
    );
    let (query, _) = test
        .the_request("GET", "/compute/v2.1/servers/detail")
        .await;
    assert_eq!(
        query,
        pairs(&[("name", "^a\\.b$"), ("tags", "t"), ("limit", "1000")])
    );
    let one = test.cloud.server(&"s1".into(), GATE).await.unwrap();
    assert_eq!(one.status, ServerStatus::Unknown("VERIFY_RESIZE".into()));
    assert_eq!(one.fault.unwrap().message, "No valid host was found.");
    test.cloud.delete_server(&"s1".into(), GATE).await.unwrap();
    assert_eq!(
        test.requests("GET", "/compute/v2.1/").await.len(),
        1,
        "versions are requested once"
    );
}

#[tokio::test]
async fn a_new_server() {
    let test = cloud().await;
    let created = ResponseTemplate::new(202)
        .set_body_json(json!({"server": {"id": "s1", "adminPass": "x", "links": []}}));
    answer(&test, "POST", "/compute/v2.1/servers", created).await;
    let new = NewServer {
        name: "m".into(),
        flavor_id: "f".into(),
        key_name: Some("k".into()),
        port_ids: vec!["p1".into(), "p2".into()],
        availability_zone: Some("z".into()),
        user_data: Some(b"#cloud-config\n\xff".to_vec().into()),
        metadata: BTreeMap::from([("a".into(), "b".into())]),
        config_drive: Some(true),
        tags: vec!["t".into()],
        block_devices: vec![BlockDevice {
            source_type: "volume",
            destination_type: "volume",
            uuid: Some("v".into()),
            boot_index: 0,
            delete_on_termination: true,
            volume_size: None,
            tag: None,
        }],
        server_group_id: Some("g".into()),
        ..Default::default()
    };
    assert_eq!(test.cloud.create_server(&new, GATE).await.unwrap(), "s1");
    let (_, body) = test.the_request("POST", "/compute/v2.1/servers").await;
    assert_eq!(
        body,
        json!({"server": {"name": "m", "imageRef": "", "flavorRef": "f", "key_name": "k",
            "networks": [{"port": "p1"}, {"port": "p2"}], "availability_zone": "z",
            "user_data": "I2Nsb3VkLWNvbmZpZwr/", "metadata": {"a": "b"}, "config_drive": true, "tags": ["t"],
            "block_device_mapping_v2": [{"source_type": "volume", "destination_type": "volume",
                "uuid": "v", "boot_index": 0, "delete_on_termination": true}],
            "min_count": 1, "max_count": 1},
            "os:scheduler_hints": {"group": "g"}})
    );
    let sent = test.requests("POST", "/compute/v2.1/servers").await;
    assert_eq!(
        sent[0].headers.get("openstack-api-version").unwrap(),
        "compute 2.53"
    );
    assert_eq!(
        sent[0].headers.get("x-openstack-nova-api-version").unwrap(),
        "2.53"
    );
    assert!(!format!("{new:?}").contains("cloud-config"));
}

#[tokio::test]
async fn a_nova_that_is_too_old_is_an_error() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    answer(
        &test,
        "POST",
        "/identity/v3/auth/tokens",
        token(&test.server.uri(), 3600),
    )
    .await;
    answer(&test, "GET", "/compute/v2.1/", version("2.42")).await;
    let new = NewServer {
        multiattach: true,
        ..Default::default()
    };
    let error = test.cloud.create_server(&new, GATE).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::NoService);
    assert_eq!(
        error.to_string(),
        "server_create: needs compute API 2.60; offered is 2.42"
    );
    assert!(
        test.requests("POST", "/compute/v2.1/servers")
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_redirect_to_the_same_place_is_followed_and_no_other() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    answer(
        &test,
        "POST",
        "/identity/v3/auth/tokens",
        token(&test.server.uri(), 3600),
    )
    .await;
    let there = ResponseTemplate::new(302).insert_header("Location", "/elsewhere/");
    answer(&test, "GET", "/compute/v2.1/", there).await;
    answer(&test, "GET", "/elsewhere/", version("2.96")).await;
    test.cloud.compute_api_version(GATE).await.unwrap();

    let other = wiremock::MockServer::start().await;
    let away = ResponseTemplate::new(302).insert_header("Location", format!("{}/x", other.uri()));
    answer(&test, "GET", "/compute/v2.1/servers/s1", away.clone()).await;
    answer(&test, "POST", "/compute/v2.1/servers", away).await;
    let error = test.cloud.server(&"s1".into(), GATE).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Invalid);
    assert_eq!(
        error.to_string(),
        "server_get: compute redirects to another place (HTTP 302), which is not followed"
    );
    test.cloud
        .create_server(&NewServer::default(), GATE)
        .await
        .unwrap_err();
    assert!(
        other.received_requests().await.unwrap().is_empty(),
        "the token is not sent to another host"
    );
}

#[tokio::test]
async fn flavors_zones_and_groups() {
    let test = cloud().await;
    let flavor = json!({"id": "f1", "name": "m1", "vcpus": 2, "ram": 4096, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 1});
    answer(
        &test,
        "GET",
        "/compute/v2.1/flavors/detail",
        ok(json!({"flavors": [flavor]})),
    )
    .await;
    answer(
        &test,
        "GET",
        "/compute/v2.1/flavors/f1",
        ok(json!({ "flavor": flavor })),
    )
    .await;
    let zones = json!({"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": true}, "hosts": null}]});
    answer(
        &test,
        "GET",
        "/compute/v2.1/os-availability-zone",
        ok(zones),
    )
    .await;
    let groups =
        json!({"server_groups": [{"id": "g1", "name": "g", "policies": ["anti-affinity"]}]});
    answer(&test, "GET", "/compute/v2.1/os-server-groups", ok(groups)).await;
    let flavors = test.cloud.flavors(GATE).await.unwrap();
    assert_eq!((flavors[0].ram, flavors[0].ephemeral), (4096, 1));
    assert_eq!(
        test.cloud.flavor(&"f1".into(), GATE).await.unwrap(),
        flavors[0]
    );
    assert!(test.cloud.availability_zones(GATE).await.unwrap()[0].available);
    let groups = test.cloud.server_groups(GATE).await.unwrap();
    assert_eq!(groups[0].id, "g1");
    assert_eq!(groups[0].policies, ["anti-affinity"]);
    assert!(groups[0].members.is_empty());
}

#[tokio::test]
async fn a_server_group_is_created_with_one_policy_and_deleted() {
    let test = cloud().await;
    let created = json!({"server_group": {"id": "g1", "name": "g", "policies": ["soft-anti-affinity"], "members": []}});
    let at = "/compute/v2.1/os-server-groups";
    answer(&test, "POST", at, ok(created)).await;
    let gone = wiremock::ResponseTemplate::new(204);
    answer(&test, "DELETE", &format!("{at}/g1"), gone).await;
    let cloud = &test.cloud;
    let group = cloud
        .create_server_group("g", "soft-anti-affinity", GATE)
        .await
        .unwrap();
    cloud.delete_server_group(&group.id, GATE).await.unwrap();
    let all = test.server.received_requests().await.unwrap();
    let sent = all.iter().find(|request| request.url.path() == at).unwrap();
    assert_eq!(
        sent.body_json::<serde_json::Value>().unwrap(),
        json!({"server_group": {"name": "g", "policies": ["soft-anti-affinity"]}})
    );
    assert_eq!(
        sent.headers["openstack-api-version"].to_str().unwrap(),
        "compute 2.38"
    );
}
