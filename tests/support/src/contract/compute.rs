//! Nova, Glance and Cinder.

use capo_core::FailureClass;
use capo_openstack::{
    compute::{NewServer, ServerFilter, ServerStatus},
    image::{ImageFilter, ImageStatus},
    network::{NewPort, PortFilter, PortStatus},
    volume::{NewVolume, VolumeStatus},
};

use super::{CloudUnderTest, Contract, GATE, refused};
use crate::waiting::until_true;

async fn image_and_flavor(contract: &Contract) -> (String, String) {
    let filter = ImageFilter {
        name: Some("cirros".into()),
        ..ImageFilter::default()
    };
    let images = contract.cloud.images(&filter, GATE).await.unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].status, ImageStatus::Active);
    let flavors = contract.cloud.flavors(GATE).await.unwrap();
    let flavor = flavors
        .iter()
        .find(|flavor| flavor.name == "m1.tiny")
        .unwrap();
    (images[0].id.to_string(), flavor.id.to_string())
}

pub async fn a_server_on_a_port(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (image, flavor) = image_and_flavor(&contract).await;
    let (network, _) = contract.network("10.65.0.0/24").await;
    let new = NewPort {
        name: contract.name.clone(),
        network_id: network.id.clone(),
        ..NewPort::default()
    };
    let port = cloud.create_port(&new, GATE).await.unwrap();
    let new = NewServer {
        name: contract.name.clone(),
        image_id: Some(image.into()),
        flavor_id: flavor.into(),
        port_ids: vec![port.id.clone()],
        user_data: Some(b"#cloud-config\n".to_vec().into()),
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        tags: vec!["one".into(), "two".into()],
        ..NewServer::default()
    };
    let wrong = NewServer {
        flavor_id: "no-such-flavor".into(),
        ..new.clone()
    };
    let error = refused(cloud.create_server(&wrong, GATE).await);
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");
    let id = cloud.create_server(&new, GATE).await.unwrap();
    let born = cloud.server(&id, GATE).await.unwrap();
    assert!(matches!(
        born.status,
        ServerStatus::Build | ServerStatus::Active
    ));
    until_true("the server is ACTIVE", async || {
        let server = cloud.server(&id, GATE).await.unwrap();
        assert_ne!(server.status, ServerStatus::Error, "{:?}", server.fault);
        server.status == ServerStatus::Active
    })
    .await;
    let filter = |name: &str, tags: &[&str]| ServerFilter {
        name: Some(name.to_owned()),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    let found = cloud
        .servers(&filter(&contract.name, &["one"]), GATE)
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    let server = &found[0];
    assert_eq!(
        (server.id.as_str(), server.metadata["k"].as_str()),
        (id.as_str(), "v")
    );
    assert_eq!(server.project_id, Some(cloud.project_id().await.unwrap()));
    assert_eq!(server.tags, ["one", "two"]);
    assert!(!server.availability_zone.is_empty());
    let address = &server.addresses[&contract.name][0];
    assert_eq!(address.address, port.fixed_ips[0].ip_address);
    assert_eq!(
        (address.kind.as_str(), &address.mac_address),
        ("fixed", &port.mac_address)
    );
    assert!(
        cloud
            .servers(&filter(&contract.name, &["three"]), GATE)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        cloud
            .servers(&filter(&contract.name[..12], &[]), GATE)
            .await
            .unwrap()
            .is_empty()
    );
    let of_server = PortFilter {
        device_id: Some(id.to_string()),
        ..PortFilter::default()
    };
    let ports = cloud.ports(&of_server, GATE).await.unwrap();
    assert_eq!(ports.len(), 1);
    assert!(ports[0].device_owner.starts_with("compute:"));
    until_true("the port is ACTIVE", async || {
        cloud.port(&port.id, GATE).await.unwrap().status == PortStatus::Active
    })
    .await;
    let denied = refused(cloud.delete_port(&port.id, GATE).await);
    assert!(denied.is(FailureClass::Denied), "{denied}");
    let taken = refused(cloud.create_server(&new, GATE).await);
    assert!(
        taken.is(FailureClass::InUse) || taken.class() == FailureClass::Invalid,
        "{taken}"
    );

    cloud.delete_server(&id, GATE).await.unwrap();
    until_true("the server is gone", async || {
        cloud
            .server(&id, GATE)
            .await
            .is_err_and(|error| error.is_not_found())
    })
    .await;
    assert!(refused(cloud.delete_server(&id, GATE).await).is_not_found());
    // A port that was created before its server stays after the server was deleted.
    until_true("the port is free", async || {
        cloud
            .port(&port.id, GATE)
            .await
            .unwrap()
            .device_id
            .is_empty()
    })
    .await;
    cloud.delete_port(&port.id, GATE).await.unwrap();
    contract.delete_network(&network).await;
}

pub async fn lists_that_servers_are_made_from(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (image, flavor) = image_and_flavor(&contract).await;
    assert_eq!(
        cloud
            .image(&image.as_str().into(), GATE)
            .await
            .unwrap()
            .name,
        "cirros"
    );
    let flavor = cloud.flavor(&flavor.as_str().into(), GATE).await.unwrap();
    assert!(flavor.name == "m1.tiny" && flavor.ram >= 512 && flavor.vcpus >= 1);
    let zones = cloud.availability_zones(GATE).await.unwrap();
    assert!(zones.iter().any(|zone| zone.available), "{zones:?}");
    assert!(
        zones.iter().all(|zone| zone.name != "internal"),
        "not for servers"
    );
    cloud.server_groups(GATE).await.unwrap();
    assert!(cloud.compute_api_version(GATE).await.unwrap().minor >= 60);
    let none = ImageFilter {
        name: Some("cirros".into()),
        tags: vec!["no-such-tag".into()],
    };
    assert!(cloud.images(&none, GATE).await.unwrap().is_empty());
}

pub async fn volumes_by_name(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (image, _) = image_and_flavor(&contract).await;
    let new = NewVolume {
        name: contract.name.clone(),
        description: "Root volume for x".into(),
        size: 1,
        image_id: Some(image.into()),
        ..NewVolume::default()
    };
    let volume = cloud.create_volume(&new, GATE).await.unwrap();
    until_true("the volume is available", async || {
        let volume = cloud.volume(&volume.id, GATE).await.unwrap();
        assert_ne!(volume.status, VolumeStatus::Error);
        volume.status == VolumeStatus::Available
    })
    .await;
    let found = cloud.volumes(&contract.name, GATE).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].size, found[0].multiattach), (1, false));
    assert!(
        cloud
            .volumes(&contract.name[..12], GATE)
            .await
            .unwrap()
            .is_empty()
    );
    cloud.delete_volume(&volume.id, GATE).await.unwrap();
    until_true("the volume is gone", async || {
        cloud
            .volume(&volume.id, GATE)
            .await
            .is_err_and(|error| error.is_not_found())
    })
    .await;
}
