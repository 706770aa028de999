//! What admission costs: server-side applies as dry runs, a hundred at a time, against a real
//! kube-apiserver, first without the webhook and then with it.
//!
//! The goal: the webhook's own 99th percentile is at most 20 ms. A hundred applies in flight keep every core busy, so
//! the duration of the applies shows how fast the API server carries them out with one more TLS request each.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and ends at the first error"
)]

use test_support::{env, webhooks};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use capo_rs::webhooks::server::{CertificateObserver, WebhookObserver};
use futures::{StreamExt, stream};
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;

use env::{Kubernetes, apply};
use webhooks::{Listening, api, object};

const PARALLEL: usize = 100;
const APPLIES: usize = 3000;

/// What the listener itself took, from the head of a request to its answer.
#[derive(Default)]
struct Answers(Mutex<Vec<Duration>>);

impl CertificateObserver for Answers {}

impl WebhookObserver for Answers {
    fn request_ended(&self, _: &'static str, _: u16, took: Duration) {
        self.0.lock().push(took);
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * percent / 100]
}

fn print_times(what: &str, times: &mut [Duration]) -> Duration {
    let (half, most) = (percentile(times, 50), percentile(times, 99));
    println!(
        "{what}: median {half:.1?}, 99th percentile {most:.1?}, {} times",
        times.len()
    );
    most
}

async fn applies(client: &Client) -> Vec<Duration> {
    let machines = api(client, "OpenStackMachine", "v1beta2", "default");
    let parameters = PatchParams::apply("bench").dry_run();
    stream::iter(0..APPLIES)
        .map(|number| {
            let (machines, parameters) = (machines.clone(), parameters.clone());
            async move {
                let name = format!("m-{}", number % PARALLEL);
                let machine = object("OpenStackMachine", "v1beta2", &name, json!({"spec": {
                    "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "ubuntu"}},
                    "ports": [{"tags": ["a"]}], "tags": ["b"],
                }}));
                let begun = Instant::now();
                machines.patch(&name, &parameters, &Patch::Apply(machine)).await.unwrap();
                begun.elapsed()
            }
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await
}

#[tokio::main]
async fn main() {
    let kubernetes = Kubernetes::start().await.unwrap();
    let client = kubernetes.admin().await.unwrap();
    let answers = Arc::new(Answers::default());
    let listening = Listening::start(|_| {}, Arc::clone(&answers) as Arc<dyn WebhookObserver>)
        .await
        .unwrap();
    apply::apply(&client, &webhooks::definitions(&listening).unwrap())
        .await
        .unwrap();
    applies(&client).await;
    let without = print_times("apply without webhook", &mut applies(&client).await);
    apply::apply(&client, &webhooks::admission(&listening).unwrap())
        .await
        .unwrap();
    // Waits until the API server applies the configuration.
    while answers.0.lock().is_empty() {
        applies(&client).await;
    }
    answers.0.lock().clear();
    let with = print_times("apply with webhook", &mut applies(&client).await);
    println!(
        "{:.1?} more in the 99th percentile",
        with.saturating_sub(without)
    );
    print_times("the webhook's own part (goal 20 ms)", &mut answers.0.lock());
}
