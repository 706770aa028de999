//! Operating statuses, which heartbeats set from checks or from assumptions.

use super::{
    model::LoadBalancer,
    status::{Operating, Provisioning},
};
use crate::{
    settings::AssumedHealth,
    world::{Effect, World},
};

impl World {
    /// Schedules a heartbeat, because a row has changed.
    pub(crate) fn heartbeat_soon(&mut self, balancer: &str) {
        if self.octavia.heartbeat_due.insert(balancer.to_owned()) {
            self.after(
                self.durations.heartbeat,
                Effect::Heartbeat(balancer.to_owned()),
            );
        }
    }

    /// Records that the result of a member's checks has changed.
    pub(crate) fn member_checked(&mut self, balancer: &str, member: &str, up: bool) {
        let found = self
            .octavia
            .balancers
            .get_mut(balancer)
            .and_then(|lb| lb.pools.iter_mut().find_map(|pool| pool.member_mut(member)));
        if let Some(found) = found
            && found.up != Some(up)
        {
            found.up = Some(up);
            self.heartbeat_soon(balancer);
        }
    }

    /// A heartbeat: operating statuses follow the configuration and the checks of the amphora.
    pub(crate) fn heartbeat(&mut self, balancer: &str) {
        self.octavia.heartbeat_due.remove(balancer);
        if self.assumed_health == AssumedHealth::Silent && !self.has_data_path(balancer) {
            return;
        }
        let Some(applied) = self.octavia.applied.get(balancer).cloned() else {
            return;
        };
        let Some(lb) = self.octavia.balancers.get_mut(balancer) else {
            return;
        };
        for pool in applied.iter().filter_map(|listener| listener.pool.as_ref()) {
            let monitored = pool.monitor.is_some();
            for running in &pool.members {
                let member = lb
                    .pools
                    .iter_mut()
                    .find_map(|pool| pool.member_mut(&running.id));
                let Some(member) = member else { continue };
                member.head.operating = match (member.forced, monitored, running.enabled) {
                    (Some(forced), _, _) => forced,
                    (None, _, false) => Operating::Offline,
                    (None, false, true) => Operating::NoMonitor,
                    (None, true, true) if running.weight == 0 && pool.weighted => {
                        Operating::Draining
                    }
                    (None, true, true) if member.up == Some(false) || !running.plugged => {
                        Operating::Error
                    }
                    (None, true, true) => Operating::Online,
                };
            }
        }
        roll_up(lb);
    }
}

/// Derives the status of pools from members, and that of listeners and the load balancer from pools.
fn roll_up(lb: &mut LoadBalancer) {
    for pool in &mut lb.pools {
        let down = pool
            .members
            .iter()
            .filter(|member| member.head.operating == Operating::Error)
            .count();
        pool.head.operating = match (down, pool.members.len()) {
            _ if !pool.head.enabled => Operating::Offline,
            (0, _) => Operating::Online,
            (down, all) if down == all => Operating::Error,
            _ => Operating::Degraded,
        };
        if let Some(monitor) = &mut pool.monitor {
            monitor.head.operating = if monitor.head.enabled {
                Operating::Online
            } else {
                Operating::Offline
            };
        }
    }
    let worst = lb
        .pools
        .iter()
        .map(|pool| pool.head.operating)
        .max_by_key(|status| match status {
            Operating::Error => 3,
            Operating::Degraded => 2,
            Operating::Offline => 1,
            _ => 0,
        })
        .unwrap_or(Operating::Online);
    for listener in &mut lb.listeners {
        listener.head.operating = match (listener.head.enabled, listener.head.provisioning) {
            (false, _) | (_, Provisioning::PendingCreate) => Operating::Offline,
            _ => Operating::Online,
        };
    }
    lb.head.operating = if lb.head.enabled {
        worst
    } else {
        Operating::Offline
    };
}
