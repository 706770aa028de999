//! What the gates of control-plane machines come to where the API server is reached by a floating IP on one of them. A
//! plain decision on what was read.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{
    carrier::{Carrier, Deletion},
    plan::Holder,
    proof::{Proof, ProofOutcome},
};
use capo_core::{ConditionState, GateOverride, ObjectName, Reason};
use capo_gate::findings::{Gate, MachineFinding};

/// How long Cluster API must have reached the API server without a break where this process can't reach it.
const WITHOUT_PROOF: Duration = Duration::from_secs(90);

/// What the gates depend on.
pub(crate) struct ReleaseInputs<'a> {
    /// The Cluster or its control plane is being deleted.
    pub is_going: bool,
    /// The control plane was initialised once.
    pub is_initialised: bool,
    /// The operator's annotation on the cluster.
    pub operator: &'a GateOverride,
    /// The floating IP, for messages.
    pub address: &'a str,
    /// Where the floating IP is.
    pub holder: &'a Holder,
    /// Whether clients reach the API server through it.
    pub ingress: &'a ConditionState,
    /// The requests through the endpoint for the machine that is released next.
    pub proof: Option<&'a Proof>,
    /// Since when Cluster API reaches the API server without a break.
    pub remote_connection_since: Option<Instant>,
    /// The clock.
    pub now: Instant,
}

/// The machine that is released next: of those that are being deleted and do not have the floating IP the one whose
/// deletion is the oldest.
pub(crate) fn next<'a>(carriers: &'a [Carrier], holder: &Holder) -> Option<&'a Carrier> {
    let since = |carrier: &Carrier| match carrier.deletion {
        Deletion::Since(since) => Some(since),
        Deletion::No | Deletion::WithoutHook => None,
    };
    carriers
        .iter()
        .filter(|carrier| *holder != Holder::Machine(carrier.machine.clone()))
        .filter_map(|carrier| Some((since(carrier)?, carrier)))
        .min_by(|(a, first), (b, second)| a.cmp(b).then(first.machine.cmp(&second.machine)))
        .map(|(_, carrier)| carrier)
}

/// The gates of every machine. A gate that is held since before keeps its time.
pub(crate) fn findings(
    inputs: &ReleaseInputs<'_>,
    carriers: &[Carrier],
    before: &BTreeMap<ObjectName, MachineFinding>,
    now: Timestamp,
) -> BTreeMap<ObjectName, MachineFinding> {
    let next = next(carriers, inputs.holder);
    carriers
        .iter()
        .map(|carrier| {
            let is_next = next.is_some_and(|next| next.machine == carrier.machine);
            let mut gate = match carrier.deletion {
                Deletion::No => Gate::NotAsked,
                Deletion::Since(_) | Deletion::WithoutHook => {
                    release(inputs, carrier, is_next, now)
                }
            };
            let previous = before.get(&carrier.machine).map(|finding| &finding.release);
            if let (Gate::Held { since, .. }, Some(Gate::Held { since: known, .. })) =
                (&mut gate, previous)
            {
                *since = *known;
            }
            let finding = MachineFinding {
                verdict: inputs.ingress.clone(),
                admission: open(Reason::LoadBalancerDisabled, "No load balancer is managed"),
                release: gate.clone(),
                finalizer: gate,
                server_wanted: false,
            };
            (carrier.machine.clone(), finding)
        })
        .collect()
}

fn open(reason: Reason, message: impl Into<String>) -> Gate {
    Gate::Open {
        reason,
        message: message.into(),
    }
}

fn release(inputs: &ReleaseInputs<'_>, carrier: &Carrier, is_next: bool, now: Timestamp) -> Gate {
    let held = |reason, message: String| Gate::Held {
        reason,
        message,
        since: now,
    };
    if inputs.is_going {
        return open(
            Reason::ClusterDeleting,
            "The Cluster or its control plane is being deleted",
        );
    }
    let operators = [inputs.operator, &carrier.operator];
    for operator in operators {
        if let GateOverride::Bypass { reason, .. } = operator {
            return Gate::Bypassed {
                message: format!("The operator bypasses the gate: {reason}"),
            };
        }
    }
    for operator in operators {
        if let GateOverride::Hold { reason } = operator {
            let message = format!("The operator holds the gate: {reason}");
            return held(Reason::OperatorHold, message);
        }
    }
    if !inputs.is_initialised {
        return open(
            Reason::ControlPlaneNotInitialized,
            "The control plane was never initialised",
        );
    }
    if carrier.deletion == Deletion::WithoutHook {
        return open(
            Reason::MachineReleased,
            "The deletion hook was removed from the Machine",
        );
    }
    let address = inputs.address;
    let holder = match inputs.holder {
        Holder::Machine(holder) if *holder == carrier.machine => {
            return held(
                Reason::FloatingIPError,
                format!(
                    "The API server's floating IP {address} is on this machine. It is moved as soon as another \
                     control-plane machine stays, its server is ACTIVE and its API server is healthy"
                ),
            );
        }
        Holder::Machine(holder) => holder,
        Holder::Free | Holder::Other => {
            return held(
                Reason::FloatingIPError,
                format!(
                    "The API server's floating IP {address} is on no control-plane machine, so none is taken down"
                ),
            );
        }
    };
    if !is_next {
        return held(
            Reason::FloatingIPError,
            "Another control-plane machine is released first".to_owned(),
        );
    }
    let proof = inputs
        .proof
        .filter(|proof| proof.leaving == carrier.machine && proof.holder == *holder);
    match proof.map(|proof| (proof, proof.outcome())) {
        Some((_, Some(ProofOutcome::Served))) => open(
            Reason::MachineReleased,
            format!(
                "The API server answers at {address}, which is on machine {}",
                holder.name
            ),
        ),
        Some((
            proof,
            Some(ProofOutcome::Failed {
                message,
                is_unreachable,
            }),
        )) => {
            let reached_since = inputs
                .remote_connection_since
                .map(|since| since.max(proof.since));
            let is_reached = reached_since
                .is_some_and(|since| inputs.now.saturating_duration_since(since) >= WITHOUT_PROOF);
            if is_unreachable && is_reached {
                return open(
                    Reason::MachineReleased,
                    format!(
                        "Cluster API has reached the API server for {} s since floating IP {address} is on machine {}; \
                         a proof was not possible: {message}",
                        WITHOUT_PROOF.as_secs(),
                        holder.name
                    ),
                );
            }
            held(
                Reason::FloatingIPError,
                format!(
                    "Floating IP {address} is on machine {}, and no API server answers there: {message}",
                    holder.name
                ),
            )
        }
        None | Some((_, None)) => held(
            Reason::FloatingIPError,
            format!("Requests to the API server at {address} are under way"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::{
        carrier::ApiServer::Serving,
        plan::tests::{carrier, leaving},
    };
    use super::*;

    fn name(machine: &str) -> ObjectName {
        ObjectName::new("ns", machine)
    }

    static INGRESS: LazyLock<ConditionState> = LazyLock::new(|| ConditionState::met(Reason::Ready));

    fn inputs<'a>(holder: &'a Holder, proof: Option<&'a Proof>) -> ReleaseInputs<'a> {
        ReleaseInputs {
            is_going: false,
            is_initialised: true,
            operator: &GateOverride::None,
            address: "203.0.113.9",
            holder,
            ingress: &INGRESS,
            proof,
            remote_connection_since: None,
            now: Instant::now(),
        }
    }

    fn gate(inputs: &ReleaseInputs<'_>, carriers: &[Carrier], machine: &str) -> Gate {
        let mut all = findings(inputs, carriers, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
        let finding = all.remove(&name(machine)).unwrap();
        assert_eq!(finding.release, finding.finalizer);
        finding.release
    }

    fn proof(outcome: Option<ProofOutcome>) -> Proof {
        Proof::with_outcome(name("a"), name("b"), outcome)
    }

    fn failed(is_unreachable: bool) -> ProofOutcome {
        ProofOutcome::Failed {
            message: "refused".to_owned(),
            is_unreachable,
        }
    }

    #[test]
    fn a_machine_is_released_after_answers_at_the_floating_ip_on_another_one() {
        let carriers = [leaving("a", Serving), carrier("b", Serving)];
        let (on_a, on_b) = (Holder::Machine(name("a")), Holder::Machine(name("b")));
        let served = proof(Some(ProofOutcome::Served));
        let cases = [
            ("it has the floating IP", &on_a, Some(&served), false),
            ("nothing was asked yet", &on_b, None, false),
            ("requests are under way", &on_b, Some(&proof(None)), false),
            ("no answer", &on_b, Some(&proof(Some(failed(true)))), false),
            ("answered", &on_b, Some(&served), true),
            ("nowhere", &Holder::Free, Some(&served), false),
        ];
        for (what, holder, proof, expected) in cases {
            let gate = gate(&inputs(holder, proof), &carriers, "a");
            assert_eq!(gate.is_open(), expected, "{what}: {gate:?}");
        }
        assert_eq!(
            gate(&inputs(&on_b, Some(&served)), &carriers, "b"),
            Gate::NotAsked
        );
    }

    #[test]
    fn an_answer_counts_only_for_the_machine_it_was_asked_for_and_where_the_floating_ip_still_is() {
        let carriers = [
            leaving("a", Serving),
            carrier("b", Serving),
            carrier("c", Serving),
        ];
        let served = proof(Some(ProofOutcome::Served));
        let on_c = Holder::Machine(name("c"));
        assert!(!gate(&inputs(&on_c, Some(&served)), &carriers, "a").is_open());
        let others = [carrier("b", Serving), leaving("c", Serving)];
        let on_b = Holder::Machine(name("b"));
        assert!(!gate(&inputs(&on_b, Some(&served)), &others, "c").is_open());
    }

    #[test]
    fn one_machine_is_released_at_a_time() {
        let later = Carrier {
            deletion: Deletion::Since(Timestamp::from_second(9).unwrap()),
            ..carrier("c", Serving)
        };
        let carriers = [later, leaving("a", Serving), carrier("b", Serving)];
        let on_b = Holder::Machine(name("b"));
        let served = proof(Some(ProofOutcome::Served));
        assert!(gate(&inputs(&on_b, Some(&served)), &carriers, "a").is_open());
        assert!(!gate(&inputs(&on_b, Some(&served)), &carriers, "c").is_open());
    }

    #[test]
    fn cluster_api_must_have_reached_an_endpoint_for_long_that_this_process_cannot_reach() {
        let carriers = [leaving("a", Serving), carrier("b", Serving)];
        let on_b = Holder::Machine(name("b"));
        for (is_unreachable, seconds, expected) in
            [(true, 89, false), (true, 91, true), (false, 91, false)]
        {
            let proof = proof(Some(failed(is_unreachable)));
            let mut inputs = inputs(&on_b, Some(&proof));
            inputs.remote_connection_since = Some(proof.since);
            inputs.now = proof.since + Duration::from_secs(seconds);
            let gate = gate(&inputs, &carriers, "a");
            assert_eq!(
                gate.is_open(),
                expected,
                "{is_unreachable} {seconds}: {gate:?}"
            );
        }
    }

    #[test]
    fn what_opens_every_gate_opens_this_one_and_an_operator_holds_it() {
        let carriers = [leaving("a", Serving)];
        let on_a = Holder::Machine(name("a"));
        let bypass = GateOverride::Bypass {
            until: Timestamp::MAX,
            reason: "r".to_owned(),
        };
        let hold = GateOverride::Hold {
            reason: "r".to_owned(),
        };
        let mut going = inputs(&on_a, None);
        going.is_going = true;
        assert!(gate(&going, &carriers, "a").is_open());
        let mut new = inputs(&on_a, None);
        new.is_initialised = false;
        assert!(gate(&new, &carriers, "a").is_open());
        let mut bypassed = inputs(&on_a, None);
        bypassed.operator = &bypass;
        assert!(gate(&bypassed, &carriers, "a").is_open());
        let unhooked = [Carrier {
            deletion: Deletion::WithoutHook,
            ..leaving("a", Serving)
        }];
        assert!(gate(&inputs(&on_a, None), &unhooked, "a").is_open());
        let mut kept = inputs(&on_a, None);
        kept.operator = &hold;
        assert!(!gate(&kept, &unhooked, "a").is_open());
    }
}
