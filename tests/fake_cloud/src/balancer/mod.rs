//! The data path: load balancers on loopback addresses that listen, check members and balance connections.
//!
//! It follows the pushed configuration and not the API's rows: after a failed push the old configuration stays in
//! place.

mod check;
mod front;
mod pick;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::{
    net::TcpListener,
    sync::{broadcast, watch},
};
use tokio_util::sync::CancellationToken;

use self::{
    check::{Check, Health},
    front::{Common, Life},
};
use crate::{
    events::Event,
    octavia::{AppliedListener, AppliedMember, AppliedMonitor},
    server::Shared,
    world::World,
};

/// The state of the data path of one load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DataPath {
    /// Addresses and ports that are listened on.
    pub listening: BTreeSet<SocketAddr>,
    /// The addresses on which it could not listen, with the errors.
    pub failed: BTreeMap<SocketAddr, String>,
    /// Connections carried so far, by member id.
    pub served: BTreeMap<String, u64>,
}

struct Front {
    config: watch::Sender<Arc<AppliedListener>>,
    stop: CancellationToken,
}

struct Checked {
    member: AppliedMember,
    monitor: AppliedMonitor,
    stop: CancellationToken,
}

/// The data path of one load balancer.
struct Running {
    common: Arc<Common>,
    fronts: HashMap<SocketAddr, Front>,
    failed: BTreeMap<SocketAddr, String>,
    /// The checks by pool and member, so that a pool behind two listeners is checked once.
    checks: HashMap<(String, String), Checked>,
    end: CancellationToken,
}

/// Follows the pushes until the cloud stops.
pub(crate) async fn supervise(shared: Arc<Shared>, mut events: broadcast::Receiver<Event>) {
    let mut running: HashMap<String, Running> = HashMap::new();
    // Another process may use an address for a while.
    let mut retry = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            event = events.recv() => match event {
                Ok(Event::DataPath { load_balancer }) => follow(&shared, &mut running, &load_balancer).await,
                Ok(Event::Cut { load_balancer, member }) => {
                    if let Some(running) = running.get(&load_balancer) {
                        running.common.cut(member.as_deref());
                    }
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let mut ids: BTreeSet<String> = running.keys().cloned().collect();
                    ids.extend(shared.with(|world| world.balancers_named("")));
                    for id in ids {
                        follow(&shared, &mut running, &id).await;
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
            _ = retry.tick() => {
                let failed = running.iter().filter(|(_, running)| !running.failed.is_empty());
                let failed: Vec<String> = failed.map(|(id, _)| id.clone()).collect();
                for id in failed {
                    follow(&shared, &mut running, &id).await;
                }
            }
        }
    }
}

/// Stores the state of a data path where the control endpoint reads it.
#[derive(Debug)]
pub(crate) struct Shown {
    listening: BTreeSet<SocketAddr>,
    failed: BTreeMap<SocketAddr, String>,
    common: Arc<Common>,
}

impl Shown {
    /// The state with the counts of this moment.
    pub(crate) fn now(&self) -> DataPath {
        DataPath {
            listening: self.listening.clone(),
            failed: self.failed.clone(),
            served: self.common.served().into_iter().collect(),
        }
    }
}

async fn follow(shared: &Arc<Shared>, all: &mut HashMap<String, Running>, id: &str) {
    let Some((addresses, listeners)) = shared.with(|world| world.pushed(id)) else {
        // The load balancer was deleted, so established connections end with the amphora.
        if let Some(gone) = all.remove(id) {
            gone.end.cancel();
            shared.show_data_path(id, None);
        }
        return;
    };
    if addresses.is_empty() && !all.contains_key(id) {
        return;
    }
    let running = all.entry(id.to_owned()).or_insert_with(|| Running {
        common: Arc::default(),
        fronts: HashMap::new(),
        failed: BTreeMap::new(),
        checks: HashMap::new(),
        end: shared.stop.child_token(),
    });
    let mut places: HashMap<SocketAddr, Arc<AppliedListener>> = HashMap::new();
    for listener in &listeners {
        for address in &addresses {
            places.insert(
                SocketAddr::new(*address, listener.port),
                Arc::new(listener.clone()),
            );
        }
    }
    running.fronts.retain(|place, front| {
        let stays = places.contains_key(place);
        if !stays {
            front.stop.cancel();
        }
        stays
    });
    running.failed.clear();
    for (place, config) in places {
        if let Some(front) = running.fronts.get(&place) {
            front.config.send_replace(config);
            continue;
        }
        match TcpListener::bind(place).await {
            Ok(listener) => {
                let (sender, receiver) = watch::channel(config);
                let stop = CancellationToken::new();
                let life = Life {
                    stop: stop.clone(),
                    end: running.end.clone(),
                    tasks: shared.tasks.clone(),
                };
                shared.tasks.spawn(front::accept(
                    listener,
                    receiver,
                    Arc::clone(&running.common),
                    life,
                ));
                running.fronts.insert(
                    place,
                    Front {
                        config: sender,
                        stop,
                    },
                );
            }
            Err(error) => {
                tracing::debug!(%place, %error, "can't listen");
                running.failed.insert(place, error.to_string());
            }
        }
    }
    let shown = Shown {
        listening: running.fronts.keys().copied().collect(),
        failed: running.failed.clone(),
        common: Arc::clone(&running.common),
    };
    shared.show_data_path(id, Some(shown));
    let checked = if addresses.is_empty() {
        Vec::new()
    } else {
        listeners
    };
    follow_checks(shared, running, id, &checked);
}

fn follow_checks(
    shared: &Arc<Shared>,
    running: &mut Running,
    id: &str,
    listeners: &[AppliedListener],
) {
    let mut wanted: HashMap<(String, String), (AppliedMember, AppliedMonitor)> = HashMap::new();
    for pool in listeners
        .iter()
        .filter_map(|listener| listener.pool.as_ref())
    {
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
        let checking = Checking {
            balancer: id.to_owned(),
            pool: key.0.clone(),
            member: member.clone(),
            monitor: monitor.clone(),
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
        let mut health = Health::NEW;
        let mut every = tokio::time::interval(Duration::from_secs(self.monitor.delay.max(1)));
        loop {
            every.tick().await;
            let good = match target {
                Some(target) => check.passes(target, limit).await,
                None => false,
            };
            let before = health;
            health = health.after(good, self.monitor.rise, self.monitor.fall);
            common.set_down(&self.pool, &self.member.id, !health.up);
            if before.up != health.up || before == Health::NEW {
                shared
                    .with(|world| world.member_checked(&self.balancer, &self.member.id, health.up));
            }
        }
    }
}

impl World {
    /// The addresses and the pushed configuration of a load balancer; `None` when it does not exist.
    pub(crate) fn pushed(&self, balancer: &str) -> Option<(Vec<IpAddr>, Vec<AppliedListener>)> {
        self.octavia.balancers.get(balancer)?;
        let addresses = if self.data_path {
            self.listen_addresses(balancer)
        } else {
            Vec::new()
        };
        Some((
            addresses,
            self.octavia
                .applied
                .get(balancer)
                .cloned()
                .unwrap_or_default(),
        ))
    }
}
