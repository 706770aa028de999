//! The checks of the members of one load balancer: which run, and what their results change.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    Pushed, Running,
    check::{Check, Health},
    front::Common,
};
use crate::{
    octavia::{AppliedMember, AppliedMonitor},
    server::Shared,
};

/// A check that runs.
pub(super) struct Checked {
    member: AppliedMember,
    monitor: AppliedMonitor,
    stop: CancellationToken,
}

/// Checks the members as the pushed configuration says.
pub(super) fn follow_checks(
    shared: &Arc<Shared>,
    running: &mut Running,
    id: &str,
    pushed: &Pushed,
) {
    let mut wanted: HashMap<(String, String), (AppliedMember, AppliedMonitor)> = HashMap::new();
    let mut disabled = BTreeSet::new();
    let is_reached = !pushed.addresses.is_empty();
    let listeners = pushed.listeners.iter().filter(|_| is_reached);
    for pool in listeners.filter_map(|listener| listener.pool.as_ref()) {
        let of_pool = pool.members.iter();
        disabled.extend(
            of_pool
                .filter(|member| !member.enabled)
                .map(|member| member.id.clone()),
        );
        let Some(monitor) = &pool.monitor else {
            continue;
        };
        for member in pool.members.iter().filter(|member| member.enabled) {
            wanted.insert(
                (pool.id.clone(), member.id.clone()),
                (member.clone(), monitor.clone()),
            );
        }
    }
    let before = std::mem::replace(&mut running.disabled, disabled);
    let common = Arc::clone(&running.common);
    running.checks.retain(|key, checked| {
        let stays = wanted.get(key).is_some_and(|(member, monitor)| {
            (&member.check, member.plugged, monitor)
                == (
                    &checked.member.check,
                    checked.member.plugged,
                    &checked.monitor,
                )
        });
        if !stays {
            checked.stop.cancel();
            if !wanted.contains_key(key) {
                common.forget_check(&key.0, &key.1);
            }
        }
        stays
    });
    for (key, (member, monitor)) in wanted {
        if running.checks.contains_key(&key) {
            continue;
        }
        let stop = running.end.child_token();
        let health = if pushed.has_amphorae && before.contains(&key.1) {
            Health::enabled(monitor.rise)
        } else {
            Health::NEW
        };
        let checking = Checking {
            balancer: id.to_owned(),
            pool: key.0.clone(),
            member: member.clone(),
            monitor: monitor.clone(),
            health,
        };
        let task = checking.run(Arc::clone(shared), Arc::clone(&common));
        let stopped = stop.clone();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = task => {}
            }
        });
        running.checks.insert(
            key,
            Checked {
                member,
                monitor,
                stop,
            },
        );
    }
}

struct Checking {
    balancer: String,
    pool: String,
    member: AppliedMember,
    monitor: AppliedMonitor,
    /// The state before the first check.
    health: Health,
}

impl Checking {
    async fn run(self, shared: Arc<Shared>, common: Arc<Common>) {
        let (address, port) = &self.member.check;
        let target = address
            .parse::<IpAddr>()
            .ok()
            .filter(IpAddr::is_loopback)
            .filter(|_| self.member.plugged)
            .map(|address| SocketAddr::new(address, *port));
        let check = match Check::new(&self.monitor) {
            Ok(check) => check,
            Err(error) => {
                tracing::error!(%error, "No member can be checked");
                return;
            }
        };
        let limit = Duration::from_secs(self.monitor.timeout.max(1));
        let report = |up: bool| {
            common.set_down(&self.pool, &self.member.id, !up);
            shared.with(|world| world.member_checked(&self.balancer, &self.member.id, up));
        };
        let mut health = self.health;
        if !health.up {
            report(false);
        }
        let mut every = tokio::time::interval(Duration::from_secs(self.monitor.delay.max(1)));
        loop {
            every.tick().await;
            let good = match target {
                Some(target) => check.passes(target, limit).await,
                None => false,
            };
            let before = health;
            health = health.after(good, self.monitor.rise, self.monitor.fall);
            if before.up != health.up || before == Health::NEW {
                report(health.up);
            }
        }
    }
}
