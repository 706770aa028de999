//! Reads that the callers of one cloud and project share: one call serves all that need the same thing.

pub(crate) mod aged;
mod batch;

use std::{collections::HashMap, future::Future, hash::Hash, sync::Arc, time::Duration};

use capo_core::{
    Priority,
    ids::{FlavorId, ImageId, PortId, ServerId},
};
use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

pub use batch::Read;

use crate::{
    cloud::{Cloud, SentAt},
    compute::{AvailabilityZone, Flavor, Server, ServerFilter, ServerGroup},
    error::Error,
    image::Image,
    network::{Port, PortFilter},
};
use aged::Aged;
use batch::{Batch, ReadPlan};

/// Ids in one list of ports: the address of the request stays below 4 KiB.
const IDS_A_CALL: usize = 64;

/// What the handles of a cloud have read for each other.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    servers: Batched<ServerId, Server>,
    ports: Batched<PortId, Port>,
    flavors: Aged<Arc<Vec<Flavor>>>,
    zones: Aged<Arc<Vec<AvailabilityZone>>>,
    groups: Aged<Arc<Vec<ServerGroup>>>,
    flavor: Mutex<HashMap<FlavorId, Arc<Aged<Flavor>>>>,
    image: Mutex<HashMap<ImageId, Arc<Aged<Image>>>>,
}

/// Objects of one kind, read by one caller at a time for all that wait.
#[derive(Debug)]
struct Batched<K, V> {
    batch: Mutex<Batch<K, V>>,
    /// Held while reading, one for each priority: an urgent caller does not wait for a read that has to wait itself.
    reading: [AsyncMutex<()>; 3],
}

impl<K, V> Default for Batched<K, V> {
    fn default() -> Self {
        Self {
            batch: Mutex::default(),
            reading: Default::default(),
        }
    }
}

/// Most flavors and images that are remembered by id; beyond it all are read again.
const MOST_REMEMBERED: usize = 256;

/// The shared reads of a cloud; see [`Cloud::shared_reads`].
#[derive(Debug, Clone, Copy)]
pub struct SharedReads<'a>(&'a Cloud);

impl Cloud {
    /// Reads that this handle shares with all others of the same profile.
    pub fn shared_reads(&self) -> SharedReads<'_> {
        SharedReads(self)
    }
}

impl SharedReads<'_> {
    /// The server `id`, as a read showed it that was sent at `oldest` or later. Servers that several callers wait for
    /// are read by one list. A server that a list lacks is read by its id, and that answer counts.
    pub async fn server(
        &self,
        id: &ServerId,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Read<Server>, Error> {
        let servers = &self.reads().servers;
        servers
            .get(
                self.0,
                id,
                Instant::from_std(oldest),
                priority,
                |cloud, id| async move { cloud.server(&id, priority).await },
                |cloud, _| async move {
                    let all = cloud.servers(&ServerFilter::default(), priority).await?;
                    Ok(all
                        .into_iter()
                        .map(|server| (server.id.clone(), server))
                        .collect())
                },
            )
            .await
    }

    /// The port `id`, as a read showed it that was sent at `oldest` or later; see [`SharedReads::server`].
    pub async fn port(
        &self,
        id: &PortId,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Read<Port>, Error> {
        let ports = &self.reads().ports;
        ports
            .get(
                self.0,
                id,
                Instant::from_std(oldest),
                priority,
                |cloud, id| async move { cloud.port(&id, priority).await },
                |cloud, ids| async move {
                    let mut all = Vec::with_capacity(ids.len());
                    for ids in ids.chunks(IDS_A_CALL) {
                        let filter = PortFilter {
                            ids: ids.to_vec(),
                            ..PortFilter::default()
                        };
                        let found = cloud.ports(&filter, priority).await?;
                        all.extend(found.into_iter().map(|port| (port.id.clone(), port)));
                    }
                    Ok(all)
                },
            )
            .await
    }

    /// All flavors this project may use, read at most `age` ago.
    pub async fn flavors(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<Flavor>>, Error> {
        let read = || async { self.0.flavors(priority).await.map(Arc::new) };
        self.reads().flavors.get(age, read).await
    }

    /// One flavor, read at most `age` ago.
    pub async fn flavor(
        &self,
        id: &FlavorId,
        age: Duration,
        priority: Priority,
    ) -> Result<Flavor, Error> {
        let flavor = remembered(&self.reads().flavor, id);
        flavor.get(age, || self.0.flavor(id, priority)).await
    }

    /// One image, read at most `age` ago.
    pub async fn image(
        &self,
        id: &ImageId,
        age: Duration,
        priority: Priority,
    ) -> Result<Image, Error> {
        let image = remembered(&self.reads().image, id);
        image.get(age, || self.0.image(id, priority)).await
    }

    /// The availability zones, read at most `age` ago.
    pub async fn availability_zones(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<AvailabilityZone>>, Error> {
        let read = || async { self.0.availability_zones(priority).await.map(Arc::new) };
        self.reads().zones.get(age, read).await
    }

    /// The project's server groups, read at most `age` ago.
    pub async fn server_groups(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<ServerGroup>>, Error> {
        let read = || async { self.0.server_groups(priority).await.map(Arc::new) };
        self.reads().groups.get(age, read).await
    }

    fn reads(&self) -> &Reads {
        &self.0.0.reads
    }
}

fn remembered<K: Clone + Eq + Hash, V: Clone>(
    known: &Mutex<HashMap<K, Arc<Aged<V>>>>,
    key: &K,
) -> Arc<Aged<V>> {
    let mut known = known.lock();
    if known.len() >= MOST_REMEMBERED && !known.contains_key(key) {
        known.clear();
    }
    Arc::clone(known.entry(key.clone()).or_default())
}

impl<K: Clone + Eq + Hash + Ord, V: Clone> Batched<K, V> {
    /// The object `key` as of `oldest` or later. One caller of a priority reads for all that wait; those that come while
    /// a read is under way are served by it if it is new enough for them, else by the next one.
    async fn get<One, All>(
        &self,
        cloud: &Cloud,
        key: &K,
        oldest: Instant,
        priority: Priority,
        one: impl Fn(Cloud, K) -> One,
        all: impl Fn(Cloud, Vec<K>) -> All,
    ) -> Result<Read<V>, Error>
    where
        One: Future<Output = Result<V, Error>>,
        All: Future<Output = Result<Vec<(K, V)>, Error>>,
    {
        let asked = Instant::now();
        // What is sent from now on is new enough for everybody: no read waits for a moment in the future.
        let oldest = oldest.min(asked);
        loop {
            if let Some(known) = self.batch.lock().ask(key, oldest, asked) {
                return known;
            }
            let _reading = self.reading_at(priority).lock().await;
            // The read that was under way may have served this caller.
            if let Some(known) = self.batch.lock().ask(key, oldest, asked) {
                return known;
            }
            self.read_due(cloud, &one, &all).await;
        }
    }

    fn reading_at(&self, priority: Priority) -> &AsyncMutex<()> {
        let [gate, settling, steady] = &self.reading;
        match priority {
            Priority::Gate => gate,
            Priority::Settling => settling,
            Priority::Steady => steady,
        }
    }

    /// Reads everything that callers wait for, in the cheaper way.
    async fn read_due<One, All>(
        &self,
        cloud: &Cloud,
        one: &impl Fn(Cloud, K) -> One,
        all: &impl Fn(Cloud, Vec<K>) -> All,
    ) where
        One: Future<Output = Result<V, Error>>,
        All: Future<Output = Result<Vec<(K, V)>, Error>>,
    {
        let (mut due, plan) = self.batch.lock().due();
        if plan == ReadPlan::List {
            let (noting, sent_at) = cloud.noting_sent_at();
            let began = Instant::now();
            let listed = all(noting, due.clone()).await;
            let (sent, ended) = (sent(&sent_at, began), Instant::now());
            let mut batch = self.batch.lock();
            due = match listed {
                Ok(objects) => batch.listed(&due, objects, sent, ended),
                Err(error) => {
                    for key in &due {
                        batch.read(key, Err(error.clone()), sent, ended);
                    }
                    Vec::new()
                }
            };
        }
        for key in &due {
            let (noting, sent_at) = cloud.noting_sent_at();
            let began = Instant::now();
            let result = one(noting, key.clone()).await;
            let (sent, ended) = (sent(&sent_at, began), Instant::now());
            self.batch.lock().read(key, result, sent, ended);
        }
        self.batch.lock().forget_unused(Instant::now());
    }
}

/// When a read was sent; `began` where no request was sent at all.
fn sent(sent_at: &SentAt, began: Instant) -> Instant {
    sent_at.first().map_or(began, Instant::from_std)
}
