//! Glance's and Cinder's requests and answers.

use capo_core::Priority;
use capo_openstack::{
    image::{ImageFilter, ImageStatus},
    volume::{NewVolume, VolumeStatus},
};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::{PROJECT, answer, cloud, ok, pairs};

const GATE: Priority = Priority::Gate;

#[tokio::test]
async fn images() {
    let test = cloud().await;
    let image = json!({"id": "i1", "name": "ubuntu", "status": "active", "tags": ["t"], "min_disk": 10,
        "os_type": "linux", "hw_disk_bus": "scsi"});
    answer(
        &test,
        "GET",
        "/image/v2/images",
        ok(json!({"images": [image], "first": "/v2/images"})),
    )
    .await;
    answer(&test, "GET", "/image/v2/images/i1", ok(image)).await;
    let filter = ImageFilter {
        name: Some("ubuntu".into()),
        tags: vec!["t".into(), "u".into()],
    };
    let found = test.cloud.images(&filter, GATE).await.unwrap();
    assert_eq!(found[0].status, ImageStatus::Active);
    let (query, _) = test.the_request("GET", "/image/v2/images").await;
    assert_eq!(
        query,
        pairs(&[
            ("name", "ubuntu"),
            ("tag", "t"),
            ("tag", "u"),
            ("limit", "1000")
        ])
    );
    assert_eq!(
        test.cloud.image(&"i1".into(), GATE).await.unwrap(),
        found[0]
    );
}

#[tokio::test]
async fn volumes() {
    let test = cloud().await;
    let volume = json!({"id": "v1", "name": "m-root", "status": "error_managing", "size": 20,
        "availability_zone": "nova", "volume_type": "fast", "multiattach": false,
        "attachments": [{"server_id": "s1", "device": "/dev/vda"}]});
    let at = format!("/volume/v3/{PROJECT}/volumes");
    answer(
        &test,
        "GET",
        &format!("{at}/detail"),
        ok(json!({"volumes": [volume]})),
    )
    .await;
    answer(
        &test,
        "GET",
        &format!("{at}/v1"),
        ok(json!({ "volume": volume })),
    )
    .await;
    let accepted = ResponseTemplate::new(202).set_body_json(json!({ "volume": volume }));
    answer(&test, "POST", &at, accepted).await;
    answer(
        &test,
        "DELETE",
        &format!("{at}/v1"),
        ResponseTemplate::new(202),
    )
    .await;
    let found = test.cloud.volumes("m-root", GATE).await.unwrap();
    assert_eq!(
        found[0].status,
        VolumeStatus::Unknown("error_managing".into())
    );
    assert_eq!(found[0].attachments[0].server_id, "s1");
    assert_eq!(
        test.cloud.volume(&"v1".into(), GATE).await.unwrap(),
        found[0]
    );
    let new = NewVolume {
        name: "m-root".into(),
        size: 20,
        image_id: Some("i1".into()),
        ..Default::default()
    };
    test.cloud.create_volume(&new, GATE).await.unwrap();
    let (_, body) = test.the_request("POST", &at).await;
    assert_eq!(
        body,
        json!({"volume": {"name": "m-root", "size": 20, "imageRef": "i1"}})
    );
    test.cloud.delete_volume(&"v1".into(), GATE).await.unwrap();
}
