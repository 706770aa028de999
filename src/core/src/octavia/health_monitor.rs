//! Health monitors.

use serde::{Deserialize, Serialize};

use super::{MonitorType, OperatingStatus, ProvisioningStatus};
use crate::ids::{MonitorId, PoolId, ProjectId};
use crate::wire::{Reference, null_as_default, yes};

/// The parameters of a health monitor that say how often it checks a member, and when the member is up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MonitorParameters {
    /// Seconds between two checks.
    pub delay: u32,
    /// Seconds until a check counts as failed. Octavia refuses a value above the delay.
    pub timeout: u32,
    /// The number of successful checks after which a member is up.
    pub max_retries: u32,
    /// The number of failed checks after which a member is down.
    #[serde(default = "three")]
    pub max_retries_down: u32,
}

impl MonitorParameters {
    /// The values that CAPO gives to a health monitor if the spec has none.
    pub const CAPO_DEFAULTS: Self = Self {
        delay: 10,
        timeout: 5,
        max_retries: 5,
        max_retries_down: 3,
    };
}

/// A health monitor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct HealthMonitor {
    /// Octavia's id.
    pub id: MonitorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its kind of check.
    #[serde(default, rename = "type")]
    pub monitor_type: MonitorType,
    /// Its delay, timeout and retry counts.
    #[serde(flatten)]
    pub parameters: MonitorParameters,
    /// The progress of the last change.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// The pool to which it belongs. Octavia sends a list of one.
    #[serde(default, deserialize_with = "null_as_default")]
    pub pools: Vec<Reference<PoolId>>,
    /// Whether it checks members.
    #[serde(default = "yes")]
    pub admin_state_up: bool,
}

/// The health monitors to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthMonitorFilter {
    /// The exact name.
    pub name: Option<String>,
    /// The pool.
    pub pool_id: Option<PoolId>,
    /// The project.
    pub project_id: Option<ProjectId>,
}

/// A health monitor to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewHealthMonitor {
    /// The pool.
    pub pool_id: PoolId,
    /// Its name.
    pub name: String,
    /// Its kind of check.
    #[serde(rename = "type")]
    pub monitor_type: MonitorType,
    /// The page that a check by HTTP or HTTPS requests. Octavia refuses it with other types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_path: Option<String>,
    /// Its delay, timeout and retry counts.
    #[serde(flatten)]
    pub parameters: MonitorParameters,
}

/// The changes of a health monitor. Without any, Octavia writes the existing configuration to the data path again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct HealthMonitorUpdate {
    /// Its delay, timeout and retry counts.
    #[serde(flatten)]
    pub parameters: Option<MonitorParameters>,
}

fn three() -> u32 {
    3
}
