//! The notation in which Neutron stores the rules of a security group, and the rules that it treats as equal.

use capo_core::FailureClass;
use capo_openstack::network::{
    Direction, EtherType, NewPort, NewSecurityGroup, NewSecurityGroupRule, SecurityGroup,
    SecurityGroupFilter,
};

use super::{CloudUnderTest, Contract, GATE, refused};

fn ingress(
    group: &SecurityGroup,
    ether_type: EtherType,
    protocol: &str,
    remote_ip_prefix: Option<&str>,
) -> NewSecurityGroupRule {
    NewSecurityGroupRule {
        security_group_id: group.id.clone(),
        description: String::new(),
        direction: Direction::Ingress,
        ether_type,
        protocol: Some(protocol.to_owned()),
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: remote_ip_prefix.map(str::to_owned),
        remote_group_id: None,
        remote_address_group_id: None,
    }
}

pub async fn rules_are_compared_in_neutrons_own_spelling(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let new = NewSecurityGroup {
        name: contract.name.clone(),
        description: String::new(),
    };
    let group = cloud.create_security_group(&new, GATE).await.unwrap();
    for (ether_type, sent, stored, same) in [
        (
            EtherType::Ipv6,
            "icmp",
            "ipv6-icmp",
            ["icmpv6", "ipv6-icmp", "1", "58"].as_slice(),
        ),
        (EtherType::Ipv6, "1", "58", &["icmp"]),
        (EtherType::Ipv4, "icmp", "icmp", &["1"]),
        (EtherType::Ipv4, "6", "6", &["tcp"]),
        (EtherType::Ipv4, "udp", "udp", &["17"]),
    ] {
        let rule = |protocol| ingress(&group, ether_type.clone(), protocol, None);
        let made = cloud
            .create_security_group_rules(&[rule(sent)], GATE)
            .await
            .unwrap();
        assert_eq!(made[0].protocol.as_deref(), Some(stored), "{sent}");
        for again in same {
            let error = refused(
                cloud
                    .create_security_group_rules(&[rule(again)], GATE)
                    .await,
            );
            assert!(
                error.is(FailureClass::Duplicate),
                "{sent}, then {again}: {error}"
            );
        }
        cloud
            .delete_security_group_rule(&made[0].id, GATE)
            .await
            .unwrap();
    }

    let anywhere = ingress(&group, EtherType::Ipv4, "tcp", None);
    let the_same = ingress(&group, EtherType::Ipv4, "tcp", Some("0.0.0.0/0"));
    let within = cloud
        .create_security_group_rules(&[anywhere.clone(), the_same.clone()], GATE)
        .await;
    assert!(refused(within).class().is_conflict(), "in one request");
    cloud
        .create_security_group_rules(&[anywhere], GATE)
        .await
        .unwrap();
    let after = cloud.create_security_group_rules(&[the_same], GATE).await;
    assert!(refused(after).is(FailureClass::Duplicate), "one by one");

    let all_ports = NewSecurityGroupRule {
        port_range_min: Some(1),
        port_range_max: Some(65_535),
        ..ingress(&group, EtherType::Ipv4, "udp", None)
    };
    let made = cloud
        .create_security_group_rules(std::slice::from_ref(&all_ports), GATE)
        .await
        .unwrap();
    let stored = (made[0].port_range_min, made[0].port_range_max);
    assert_eq!(stored, (None, None), "all ports");
    let again = cloud.create_security_group_rules(&[all_ports], GATE).await;
    assert!(refused(again).is(FailureClass::Duplicate), "all ports");

    let born = NewSecurityGroupRule {
        direction: Direction::Egress,
        protocol: None,
        ..ingress(&group, EtherType::Ipv6, "", None)
    };
    let error = refused(cloud.create_security_group_rules(&[born], GATE).await);
    assert!(
        error.is(FailureClass::Duplicate),
        "the group was born with it: {error}"
    );
    let wrong_family = ingress(&group, EtherType::Ipv4, "ipv6-icmp", None);
    let error = refused(
        cloud
            .create_security_group_rules(&[wrong_family], GATE)
            .await,
    );
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");
    cloud.delete_security_group(&group.id, GATE).await.unwrap();
}

pub async fn security_groups_and_rules(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let new = NewSecurityGroup {
        name: contract.name.clone(),
        description: "Cluster API managed group".into(),
    };
    let group = cloud.create_security_group(&new, GATE).await.unwrap();
    let born: Vec<_> = group
        .rules
        .iter()
        .map(|rule| (&rule.direction, &rule.ether_type))
        .collect();
    assert_eq!(born.len(), 2, "everything may go out");
    assert!(
        born.iter()
            .all(|(direction, _)| **direction == Direction::Egress)
    );
    let rule = |port: i32, group_id: Option<String>| NewSecurityGroupRule {
        security_group_id: group.id.clone(),
        description: String::new(),
        direction: Direction::Ingress,
        ether_type: EtherType::Ipv4,
        protocol: Some("tcp".into()),
        port_range_min: Some(port),
        port_range_max: Some(port),
        remote_ip_prefix: None,
        remote_group_id: group_id.map(Into::into),
        remote_address_group_id: None,
    };
    let wanted = [rule(6443, None), rule(10250, Some(group.id.to_string()))];
    let made = cloud
        .create_security_group_rules(&wanted, GATE)
        .await
        .unwrap();
    assert_eq!(made.len(), 2);
    assert_eq!(made[1].remote_group_id.as_ref(), Some(&group.id));
    let twice = [rule(80, None), rule(6443, None)];
    let error = refused(cloud.create_security_group_rules(&twice, GATE).await);
    assert!(error.is(FailureClass::Duplicate), "{error}");
    let filter = SecurityGroupFilter {
        name: Some(contract.name.clone()),
        ..SecurityGroupFilter::default()
    };
    let found = cloud.security_groups(&filter, GATE).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].rules.len(),
        4,
        "of a refused batch nothing is made"
    );
    cloud
        .delete_security_group_rule(&made[0].id, GATE)
        .await
        .unwrap();
    let gone = refused(cloud.delete_security_group_rule(&made[0].id, GATE).await);
    assert!(gone.is_not_found(), "{gone}");
    assert_eq!(
        cloud
            .security_group(&group.id, GATE)
            .await
            .unwrap()
            .rules
            .len(),
        3
    );

    let (network, _) = contract.network("10.64.0.0/24").await;
    let new = NewPort {
        name: contract.name.clone(),
        network_id: network.id.clone(),
        security_groups: Some(vec![group.id.clone()]),
        ..NewPort::default()
    };
    let port = cloud.create_port(&new, GATE).await.unwrap();
    let busy = refused(cloud.delete_security_group(&group.id, GATE).await);
    assert!(busy.is(FailureClass::InUse), "{busy}");
    cloud.delete_port(&port.id, GATE).await.unwrap();
    cloud.delete_security_group(&group.id, GATE).await.unwrap();
    contract.delete_network(&network).await;
}
