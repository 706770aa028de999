//! All clouds that this process uses, and the parts that their handles share.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    cloud::{Budgets, Cloud, CloudInner},
    lease::LeaseToken,
    observer::CallObserver,
    profile::{BudgetKey, CloudProfile, CredentialKey, ProfileError},
    read_cache::{ReadCache, aged::Aged},
    send::budget::{Budget, Level, Limits},
    send::page_sizes::PageSizes,
    send::transport::Transport,
    service::Service,
    session::token::TokenSource,
    settings::ClientSettings,
};

/// The number of clouds that are kept although their handle is not in use.
const MAX_IDLE: usize = 256;

/// How long a cloud without a handle in use is kept: long enough that its token serves the next pass too.
const LONGEST_IDLE: Duration = Duration::from_mins(30);

/// Provides [`Cloud`] handles. Equal profiles share everything. Profiles of one credential at one Keystone share its
/// token, and in one region its budgets. A clone is cheap.
#[derive(Clone)]
pub struct Clouds(Arc<Inner>);

struct Inner {
    settings: ClientSettings,
    lease: LeaseToken,
    observer: Arc<dyn CallObserver>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    clouds: HashMap<CloudProfile, KnownCloud>,
    token_sources: HashMap<CredentialKey, Weak<TokenSource>>,
    budgets: HashMap<BudgetKey, Weak<Budgets>>,
    transports: HashMap<(Option<String>, bool), Weak<Transport>>,
}

/// A cloud, and the time at which a handle of it was last returned.
struct KnownCloud {
    inner: Arc<CloudInner>,
    last_used: Instant,
}

impl KnownCloud {
    fn has_handles(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }
}

impl std::fmt::Debug for Clouds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clouds")
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

impl Clouds {
    /// A pool without clouds. The process must have a rustls crypto provider already.
    pub fn new(
        settings: ClientSettings,
        lease: LeaseToken,
        observer: Arc<dyn CallObserver>,
    ) -> Self {
        Self(Arc::new(Inner {
            settings,
            lease,
            observer,
            known: Mutex::default(),
        }))
    }

    /// The permission to change something, which ends with the leader lease.
    pub fn lease(&self) -> &LeaseToken {
        &self.0.lease
    }

    /// The handle of this profile's cloud. This function sends no request.
    pub fn cloud(&self, profile: CloudProfile) -> Result<Cloud, ProfileError> {
        let now = Instant::now();
        let mut known = self.0.known.lock();
        if let Some(cloud) = known.clouds.get_mut(&profile) {
            cloud.last_used = now;
            return Ok(Cloud(Arc::clone(&cloud.inner)));
        }
        known.forget_unused(now);
        for remark in profile.remarks() {
            tracing::warn!(cloud = profile.name(), "In the clouds.yaml, {remark}");
        }
        let inner = Arc::new(self.new_cloud(&mut known, profile.clone())?);
        let cloud = KnownCloud {
            inner: Arc::clone(&inner),
            last_used: now,
        };
        known.clouds.insert(profile, cloud);
        Ok(Cloud(inner))
    }

    /// The level of every budget in use, by the name of its cloud. One name may occur several times.
    pub fn levels(&self) -> Vec<(String, Service, Level)> {
        let known = self.0.known.lock();
        let mut levels = Vec::new();
        for (key, token_source) in &known.token_sources {
            if let Some(token_source) = token_source.upgrade() {
                let level = token_source.budget().level();
                levels.push((key.0.name.clone(), Service::Identity, level));
            }
        }
        for (key, budgets) in &known.budgets {
            let Some(budgets) = budgets.upgrade() else {
                continue;
            };
            // Sign-ins use the budget of their token source.
            for service in Service::ALL.into_iter().filter(|s| *s != Service::Identity) {
                levels.push((key.0.name.clone(), service, budgets.of(service).level()));
            }
        }
        levels
    }

    fn new_cloud(
        &self,
        known: &mut Known,
        profile: CloudProfile,
    ) -> Result<CloudInner, ProfileError> {
        let settings = &self.0.settings;
        let authorities = profile
            .authorities
            .clone()
            .or_else(|| settings.ca_certs.clone());
        let key = (authorities, profile.verify);
        let transport = if let Some(known) = known.transports.get(&key).and_then(Weak::upgrade) {
            known
        } else {
            let transport = Transport::new(settings, key.0.as_deref(), key.1)?;
            let transport = Arc::new(transport);
            known.transports.insert(key, Arc::downgrade(&transport));
            transport
        };
        let limits = Limits {
            per_second: settings.qps,
            burst: settings.burst,
            in_flight: settings.max_in_flight,
            longest_wait: settings.longest_wait,
        };
        let token_source = shared_or_new(
            &mut known.token_sources,
            CredentialKey(profile.clone()),
            || {
                TokenSource::new(
                    profile.clone(),
                    Arc::clone(&transport),
                    Budget::new(limits),
                    Arc::clone(&self.0.observer),
                )
            },
        );
        let budgets = shared_or_new(&mut known.budgets, BudgetKey(profile.clone()), || {
            Budgets::new(limits)
        });
        Ok(CloudInner {
            profile,
            token_source,
            budgets,
            transport,
            lease: self.0.lease.clone(),
            observer: Arc::clone(&self.0.observer),
            compute_version: Aged::default(),
            load_balancer_version: Aged::default(),
            network_extensions: Aged::default(),
            read_cache: ReadCache::default(),
            page_sizes: PageSizes::default(),
        })
    }
}

fn shared_or_new<K: std::hash::Hash + Eq, V>(
    known: &mut HashMap<K, Weak<V>>,
    key: K,
    make: impl FnOnce() -> V,
) -> Arc<V> {
    if let Some(value) = known.get(&key).and_then(Weak::upgrade) {
        return value;
    }
    let value = Arc::new(make());
    known.insert(key, Arc::downgrade(&value));
    value
}

impl Known {
    /// Removes clouds whose handle is not in use: those that have been idle for too long, and the longest idle ones
    /// above the limit.
    fn forget_unused(&mut self, now: Instant) {
        self.clouds.retain(|_, cloud| {
            cloud.has_handles() || now.duration_since(cloud.last_used) < LONGEST_IDLE
        });
        let mut idle: Vec<Instant> = self
            .clouds
            .values()
            .filter(|cloud| !cloud.has_handles())
            .map(|cloud| cloud.last_used)
            .collect();
        if idle.len() > MAX_IDLE {
            idle.sort_unstable();
            if let Some(oldest_kept) = idle.get(idle.len() - MAX_IDLE).copied() {
                self.clouds
                    .retain(|_, cloud| cloud.has_handles() || cloud.last_used >= oldest_kept);
            }
        }
        self.token_sources
            .retain(|_, token_source| token_source.strong_count() > 0);
        self.budgets.retain(|_, budgets| budgets.strong_count() > 0);
        self.transports
            .retain(|_, transport| transport.strong_count() > 0);
    }
}
