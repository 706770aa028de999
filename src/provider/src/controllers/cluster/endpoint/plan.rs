//! Decides where clients reach the API server, from the spec and from what exists. The functions are pure.

use std::{collections::BTreeSet, net::IpAddr};

/// The default port of Kubernetes API servers.
pub(crate) const DEFAULT_PORT: u16 = 6443;

/// The inputs of the decision about the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EndpointInputs {
    /// `spec.controlPlaneEndpoint.host`. It can't change once it is set, so that it is kept whatever its value is.
    pub given_host: Option<String>,
    /// `spec.controlPlaneEndpoint.port`.
    pub given_port: Option<u16>,
    /// `spec.apiServer.port`.
    pub api_port: Option<u16>,
    /// Whether a managed load balancer is desired.
    pub load_balancer: bool,
    /// Whether a floating IP is desired for the API server.
    pub floating_ip: bool,
    /// Whether there is an external network for floating IPs.
    pub external_network: bool,
    /// `spec.apiServer.fixedIP`.
    pub fixed_ip: Option<String>,
}

/// How the endpoint is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndpointPlan {
    /// The spec has a host already.
    Given {
        /// The DNS name or address.
        host: String,
        /// The TCP port.
        port: u16,
    },
    /// The endpoint is the load balancer's floating IP, or its VIP if it has no floating IP.
    LoadBalancer {
        /// The TCP port.
        port: u16,
    },
    /// The endpoint is a floating IP that is put on a control-plane machine.
    FloatingIp {
        /// The TCP port.
        port: u16,
    },
    /// The endpoint is an address that the user manages.
    FixedIp {
        /// The address.
        host: String,
        /// The TCP port.
        port: u16,
    },
    /// Neither the spec nor any existing object determines the endpoint.
    Nowhere,
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

    /// Decides how the endpoint is determined.
    pub(crate) fn plan(&self) -> EndpointPlan {
        let port = self.port();
        if let Some(host) = &self.given_host {
            return EndpointPlan::Given {
                host: host.clone(),
                port,
            };
        }
        if self.load_balancer {
            return EndpointPlan::LoadBalancer { port };
        }
        if self.floating_ip && self.external_network {
            return EndpointPlan::FloatingIp { port };
        }
        match &self.fixed_ip {
            Some(host) if !self.floating_ip => EndpointPlan::FixedIp {
                host: host.clone(),
                port,
            },
            _ => EndpointPlan::Nowhere,
        }
    }

    /// The address that a new load balancer's VIP should have. It is the fixed address of the spec, or the address of
    /// the endpoint itself if no floating IP is in front of it. `None` leaves the choice to Neutron.
    pub(crate) fn desired_vip(&self) -> Option<IpAddr> {
        if let Some(address) = self.fixed_ip.as_deref().and_then(|ip| ip.parse().ok()) {
            return Some(address);
        }
        if self.floating_ip && self.external_network {
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

    #[test]
    fn the_table() {
        let cases = [
            (
                "load balancer",
                inputs(),
                EndpointPlan::LoadBalancer { port: 6443 },
            ),
            (
                "own port",
                EndpointInputs {
                    api_port: Some(443),
                    ..inputs()
                },
                EndpointPlan::LoadBalancer { port: 443 },
            ),
            (
                "a name given by the user is kept though a load balancer is managed",
                EndpointInputs {
                    given_host: Some("api.example.com".to_owned()),
                    given_port: Some(8443),
                    api_port: Some(443),
                    ..inputs()
                },
                EndpointPlan::Given {
                    host: "api.example.com".to_owned(),
                    port: 8443,
                },
            ),
            (
                "floating IP to a machine",
                EndpointInputs {
                    load_balancer: false,
                    ..inputs()
                },
                EndpointPlan::FloatingIp { port: 6443 },
            ),
            (
                "an address of the user's",
                EndpointInputs {
                    load_balancer: false,
                    floating_ip: false,
                    fixed_ip: Some("10.0.0.5".to_owned()),
                    ..inputs()
                },
                EndpointPlan::FixedIp {
                    host: "10.0.0.5".to_owned(),
                    port: 6443,
                },
            ),
            (
                "nothing to go by",
                EndpointInputs {
                    load_balancer: false,
                    floating_ip: false,
                    ..inputs()
                },
                EndpointPlan::Nowhere,
            ),
            (
                "no network for the floating IP",
                EndpointInputs {
                    load_balancer: false,
                    external_network: false,
                    ..inputs()
                },
                EndpointPlan::Nowhere,
            ),
        ];
        for (name, inputs, plan) in cases {
            assert_eq!(inputs.plan(), plan, "{name}");
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
