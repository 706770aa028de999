//! Requests through the endpoint, made while its floating IP is on another machine than the one that is being deleted.
//! They prove that the API server answers without that machine.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{reconcile::ReadAt, tracker::prober::Prober, work_queue::WorkQueue};
use capo_core::{Endpoint, EndpointFailure, Lookup, ObjectName};
use capo_gate::{
    EndpointReply, Settings,
    floating_ip::{MoveProof, ProofOutcome},
};

/// The time until a failed proof is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long an outcome counts. A server that has answered may be down a moment later.
const COUNTS_FOR: Duration = Duration::from_secs(15);

/// The requests for one machine that is being deleted.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    /// The machine that is being deleted.
    pub leaving: ObjectName,
    /// The machine that the floating IP is on.
    pub holder: ObjectName,
    /// The time since which no request has been answered while the floating IP was on `holder`.
    pub since: Instant,
    outcome: Arc<Mutex<Option<ReadAt<ProofOutcome>>>>,
}

/// The requests that are made, and the queue to which their end is reported.
pub(crate) struct ProofRequest {
    /// The client for requests to the endpoint.
    pub prober: Arc<dyn Prober>,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The cluster's CA in PEM.
    pub authority: Lookup<String>,
    /// The addresses of the machine that is being deleted.
    pub leaving: Vec<IpAddr>,
    /// The addresses of all control-plane machines. They identify in the serving certificate which machine has
    /// answered.
    pub addresses: Vec<IpAddr>,
    /// The settings with the number of answers that are needed, and the time for them.
    pub settings: Settings,
    /// The queue to which the cluster is added when the outcome is known.
    pub queue: WorkQueue,
    /// The `OpenStackCluster`.
    pub cluster: ObjectName,
}

impl Proof {
    /// Returns the present state of the proof.
    pub(crate) fn seen(&self) -> MoveProof {
        let outcome = self.outcome.lock();
        MoveProof {
            leaving: self.leaving.clone(),
            holder: self.holder.clone(),
            since: self.since,
            outcome: outcome.as_ref().map(|outcome| outcome.value.clone()),
        }
    }

    /// Whether the last outcome is so old that new requests are needed.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.outcome.lock().as_ref().is_some_and(|outcome| {
            let pause = match outcome.value {
                ProofOutcome::Served => COUNTS_FOR,
                ProofOutcome::Failed { .. } => RETRY,
            };
            outcome.age(now) >= pause
        })
    }

    /// The time since which no request has been answered; `None` if one was answered or the requests have not ended.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        let outcome = self.outcome.lock();
        let is_unreachable = matches!(
            outcome.as_ref()?.value,
            ProofOutcome::Failed {
                is_unreachable: true,
                ..
            }
        );
        is_unreachable.then_some(self.since)
    }

    /// The time until which a gate that opened on this outcome may be acted on.
    pub(crate) fn counts_until(&self) -> Option<Instant> {
        let ended = self.outcome.lock().as_ref()?.at;
        ended.checked_add(COUNTS_FOR)
    }

    /// Starts the requests in a separate task, because no pass waits for an answer. `since` is the time since which no
    /// request has been answered.
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
        let request = format!("GET https://{}/readyz", self.endpoint);
        let without_answer = |failure: &EndpointFailure| ProofOutcome::Failed {
            message: format!("{request}: {failure}"),
            is_unreachable: !failure.may_have_answered(),
        };
        let authority: Arc<str> = match &self.authority {
            Lookup::Found(authority) => authority.as_str().into(),
            Lookup::Absent => return without_answer(&EndpointFailure::NoCaSecret),
            Lookup::Unknown => return without_answer(&EndpointFailure::UnreadableCa),
        };
        let mut requests = MoveProof::begin(
            self.settings.clone(),
            &request,
            self.leaving.clone(),
            tokio::time::Instant::now().into_std(),
        );
        // The pause is so short that enough answers in a row are possible after a request that failed.
        let pause = self.settings.proof_window / self.settings.proof_answers.max(1) / 2;
        loop {
            let answer = self.prober.readyz(
                self.endpoint.clone(),
                Arc::clone(&authority),
                self.addresses.clone(),
            );
            let reply = answer.await.map(EndpointReply::Answer);
            let now = tokio::time::Instant::now().into_std();
            if let Some(outcome) = requests.reply(&reply, now) {
                return outcome;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use capo_core::{EndpointAnswer, Excerpt};
    use capo_gate::event::ProbeOutcome;
    use futures::{FutureExt, future::BoxFuture};

    use super::*;

    type Reply = Result<EndpointAnswer, EndpointFailure>;

    /// A prober that answers the requests through the endpoint with these replies in order. The last reply is repeated.
    struct Replies(Mutex<Vec<Reply>>);

    fn always(reply: Reply) -> Replies {
        in_turn(vec![reply])
    }

    fn in_turn(replies: Vec<Reply>) -> Replies {
        Replies(Mutex::new(replies))
    }

    fn answer(named: Vec<IpAddr>) -> EndpointAnswer {
        EndpointAnswer {
            status: 200,
            named,
            body: Excerpt::of("ok"),
        }
    }

    impl Prober for Replies {
        fn probe(&self, _: IpAddr, _: u16, _: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
            std::future::pending().boxed()
        }

        fn readyz(
            &self,
            _: Endpoint,
            _: Arc<str>,
            addresses: Vec<IpAddr>,
        ) -> BoxFuture<'static, Reply> {
            let mut replies = self.0.lock();
            let reply = if replies.len() > 1 {
                replies.remove(0)
            } else {
                replies[0].clone()
            };
            let reply = reply.map(|mut answer| {
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
            settings: Settings {
                proof_answers: 1,
                proof_window: Duration::ZERO,
                ..Settings::default()
            },
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
            let outcome = request(always(Ok(answer(named)))).run().await;
            assert_eq!(outcome == ProofOutcome::Served, expected, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_among_answers_is_no_endpoint_out_of_reach() {
        let ok = || Ok(answer(Vec::new()));
        let timed_out = || Err(EndpointFailure::TimedOut(Duration::from_secs(3)));
        let failed = |is_unreachable| (false, Some(is_unreachable));
        for (replies, expected) in [
            (vec![ok()], (true, None)),
            (vec![timed_out(), timed_out(), ok()], (true, None)),
            (vec![ok(), timed_out(), ok()], (true, None)),
            (vec![ok(), timed_out()], failed(false)),
            (vec![timed_out()], failed(true)),
            // Enough answers in a row are never given.
            (
                std::iter::repeat_n([ok(), timed_out()], 20)
                    .flatten()
                    .collect(),
                failed(false),
            ),
        ] {
            let case = format!("{replies:?}");
            let request = ProofRequest {
                settings: Settings {
                    proof_answers: 3,
                    ..Settings::default()
                },
                ..request(in_turn(replies))
            };
            let outcome = request.run().await;
            let is_unreachable = match &outcome {
                ProofOutcome::Served => None,
                ProofOutcome::Failed { is_unreachable, .. } => Some(*is_unreachable),
            };
            let shown = (outcome == ProofOutcome::Served, is_unreachable);
            assert_eq!(shown, expected, "{case}: {outcome:?}");
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
        let failed = |is_unreachable| ProofOutcome::Failed {
            message: String::new(),
            is_unreachable,
        };
        for (outcome, seconds, expected) in [
            (None, 60, false),
            (Some(ProofOutcome::Served), 14, false),
            (Some(ProofOutcome::Served), 15, true),
            (Some(failed(true)), 4, false),
            (Some(failed(false)), 5, true),
        ] {
            let proof = of(outcome.clone());
            let later = ended + Duration::from_secs(seconds);
            let is_unanswered = outcome.as_ref() == Some(&failed(true));
            assert_eq!(proof.unanswered_since().is_some(), is_unanswered);
            assert_eq!(proof.is_due(later), expected, "{outcome:?} {seconds}");
            let until = ended + Duration::from_secs(15);
            assert_eq!(proof.counts_until(), outcome.map(|_| until));
        }
    }

    /// If a server answers that may not be this cluster's, the endpoint does not count as unreachable, so the proof
    /// stays necessary however long other machines serve.
    #[tokio::test]
    async fn only_an_endpoint_from_which_nothing_answers_counts_as_out_of_reach() {
        let pem = || Lookup::Found("PEM".to_owned());
        for (authority, failure, expected) in [
            (pem(), EndpointFailure::Refused, true),
            (pem(), EndpointFailure::OtherCa, false),
            (pem(), EndpointFailure::NotTls, false),
            (Lookup::Absent, EndpointFailure::Refused, true),
            (Lookup::Unknown, EndpointFailure::Refused, false),
        ] {
            let case = format!("{authority:?} {failure:?}");
            let request = ProofRequest {
                authority,
                ..request(always(Err(failure)))
            };
            let ProofOutcome::Failed { is_unreachable, .. } = request.run().await else {
                panic!("{case}: served");
            };
            assert_eq!(is_unreachable, expected, "{case}");
        }
    }
}
