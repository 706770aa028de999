//! Make OpenStack match the objects. A pass is observe, plan, act, report; none ever waits.

pub mod capi;
