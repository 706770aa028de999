//! The configuration that a push delivers to the data path.

use serde::Serialize;

use super::{model::LoadBalancer, status::Provisioning};

/// A listener as the data path runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedListener {
    /// Listener id.
    pub id: String,
    /// Port.
    pub port: u16,
    /// Whether it accepts connections.
    pub enabled: bool,
    /// The ranges that may connect; all when empty.
    pub allowed_cidrs: Vec<String>,
    /// Its pool.
    pub pool: Option<AppliedPool>,
}

/// A pool as the data path runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedPool {
    /// Pool id.
    pub id: String,
    /// Whether a connection that one member refuses is offered to another.
    pub redispatch: bool,
    /// Whether weights are honoured.
    pub weighted: bool,
    /// Its checks.
    pub monitor: Option<AppliedMonitor>,
    /// Its members.
    pub members: Vec<AppliedMember>,
}

/// Checks as the data path makes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedMonitor {
    /// `TCP`, `HTTPS`, ...
    pub kind: String,
    /// Seconds between checks.
    pub delay: u64,
    /// Seconds until a check has failed.
    pub timeout: u64,
    /// The number of successful checks until the member is up.
    pub rise: u64,
    /// The number of failed checks until the member is down.
    pub fall: u64,
    /// The path that checks by HTTP and HTTPS request.
    pub path: Option<String>,
}

/// A member as the data path runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedMember {
    /// Member id.
    pub id: String,
    /// Address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Weight; 0 takes no new connections.
    pub weight: u64,
    /// Whether it is used only when all others are down.
    pub backup: bool,
    /// Whether it gets connections.
    pub enabled: bool,
    /// Whether the amphora has an interface that reaches it.
    pub plugged: bool,
    /// The address and port of the checks.
    pub check: (String, u16),
}

/// The configuration that a push of these rows delivers: all rows except those in PENDING_DELETE.
pub(super) fn rendered(lb: &LoadBalancer) -> Vec<AppliedListener> {
    let ovn = lb.provider == "ovn";
    let stays = |status: Provisioning| status != Provisioning::PendingDelete;
    let pool = |id: &String| {
        let pool = lb
            .pool(id)
            .filter(|pool| stays(pool.head.provisioning) && pool.head.enabled)?;
        Some(AppliedPool {
            id: pool.head.id.clone(),
            redispatch: !ovn,
            weighted: !ovn,
            monitor: pool
                .monitor
                .as_ref()
                .filter(|monitor| stays(monitor.head.provisioning) && monitor.head.enabled)
                .map(|monitor| AppliedMonitor {
                    kind: monitor.kind.clone(),
                    delay: monitor.delay,
                    timeout: monitor.timeout,
                    rise: monitor.max_retries,
                    fall: monitor.max_retries_down,
                    path: monitor
                        .rest
                        .get("url_path")
                        .and_then(|path| path.as_str())
                        .map(str::to_owned),
                }),
            members: pool
                .members
                .iter()
                .filter(|member| stays(member.head.provisioning))
                .map(|member| AppliedMember {
                    id: member.head.id.clone(),
                    address: member.address.clone(),
                    port: member.port,
                    weight: member.weight,
                    backup: member.backup && !ovn,
                    enabled: member.head.enabled,
                    plugged: member.plugged,
                    check: (
                        member
                            .monitor_address
                            .clone()
                            .unwrap_or_else(|| member.address.clone()),
                        member.monitor_port.unwrap_or(member.port),
                    ),
                })
                .collect(),
        })
    };
    lb.listeners
        .iter()
        .filter(|listener| stays(listener.head.provisioning))
        .map(|listener| AppliedListener {
            id: listener.head.id.clone(),
            port: listener.port,
            enabled: listener.head.enabled && lb.head.enabled,
            allowed_cidrs: listener.allowed_cidrs.clone(),
            pool: listener.pool.as_ref().and_then(pool),
        })
        .collect()
}
