//! The statuses of Octavia's objects, and the kinds of health monitors.

use crate::{label_enum, wire_enum};

wire_enum! {
    /// The progress of the last change of an object.
    pub enum ProvisioningStatus {
        /// The last change is done.
        Active = "ACTIVE",
        /// The object is being created.
        PendingCreate = "PENDING_CREATE",
        /// The object is being changed.
        PendingUpdate = "PENDING_UPDATE",
        /// The object is being deleted.
        PendingDelete = "PENDING_DELETE",
        /// The last change failed.
        Error = "ERROR",
        /// The object is deleted; only load balancers show it.
        Deleted = "DELETED",
    }
}

impl ProvisioningStatus {
    /// Whether an operation is under way, or was interrupted and left its PENDING status behind.
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingCreate | Self::PendingUpdate | Self::PendingDelete
        )
    }
}

wire_enum! {
    /// The state of the data path, as the provider reports it.
    pub enum OperatingStatus {
        /// The object is up.
        Online = "ONLINE",
        /// The object is administratively down, or nothing was reported yet.
        Offline = "OFFLINE",
        /// Some members are down.
        Degraded = "DEGRADED",
        /// The object fails its health checks.
        Error = "ERROR",
        /// The member has weight 0 and takes no new connections.
        Draining = "DRAINING",
        /// No health monitor checks the member.
        NoMonitor = "NO_MONITOR",
    }
}

wire_enum! {
    /// How a health monitor checks.
    pub enum MonitorType {
        /// A TCP connection.
        Tcp = "TCP",
        /// An HTTP answer.
        Http = "HTTP",
        /// An HTTPS answer.
        Https = "HTTPS",
        /// A TLS handshake up to the server's hello.
        TlsHello = "TLS-HELLO",
        /// An ICMP echo.
        Ping = "PING",
        /// A UDP packet that is not refused.
        UdpConnect = "UDP-CONNECT",
        /// An SCTP association.
        Sctp = "SCTP",
    }
}

label_enum! {
    /// The provisioning status of a member that is expected or found. A status of Octavia that this version does not
    /// know is `Unknown`.
    #[derive(PartialOrd, Ord)]
    pub enum MemberStatus, all {
        /// `ProvisioningStatus::Active`
        Active = "ACTIVE",
        /// `ProvisioningStatus::PendingCreate`
        PendingCreate = "PENDING_CREATE",
        /// `ProvisioningStatus::PendingUpdate`
        PendingUpdate = "PENDING_UPDATE",
        /// `ProvisioningStatus::PendingDelete`
        PendingDelete = "PENDING_DELETE",
        /// `ProvisioningStatus::Error`
        Error = "ERROR",
        /// `ProvisioningStatus::Deleted`
        Deleted = "DELETED",
        /// The member does not exist.
        Missing = "Missing",
        /// The status is not known.
        Unknown = "Unknown",
    }
}

impl From<&ProvisioningStatus> for MemberStatus {
    fn from(status: &ProvisioningStatus) -> Self {
        match status {
            ProvisioningStatus::Active => Self::Active,
            ProvisioningStatus::PendingCreate => Self::PendingCreate,
            ProvisioningStatus::PendingUpdate => Self::PendingUpdate,
            ProvisioningStatus::PendingDelete => Self::PendingDelete,
            ProvisioningStatus::Error => Self::Error,
            ProvisioningStatus::Deleted => Self::Deleted,
            ProvisioningStatus::Unknown(_) => Self::Unknown,
        }
    }
}

impl std::fmt::Display for MemberStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl OperatingStatus {
    /// The label of a status that has not been read, or that this version does not know.
    pub const UNKNOWN_LABEL: &'static str = "Unknown";

    /// The status as metrics, events and the command line show it. All statuses that this version does not know have
    /// one label.
    pub fn label(&self) -> &str {
        match self {
            Self::Unknown(_) => Self::UNKNOWN_LABEL,
            known => known.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_octavias_own_words() {
        for word in ProvisioningStatus::WORDS {
            let status = MemberStatus::from(&ProvisioningStatus::from(*word));
            assert_eq!(status.as_str(), *word);
        }
        let other = ProvisioningStatus::from("REBUILDING");
        assert_eq!(MemberStatus::from(&other), MemberStatus::Unknown);
    }
}
