//! Make OpenStack match the objects. A pass is observe, plan, act, report; none ever waits.

pub mod capi;
pub mod wakes;
pub mod watches;
// Waiting for the types they name in openstack/, membership/ and api/: backoff, cluster, context,
// identity, outcome, pass.
