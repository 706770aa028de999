//! Health monitors.

use serde::{Deserialize, Serialize};

use crate::{
    load_balancer::MonitorType,
    wire::{Reference, null_as_default, yes},
};
use capo_core::ids::{MonitorId, PoolId, ProjectId};
use capo_core::{OperatingStatus, ProvisioningStatus};

/// A health monitor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HealthMonitor {
    /// Octavia's id.
    pub id: MonitorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its kind of check.
    #[serde(default, rename = "type")]
    pub monitor_type: MonitorType,
    /// Seconds between two checks.
    pub delay: u32,
    /// Seconds until a check counts as failed.
    pub timeout: u32,
    /// The number of successful checks after which a member is up.
    pub max_retries: u32,
    /// The number of failed checks after which a member is down.
    #[serde(default = "three")]
    pub max_retries_down: u32,
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
    /// Seconds between two checks.
    pub delay: u32,
    /// Seconds until a check counts as failed. Octavia refuses a value above the delay.
    pub timeout: u32,
    /// The number of successful checks after which a member is up.
    pub max_retries: u32,
    /// The number of failed checks after which a member is down.
    pub max_retries_down: u32,
}

/// The changes of a health monitor. Without any, Octavia writes the existing configuration to the data path again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct HealthMonitorUpdate {
    /// Seconds between two checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// Seconds until a check counts as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// The number of successful checks after which a member is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The number of failed checks after which a member is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries_down: Option<u32>,
}

fn three() -> u32 {
    3
}
