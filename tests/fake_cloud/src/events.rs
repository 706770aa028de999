//! What the cloud tells those around it: test harnesses, and the data path.

use serde::Serialize;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A server runs: what boots on it can be started at its addresses.
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
    /// A server runs no more: stopped, failed, or its deletion has begun.
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
    /// The data path of a load balancer is to be looked at again.
    DataPath {
        /// Load balancer id.
        load_balancer: String,
    },
    /// Established connections of a load balancer are to be cut, or only those to one member.
    Cut {
        /// Load balancer id.
        load_balancer: String,
        /// Member id.
        member: Option<String>,
    },
}
