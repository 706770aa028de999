//! Metrics of the process itself.
//!
//! `/proc` is read here and not by prometheus's own `process` collector, because that collector counts processor time
//! in whole seconds: for a manager that uses 20 ms a second, it would show a rate of 0 for most of the time. It would
//! also add a thread count and help texts that are not in the catalogue.

use prometheus::{Gauge, IntGaugeVec, Registry, proto::MetricFamily};

use super::{
    Settings, catalogue,
    families::{Result, count, counters, gauge, seconds_counter, whole_gauge, whole_gauges},
    log_lines::log_lines,
};
use crate::kubernetes::leader::LEASE_NAME;
use capo_core::ConditionStatus;

/// Units of processor time in `/proc` per second. The value is the same on every Linux.
const TICKS: f64 = 100.0;

pub(super) struct Families {
    leads: IntGaugeVec,
    operator: IntGaugeVec,
    started: Gauge,
}

impl Families {
    pub(super) fn new(registry: &Registry, settings: &Settings) -> Result<Self> {
        whole_gauges(registry, &catalogue::BUILD)?
            .with_label_values(&[
                capo_core::build_info::VERSION,
                capo_core::build_info::REVISION,
                capo_core::build_info::RUSTC,
                capo_core::build_info::TARGET,
            ])
            .set(1);
        gauge(registry, &catalogue::MEMBER_ALERT_AFTER)?
            .set(settings.member_alert_after.as_secs_f64());
        let features = whole_gauges(registry, &catalogue::FEATURES)?;
        for (name, enabled) in &settings.features {
            // There are no alpha or beta features.
            features
                .with_label_values(&[*name, "stable"])
                .set(i64::from(*enabled));
        }
        let families = Self {
            leads: whole_gauges(registry, &catalogue::LEADS)?,
            operator: whole_gauges(registry, &catalogue::OPERATOR)?,
            started: gauge(registry, &catalogue::PROCESS_START)?,
        };
        families.started.set(super::now());
        families.leading(false);
        Ok(families)
    }

    pub(super) fn leading(&self, leads: bool) {
        self.leads
            .with_label_values(&[LEASE_NAME])
            .set(i64::from(leads));
    }

    pub(super) fn operator(&self, condition: &str, status: ConditionStatus) {
        for each in [
            ConditionStatus::True,
            ConditionStatus::False,
            ConditionStatus::Unknown,
        ] {
            self.operator
                .with_label_values(&[condition, each.as_str()])
                .set(i64::from(each == status));
        }
    }

    /// Values of the kernel, the runtime and the log at this moment; 0 if the kernel does not provide one.
    pub(super) fn now() -> Result<Vec<MetricFamily>> {
        let registry = Registry::new();
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
        let status = read("status").unwrap_or_default();
        for (metric, field) in [
            (&catalogue::PROCESS_RESIDENT, "VmRSS:"),
            (&catalogue::PROCESS_VIRTUAL, "VmSize:"),
        ] {
            gauge(&registry, metric)?.set(field_of(&status, field, 1).unwrap_or_default() * 1024.0);
        }
        let limits = read("limits").unwrap_or_default();
        gauge(&registry, &catalogue::PROCESS_MAX_FILES)?
            .set(field_of(&limits, "Max open files", 3).unwrap_or_default());
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        whole_gauge(&registry, &catalogue::PROCESS_FILES)?.set(count(files));
        let ticks = processor_ticks(&read("stat").unwrap_or_default()).unwrap_or_default();
        seconds_counter(&registry, &catalogue::PROCESS_CPU)?.inc_by(ticks / TICKS);

        let (workers, busy) = tokio::runtime::Handle::try_current().map_or((0, 0.0), |runtime| {
            let metrics = runtime.metrics();
            let workers = metrics.num_workers();
            let busy = (0..workers).map(|worker| metrics.worker_total_busy_duration(worker));
            (workers, busy.map(|busy| busy.as_secs_f64()).sum())
        });
        whole_gauge(&registry, &catalogue::RUNTIME_WORKERS)?.set(count(workers));
        seconds_counter(&registry, &catalogue::RUNTIME_BUSY)?.inc_by(busy);

        let messages = counters(&registry, &catalogue::LOG_MESSAGES)?;
        for (level, lines) in log_lines() {
            messages.with_label_values(&[level]).inc_by(lines);
        }
        Ok(registry.gather())
    }
}

/// The number in column `column` of the line that begins with `name`.
fn field_of(text: &str, name: &str, column: usize) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

/// User and system time in `/proc/self/stat`, whose second field may contain spaces and brackets.
fn processor_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_read_right() {
        assert_eq!(
            field_of("VmPeak: 9 kB\nVmRSS:\t  7012 kB\n", "VmRSS:", 1),
            Some(7012.0)
        );
        assert_eq!(
            field_of(
                "Max open files            1024   4096   files",
                "Max open files",
                3
            ),
            Some(1024.0)
        );
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 3 0 9";
        assert_eq!(processor_ticks(stat), Some(400.0));
        assert_eq!(processor_ticks(""), None);
    }
}
