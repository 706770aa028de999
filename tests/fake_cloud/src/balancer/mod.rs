//! The data path: load balancers on loopback addresses that listen, check members and balance connections.
//!
//! It follows the pushed configuration and not the API's rows: after a failed push the old configuration stays in
//! place.

mod check;
mod checks;
mod front;
pub mod haproxy;
mod member_choice;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    path::Path,
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
    checks::{Checked, follow_checks},
    front::{Common, Life},
    haproxy::HaProxy,
};
use crate::{events::Event, octavia::AppliedListener, server::Shared, world::World};

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

/// What was pushed to the data path of a load balancer.
pub(crate) struct Pushed {
    has_amphorae: bool,
    /// The addresses to listen on.
    addresses: Vec<IpAddr>,
    listeners: Vec<AppliedListener>,
}

struct Front {
    config: watch::Sender<Arc<AppliedListener>>,
    stop: CancellationToken,
}

/// The data path of one load balancer.
struct Running {
    common: Arc<Common>,
    fronts: HashMap<SocketAddr, Front>,
    /// Carries the connections in place of `fronts`, where the options say so and the provider has amphorae.
    haproxy: Option<HaProxy>,
    failed: BTreeMap<SocketAddr, String>,
    /// The checks by pool and member, so that a pool behind two listeners is checked once.
    checks: HashMap<(String, String), Checked>,
    /// The members that the running configuration disables.
    disabled: BTreeSet<String>,
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
                        running.cut(member.as_deref()).await;
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
pub(crate) struct DataPathState {
    listening: BTreeSet<SocketAddr>,
    failed: BTreeMap<SocketAddr, String>,
    common: Arc<Common>,
}

impl DataPathState {
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
    let Some(pushed) = shared.with(|world| world.pushed(id)) else {
        // The load balancer was deleted, so established connections end with the amphora.
        if let Some(gone) = all.remove(id) {
            gone.end.cancel();
            shared.show_data_path(id, None);
        }
        return;
    };
    if pushed.addresses.is_empty() && !all.contains_key(id) {
        return;
    }
    let running = all.entry(id.to_owned()).or_insert_with(|| Running {
        common: Arc::default(),
        fronts: HashMap::new(),
        haproxy: None,
        failed: BTreeMap::new(),
        checks: HashMap::new(),
        disabled: BTreeSet::new(),
        end: shared.stop.child_token(),
    });
    running.failed.clear();
    let listening = match shared.haproxy.as_deref() {
        Some(program) if pushed.has_amphorae => {
            running
                .follow_with_haproxy(program, shared, id, &pushed)
                .await
        }
        _ => running.follow(shared, &pushed).await,
    };
    let state = DataPathState {
        listening,
        failed: running.failed.clone(),
        common: Arc::clone(&running.common),
    };
    shared.show_data_path(id, Some(state));
    // HAProxy checks the members itself.
    if running.haproxy.is_none() {
        follow_checks(shared, running, id, &pushed);
    }
}

impl Running {
    /// Listens on the addresses. Returns those on which it does.
    async fn follow(&mut self, shared: &Arc<Shared>, pushed: &Pushed) -> BTreeSet<SocketAddr> {
        let mut places: HashMap<SocketAddr, Arc<AppliedListener>> = HashMap::new();
        for listener in &pushed.listeners {
            for address in &pushed.addresses {
                places.insert(
                    SocketAddr::new(*address, listener.port),
                    Arc::new(listener.clone()),
                );
            }
        }
        self.fronts.retain(|place, front| {
            let stays = places.contains_key(place);
            if !stays {
                front.stop.cancel();
            }
            stays
        });
        for (place, config) in places {
            if let Some(front) = self.fronts.get(&place) {
                front.config.send_replace(config);
                continue;
            }
            match TcpListener::bind(place).await {
                Ok(listener) => {
                    let (sender, receiver) = watch::channel(config);
                    let stop = CancellationToken::new();
                    let life = Life {
                        stop: stop.clone(),
                        end: self.end.clone(),
                        tasks: shared.tasks.clone(),
                    };
                    shared.tasks.spawn(front::accept(
                        listener,
                        receiver,
                        Arc::clone(&self.common),
                        life,
                    ));
                    self.fronts.insert(
                        place,
                        Front {
                            config: sender,
                            stop,
                        },
                    );
                }
                Err(error) => {
                    tracing::debug!(%place, %error, "can't listen");
                    self.failed.insert(place, error.to_string());
                }
            }
        }
        self.fronts.keys().copied().collect()
    }

    /// Lets HAProxy listen on the addresses. Returns those on which it does.
    async fn follow_with_haproxy(
        &mut self,
        program: &Path,
        shared: &Arc<Shared>,
        id: &str,
        pushed: &Pushed,
    ) -> BTreeSet<SocketAddr> {
        let Pushed {
            addresses,
            listeners,
            ..
        } = pushed;
        let enabled = listeners.iter().filter(|listener| listener.enabled);
        let places = enabled.flat_map(|listener| {
            let at = |address: &IpAddr| SocketAddr::new(*address, listener.port);
            addresses.iter().map(at)
        });
        let places: BTreeSet<SocketAddr> = places.collect();
        if places.is_empty() {
            self.haproxy = None;
            return places;
        }
        let followed = if let Some(haproxy) = &mut self.haproxy {
            haproxy.run(addresses, listeners).await
        } else {
            let (shared, id) = (Arc::clone(shared), id.to_owned());
            let checked = move |member: &str, up| {
                shared.with(|world| world.member_checked(&id, member, up));
            };
            let started = HaProxy::start(program, addresses, listeners, checked).await;
            started.map(|started| self.haproxy = Some(started))
        };
        let Err(error) = followed else {
            return places;
        };
        tracing::error!(%error, "HAProxy does not run the configuration");
        self.failed = places
            .into_iter()
            .map(|place| (place, error.to_string()))
            .collect();
        BTreeSet::new()
    }

    /// Ends the established connections to this member, or all connections.
    async fn cut(&self, member: Option<&str>) {
        self.common.cut(member);
        if let Some(haproxy) = &self.haproxy
            && let Err(error) = haproxy.cut(member).await
        {
            tracing::error!(%error, "HAProxy does not end connections");
        }
    }
}

impl World {
    /// What was pushed to the data path of a load balancer; `None` when it does not exist.
    pub(crate) fn pushed(&self, balancer: &str) -> Option<Pushed> {
        let provider = &self.octavia.balancers.get(balancer)?.provider;
        let addresses = if self.data_path {
            self.listen_addresses(balancer)
        } else {
            Vec::new()
        };
        let applied = self.octavia.applied.get(balancer);
        Some(Pushed {
            has_amphorae: provider != "ovn",
            addresses,
            listeners: applied.cloned().unwrap_or_default(),
        })
    }
}
