//! The handle of one cloud, and what it offers.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    error::Error,
    lease::LeaseToken,
    observer::CallObserver,
    profile::CloudProfile,
    request::Call,
    send::budget::Budget,
    send::transport::Transport,
    service::{ApiVersion, Service},
    session::discovery::{self, VersionDocument},
    session::token::TokenSource,
    shared_reads::{Reads, aged::Aged},
};
use capo_core::ids::ProjectId;
use capo_core::{FailureClass, Priority};

/// What a service offers is read again when it is this old: services are upgraded while this process runs.
const DISCOVERY_AGE: Duration = Duration::from_mins(10);

/// A version that is too old for a call is read again when it is this old.
const TOO_OLD_AGE: Duration = Duration::from_mins(1);

/// One cloud with one credential. Cheap to clone; clones share token, budget and what was discovered.
#[derive(Clone)]
pub struct Cloud(pub(crate) Arc<Shared>, pub(crate) Option<SentAt>);

/// The moment at which the first request of a [`Cloud::noting_sent_at`] handle was sent.
#[derive(Debug, Clone, Default)]
pub struct SentAt(Arc<OnceLock<Instant>>);

impl SentAt {
    /// The moment; `None` while no request was sent, because it waits for the budget or was refused by it.
    pub fn first(&self) -> Option<std::time::Instant> {
        self.0.get().copied().map(Instant::into_std)
    }

    pub(crate) fn note(&self, sent: Instant) {
        // Only the first request counts: a list of several pages is as old as its first one.
        let _ = self.0.set(sent);
    }
}

/// What the clones of a [`Cloud`] share.
pub(crate) struct Shared {
    pub(crate) profile: CloudProfile,
    pub(crate) account: Arc<TokenSource>,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) lease: LeaseToken,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) compute_version: Aged<ApiVersion>,
    pub(crate) load_balancer_version: Aged<ApiVersion>,
    pub(crate) network_extensions: Aged<Arc<BTreeSet<String>>>,
    pub(crate) reads: Reads,
}

/// One budget per service.
pub(crate) struct Budgets([Arc<Budget>; Service::ALL.len()]);

impl Budgets {
    pub(crate) fn new(limits: crate::send::budget::Limits) -> Self {
        Self(Service::ALL.map(|_| Budget::new(limits)))
    }

    pub(crate) fn of(&self, service: Service) -> &Arc<Budget> {
        let [identity, compute, network, load_balancer, image, volume] = &self.0;
        match service {
            Service::Identity => identity,
            Service::Compute => compute,
            Service::Network => network,
            Service::LoadBalancer => load_balancer,
            Service::Image => image,
            Service::Volume => volume,
        }
    }
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cloud").field(&self.0.profile).finish()
    }
}

/// Handles are equal if they are of the same profile, all fields of it compared.
impl PartialEq for Cloud {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.profile == other.0.profile
    }
}

impl Eq for Cloud {}

impl Cloud {
    /// A handle of the same cloud that notes when its first request is sent, and where to read that moment. What a read
    /// shows is at least as new as that; a call may have waited for the budget for a long time before.
    pub fn noting_sent_at(&self) -> (Self, SentAt) {
        let sent_at = SentAt::default();
        let cloud = Self(Arc::clone(&self.0), Some(sent_at.clone()));
        (cloud, sent_at)
    }

    /// How it is reached and as whom.
    pub fn profile(&self) -> &CloudProfile {
        &self.0.profile
    }

    /// The project that everything is made in. Signs in if that was not done.
    pub async fn project_id(&self) -> Result<ProjectId, Error> {
        Ok(self.0.account.session().await?.project_id.clone())
    }

    /// The newest version of Octavia's API that is offered, as of the last ten minutes.
    pub async fn load_balancer_api_version(&self, priority: Priority) -> Result<ApiVersion, Error> {
        let read = || self.discover(Service::LoadBalancer, "version_list", priority);
        let version = &self.0.load_balancer_version;
        version.get_or_keep(DISCOVERY_AGE, read).await
    }

    /// The newest microversion that Nova offers, as of the last ten minutes.
    pub async fn compute_api_version(&self, priority: Priority) -> Result<ApiVersion, Error> {
        self.compute_version_of(DISCOVERY_AGE, priority).await
    }

    async fn compute_version_of(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<ApiVersion, Error> {
        let read = || self.discover(Service::Compute, "compute_version_get", priority);
        self.0.compute_version.get_or_keep(age, read).await
    }

    /// The aliases of Neutron's extensions (`standard-attr-tag`, `trunk`, …), as of the last ten minutes.
    pub async fn network_extensions(
        &self,
        priority: Priority,
    ) -> Result<Arc<BTreeSet<String>>, Error> {
        #[derive(Deserialize)]
        struct Extension {
            alias: String,
        }
        let read = || async {
            let call =
                Call::get(Service::Network, "network_extension_list", ["extensions"]).at(priority);
            let extensions: Vec<Extension> = self.one(call, "extensions").await?;
            Ok(Arc::new(
                extensions
                    .into_iter()
                    .map(|extension| extension.alias)
                    .collect(),
            ))
        };
        let extensions = &self.0.network_extensions;
        extensions.get_or_keep(DISCOVERY_AGE, read).await
    }

    /// Sends a call and reads its answer: token, budget, pause, lease, one more try after a 401.
    pub(crate) async fn send<T>(
        &self,
        call: &Call,
        read: impl Fn(&[u8]) -> Result<T, serde_json::Error> + Send,
    ) -> Result<T, Error> {
        if let Some(needed) = call.version {
            self.needs(call, needed).await?;
        }
        self.send_to(call, |session| self.address(call, session), read)
            .await
    }

    async fn discover(
        &self,
        service: Service,
        request: &'static str,
        priority: Priority,
    ) -> Result<ApiVersion, Error> {
        let call = Call::get(service, request, []).at(priority);
        let document: VersionDocument = self
            .send_to(
                &call,
                |session| {
                    Ok(discovery::versions(
                        service,
                        &self.endpoint(&call, session)?,
                    ))
                },
                |body| serde_json::from_slice(body),
            )
            .await?;
        document.newest().ok_or_else(|| {
            let text = format!("{service} names no version that it offers");
            Error::new(service, request, FailureClass::Transient, text)
        })
    }

    /// Checks that Nova is new enough for a call.
    async fn needs(&self, call: &Call, needed: ApiVersion) -> Result<(), Error> {
        if self.compute_api_version(call.priority).await? >= needed {
            return Ok(());
        }
        // Nova may have been upgraded a moment ago.
        let offered = self.compute_version_of(TOO_OLD_AGE, call.priority).await?;
        if offered >= needed {
            return Ok(());
        }
        let text = format!("needs {} API {needed}; offered is {offered}", call.service);
        Err(Error::new(
            call.service,
            call.request,
            FailureClass::NoService,
            text,
        ))
    }
}
