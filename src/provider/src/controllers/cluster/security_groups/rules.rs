//! The rules of the managed security groups: which there should be, and how to get there. Plain data.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::controllers::cluster::names::Role;

/// Which way traffic goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// To the machine.
    Ingress,
    /// From the machine.
    Egress,
}

/// The family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The other end of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Remote {
    /// Everybody.
    Anywhere,
    /// A range of addresses, in canonical form.
    Range(String),
    /// A security group, by id.
    Group(String),
}

impl Remote {
    /// A range as it is compared. The whole of IPv4 or IPv6 is everybody.
    pub(crate) fn range(text: &str) -> Self {
        match canonical(text) {
            whole if whole == "0.0.0.0/0" || whole == "::/0" => Self::Anywhere,
            range => Self::Range(range),
        }
    }
}

/// What a rule lets through. Its description is no part of it, as in CAPO.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// Which way.
    pub direction: Direction,
    /// Of which family.
    pub family: Family,
    /// Which protocol, lower case; `None` is any.
    pub protocol: Option<String>,
    /// From which port (or ICMP type); `None` is any.
    pub port_min: Option<u32>,
    /// To which port (or ICMP code).
    pub port_max: Option<u32>,
    /// Who is at the other end.
    pub remote: Remote,
}

impl Rule {
    fn new(direction: Direction, family: Family) -> Self {
        Self {
            direction,
            family,
            protocol: None,
            port_min: None,
            port_max: None,
            remote: Remote::Anywhere,
        }
    }

    fn ingress(protocol: &str, ports: (u16, u16), remote: Remote) -> Self {
        Self {
            protocol: Some(protocol.to_owned()),
            port_min: Some(ports.0.into()),
            port_max: Some(ports.1.into()),
            remote,
            ..Self::new(Direction::Ingress, Family::V4)
        }
    }

    fn all_from(group: &str) -> Self {
        Self {
            remote: Remote::Group(group.to_owned()),
            ..Self::new(Direction::Ingress, Family::V4)
        }
    }
}

/// A rule that is desired, with what its description says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredRule {
    /// What it lets through.
    pub rule: Rule,
    /// For people.
    pub description: String,
}

/// A rule of the user's, remote groups already looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserRule {
    /// What it lets through; a rule with several remote groups stands here once for each.
    pub rule: Rule,
    /// The user's description.
    pub description: String,
}

/// What decides on the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleInputs {
    /// Id of the control plane's group.
    pub control_plane_group: String,
    /// Id of the workers' group.
    pub worker_group: String,
    /// The port API servers listen on.
    pub api_port: u16,
    /// More ports of the load balancer; empty without one.
    pub additional_ports: Vec<u16>,
    /// `allowAllInClusterTraffic`.
    pub allow_all_in_cluster: bool,
    /// IPv4 ranges of the cluster's subnets, for node ports.
    pub subnet_ranges: Vec<String>,
    /// The user's rules for control-plane machines, then those for all.
    pub control_plane_rules: Vec<UserRule>,
    /// The user's rules for workers, then those for all.
    pub worker_rules: Vec<UserRule>,
}

/// The rules that the group of `role` should have, each once.
pub(crate) fn desired(role: Role, inputs: &RuleInputs) -> Vec<DesiredRule> {
    let mut list = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |rule: Rule, description: &str| {
        if seen.insert(rule.clone()) {
            list.push(DesiredRule {
                rule,
                description: description.to_owned(),
            });
        }
    };
    for family in [Family::V4, Family::V6] {
        add(Rule::new(Direction::Egress, family), "Full open");
    }
    let (own, other, user_rules) = match role {
        Role::ControlPlane => (
            &inputs.control_plane_group,
            &inputs.worker_group,
            inputs.control_plane_rules.as_slice(),
        ),
        Role::Worker => (
            &inputs.worker_group,
            &inputs.control_plane_group,
            inputs.worker_rules.as_slice(),
        ),
        Role::Bastion => {
            let ssh = Rule::ingress("tcp", (22, 22), Remote::Anywhere);
            add(ssh, "SSH");
            return list;
        }
    };
    let group = |id: &String| Remote::Group(id.clone());
    match role {
        Role::ControlPlane => {
            let api = (inputs.api_port, inputs.api_port);
            add(
                Rule::ingress("tcp", api, Remote::Anywhere),
                "Kubernetes API",
            );
            for port in &inputs.additional_ports {
                let ports = (*port, *port);
                add(
                    Rule::ingress("tcp", ports, Remote::Anywhere),
                    "APIServerLoadBalancer additional port",
                );
            }
        }
        Role::Worker => {
            for protocol in ["tcp", "udp"] {
                let ranges = inputs.subnet_ranges.iter().cloned().map(Remote::Range);
                for remote in ranges.chain([group(own), group(other)]) {
                    add(
                        Rule::ingress(protocol, (30_000, 32_767), remote),
                        "Node Port Services",
                    );
                }
            }
        }
        Role::Bastion => {}
    }
    if inputs.allow_all_in_cluster {
        add(Rule::all_from(own), "In-cluster Ingress");
        add(Rule::all_from(other), "In-cluster Ingress");
    } else {
        if role == Role::ControlPlane {
            add(Rule::ingress("tcp", (2_379, 2_380), group(own)), "Etcd");
        }
        for remote in [group(own), group(other)] {
            add(
                Rule::ingress("tcp", (10_250, 10_250), remote),
                "Kubelet API",
            );
        }
    }
    for user in user_rules {
        add(user.rule.clone(), &user.description);
    }
    list
}

/// A rule as it was found in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundRule {
    /// Neutron's id.
    pub id: String,
    /// What it lets through.
    pub rule: Rule,
}

/// What to do to a group's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleChanges {
    /// To be made, first.
    pub create: Vec<DesiredRule>,
    /// Ids of those that are too much, removed after.
    pub delete: Vec<String>,
}

/// The difference between what is desired and what was found.
pub(crate) fn changes(desired: &[DesiredRule], found: &[FoundRule]) -> RuleChanges {
    let keep: BTreeSet<&Rule> = desired.iter().map(|w| &w.rule).collect();
    let there: BTreeSet<&Rule> = found.iter().map(|f| &f.rule).collect();
    RuleChanges {
        create: desired
            .iter()
            .filter(|w| !there.contains(&w.rule))
            .cloned()
            .collect(),
        delete: found
            .iter()
            .filter(|f| !keep.contains(&f.rule))
            .map(|f| f.id.clone())
            .collect(),
    }
}

/// The canonical form of a range, as Neutron stores it; a text that is none stays as it is.
pub(crate) fn canonical(range: &str) -> String {
    range.parse::<IpNet>().map_or_else(
        |_| {
            range.parse::<std::net::IpAddr>().map_or_else(
                |_| range.to_owned(),
                |address| IpNet::from(address).to_string(),
            )
        },
        |net| net.trunc().to_string(),
    )
}

/// A protocol as it is compared: lower case, and any as `None`.
pub(crate) fn protocol(text: Option<&str>) -> Option<String> {
    text.map(str::to_ascii_lowercase)
        .filter(|text| !text.is_empty() && text != "any")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> RuleInputs {
        RuleInputs {
            control_plane_group: "cp".to_owned(),
            worker_group: "w".to_owned(),
            api_port: 6443,
            additional_ports: vec![9345],
            subnet_ranges: vec!["10.6.0.0/24".to_owned()],
            ..RuleInputs::default()
        }
    }

    fn words(role: Role, inputs: &RuleInputs) -> Vec<String> {
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
                let protocol = rule.protocol.as_deref().unwrap_or("any");
                let ports = match (rule.port_min, rule.port_max) {
                    (Some(a), Some(b)) if a == b => format!(" {a}"),
                    (Some(a), Some(b)) => format!(" {a}-{b}"),
                    _ => String::new(),
                };
                let remote = match &rule.remote {
                    Remote::Anywhere => "*",
                    Remote::Range(text) | Remote::Group(text) => text,
                };
                format!("{way}{family} {protocol}{ports} {remote}")
            })
            .collect()
    }

    #[test]
    fn the_control_planes_rules() {
        assert_eq!(
            words(Role::ControlPlane, &inputs()),
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
    fn the_workers_rules() {
        assert_eq!(
            words(Role::Worker, &inputs()),
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
            words(Role::ControlPlane, &inputs),
            [
                "out4 any *",
                "out6 any *",
                "in4 tcp 6443 *",
                "in4 tcp 9345 *",
                "in4 any cp",
                "in4 any w",
            ]
        );
        assert!(words(Role::Worker, &inputs).contains(&"in4 any cp".to_owned()));
    }

    #[test]
    fn the_api_port_is_the_one_of_the_spec() {
        let inputs = RuleInputs {
            api_port: 443,
            ..inputs()
        };
        let words = words(Role::ControlPlane, &inputs);
        assert!(words.contains(&"in4 tcp 443 *".to_owned()));
        assert!(!words.contains(&"in4 tcp 6443 *".to_owned()));
    }

    #[test]
    fn a_users_rule_that_says_the_same_is_not_made_twice() {
        let mine = UserRule {
            rule: Rule::ingress("tcp", (6443, 6443), Remote::Anywhere),
            description: "mine".to_owned(),
        };
        let inputs = RuleInputs {
            control_plane_rules: vec![mine.clone(), mine],
            ..inputs()
        };
        let twice = words(Role::ControlPlane, &inputs)
            .iter()
            .filter(|word| *word == "in4 tcp 6443 *")
            .count();
        assert_eq!(twice, 1);
    }

    #[test]
    fn only_the_difference_is_changed() {
        let all = desired(Role::ControlPlane, &inputs());
        let mut found: Vec<FoundRule> = all
            .iter()
            .enumerate()
            .map(|(n, w)| FoundRule {
                id: n.to_string(),
                rule: w.rule.clone(),
            })
            .collect();
        assert_eq!(changes(&all, &found), RuleChanges::default());
        let lost = found.remove(2);
        found.push(FoundRule {
            id: "stray".to_owned(),
            rule: Rule::ingress("tcp", (22, 22), Remote::Anywhere),
        });
        let todo = changes(&all, &found);
        assert_eq!(todo.delete, ["stray"]);
        assert_eq!(todo.create.len(), 1);
        assert_eq!(todo.create.first().map(|w| &w.rule), Some(&lost.rule));
    }

    #[test]
    fn ranges_and_protocols_compare_as_neutron_stores_them() {
        assert_eq!(canonical("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(canonical("10.1.2.3"), "10.1.2.3/32");
        assert_eq!(canonical("2001:DB8::1/32"), "2001:db8::/32");
        assert_eq!(protocol(Some("TCP")), Some("tcp".to_owned()));
        assert_eq!(protocol(Some("")), None);
    }
}
