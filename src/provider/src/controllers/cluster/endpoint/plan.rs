//! Decides where clients reach the API server, from the spec and from what exists. The functions are pure.

use std::{collections::BTreeSet, net::IpAddr};

use crate::controllers::cluster::observation::KnownLoadBalancer;
use capo_core::{Lookup, ids::NetworkId};

/// The default port of Kubernetes API servers.
pub(crate) const DEFAULT_PORT: u16 = 6443;

/// The inputs of the decision about the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EndpointInputs {
    /// `spec.controlPlaneEndpoint.host`. It can't change once it is set, so it is kept whatever its value is.
    pub given_host: Option<String>,
    /// `spec.controlPlaneEndpoint.port`.
    pub given_port: Option<u16>,
    /// `spec.apiServer.port`.
    pub api_port: Option<u16>,
    /// Whether a managed load balancer is desired.
    pub load_balancer: bool,
    /// Whether a floating IP is desired for the API server.
    pub floating_ip: bool,
    /// Whether the spec allows an external network. Floating IPs are in that network.
    pub external_network: bool,
    /// `spec.apiServer.fixedIP`.
    pub fixed_ip: Option<String>,
}

/// What a pass knows besides [`EndpointInputs`] for the decision about the endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointObjects<'a> {
    /// The external network.
    pub external: &'a Lookup<NetworkId>,
    /// Whether it is known which router the cluster has, if any.
    pub is_router_known: bool,
    /// The load balancer, if one was found.
    pub load_balancer: Option<&'a KnownLoadBalancer>,
    /// `spec.apiServer.floatingIP`.
    pub given_floating_ip: Option<IpAddr>,
}

/// How the endpoint is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointPlan<'a> {
    /// The host of the endpoint.
    pub host: HostSource<'a>,
    /// The load balancer on which a floating IP is put, and the external network of that floating IP.
    pub load_balancer: Option<(&'a NetworkId, &'a KnownLoadBalancer)>,
}

/// What determines the host of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostSource<'a> {
    /// The spec has a host already.
    Given {
        /// The DNS name or address.
        host: &'a str,
        /// Whether a floating IP to which the host refers is put on a control-plane machine.
        on_machine: bool,
    },
    /// The endpoint is the load balancer's floating IP, or its VIP if it has no floating IP.
    LoadBalancer,
    /// The endpoint is a floating IP that is put on a control-plane machine.
    FloatingIp {
        /// The external network of the floating IP.
        external: &'a NetworkId,
    },
    /// The endpoint is an address that the user manages.
    FixedIp {
        /// The address.
        host: &'a str,
    },
    /// Neither the spec nor any existing object determines the endpoint.
    Nowhere,
}

/// Whether a floating IP can be put on a load balancer with this VIP. Floating IPs are IPv4 only. If the spec names a
/// floating IP (`given`), it is tried even so, because then Neutron's refusal is reported.
pub(crate) fn takes_floating_ip(given: Option<IpAddr>, vip: Option<IpAddr>) -> bool {
    given.is_some() || vip.is_none_or(|vip| vip.is_ipv4())
}

impl EndpointInputs {
    /// The TCP port on which API servers listen, whatever the host will be.
    pub(crate) fn port(&self) -> u16 {
        self.given_port.or(self.api_port).unwrap_or(DEFAULT_PORT)
    }

    /// The TCP ports on which API servers may listen on their nodes. The port of an endpoint that the user manages is
    /// not included, because it says nothing about the nodes behind it.
    pub(crate) fn node_ports(&self) -> BTreeSet<u16> {
        let ours = self.load_balancer || self.given_host.is_none();
        let of_endpoint = self.given_port.filter(|_| ours);
        [Some(DEFAULT_PORT), self.api_port, of_endpoint]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether the API server gets a floating IP, provided that there is an external network for it.
    pub(crate) fn wants_floating_ip(&self) -> bool {
        self.floating_ip && self.external_network
    }

    /// Decides how the endpoint is determined. `None` means that this can't be decided yet, because a floating IP is
    /// desired and the external network is unknown, or the router through which alone the floating IP works.
    pub(crate) fn plan<'a>(&'a self, objects: &EndpointObjects<'a>) -> Option<EndpointPlan<'a>> {
        let is_unknown = match objects.external {
            Lookup::Unknown => true,
            Lookup::Absent => false,
            Lookup::Found(_) => !objects.is_router_known,
        };
        if self.wants_floating_ip() && is_unknown {
            return None;
        }
        let external = objects.external.found();
        let external = external.filter(|_| self.wants_floating_ip());
        let host = match (&self.given_host, external, &self.fixed_ip) {
            (Some(host), _, _) => HostSource::Given {
                host,
                on_machine: !self.load_balancer && external.is_some(),
            },
            (None, _, _) if self.load_balancer => HostSource::LoadBalancer,
            (None, Some(external), _) => HostSource::FloatingIp { external },
            (None, None, Some(host)) if !self.floating_ip => HostSource::FixedIp { host },
            (None, None, _) => HostSource::Nowhere,
        };
        let load_balancer = external.zip(objects.load_balancer);
        Some(EndpointPlan {
            host,
            load_balancer: load_balancer
                .filter(|(_, found)| takes_floating_ip(objects.given_floating_ip, found.vip)),
        })
    }

    /// The address that a new load balancer's VIP should have. It is the fixed address of the spec, or the address of
    /// the endpoint itself if no floating IP is in front of it. `None` leaves the choice to Neutron.
    pub(crate) fn desired_vip(&self) -> Option<IpAddr> {
        if let Some(address) = self.fixed_ip.as_deref().and_then(|ip| ip.parse().ok()) {
            return Some(address);
        }
        if self.wants_floating_ip() {
            return None;
        }
        self.given_host
            .as_deref()
            .and_then(|host| host.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> EndpointInputs {
        EndpointInputs {
            load_balancer: true,
            floating_ip: true,
            external_network: true,
            ..EndpointInputs::default()
        }
    }

    fn objects(external: &Lookup<NetworkId>) -> EndpointObjects<'_> {
        EndpointObjects {
            external,
            is_router_known: true,
            load_balancer: None,
            given_floating_ip: None,
        }
    }

    fn found() -> Lookup<NetworkId> {
        Lookup::Found("ext".into())
    }

    #[test]
    fn the_table_of_hosts() {
        let (name, address) = ("api.example.com", "10.0.0.5");
        let given = |on_machine| HostSource::Given {
            host: name,
            on_machine,
        };
        let external = NetworkId::from("ext");
        let of_machine = HostSource::FloatingIp {
            external: &external,
        };
        let of_user = HostSource::FixedIp { host: address };
        let (balanced, nowhere) = (HostSource::LoadBalancer, HostSource::Nowhere);
        // The load balancer, the floating IP, the host and the fixed address of the spec; the expected hosts with an
        // external network and without one.
        for (load_balancer, floating_ip, host, fixed_ip, hosts) in [
            (true, true, None, None, [balanced; 2]),
            (true, false, None, Some(address), [balanced; 2]),
            (true, true, Some(name), None, [given(false); 2]),
            (false, true, Some(name), None, [given(true), given(false)]),
            (false, false, Some(name), None, [given(false); 2]),
            (false, true, None, None, [of_machine, nowhere]),
            (false, true, None, Some(address), [of_machine, nowhere]),
            (false, false, None, Some(address), [of_user; 2]),
            (false, false, None, None, [nowhere; 2]),
        ] {
            let inputs = EndpointInputs {
                load_balancer,
                floating_ip,
                given_host: host.map(ToOwned::to_owned),
                fixed_ip: fixed_ip.map(ToOwned::to_owned),
                ..inputs()
            };
            for (external, expected) in [found(), Lookup::Absent].iter().zip(hosts) {
                let plan = inputs.plan(&objects(external)).unwrap();
                assert_eq!(plan.host, expected, "{inputs:?} {external:?}");
            }
        }
    }

    #[test]
    fn a_floating_ip_waits_for_the_external_network_and_the_router() {
        for (external, is_router_known, is_decided) in [
            (Lookup::Unknown, true, false),
            (Lookup::Absent, false, true),
            (found(), false, false),
            (found(), true, true),
        ] {
            let objects = EndpointObjects {
                is_router_known,
                ..objects(&external)
            };
            for (floating_ip, expected) in [(true, is_decided), (false, true)] {
                let inputs = EndpointInputs {
                    floating_ip,
                    ..inputs()
                };
                assert_eq!(inputs.plan(&objects).is_some(), expected, "{objects:?}");
            }
        }
    }

    #[test]
    fn a_load_balancer_gets_a_floating_ip_unless_its_address_is_ipv6() {
        let (given_ip, ipv6) = ("203.0.113.9".parse().ok(), "2001:db8::7");
        for (vip, external, floating_ip, given_floating_ip, expected) in [
            ("10.0.0.7", found(), true, None, true),
            ("not known yet", found(), true, None, true),
            (ipv6, found(), true, None, false),
            (ipv6, found(), true, given_ip, true),
            ("10.0.0.7", Lookup::Absent, true, None, false),
            ("10.0.0.7", found(), false, given_ip, false),
        ] {
            let inputs = EndpointInputs {
                floating_ip,
                ..inputs()
            };
            let found = KnownLoadBalancer {
                id: "lb".into(),
                name: "lb".to_owned(),
                provider: String::new(),
                vip: vip.parse().ok(),
                vip_port: None,
                tags: Vec::new(),
            };
            let objects = EndpointObjects {
                load_balancer: Some(&found),
                given_floating_ip,
                ..objects(&external)
            };
            let plan = inputs.plan(&objects).unwrap();
            assert_eq!(plan.load_balancer.is_some(), expected, "{objects:?}");
        }
    }

    #[test]
    fn the_port_of_the_endpoint_goes_before_that_of_the_api_server() {
        for (given_port, api_port, expected) in [
            (None, None, 6443),
            (None, Some(443), 443),
            (Some(8443), Some(443), 8443),
        ] {
            let inputs = EndpointInputs {
                given_port,
                api_port,
                ..inputs()
            };
            assert_eq!(inputs.port(), expected);
        }
    }

    #[test]
    fn the_nodes_ports_always_include_the_default_one() {
        let ports = |inputs: EndpointInputs| Vec::from_iter(inputs.node_ports());
        let given = |load_balancer, api_port| EndpointInputs {
            given_host: Some("api.example.com".to_owned()),
            given_port: Some(443),
            api_port,
            load_balancer,
            ..inputs()
        };
        assert_eq!(ports(inputs()), [6443]);
        assert_eq!(ports(given(false, None)), [6443]);
        assert_eq!(ports(given(false, Some(8443))), [6443, 8443]);
        assert_eq!(ports(given(true, None)), [443, 6443]);
    }

    #[test]
    fn a_load_balancer_made_again_gets_the_address_clients_know() {
        let known = EndpointInputs {
            given_host: Some("10.0.0.7".to_owned()),
            floating_ip: false,
            ..inputs()
        };
        assert_eq!(known.desired_vip(), "10.0.0.7".parse().ok());
        let behind_floating = EndpointInputs {
            given_host: Some("203.0.113.9".to_owned()),
            ..inputs()
        };
        assert_eq!(behind_floating.desired_vip(), None);
        let fixed = EndpointInputs {
            fixed_ip: Some("10.0.0.8".to_owned()),
            ..behind_floating
        };
        assert_eq!(fixed.desired_vip(), "10.0.0.8".parse().ok());
    }
}
