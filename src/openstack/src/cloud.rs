//! The handle of one cloud, and the versions and extensions that its services offer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Deserialize;

use crate::{
    error::Error,
    lease::LeaseToken,
    observer::CallObserver,
    profile::CloudProfile,
    read_cache::{ReadCache, aged::Aged},
    request::Call,
    send::budget::Budget,
    send::page_sizes::PageSizes,
    send::transport::Transport,
    service::{ApiVersion, Service},
    session::discovery::{self, VersionDocument},
    session::token::TokenSource,
};
use capo_core::ids::ProjectId;
use capo_core::{FailureClass, Priority};

/// The age at which a service's versions are read again, because a service may be upgraded while this process runs.
const DISCOVERY_AGE: Duration = Duration::from_mins(10);

/// The age at which a version that is too old for a call is read again.
const TOO_OLD_AGE: Duration = Duration::from_mins(1);

/// One cloud with one credential. A clone is cheap; clones share the token, the budget and the versions of the
/// services.
#[derive(Clone)]
pub struct Cloud(pub(crate) Arc<CloudInner>);

/// The parts of a [`Cloud`] that its clones share.
pub(crate) struct CloudInner {
    pub(crate) profile: CloudProfile,
    pub(crate) token_source: Arc<TokenSource>,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) lease: LeaseToken,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) compute_version: Aged<ApiVersion>,
    pub(crate) load_balancer_version: Aged<ApiVersion>,
    pub(crate) network_extensions: Aged<Arc<BTreeSet<String>>>,
    pub(crate) read_cache: ReadCache,
    pub(crate) page_sizes: PageSizes,
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

/// Two handles are equal if all fields of their profiles are.
impl PartialEq for Cloud {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.profile == other.0.profile
    }
}

impl Eq for Cloud {}

impl Cloud {
    /// The address and the credentials of the cloud.
    pub fn profile(&self) -> &CloudProfile {
        &self.0.profile
    }

    /// The project in which the credentials create objects. The call signs in if there is no token yet.
    pub async fn project_id(&self) -> Result<ProjectId, Error> {
        Ok(self.0.token_source.session().await?.project_id.clone())
    }

    /// The regions that have Nova, in the order of the catalogue. The list is empty if the credentials name a region.
    pub async fn regions_to_choose_from(&self) -> Result<Vec<String>, Error> {
        let profile = self.profile();
        if profile.region().is_some() {
            return Ok(Vec::new());
        }
        let session = self.0.token_source.session().await?;
        Ok(session
            .catalogue
            .regions(Service::Compute, profile.interface()))
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

    /// Sends a call and reads its answer. The token, the budget, the pause, the lease and the repetition after a 401
    /// are handled here.
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
        // Nova may have been upgraded since its versions were read.
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
