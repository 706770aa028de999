//! The protocols of listeners and pools, and how a pool chooses a member.

use crate::wire_enum;

wire_enum! {
    /// The protocol of a listener.
    pub enum ListenerProtocol {
        /// TCP.
        Tcp = "TCP",
        /// UDP.
        Udp = "UDP",
        /// HTTP.
        Http = "HTTP",
        /// TLS passed through.
        Https = "HTTPS",
        /// TLS ended at the load balancer.
        TerminatedHttps = "TERMINATED_HTTPS",
    }
}

wire_enum! {
    /// The protocol of a pool.
    pub enum PoolProtocol {
        /// TCP.
        Tcp = "TCP",
        /// UDP.
        Udp = "UDP",
        /// HTTP.
        Http = "HTTP",
        /// TLS passed through.
        Https = "HTTPS",
        /// TCP with the PROXY protocol.
        Proxy = "PROXY",
    }
}

wire_enum! {
    /// How a pool chooses a member.
    pub enum LbAlgorithm {
        /// In turn.
        RoundRobin = "ROUND_ROBIN",
        /// The member with the fewest connections.
        LeastConnections = "LEAST_CONNECTIONS",
        /// By the client's address.
        SourceIp = "SOURCE_IP",
        /// By the client's address and port. The OVN provider has this algorithm only.
        SourceIpPort = "SOURCE_IP_PORT",
    }
}
