//! The events of the cloud, for test harnesses and the data path.

use serde::Serialize;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A server is running, so that a harness can start its processes at these addresses.
    ServerUp {
        /// Server id.
        id: String,
        /// Server name.
        name: String,
        /// First fixed address of each of its ports.
        addresses: Vec<String>,
        /// User data as sent, base64.
        user_data: Option<String>,
    },
    /// A server is not running any more: it was stopped, it failed, or its deletion has begun.
    ServerDown {
        /// Server id.
        id: String,
        /// Server name.
        name: String,
        /// First fixed address of each of its ports.
        addresses: Vec<String>,
    },
    /// A server's deletion is complete.
    ServerGone {
        /// Server id.
        id: String,
        /// Server name.
        name: String,
    },
    /// The data path of a load balancer must be updated.
    DataPath {
        /// Load balancer id.
        load_balancer: String,
    },
    /// Established connections of a load balancer must be closed, or only those to one member.
    Cut {
        /// Load balancer id.
        load_balancer: String,
        /// Member id.
        member: Option<String>,
    },
}
