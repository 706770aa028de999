//! The process itself.

use jiff::Timestamp;
use prometheus::{Gauge, IntGauge, IntGaugeVec, Registry};

use super::catalogue::{Result, gauge, seconds, whole_gauge, whole_gauges};
use crate::manager::leader::LEASE_NAME;

pub(super) struct Families {
    leads: IntGaugeVec,
    resident: Gauge,
    open_files: IntGauge,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let build = whole_gauges(
            registry,
            "capo_build_info",
            "What this program is; always 1.",
            &["version", "revision", "rustc", "target"],
        )?;
        build
            .with_label_values(&[
                crate::cli::version::VERSION,
                crate::cli::version::REVISION,
                crate::cli::version::RUSTC,
                crate::cli::version::TARGET,
            ])
            .set(1);
        gauge(
            registry,
            "process_start_time_seconds",
            "When this process started.",
        )?
        .set(seconds(Timestamp::now()));
        let families = Self {
            leads: whole_gauges(
                registry,
                "leader_election_master_status",
                "1 while this process holds the leader lease.",
                &["name"],
            )?,
            resident: gauge(
                registry,
                "process_resident_memory_bytes",
                "Resident memory.",
            )?,
            open_files: whole_gauge(registry, "process_open_fds", "Open file descriptors.")?,
        };
        families.leading(false);
        Ok(families)
    }

    pub(super) fn leading(&self, leads: bool) {
        self.leads
            .with_label_values(&[LEASE_NAME])
            .set(i64::from(leads));
    }

    /// Reads what only the kernel knows; leaves the last values where it does not tell.
    pub(super) fn refresh(&self) {
        let kibibytes = std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| {
                let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
                line.split_whitespace().next()?.parse::<f64>().ok()
            });
        if let Some(kibibytes) = kibibytes {
            self.resident.set(kibibytes * 1024.0);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files
                .set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
    }
}
