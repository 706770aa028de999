//! Requests through the endpoint after its floating IP was taken off a machine, or was found on another one.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{reconcile::ReadAt, tracker::prober::Prober, work_queue::WorkQueue};
use capo_core::{Endpoint, EndpointFailure, Lookup, ObjectName};
use capo_gate::floating_ip::{CarrierProof, ProofOutcome};

/// How soon a proof that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// For how long an outcome counts: what has answered may be down a moment later.
const COUNTS_FOR: Duration = Duration::from_secs(15);

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
    pub authority: Lookup<String>,
    /// The addresses of the machine that is being deleted.
    pub leaving: Vec<IpAddr>,
    /// The addresses of all control-plane machines, to find in the serving certificate which one answered.
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

    /// Whether it is time for new requests.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.outcome.lock().as_ref().is_some_and(|outcome| {
            let pause = match outcome.value {
                ProofOutcome::Served => COUNTS_FOR,
                ProofOutcome::Failed { .. } => RETRY,
            };
            outcome.age(now) >= pause
        })
    }

    /// Until when a gate may be acted on that opened on the outcome.
    pub(crate) fn counts_until(&self) -> Option<Instant> {
        let ended = self.outcome.lock().as_ref()?.at;
        ended.checked_add(COUNTS_FOR)
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
        let without_answer =
            |failure: &EndpointFailure| failed(failure.to_string(), !failure.may_have_answered());
        let authority: Arc<str> = match &self.authority {
            Lookup::Found(authority) => authority.as_str().into(),
            Lookup::Absent => return without_answer(&EndpointFailure::NoAuthority),
            Lookup::Unknown => return without_answer(&EndpointFailure::UnreadAuthority),
        };
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
                Ok(answer) if let Some(own) = answer.given_by(&self.leaving) => {
                    return failed(
                        format!(
                            "the machine that is being deleted still answers (its serving certificate names {own})"
                        ),
                        false,
                    );
                }
                Ok(answer) if answer.is_served() => {}
                Ok(answer) => return failed(format!("status {}", answer.status), false),
                Err(failure) => return without_answer(&failure),
            }
        }
        ProofOutcome::Served
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use capo_core::{EndpointAnswer, Excerpt};
    use capo_gate::event::ProbeOutcome;
    use futures::{FutureExt, future::BoxFuture};

    use super::*;

    /// Every request through the endpoint ends like this.
    struct Always(Result<EndpointAnswer, EndpointFailure>);

    impl Prober for Always {
        fn probe(&self, _: IpAddr, _: u16, _: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
            std::future::pending().boxed()
        }

        fn readyz(
            &self,
            _: Endpoint,
            _: Arc<str>,
            addresses: Vec<IpAddr>,
        ) -> BoxFuture<'static, Result<EndpointAnswer, EndpointFailure>> {
            let reply = self.0.clone().map(|mut answer| {
                answer.named.retain(|named| addresses.contains(named));
                answer
            });
            std::future::ready(reply).boxed()
        }

        fn connect(&self, _: Endpoint) -> BoxFuture<'static, Result<(), EndpointFailure>> {
            std::future::pending().boxed()
        }
    }

    const LEAVING: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 6, 0, 5));
    const STAYING: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 6, 0, 6));

    fn request(prober: impl Prober) -> ProofRequest {
        ProofRequest {
            prober: Arc::new(prober),
            endpoint: Endpoint {
                host: "192.0.2.1".to_owned(),
                port: 6443,
            },
            authority: Lookup::Found("PEM".to_owned()),
            leaving: vec![LEAVING],
            addresses: vec![LEAVING, STAYING],
            answers: 1,
            window: Duration::ZERO,
            queue: WorkQueue::default(),
            cluster: ObjectName::new("n", "c"),
        }
    }

    #[tokio::test]
    async fn only_a_certificate_that_names_no_other_machine_shows_that_the_leaving_one_answered() {
        for (named, expected) in [
            (vec![], true),
            (vec![STAYING], true),
            (vec![LEAVING], false),
            (vec![LEAVING, STAYING], true),
        ] {
            let case = format!("{named:?}");
            let answer = EndpointAnswer {
                status: 200,
                named,
                body: Excerpt::of("ok"),
            };
            let outcome = request(Always(Ok(answer))).run().await;
            assert_eq!(outcome == ProofOutcome::Served, expected, "{case}");
        }
    }

    #[test]
    fn an_outcome_counts_for_15_s_and_then_new_requests_are_made() {
        let ended = Instant::now();
        let of = |outcome: Option<ProofOutcome>| Proof {
            leaving: ObjectName::new("n", "a"),
            holder: ObjectName::new("n", "b"),
            since: ended,
            outcome: Arc::new(Mutex::new(
                outcome.map(|outcome| ReadAt::new(outcome, ended)),
            )),
        };
        let failed = ProofOutcome::Failed {
            message: String::new(),
            is_unreachable: false,
        };
        for (outcome, seconds, expected) in [
            (None, 60, false),
            (Some(ProofOutcome::Served), 14, false),
            (Some(ProofOutcome::Served), 15, true),
            (Some(failed.clone()), 4, false),
            (Some(failed), 5, true),
        ] {
            let proof = of(outcome.clone());
            let later = ended + Duration::from_secs(seconds);
            assert_eq!(proof.is_due(later), expected, "{outcome:?} {seconds}");
            let until = ended + Duration::from_secs(15);
            assert_eq!(proof.counts_until(), outcome.map(|_| until));
        }
    }

    /// A server that may not be this cluster's answers, so the proof stays necessary however long others serve.
    #[tokio::test]
    async fn only_an_endpoint_from_which_nothing_answers_counts_as_out_of_reach() {
        let pem = || Lookup::Found("PEM".to_owned());
        for (authority, failure, expected) in [
            (pem(), EndpointFailure::Refused, true),
            (pem(), EndpointFailure::OtherAuthority, false),
            (pem(), EndpointFailure::NotTls, false),
            (Lookup::Absent, EndpointFailure::Refused, true),
            (Lookup::Unknown, EndpointFailure::Refused, false),
        ] {
            let case = format!("{authority:?} {failure:?}");
            let request = ProofRequest {
                authority,
                ..request(Always(Err(failure)))
            };
            let ProofOutcome::Failed { is_unreachable, .. } = request.run().await else {
                panic!("{case}: served");
            };
            assert_eq!(is_unreachable, expected, "{case}");
        }
    }
}
