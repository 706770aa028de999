//! The manager's flags: those of CAPO with their names and defaults, and the additional ones of capo-rs.

mod accepted;
mod address;
mod contradiction;
mod duration;
mod go_flags;
mod number;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use capo_core::GateMode;
use clap::{
    ArgAction, Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

pub(super) use accepted::Accepted;
pub use contradiction::Contradiction;
pub(crate) use duration::parse as parse_duration;
pub use go_flags::normalise;

use crate::{
    controllers::ClusterIdentityDefault,
    http::MinimumTls,
    kubernetes::{BURST, Budget, QPS},
    metrics::MemberDetail,
    storage_migration::plan::Phases,
};

/// The longest drain of a member. During a drain KubeadmControlPlane changes nothing else in its control plane.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// One readable line per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// The manager's settings. Where CAPO has the flag, the default is CAPO's.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Kubeconfig file; without it the Pod's own ServiceAccount is used
    #[arg(
        long,
        value_name = "FILE",
        env = "KUBECONFIG",
        help_heading = "Kubernetes"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Watch only this namespace; all namespaces if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        help_heading = "Kubernetes"
    )]
    pub namespace: String,

    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        help_heading = "Kubernetes"
    )]
    pub watch_filter: String,

    /// How often every object is reconciled even if nothing changed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10m", help_heading = "Kubernetes")]
    pub sync_period: Duration,

    /// Requests per second to the Kubernetes API, 20 if only a burst is set; without both flags there is no limit
    #[arg(long, value_name = "NUMBER", value_parser = number::rate, allow_negative_numbers = true, help_heading = "Kubernetes")]
    pub kube_api_qps: Option<f64>,

    /// Requests to the Kubernetes API that may be sent at once, 30 if only a rate is set
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Kubernetes")]
    pub kube_api_burst: Option<u32>,

    /// OpenStackClusters reconciled at the same time
    #[arg(long, default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Kubernetes")]
    pub openstackcluster_concurrency: u16,

    /// OpenStackMachines, and as many OpenStackServers, reconciled at the same time
    #[arg(long, default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Kubernetes")]
    pub openstackmachine_concurrency: u16,

    /// OpenStackMachineTemplates reconciled at the same time
    #[arg(long, default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Kubernetes")]
    pub openstackmachinetemplate_concurrency: u16,

    /// Reconcile only while holding the leader lease
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_name = "true|false", help_heading = "Leader election")]
    pub leader_elect: bool,

    /// How long a lease that is not renewed keeps other replicas out
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew the lease before it stops
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: Duration,

    /// The pause between two attempts to take or renew the lease
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: Duration,

    /// Namespace of the lease; the Pod's own namespace if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "POD_NAMESPACE",
        help_heading = "Leader election"
    )]
    pub leader_elect_resource_namespace: String,

    /// Requests per second to one service of one cloud with one credential
    #[arg(long, default_value_t = 10.0, value_name = "NUMBER", value_parser = number::positive, help_heading = "OpenStack")]
    pub openstack_qps: f64,

    /// Requests to one service that may be sent at once
    #[arg(long, default_value_t = 20, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "OpenStack")]
    pub openstack_burst: u32,

    /// Requests to one service that may be in flight at the same time
    #[arg(long, default_value_t = 8, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "OpenStack")]
    pub openstack_max_in_flight: u32,

    /// PEM file of certificate authorities, trusted if a clouds.yaml Secret has no cacert
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "FILE",
        help_heading = "OpenStack"
    )]
    pub ca_certs: String,

    /// Whether every namespace or none may use an OpenStackClusterIdentity without a namespaceSelector
    #[arg(long, value_enum, default_value_t = ClusterIdentityDefault::Allow, help_heading = "OpenStack")]
    pub cluster_identity_default: ClusterIdentityDefault,

    /// How the load balancer gate acts
    #[arg(long, value_parser = gate_mode(), default_value_t = GateMode::Enforce, help_heading = "Load balancer gate")]
    pub load_balancer_gate: GateMode,

    /// How long the load balancer may be PENDING or unread before the OpenStackCluster is not Ready
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2m", help_heading = "Load balancer gate")]
    pub member_warn_after: Duration,

    /// Alert about a member that is pending for longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "12m", help_heading = "Load balancer gate")]
    pub member_alert_after: Duration,

    /// How long a drained member keeps its connections before it is removed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0s", help_heading = "Load balancer gate")]
    pub member_drain_grace: Duration,

    /// Report a member as stuck that is pending for longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "35m", help_heading = "Load balancer gate")]
    pub member_stuck_after: Duration,

    /// Repair a member that is pending under an ACTIVE load balancer for longer than this [default: 1m, with OVN 2m,
    /// with amphorav2 as --member-alert-after]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Load balancer gate")]
    pub member_orphan_after: Option<Duration>,

    /// Port of the webhook server; 0 turns it off
    #[arg(long, default_value_t = 9443, help_heading = "Serving")]
    pub webhook_port: u16,

    /// Folder with tls.crt and tls.key of the webhook server
    #[arg(
        long,
        default_value = "/tmp/k8s-webhook-server/serving-certs",
        value_name = "FOLDER",
        help_heading = "Serving"
    )]
    pub webhook_cert_dir: PathBuf,

    /// Address of /healthz and /readyz; 0 turns them off
    #[arg(long, value_parser = listen_address, default_value = ":9440", help_heading = "Serving")]
    pub health_addr: ListenAddress,

    /// Address of /metrics; 0 turns it off
    #[arg(long, value_parser = listen_address, default_value = ":8443", help_heading = "Serving")]
    pub diagnostics_address: ListenAddress,

    /// Serve /metrics over plain HTTP and without authentication
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_name = "true|false", help_heading = "Serving")]
    pub insecure_diagnostics: bool,

    /// Which members have series of their own; all members are counted
    #[arg(long, value_enum, default_value_t = MemberDetail::Auto, help_heading = "Serving")]
    pub metrics_member_detail: MemberDetail,

    /// Members with series of their own, above which auto leaves out healthy members
    #[arg(long, default_value_t = 500, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=100_000), help_heading = "Serving")]
    pub metrics_max_members: u32,

    /// Also report in the status of the ClusterOperator with this name; none if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME",
        help_heading = "Serving"
    )]
    pub cluster_operator_name: String,

    /// Oldest TLS version that is served
    #[arg(long, value_enum, default_value_t = MinimumTls::V1_2, help_heading = "Serving")]
    pub tls_min_version: MinimumTls,

    /// Skip parts of the storage migration: All, StorageVersionMigration, CleanupManagedFields
    #[arg(
        long,
        value_name = "PHASES",
        value_delimiter = ',',
        help_heading = "Controllers"
    )]
    pub skip_crd_migration_phases: Vec<String>,

    /// Run the passes once, print what they would change, change nothing, and end: the same as the command plan
    #[arg(long, help_heading = "Controllers")]
    pub dry_run: bool,

    /// Verbosity of the log, 0 to 10; from 5 on all are the same
    #[arg(long = "v", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=10), value_name = "LEVEL", help_heading = "Logging")]
    pub verbosity: u8,

    /// Form of the log
    #[arg(long, value_enum, default_value_t = LoggingFormat::Text, help_heading = "Logging")]
    pub logging_format: LoggingFormat,

    #[command(flatten)]
    pub(super) accepted: Accepted,
}

/// The address of a listener that can be turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(
    /// The address; `None` if the listener is turned off.
    pub Option<SocketAddr>,
);

fn listen_address(text: &str) -> Result<ListenAddress, address::NotAnAddress> {
    address::parse(text).map(ListenAddress)
}

/// The values of `--load-balancer-gate`, each with its effect.
fn gate_mode() -> impl TypedValueParser<Value = GateMode> {
    let values = GateMode::ALL.map(|mode| {
        PossibleValue::new(mode.as_str()).help(match mode {
            GateMode::Enforce => {
                "Hold a rollout until the load balancer is ready for its next step"
            }
            GateMode::Observe => "Report what would be held, but hold nothing",
            GateMode::Off => "Hold and report nothing, and remove the deletion hooks",
        })
    });
    PossibleValuesParser::new(values).try_map(|value| value.parse::<GateMode>())
}

impl Settings {
    /// The budget of requests to the Kubernetes API; `None` for no limit.
    pub(crate) fn kube_budget(&self) -> Option<Budget> {
        let (qps, burst) = self.kube_limits()?;
        Some(Budget::new(qps, burst))
    }

    /// The rate and the burst of requests to the Kubernetes API; `None` for no limit.
    fn kube_limits(&self) -> Option<(f64, u32)> {
        if self.kube_api_qps.is_none() && self.kube_api_burst.is_none() {
            return None;
        }
        let qps = self.kube_api_qps.unwrap_or(QPS);
        let burst = self.kube_api_burst.unwrap_or(BURST);
        (qps > 0.0).then_some((qps, burst))
    }

    /// Checks the flags against each other.
    ///
    /// # Errors
    /// The first contradiction between flags.
    pub fn check(&self) -> Result<(), Contradiction> {
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return Err(Contradiction::RenewDeadline {
                deadline: self.leader_elect_renew_deadline,
                lease: self.leader_elect_lease_duration,
            });
        }
        if self.leader_elect_renew_deadline <= self.leader_elect_retry_period
            || self.leader_elect_retry_period.is_zero()
        {
            return Err(Contradiction::RetryPeriod {
                period: self.leader_elect_retry_period,
                deadline: self.leader_elect_renew_deadline,
            });
        }
        if self.member_warn_after > self.member_alert_after
            || self.member_alert_after > self.member_stuck_after
        {
            return Err(Contradiction::Thresholds {
                warn: self.member_warn_after,
                alert: self.member_alert_after,
                stuck: self.member_stuck_after,
            });
        }
        if self.member_orphan_after.is_some_and(|span| span.is_zero()) {
            return Err(Contradiction::Zero("--member-orphan-after"));
        }
        if self.member_drain_grace > LONGEST_GRACE {
            return Err(Contradiction::DrainGrace {
                grace: self.member_drain_grace,
                longest: LONGEST_GRACE,
            });
        }
        Phases::without(&self.skip_crd_migration_phases)?;
        if self.sync_period.is_zero() {
            return Err(Contradiction::Zero("--sync-period"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
