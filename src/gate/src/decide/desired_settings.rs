//! Whether the listeners, pools and health monitors have the desired settings.

use crate::model::{desired::LoadBalancerSpec, port::Port, state::State};
use capo_core::MonitorType;

/// Whether every listener, pool and monitor is known to be as desired, in everything that Octavia shows.
pub(crate) fn is_as_desired(state: &State) -> bool {
    state.desired.as_ref().is_some_and(|desired| {
        state.reads.listeners_and_pools_read_at.is_some()
            && state.ports.iter().all(|port| {
                let parameters_unread = port.monitor.is_some()
                    && port.monitor_parameters.is_none()
                    && port.monitor_parameters_due;
                let ranges_unread = desired.allowed_cidrs.is_some()
                    && port.cidrs.is_none()
                    && state.reads.listeners_and_pools_due;
                port.is_ready()
                    && !parameters_unread
                    && !ranges_unread
                    && !has_other_type(port, desired)
                    && !has_other_parameters(port, desired)
                    && !has_other_cidrs(port, desired)
            })
    })
}

/// How the monitor of a port should check; `None` if its type is left as it is.
pub(crate) fn desired_type<'a>(
    port: &Port,
    desired: &'a LoadBalancerSpec,
) -> Option<&'a MonitorType> {
    let is_endpoint = desired.ports.first() == Some(&port.number);
    let can_be =
        |wanted: &&MonitorType| **wanted == MonitorType::Tcp || is_endpoint && !port.type_refused;
    desired.monitor_type.as_ref().filter(can_be)
}

/// Whether the monitor is known to be of another type than the desired one.
pub(crate) fn has_other_type(port: &Port, desired: &LoadBalancerSpec) -> bool {
    let is_known = port.monitor_type != MonitorType::default();
    is_known && desired_type(port, desired).is_some_and(|wanted| *wanted != port.monitor_type)
}

/// Whether the monitor is known to have another delay or timeout or other retry counts than the desired ones.
pub(crate) fn has_other_parameters(port: &Port, desired: &LoadBalancerSpec) -> bool {
    port.monitor.is_some()
        && port
            .monitor_parameters
            .is_some_and(|parameters| parameters != desired.monitor)
}

/// Whether the listener is known to have other source ranges than the desired ones.
pub(crate) fn has_other_cidrs(port: &Port, desired: &LoadBalancerSpec) -> bool {
    let (Some(desired), Some(known)) = (&desired.allowed_cidrs, &port.cidrs) else {
        return false;
    };
    let is_same = desired.len() == known.len() && desired.iter().all(|cidr| known.contains(cidr));
    port.listener.is_some() && !is_same
}
