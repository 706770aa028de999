//! The rules that the managed security groups should have. The functions are pure.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{
    family::Family,
    protocol::Protocol,
    rule::{Direction, Remote, Rule},
};
use crate::reconcile::cluster_names::Role;
use capo_core::ids::SecurityGroupId;

/// A desired rule with its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredRule {
    /// The traffic that the rule allows.
    pub rule: Rule,
    /// The description in Neutron, for people.
    pub description: String,
}

/// A rule from the spec, after the lookup of its remote groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserRule {
    /// The traffic that the rule allows. A rule with several remote groups is listed once for each of them.
    pub rule: Rule,
    /// The user's description.
    pub description: String,
}

/// The inputs of the desired rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleInputs {
    /// Id of the control plane's group.
    pub control_plane_group: SecurityGroupId,
    /// Id of the workers' group.
    pub worker_group: SecurityGroupId,
    /// Id of the bastion's group; `None` where no bastion is enabled.
    pub bastion_group: Option<SecurityGroupId>,
    /// The TCP ports on which API servers may listen.
    pub api_ports: BTreeSet<u16>,
    /// The other TCP ports of the load balancer; empty without a load balancer.
    pub additional_ports: Vec<u16>,
    /// `allowAllInClusterTraffic`.
    pub allow_all_in_cluster: bool,
    /// The ranges of the cluster's subnets, for node ports. Rules for IPv6 are created only if one of the ranges is
    /// IPv6.
    pub subnet_ranges: Vec<IpNet>,
    /// The user's rules for control-plane machines, followed by the user's rules for all machines.
    pub control_plane_rules: Vec<UserRule>,
    /// The user's rules for workers, followed by the user's rules for all machines.
    pub worker_rules: Vec<UserRule>,
}

impl RuleInputs {
    /// The address families for which rules are created. IPv4 is always included, as in CAPO, because the rules of
    /// CAPO's groups must not change when capo-rs adopts them.
    fn families(&self) -> Vec<Family> {
        let mut families = vec![Family::V4];
        if self
            .subnet_ranges
            .iter()
            .any(|range| range.addr().is_ipv6())
        {
            families.push(Family::V6);
        }
        families
    }

    fn ranges(&self, family: Family) -> impl Iterator<Item = Remote> {
        self.subnet_ranges
            .iter()
            .filter(move |range| range.addr().is_ipv4() == (family == Family::V4))
            .map(|range| Remote::Range(range.trunc().to_string()))
    }
}

/// The desired rules of one group, each once.
#[derive(Debug, Default)]
struct RuleList {
    rules: Vec<DesiredRule>,
    seen: BTreeSet<Rule>,
}

impl RuleList {
    fn add(&mut self, rule: Rule, description: &str) {
        if self.seen.insert(rule.clone()) {
            self.rules.push(DesiredRule {
                rule,
                description: description.to_owned(),
            });
        }
    }
}

const SSH: (u16, u16) = (22, 22);

/// The rules that the group of `role` should have, each once.
pub(crate) fn desired(role: Role, inputs: &RuleInputs) -> Vec<DesiredRule> {
    let mut list = RuleList::default();
    for family in [Family::V4, Family::V6] {
        list.add(Rule::new(Direction::Egress, family), "Full open");
    }
    for family in inputs.families() {
        match role {
            Role::ControlPlane => control_plane(&mut list, family, inputs),
            Role::Worker => worker(&mut list, family, inputs),
            Role::Bastion => {
                let ssh = Rule::ingress(family, Protocol::TCP, SSH, Remote::Anywhere);
                list.add(ssh, "SSH");
            }
        }
        if let Some(bastion) = &inputs.bastion_group
            && role != Role::Bastion
        {
            let from = Remote::Group(bastion.clone());
            list.add(Rule::ingress(family, Protocol::TCP, SSH, from), "SSH");
        }
    }
    let of_user = match role {
        Role::ControlPlane => inputs.control_plane_rules.as_slice(),
        Role::Worker => inputs.worker_rules.as_slice(),
        Role::Bastion => &[],
    };
    for user in of_user {
        list.add(user.rule.clone(), &user.description);
    }
    list.rules
}

fn control_plane(list: &mut RuleList, family: Family, inputs: &RuleInputs) {
    let (own, worker) = (&inputs.control_plane_group, &inputs.worker_group);
    let tcp = |ports, remote| Rule::ingress(family, Protocol::TCP, ports, remote);
    for port in &inputs.api_ports {
        list.add(tcp((*port, *port), Remote::Anywhere), "Kubernetes API");
    }
    for port in &inputs.additional_ports {
        let description = "Additional port";
        list.add(tcp((*port, *port), Remote::Anywhere), description);
    }
    if !inputs.allow_all_in_cluster {
        list.add(tcp((2_379, 2_380), Remote::Group(own.clone())), "Etcd");
    }
    in_cluster(list, family, inputs, own, worker);
}

fn worker(list: &mut RuleList, family: Family, inputs: &RuleInputs) {
    let (own, control_plane) = (&inputs.worker_group, &inputs.control_plane_group);
    for protocol in [Protocol::TCP, Protocol::UDP] {
        let groups = [own, control_plane].map(|group| Remote::Group(group.clone()));
        for remote in inputs.ranges(family).chain(groups) {
            let rule = Rule::ingress(family, protocol.clone(), (30_000, 32_767), remote);
            list.add(rule, "Node Port Services");
        }
    }
    in_cluster(list, family, inputs, own, control_plane);
}

fn in_cluster(
    list: &mut RuleList,
    family: Family,
    inputs: &RuleInputs,
    own: &SecurityGroupId,
    other: &SecurityGroupId,
) {
    for group in [own, other] {
        if inputs.allow_all_in_cluster {
            list.add(Rule::all_from(family, group), "In-cluster Ingress");
        } else {
            let from = Remote::Group(group.clone());
            let rule = Rule::ingress(family, Protocol::TCP, (10_250, 10_250), from);
            list.add(rule, "Kubelet API");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> RuleInputs {
        RuleInputs {
            control_plane_group: "cp".into(),
            worker_group: "w".into(),
            api_ports: BTreeSet::from([6443]),
            additional_ports: vec![9345],
            subnet_ranges: vec!["10.6.0.0/24".parse().unwrap()],
            ..RuleInputs::default()
        }
    }

    fn texts(role: Role, inputs: &RuleInputs) -> Vec<String> {
        desired(role, inputs)
            .iter()
            .map(|DesiredRule { rule, .. }| {
                let way = match rule.direction {
                    Direction::Ingress => "in",
                    Direction::Egress => "out",
                };
                let family = match rule.family {
                    Family::V4 => "4",
                    Family::V6 => "6",
                };
                let protocol = rule
                    .protocol
                    .as_ref()
                    .map_or("any".to_owned(), ToString::to_string);
                let ports = match (rule.port_min, rule.port_max) {
                    (Some(a), Some(b)) if a == b => format!(" {a}"),
                    (Some(a), Some(b)) => format!(" {a}-{b}"),
                    _ => String::new(),
                };
                let remote = match &rule.remote {
                    Remote::Anywhere => "*",
                    Remote::Range(text) | Remote::AddressGroup(text) => text,
                    Remote::Group(id) => id.as_str(),
                };
                format!("{way}{family} {protocol}{ports} {remote}")
            })
            .collect()
    }

    #[test]
    fn the_control_planes_rules() {
        assert_eq!(
            texts(Role::ControlPlane, &inputs()),
            [
                "out4 any *",
                "out6 any *",
                "in4 tcp 6443 *",
                "in4 tcp 9345 *",
                "in4 tcp 2379-2380 cp",
                "in4 tcp 10250 cp",
                "in4 tcp 10250 w",
            ]
        );
    }

    #[test]
    fn a_subnet_of_ipv6_opens_the_same_ports_for_ipv6() {
        let dual = RuleInputs {
            subnet_ranges: vec![
                "10.6.0.0/24".parse().unwrap(),
                "fd00:6::/64".parse().unwrap(),
            ],
            ..inputs()
        };
        let control_plane = texts(Role::ControlPlane, &dual);
        for rule in ["in4 tcp 6443 *", "in6 tcp 6443 *", "in6 tcp 2379-2380 cp"] {
            assert!(
                control_plane.contains(&rule.to_owned()),
                "{control_plane:?}"
            );
        }
        let worker = texts(Role::Worker, &dual);
        let from_subnet = "in6 tcp 30000-32767 fd00:6::/64".to_owned();
        assert!(worker.contains(&from_subnet), "{worker:?}");
    }

    #[test]
    fn the_workers_rules() {
        assert_eq!(
            texts(Role::Worker, &inputs()),
            [
                "out4 any *",
                "out6 any *",
                "in4 tcp 30000-32767 10.6.0.0/24",
                "in4 tcp 30000-32767 w",
                "in4 tcp 30000-32767 cp",
                "in4 udp 30000-32767 10.6.0.0/24",
                "in4 udp 30000-32767 w",
                "in4 udp 30000-32767 cp",
                "in4 tcp 10250 w",
                "in4 tcp 10250 cp",
            ]
        );
    }

    #[test]
    fn all_traffic_in_the_cluster() {
        let inputs = RuleInputs {
            allow_all_in_cluster: true,
            ..inputs()
        };
        assert_eq!(
            texts(Role::ControlPlane, &inputs),
            [
                "out4 any *",
                "out6 any *",
                "in4 tcp 6443 *",
                "in4 tcp 9345 *",
                "in4 any cp",
                "in4 any w",
            ]
        );
        assert!(texts(Role::Worker, &inputs).contains(&"in4 any cp".to_owned()));
    }

    #[test]
    fn every_port_of_the_api_servers_is_open() {
        let inputs = RuleInputs {
            api_ports: BTreeSet::from([443, 6443]),
            ..inputs()
        };
        let texts = texts(Role::ControlPlane, &inputs);
        assert!(texts.contains(&"in4 tcp 443 *".to_owned()));
        assert!(texts.contains(&"in4 tcp 6443 *".to_owned()));
    }

    #[test]
    fn the_bastion_reaches_every_node_by_ssh() {
        let inputs = RuleInputs {
            bastion_group: Some("b".into()),
            ..inputs()
        };
        for role in [Role::ControlPlane, Role::Worker] {
            assert!(texts(role, &inputs).contains(&"in4 tcp 22 b".to_owned()));
        }
        assert_eq!(
            texts(Role::Bastion, &inputs),
            ["out4 any *", "out6 any *", "in4 tcp 22 *"]
        );
    }

    #[test]
    fn a_cluster_with_ipv6_gets_every_rule_for_it_too() {
        let dual = RuleInputs {
            subnet_ranges: vec![
                "10.6.0.0/24".parse().unwrap(),
                "2001:db8::/64".parse().unwrap(),
            ],
            ..inputs()
        };
        for role in [Role::ControlPlane, Role::Worker] {
            let (single, dual) = (texts(role, &inputs()), texts(role, &dual));
            assert!(single.iter().all(|rule| dual.contains(rule)));
            let ingress = |family: &str| {
                let all = dual.iter().filter(|rule| rule.starts_with(family));
                all.count()
            };
            assert_eq!(ingress("in4"), ingress("in6"), "{dual:?}");
        }
        let workers = texts(Role::Worker, &dual);
        assert!(workers.contains(&"in6 udp 30000-32767 2001:db8::/64".to_owned()));
        assert!(!workers.contains(&"in4 udp 30000-32767 2001:db8::/64".to_owned()));
    }

    #[test]
    fn a_users_rule_that_says_the_same_is_not_made_twice() {
        let mine = UserRule {
            rule: Rule::ingress(Family::V4, Protocol::TCP, (6443, 6443), Remote::Anywhere),
            description: "mine".to_owned(),
        };
        let inputs = RuleInputs {
            control_plane_rules: vec![mine.clone(), mine],
            ..inputs()
        };
        let twice = texts(Role::ControlPlane, &inputs)
            .iter()
            .filter(|word| *word == "in4 tcp 6443 *")
            .count();
        assert_eq!(twice, 1);
    }
}
