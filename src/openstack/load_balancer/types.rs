//! Octavia's closed sets.

use crate::openstack::wire::wire_enum;

wire_enum! {
    /// How far Octavia is with the last change of an object.
    ProvisioningStatus {
        /// Done.
        Active = "ACTIVE",
        /// Being created.
        PendingCreate = "PENDING_CREATE",
        /// Being changed.
        PendingUpdate = "PENDING_UPDATE",
        /// Being deleted.
        PendingDelete = "PENDING_DELETE",
        /// The last change failed.
        Error = "ERROR",
        /// Gone; only load balancers show it.
        Deleted = "DELETED",
    }
}

impl ProvisioningStatus {
    /// Any of the PENDING states.
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingCreate | Self::PendingUpdate | Self::PendingDelete
        )
    }
}

wire_enum! {
    /// How the data path says it is.
    OperatingStatus {
        /// Up.
        Online = "ONLINE",
        /// Down by will, or nothing was reported yet.
        Offline = "OFFLINE",
        /// Some members are down.
        Degraded = "DEGRADED",
        /// Failing its health checks.
        Error = "ERROR",
        /// Weight 0, taking no new connections.
        Draining = "DRAINING",
        /// Nothing checks it.
        NoMonitor = "NO_MONITOR",
    }
}

wire_enum! {
    /// What a listener speaks.
    ListenerProtocol {
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
    /// What a pool speaks.
    PoolProtocol {
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
    LbAlgorithm {
        /// In turn.
        RoundRobin = "ROUND_ROBIN",
        /// The one with the fewest connections.
        LeastConnections = "LEAST_CONNECTIONS",
        /// By the client's address.
        SourceIp = "SOURCE_IP",
        /// By the client's address and port; the OVN provider's only one.
        SourceIpPort = "SOURCE_IP_PORT",
    }
}

wire_enum! {
    /// How a health monitor checks.
    MonitorType {
        /// A TCP connection.
        Tcp = "TCP",
        /// An HTTP answer.
        Http = "HTTP",
        /// An HTTPS answer.
        Https = "HTTPS",
        /// A TLS greeting.
        TlsHello = "TLS-HELLO",
        /// An echo.
        Ping = "PING",
        /// A UDP packet that is not refused.
        UdpConnect = "UDP-CONNECT",
        /// An SCTP association.
        Sctp = "SCTP",
    }
}
