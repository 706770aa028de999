//! Reaching the Kubernetes API.

use std::{path::Path, time::Duration};

use http::Request;
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::{sleep, timeout};

use super::kube_budget::Budget;
use crate::metrics::{Metrics, RequestCount};

/// How long a first answer may take.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Where the Kubernetes API is and who we are there: the kubeconfig, or the Pod's ServiceAccount.
///
/// # Errors
/// What is missing, and which flag would name it.
pub(super) async fn config(kubeconfig: Option<&Path>) -> Result<Config, String> {
    let mut config = match kubeconfig {
        Some(path) => {
            let told =
                |error: &dyn std::fmt::Display| format!("--kubeconfig {}: {error}", path.display());
            let file = Kubeconfig::read_from(path).map_err(|error| told(&error))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| told(&error))?
        }
        None => Config::incluster().map_err(|error| {
            format!("not in a Pod, and no --kubeconfig names the Kubernetes API: {error}")
        })?,
    };
    // Whoever asks decides about asking again: the built-in retries take minutes and can't be seen.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(config)
}

/// A client whose requests the metrics count, and which keeps to a budget where there is one: so many a
/// second, so many at once.
pub(super) fn client(
    config: Config,
    metrics: &Metrics,
    budget: Option<(f64, u32)>,
) -> Result<Client, String> {
    let host = config.cluster_url.authority();
    let host = host.map(ToString::to_string).unwrap_or_default();
    let count = RequestCount::new(metrics.clone(), host);
    let client = ClientBuilder::try_from(config).map_err(|error| error.to_string())?;
    let client = client.with_layer(&count);
    Ok(match budget {
        Some((qps, burst)) => client.with_layer(&Budget::new(qps, burst)).build(),
        None => client.build(),
    })
}

/// Comes back when the Kubernetes API answers, and tells in the log what it waits for until then.
pub(super) async fn until_it_answers(client: &Client, address: &http::Uri) {
    let mut pause = Duration::from_millis(200);
    let mut told = None;
    loop {
        let answer = match Request::get("/version").body(Vec::new()) {
            Ok(request) => timeout(FIRST_ANSWER, client.request_text(request)).await,
            Err(_) => return,
        };
        let missing = match answer {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {FIRST_ANSWER:?}"),
        };
        if told.as_ref() != Some(&missing) {
            tracing::warn!(%address, reason = missing, "Waiting for the Kubernetes API");
            told = Some(missing);
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}
