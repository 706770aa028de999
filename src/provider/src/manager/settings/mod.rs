//! What the manager is told: flags with the names and defaults of CAPO, and our own.

mod address;
mod duration;
mod spelling;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use capo_core::GateMode;
use clap::{
    ArgAction, Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

pub(crate) use duration::parse as parse_duration;
pub use spelling::normalise;

use crate::{metrics::MemberDetail, webhooks::storage_migration::Phases};

/// While a machine is drained KubeadmControlPlane changes nothing else.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// One readable line per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// Everything the manager is told. The defaults are CAPO's where CAPO has the flag.
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

    /// Only watch this namespace; all of them if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        help_heading = "Kubernetes"
    )]
    pub namespace: String,

    /// Only reconcile objects whose label cluster.x-k8s.io/watch-filter has this value
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        help_heading = "Kubernetes"
    )]
    pub watch_filter: String,

    /// How often every object is looked at without a reason
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10m", help_heading = "Kubernetes")]
    pub sync_period: Duration,

    /// Requests per second to the Kubernetes API, 20 if only a burst is given; no limit of ours without both
    #[arg(long, value_name = "NUMBER", value_parser = rate, allow_negative_numbers = true, help_heading = "Kubernetes")]
    pub kube_api_qps: Option<f64>,

    /// Requests to the Kubernetes API that may come at once, 30 if only a rate is given
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

    /// Work only while holding the leader lease
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_name = "true|false", help_heading = "Leader election")]
    pub leader_elect: bool,

    /// How long a lease that is not renewed keeps others out
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew before it stops
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: Duration,

    /// The pause between two attempts at the lease
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: Duration,

    /// Namespace of the lease; the Pod's own if empty
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "POD_NAMESPACE",
        help_heading = "Leader election"
    )]
    pub leader_elect_resource_namespace: String,

    /// Requests per second to one service of one cloud with one credential
    #[arg(long, default_value_t = 10.0, value_name = "NUMBER", value_parser = positive, help_heading = "OpenStack")]
    pub openstack_qps: f64,

    /// Requests to one service that may come at once
    #[arg(long, default_value_t = 20, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "OpenStack")]
    pub openstack_burst: u32,

    /// Requests to one service that may be under way at the same time
    #[arg(long, default_value_t = 8, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "OpenStack")]
    pub openstack_max_in_flight: u32,

    /// PEM file of authorities to trust where a clouds.yaml Secret has no cacert
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "FILE",
        help_heading = "OpenStack"
    )]
    pub ca_certs: String,

    /// How the load balancer gate acts
    #[arg(long, value_parser = gate_mode(), default_value_t = GateMode::Enforce, help_heading = "Load balancer gate")]
    pub load_balancer_gate: GateMode,

    /// Report a member that is pending for longer
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2m", help_heading = "Load balancer gate")]
    pub member_warn_after: Duration,

    /// Alert about a member that is pending for longer
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "12m", help_heading = "Load balancer gate")]
    pub member_alert_after: Duration,

    /// How long a drained member keeps its connections before it is removed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0s", help_heading = "Load balancer gate")]
    pub member_drain_grace: Duration,

    /// Call a member that is pending for longer stuck
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "35m", help_heading = "Load balancer gate")]
    pub member_stuck_after: Duration,

    /// Repair a member that is pending under an active load balancer for longer [default: 1m, with ovn 2m]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Load balancer gate")]
    pub member_orphan_after: Option<Duration>,

    /// Port of the webhook server; 0 for none
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

    /// Address of /healthz and /readyz; 0 for none
    #[arg(long, value_parser = listen_address, default_value = ":9440", help_heading = "Serving")]
    pub health_addr: ListenAddress,

    /// Address of /metrics; 0 for none
    #[arg(long, value_parser = listen_address, default_value = ":8443", help_heading = "Serving")]
    pub diagnostics_address: ListenAddress,

    /// Serve /metrics over plain HTTP and to everybody
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_name = "true|false", help_heading = "Serving")]
    pub insecure_diagnostics: bool,

    /// Which members the metrics show one by one; all are counted
    #[arg(long, value_enum, default_value_t = MemberDetail::Auto, help_heading = "Serving")]
    pub metrics_member_detail: MemberDetail,

    /// Members shown one by one before auto leaves out those that are well
    #[arg(long, default_value_t = 500, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=100_000), help_heading = "Serving")]
    pub metrics_max_members: u32,

    /// Report in the status of the ClusterOperator of this name too; empty for none
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME",
        help_heading = "Serving"
    )]
    pub cluster_operator_name: String,

    /// Oldest TLS version that is served
    #[arg(long, default_value = "VersionTLS12", value_parser = ["VersionTLS12", "VersionTLS13"], help_heading = "Serving")]
    pub tls_min_version: String,

    /// Leave out parts of the storage migration: All, StorageVersionMigration, CleanupManagedFields
    #[arg(
        long,
        value_name = "PHASES",
        value_delimiter = ',',
        help_heading = "Controllers"
    )]
    pub skip_crd_migration_phases: Vec<String>,

    /// Verbosity of the log, 0 to 5
    #[arg(long = "v", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=10), value_name = "LEVEL", help_heading = "Logging")]
    pub verbosity: u8,

    /// Form of the log
    #[arg(long, value_enum, default_value_t = LoggingFormat::Text, help_heading = "Logging")]
    pub logging_format: LoggingFormat,

    #[command(flatten)]
    pub(super) accepted: Accepted,
}

/// Flags of CAPO that mean nothing here. They are accepted, so that its arguments can be kept, and
/// reported when they ask for something.
#[derive(Debug, Clone, Args)]
pub(super) struct Accepted {
    #[arg(long, hide = true)]
    scope_cache_max_size: Option<String>,
    #[arg(long, hide = true)]
    lb_provider: Option<String>,
    #[arg(long, hide = true)]
    profiler_address: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    contention_profiling: Option<String>,
    #[arg(long, hide = true)]
    tls_cipher_suites: Option<String>,
    #[arg(long, hide = true)]
    feature_gates: Vec<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long, hide = true)]
    log_flush_frequency: Option<String>,
    #[arg(long, hide = true)]
    log_json_info_buffer_size: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_json_split_stream: Option<String>,
    #[arg(long, hide = true)]
    log_text_info_buffer_size: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_text_split_stream: Option<String>,
}

/// Where to listen, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(
    /// The address; `None` means not at all.
    pub Option<SocketAddr>,
);

fn listen_address(text: &str) -> Result<ListenAddress, String> {
    address::parse(text).map(ListenAddress)
}

/// The words of `--load-balancer-gate`, each with what it does.
fn gate_mode() -> impl TypedValueParser<Value = GateMode> {
    let words = GateMode::ALL.map(|mode| {
        PossibleValue::new(mode.as_str()).help(match mode {
            GateMode::Enforce => "Hold what must wait",
            GateMode::Observe => "Report what would be held, and hold nothing",
            GateMode::Off => "Do nothing and remove the deletion hooks",
        })
    });
    PossibleValuesParser::new(words).try_map(|word| word.parse::<GateMode>())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above 0")),
    }
}

/// A rate of requests, or a negative number for none, as client-go has it.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number != 0.0 => Ok(number),
        _ => Err(format!(
            "{text:?} is not a number above 0, or below 0 for no limit"
        )),
    }
}

impl Settings {
    /// Requests per second and at once that the Kubernetes API may be sent; `None` for no limit.
    pub fn kube_budget(&self) -> Option<(f64, u32)> {
        if self.kube_api_qps.is_none() && self.kube_api_burst.is_none() {
            return None;
        }
        let qps = self.kube_api_qps.unwrap_or(super::kube_budget::QPS);
        let burst = self.kube_api_burst.unwrap_or(super::kube_budget::BURST);
        (qps > 0.0).then_some((qps, burst))
    }

    /// What one flag alone can't tell: the first contradiction between flags, naming both and what
    /// is allowed.
    ///
    /// # Errors
    /// That text.
    pub fn check(&self) -> Result<(), String> {
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return Err(format!(
                "--leader-elect-renew-deadline is {:?}: it must be shorter than --leader-elect-lease-duration, {:?}",
                self.leader_elect_renew_deadline, self.leader_elect_lease_duration
            ));
        }
        if self.leader_elect_renew_deadline <= self.leader_elect_retry_period
            || self.leader_elect_retry_period.is_zero()
        {
            return Err(format!(
                "--leader-elect-retry-period is {:?}: it must be above 0 and shorter than --leader-elect-renew-deadline, {:?}",
                self.leader_elect_retry_period, self.leader_elect_renew_deadline
            ));
        }
        if self.member_warn_after > self.member_alert_after
            || self.member_alert_after > self.member_stuck_after
        {
            return Err(format!(
                "--member-warn-after {:?}, --member-alert-after {:?} and --member-stuck-after {:?} must not fall",
                self.member_warn_after, self.member_alert_after, self.member_stuck_after
            ));
        }
        if self.member_orphan_after.is_some_and(|span| span.is_zero()) {
            return Err("--member-orphan-after is 0: it must be above 0".to_owned());
        }
        if self.member_drain_grace > LONGEST_GRACE {
            return Err(format!(
                "--member-drain-grace is {:?}: it must be at most {LONGEST_GRACE:?}, as a deletion waits that long",
                self.member_drain_grace
            ));
        }
        Phases::without(&self.skip_crd_migration_phases)
            .map_err(|error| format!("--skip-crd-migration-phases: {error}"))?;
        if self.sync_period.is_zero() {
            return Err("--sync-period is 0: it must be above 0".to_owned());
        }
        Ok(())
    }

    /// The flags that were given and mean nothing here, for one warning each.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let accepted = &self.accepted;
        let given = [
            (
                "--scope-cache-max-size",
                accepted.scope_cache_max_size.is_some(),
            ),
            (
                "--lb-provider",
                accepted
                    .lb_provider
                    .as_deref()
                    .is_some_and(|provider| provider != "amphora"),
            ),
            (
                "--profiler-address",
                accepted
                    .profiler_address
                    .as_deref()
                    .is_some_and(|address| !address.is_empty()),
            ),
            (
                "--contention-profiling",
                accepted.contention_profiling.is_some(),
            ),
            (
                "--tls-cipher-suites",
                accepted
                    .tls_cipher_suites
                    .as_deref()
                    .is_some_and(|suites| !suites.is_empty()),
            ),
            (
                "--feature-gates",
                accepted.feature_gates.iter().any(|gates| !gates.is_empty()),
            ),
            ("--vmodule", accepted.vmodule.is_some()),
            (
                "--log-flush-frequency",
                accepted.log_flush_frequency.is_some(),
            ),
            (
                "--log-json-info-buffer-size",
                accepted.log_json_info_buffer_size.is_some(),
            ),
            (
                "--log-json-split-stream",
                accepted.log_json_split_stream.is_some(),
            ),
            (
                "--log-text-info-buffer-size",
                accepted.log_text_info_buffer_size.is_some(),
            ),
            (
                "--log-text-split-stream",
                accepted.log_text_split_stream.is_some(),
            ),
        ];
        given
            .into_iter()
            .filter_map(|(flag, given)| given.then_some(flag))
            .collect()
    }
}

#[cfg(test)]
mod tests;
