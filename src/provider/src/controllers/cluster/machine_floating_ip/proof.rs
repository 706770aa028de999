//! Requests through the endpoint after its floating IP was taken off a machine, or was found on another one.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{reconcile::ReadAt, tracker::prober::Prober, work_queue::WorkQueue};
use capo_core::{Endpoint, ObjectName};
use capo_gate::floating_ip::{CarrierProof, ProofOutcome};

/// How soon a proof that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The requests for one machine that is being deleted.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    /// The machine that is being deleted.
    pub leaving: ObjectName,
    /// The machine that the floating IP is on.
    pub holder: ObjectName,
    /// When the first request was made with the floating IP there.
    pub since: Instant,
    outcome: Arc<Mutex<Option<ReadAt<ProofOutcome>>>>,
}

/// What requests are made, and where their end is reported.
pub(crate) struct ProofRequest {
    /// The way to the endpoint.
    pub prober: Arc<dyn Prober>,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The cluster's CA in PEM.
    pub authority: Option<String>,
    /// The addresses of the machine that is being deleted.
    pub addresses: Vec<IpAddr>,
    /// How many answers are needed.
    pub answers: u32,
    /// How long they take together.
    pub window: Duration,
    /// Where the cluster is put when the outcome is known.
    pub queue: WorkQueue,
    /// The `OpenStackCluster`.
    pub cluster: ObjectName,
}

impl Proof {
    /// What is known of it now.
    pub(crate) fn seen(&self) -> CarrierProof {
        let outcome = self.outcome.lock();
        CarrierProof {
            leaving: self.leaving.clone(),
            holder: self.holder.clone(),
            since: self.since,
            outcome: outcome.as_ref().map(|outcome| outcome.value.clone()),
        }
    }

    /// Whether it failed and it is time to try again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.outcome.lock().as_ref().is_some_and(|outcome| {
            matches!(outcome.value, ProofOutcome::Failed { .. }) && outcome.age(now) >= RETRY
        })
    }

    /// Makes the requests in a task of its own, because no pass waits for an answer. `since` is the beginning of the
    /// first attempt.
    pub(crate) fn start(
        leaving: ObjectName,
        holder: ObjectName,
        since: Instant,
        request: ProofRequest,
    ) -> Self {
        let outcome = Arc::default();
        let proof = Self {
            leaving,
            holder,
            since,
            outcome: Arc::clone(&outcome),
        };
        tokio::spawn(async move {
            let found = request.run().await;
            *outcome.lock() = Some(ReadAt::new(found, Instant::now()));
            request.queue.enqueue(&request.cluster);
        });
        proof
    }
}

impl ProofRequest {
    async fn run(&self) -> ProofOutcome {
        let failed = |message: String, is_unreachable| ProofOutcome::Failed {
            message: format!("GET https://{}/readyz: {message}", self.endpoint),
            is_unreachable,
        };
        let Some(authority) = &self.authority else {
            let message = "the cluster's CA, which verifies the answer, is unknown";
            return failed(message.to_owned(), true);
        };
        let authority: Arc<str> = authority.as_str().into();
        let pause = self.window / self.answers.max(1);
        for number in 0..self.answers {
            if number > 0 {
                tokio::time::sleep(pause).await;
            }
            let answer = self.prober.readyz(
                self.endpoint.clone(),
                Arc::clone(&authority),
                self.addresses.clone(),
            );
            match answer.await {
                Ok(answer) if !answer.named.is_empty() => {
                    return failed(
                        "the machine that is being deleted still answers".to_owned(),
                        false,
                    );
                }
                Ok(answer) if answer.is_served() => {}
                Ok(answer) => return failed(format!("status {}", answer.status), false),
                Err(failure) => return failed(failure.to_string(), true),
            }
        }
        ProofOutcome::Served
    }
}
