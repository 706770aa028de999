//! Networks, subnets, routers, floating IPs and ports.

use capo_core::FailureClass;
use capo_openstack::network::{
    ExternalGateway, FixedIp, FloatingIpFilter, NetworkFilter, NewFloatingIp, NewPort, NewRouter,
    PortFilter, RouterFilter, RouterInterface, SubnetFilter, SubnetUpdate, TagFilter, Tagged,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CloudUnderTest, Contract, GATE, refused};

fn tags(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

pub async fn networks_subnets_and_filters(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let project = cloud.project_id().await.unwrap();
    assert!(
        cloud
            .network_extensions(GATE)
            .await
            .unwrap()
            .contains("standard-attr-tag")
    );
    let (network, subnet) = contract.network("10.61.0.0/24").await;
    assert_eq!(network.project_id.as_ref(), Some(&project));
    assert!(!network.external && network.tags.is_empty());
    assert_eq!(subnet.gateway_ip, Some([10, 61, 0, 1].into()));
    assert_eq!(subnet.allocation_pools[0].start, "10.61.0.2");

    let set = tags(&["a", "b:c=d"]);
    cloud
        .replace_tags(Tagged::Network(&network.id), &set, GATE)
        .await
        .unwrap();
    let named = |tags| NetworkFilter {
        name: Some(contract.name.clone()),
        project_id: Some(project.clone()),
        tags,
        ..NetworkFilter::default()
    };
    let hits = async |filter| cloud.networks(&named(filter), GATE).await.unwrap().len();
    assert_eq!(hits(TagFilter::default()).await, 1);
    assert_eq!(
        hits(TagFilter {
            tags: tags(&["a", "b:c=d"]),
            ..TagFilter::default()
        })
        .await,
        1
    );
    assert_eq!(
        hits(TagFilter {
            tags: tags(&["a", "x"]),
            ..TagFilter::default()
        })
        .await,
        0
    );
    assert_eq!(
        hits(TagFilter {
            tags_any: tags(&["a", "x"]),
            ..TagFilter::default()
        })
        .await,
        1
    );
    assert_eq!(
        hits(TagFilter {
            not_tags: tags(&["a", "x"]),
            ..TagFilter::default()
        })
        .await,
        1
    );
    assert_eq!(
        hits(TagFilter {
            not_tags_any: tags(&["a", "x"]),
            ..TagFilter::default()
        })
        .await,
        0
    );
    cloud
        .replace_tags(Tagged::Network(&network.id), &[], GATE)
        .await
        .unwrap();
    let read = cloud.network(&network.id, GATE).await.unwrap();
    assert!(read.tags.is_empty());
    assert_eq!(read.subnets.as_slice(), std::slice::from_ref(&subnet.id));
    let part = NetworkFilter {
        name: Some(contract.name[..12].to_owned()),
        ..NetworkFilter::default()
    };
    assert!(
        cloud.networks(&part, GATE).await.unwrap().is_empty(),
        "names match whole"
    );
    let external = NetworkFilter {
        external: Some(true),
        ..NetworkFilter::default()
    };
    let external = cloud.networks(&external, GATE).await.unwrap();
    assert!(!external.is_empty() && external.iter().all(|network| network.external));

    let by_range = |cidr: &str| SubnetFilter {
        network_id: Some(network.id.clone()),
        cidr: Some(cidr.parse().unwrap()),
        ..SubnetFilter::default()
    };
    assert_eq!(
        cloud
            .subnets(&by_range("10.61.0.0/24"), GATE)
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(
        cloud
            .subnets(&by_range("10.61.0.0/25"), GATE)
            .await
            .unwrap()
            .is_empty()
    );
    let update = SubnetUpdate {
        dns_nameservers: Some(vec!["10.9.9.9".into()]),
    };
    let changed = cloud
        .update_subnet(&subnet.id, &update, GATE)
        .await
        .unwrap();
    assert_eq!(
        changed.dns_nameservers,
        [std::net::IpAddr::from([10, 9, 9, 9])]
    );
    let overlapping = contract.subnet_of(&network, "10.61.0.0/25");
    let error = refused(cloud.create_subnet(&overlapping, GATE).await);
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");

    cloud.delete_network(&network.id, GATE).await.unwrap();
    assert!(refused(cloud.network(&network.id, GATE).await).is_not_found());
    assert!(
        refused(cloud.subnet(&subnet.id, GATE).await).is_not_found(),
        "it goes along"
    );
    assert!(refused(cloud.delete_network(&network.id, GATE).await).is_not_found());
}

pub async fn routers_and_floating_ips(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (network, subnet) = contract.network("10.62.0.0/24").await;
    let external = NetworkFilter {
        external: Some(true),
        ..NetworkFilter::default()
    };
    let external = cloud.networks(&external, GATE).await.unwrap().remove(0);
    let new = NewRouter {
        name: contract.name.clone(),
        description: "a contract".into(),
        external_gateway_info: Some(ExternalGateway {
            network_id: external.id.clone(),
            external_fixed_ips: vec![],
        }),
    };
    let router = cloud.create_router(&new, GATE).await.unwrap();
    let gateway = router.external_gateway_info.as_ref().unwrap();
    assert_eq!(gateway.network_id, external.id);
    assert!(gateway.external_fixed_ips[0].ip_address.is_some());
    let filter = RouterFilter {
        name: Some(contract.name.clone()),
        description: Some("a contract".into()),
        ..RouterFilter::default()
    };
    assert_eq!(cloud.routers(&filter, GATE).await.unwrap().len(), 1);

    let interface = RouterInterface::Subnet(&subnet.id);
    cloud
        .add_router_interface(&router.id, interface, GATE)
        .await
        .unwrap();
    let again = refused(
        cloud
            .add_router_interface(&router.id, interface, GATE)
            .await,
    );
    assert_eq!(again.class(), FailureClass::Invalid, "{again}");
    let of_router = PortFilter {
        device_id: Some(router.id.to_string()),
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    let ports = cloud.ports(&of_router, GATE).await.unwrap();
    assert_eq!(ports.len(), 1);
    assert!(
        ports[0].device_owner.starts_with("network:"),
        "{}",
        ports[0].device_owner
    );
    assert_eq!(ports[0].fixed_ips[0].ip_address, subnet.gateway_ip);
    let busy = refused(cloud.delete_network(&network.id, GATE).await);
    assert!(busy.is(FailureClass::InUse), "{busy}");
    let busy = refused(cloud.delete_router(&router.id, GATE).await);
    assert!(busy.is(FailureClass::InUse), "{busy}");

    let new = NewPort {
        name: contract.name.clone(),
        network_id: network.id.clone(),
        ..NewPort::default()
    };
    let port = cloud.create_port(&new, GATE).await.unwrap();
    let new = NewFloatingIp {
        floating_network_id: external.id.clone(),
        description: contract.name.clone(),
        ..NewFloatingIp::default()
    };
    let ip = cloud.create_floating_ip(&new, GATE).await.unwrap();
    assert_eq!(ip.port_id, None);
    let on = cloud
        .associate_floating_ip(&ip.id, Some(&port.id), GATE)
        .await
        .unwrap();
    assert_eq!(on.port_id.as_ref(), Some(&port.id));
    assert_eq!(on.fixed_ip_address, port.fixed_ips[0].ip_address);
    assert_eq!(on.router_id.as_ref(), Some(&router.id));
    for filter in [
        FloatingIpFilter {
            port_id: Some(port.id.clone()),
            ..FloatingIpFilter::default()
        },
        FloatingIpFilter {
            floating_ip_address: ip.floating_ip_address,
            ..FloatingIpFilter::default()
        },
        FloatingIpFilter {
            description: Some(contract.name.clone()),
            ..FloatingIpFilter::default()
        },
    ] {
        let found = cloud.floating_ips(&filter, GATE).await.unwrap();
        assert_eq!(found.len(), 1, "{filter:?}");
        assert_eq!(found[0].id, ip.id);
    }
    let bound = refused(
        cloud
            .remove_router_interface(&router.id, interface, GATE)
            .await,
    );
    assert!(bound.class().is_conflict(), "{bound}");
    let off = cloud
        .associate_floating_ip(&ip.id, None, GATE)
        .await
        .unwrap();
    assert_eq!(off.port_id, None);
    cloud
        .associate_floating_ip(&ip.id, Some(&port.id), GATE)
        .await
        .unwrap();
    let url = contract
        .raw
        .address("network", &format!("floatingips/{}", ip.id));
    let nothing = json!({"floatingip": {}});
    let (status, off) = contract.raw.send(Method::PUT, &url, Some(nothing)).await;
    assert_eq!(
        (status, &off["floatingip"]["port_id"]),
        (200, &Value::Null),
        "an update that does not name the port takes it off"
    );
    cloud.delete_floating_ip(&ip.id, GATE).await.unwrap();
    assert!(refused(cloud.floating_ip(&ip.id, GATE).await).is_not_found());
    cloud.delete_port(&port.id, GATE).await.unwrap();
    cloud
        .remove_router_interface(&router.id, interface, GATE)
        .await
        .unwrap();
    let gone = refused(
        cloud
            .remove_router_interface(&router.id, interface, GATE)
            .await,
    );
    assert!(gone.is_not_found(), "{gone}");
    cloud.delete_router(&router.id, GATE).await.unwrap();
    contract.delete_network(&network).await;
}

pub async fn ports_of_a_network(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (network, subnet) = contract.network("10.63.0.0/24").await;
    let address: std::net::IpAddr = [10, 63, 0, 77].into();
    let new = NewPort {
        name: format!("{}-0", contract.name),
        network_id: network.id.clone(),
        description: "of a contract".into(),
        fixed_ips: vec![FixedIp {
            subnet_id: Some(subnet.id.clone()),
            ip_address: Some(address),
        }],
        security_groups: Some(vec![]),
        ..NewPort::default()
    };
    let port = cloud.create_port(&new, GATE).await.unwrap();
    assert_eq!(port.fixed_ips, new.fixed_ips);
    assert!(port.security_groups.is_empty() && port.device_id.is_empty() && port.admin_state_up);
    let taken = refused(cloud.create_port(&new, GATE).await);
    assert!(taken.is(FailureClass::InUse), "{taken}");
    let second = NewPort {
        name: format!("{}-1", contract.name),
        network_id: network.id.clone(),
        ..NewPort::default()
    };
    let second = cloud.create_port(&second, GATE).await.unwrap();
    assert_eq!(
        second.security_groups.len(),
        1,
        "the project's default group"
    );
    let here = || PortFilter {
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    let count = async |filter| cloud.ports(&filter, GATE).await.unwrap().len();
    assert_eq!(count(here()).await, 2);
    assert_eq!(
        count(PortFilter {
            name: Some(port.name.clone()),
            ..here()
        })
        .await,
        1
    );
    assert_eq!(
        count(PortFilter {
            name: Some(contract.name.clone()),
            ..here()
        })
        .await,
        0
    );
    assert_eq!(
        count(PortFilter {
            ip_address: Some(address),
            ..here()
        })
        .await,
        1
    );
    let ids = vec![port.id.clone(), second.id.clone()];
    assert_eq!(
        count(PortFilter {
            ids,
            ..PortFilter::default()
        })
        .await,
        2
    );
    cloud.delete_port(&port.id, GATE).await.unwrap();
    assert!(refused(cloud.port(&port.id, GATE).await).is_not_found());
    cloud.delete_port(&second.id, GATE).await.unwrap();
    contract.delete_network(&network).await;
}
