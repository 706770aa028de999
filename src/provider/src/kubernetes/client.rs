//! The connection to the Kubernetes API, and the check whether it answers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::Request;
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::time::{sleep, timeout};
use tower::timeout::TimeoutLayer;

use capo_core::backoff::ExponentialBackoff;

use super::{
    budget::Budget,
    request_count::{RequestCount, RequestObserver},
};

/// The time limit for the head of an answer. The API server itself ends a request after this time, and the head of a
/// watch comes at once. Without a limit, a request whose connection died unnoticed would hold its pass for ever.
const HEAD: Duration = Duration::from_mins(1);
/// The time limit for the next bytes of an answer, longer than a watch lasts.
const SILENCE: Duration = Duration::from_secs(330);
/// The time limit for the answer of a check.
const ANSWER: Duration = Duration::from_secs(10);
/// The time between two checks whether the API still answers.
const CHECK: Duration = Duration::from_secs(5);
/// The number of checks in a row that must fail before the API counts as unavailable, because a single answer may be
/// lost.
const FAILURES: u32 = 3;

/// Why the Kubernetes API can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig can't be used.
    #[error("--kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of the configuration.
        source: KubeconfigError,
    },
    /// There is neither a kubeconfig nor a ServiceAccount of a Pod.
    #[error("not in a Pod, and no --kubeconfig names the Kubernetes API: {0}")]
    NotInCluster(#[from] InClusterError),
    /// The client can't be built from the configuration.
    #[error("can't set up the client of the Kubernetes API: {0}")]
    Client(#[from] kube::Error),
}

/// The address of the Kubernetes API and the credentials: from the kubeconfig, or from the Pod's ServiceAccount.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let wrong = |source| ConnectError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            let clusters = file.clusters.iter().filter_map(|it| it.cluster.as_ref());
            let proxies: Vec<String> = clusters.filter_map(|it| it.proxy_url.clone()).collect();
            let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(wrong)?;
            // A proxy of the environment is meant for clouds and endpoints. The library would use it for the Kubernetes
            // API as well, whatever NO_PROXY names, and refuse it.
            if !is_one_of(config.proxy_url.as_ref(), &proxies) {
                config.proxy_url = None;
            }
            config
        }
        None => Config::incluster()?,
    };
    // Every caller decides about its own retries. The retries of the client would take minutes and are not logged.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(SILENCE);
    // An idle connection that is used again has all of that time.
    config.reset_reader_on_write = true;
    Ok(config)
}

/// Whether the proxy is one that the kubeconfig names.
fn is_one_of(proxy: Option<&http::Uri>, named: &[String]) -> bool {
    let text = |uri: &str| uri.trim_end_matches('/').to_owned();
    proxy.is_some_and(|proxy| {
        let proxy = text(&proxy.to_string());
        named.iter().any(|named| text(named) == proxy)
    })
}

/// A client for commands that run once, from a kubeconfig or the Pod's own ServiceAccount.
///
/// # Errors
///
/// The part of the configuration that is missing.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

/// A client whose requests are reported to `observer` and kept within `budget`, if there is one.
pub(crate) fn client(
    config: Config,
    observer: Arc<dyn RequestObserver>,
    budget: Option<Budget>,
) -> Result<Client, ConnectError> {
    let host = config.cluster_url.authority();
    let host = host.map(ToString::to_string).unwrap_or_default();
    let count = RequestCount::new(observer, host);
    let client = ClientBuilder::try_from(config)?
        .with_layer(&TimeoutLayer::new(HEAD))
        .with_layer(&count);
    Ok(match budget {
        Some(budget) => client.with_layer(&budget).build(),
        None => client.build(),
    })
}

/// Returns once the Kubernetes API answers. Until then, the log has the reason why it does not.
pub(crate) async fn until_it_answers(client: &Client, address: &http::Uri) {
    let pauses = ExponentialBackoff::doubling(Duration::from_millis(200), Duration::from_secs(5));
    let mut attempts = 0_u32;
    let mut logged = None;
    loop {
        let Err(missing) = version(client).await else {
            return;
        };
        let missing = missing.to_string();
        if logged.as_ref() != Some(&missing) {
            tracing::warn!(%address, reason = missing, "Waiting for the Kubernetes API");
            logged = Some(missing);
        }
        sleep(pauses.pause(attempts)).await;
        attempts = attempts.saturating_add(1);
    }
}

/// Calls `changed` whenever the Kubernetes API stops answering or answers again, until it is dropped. The API answered
/// at the start.
pub(crate) async fn follow_availability(client: Client, changed: impl Fn(bool)) {
    let mut availability = Availability::default();
    loop {
        sleep(CHECK).await;
        let answered = version(&client).await;
        let Some(available) = availability.after(answered.is_ok()) else {
            continue;
        };
        match answered {
            Ok(()) => tracing::info!("The Kubernetes API answers again"),
            Err(reason) => tracing::error!(%reason, "The Kubernetes API does not answer any more"),
        }
        changed(available);
    }
}

/// Whether the API answers, according to the last checks.
#[derive(Debug, Default)]
struct Availability {
    failures: u32,
}

impl Availability {
    /// The new availability, if this check changed it.
    fn after(&mut self, answered: bool) -> Option<bool> {
        let was_available = self.failures < FAILURES;
        self.failures = if answered {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let is_available = self.failures < FAILURES;
        (was_available != is_available).then_some(is_available)
    }
}

/// Why the Kubernetes API gave no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(transparent)]
    Failed(#[from] kube::Error),
    #[error("no answer within {ANSWER:?}")]
    TimedOut(#[from] tokio::time::error::Elapsed),
}

/// Reads the API server's version, which every client may read.
async fn version(client: &Client) -> Result<(), NoAnswer> {
    let request = Request::get("/version")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    timeout(ANSWER, client.request_text(request)).await??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ignored;

    impl RequestObserver for Ignored {
        fn kubernetes_request(&self, _: &str, _: &http::Method, _: Option<u16>, _: Duration) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_ends_after_a_minute() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", silent.local_addr().unwrap());
        let config = Config::new(address.parse().unwrap());
        let client = client(config, Arc::new(Ignored), None).unwrap();
        let begun = tokio::time::Instant::now();
        let request = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        assert!(client.request_text(request).await.is_err());
        assert_eq!(begun.elapsed().as_secs(), HEAD.as_secs());
    }

    #[test]
    fn only_the_kubeconfig_names_a_proxy_of_the_kubernetes_api() {
        let named = ["http://own:8080".to_owned()];
        let uri = |text: &str| text.parse::<http::Uri>().unwrap();
        assert!(is_one_of(Some(&uri("http://own:8080")), &named));
        assert!(!is_one_of(
            Some(&uri("http://of-the-environment:3128")),
            &named
        ));
        assert!(!is_one_of(None, &named));
    }

    #[test]
    fn the_api_is_gone_after_three_failures_in_a_row_and_back_with_one_answer() {
        let mut availability = Availability::default();
        let changes: Vec<_> = [
            true, false, false, true, false, false, false, false, true, true,
        ]
        .into_iter()
        .map(|answered| availability.after(answered))
        .collect();
        let expected = [
            None,
            None,
            None,
            None,
            None,
            None,
            Some(false),
            None,
            Some(true),
            None,
        ];
        assert_eq!(changes, expected);
    }
}
