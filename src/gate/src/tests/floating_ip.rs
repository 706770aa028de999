//! The gates if clients reach the API server by a floating IP on a machine.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::LazyLock,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::{
    builders,
    decide::floating_ip::ReleaseInputs,
    model::{
        decision::{CLUSTER_DELETING, NEVER_INITIALISED, PAUSED},
        desired::{ClusterFacts, ObservedCondition, ObservedServer, ServerState},
        findings::Gate,
        floating_ip::{
            ApiServer, ControlPlaneMachine, Holder, MachineDeletion, MoveProof, ProofOutcome,
        },
        proof::{EndpointReply, EndpointResult},
        settings::Settings,
    },
    report::floating_ip::floating_ip_findings,
};
use capo_core::{
    ConditionState, EndpointAnswer, EndpointFailure, Excerpt, GateOverride, GateState, ObjectName,
    Reason,
};

/// A machine that stays and whose API server serves.
pub(crate) fn control_plane_machine(machine: &str) -> ControlPlaneMachine {
    ControlPlaneMachine {
        name: name(machine),
        server: Some(format!("server-of-{machine}").into()),
        addresses: Vec::new(),
        created: None,
        deletion: MachineDeletion::No,
        is_active: true,
        is_down: false,
        api_server: ApiServer::Serving,
        gate_override: GateOverride::None,
    }
}

fn leaving(machine: &str) -> ControlPlaneMachine {
    ControlPlaneMachine {
        deletion: MachineDeletion::Since(Timestamp::UNIX_EPOCH),
        ..control_plane_machine(machine)
    }
}

fn name(machine: &str) -> ObjectName {
    ObjectName::new("ns", machine)
}

static CLUSTER: LazyLock<ClusterFacts> = LazyLock::new(builders::cluster_facts);
/// Two machines wait for their release.
static ASKED: LazyLock<BTreeMap<ObjectName, Option<ObservedServer>>> =
    LazyLock::new(|| ["a", "c"].map(|machine| (name(machine), None)).into());

static INGRESS: LazyLock<ConditionState> = LazyLock::new(|| ConditionState::met(Reason::Ready));

fn inputs<'a>(holder: &'a Holder, proof: Option<&'a MoveProof>) -> ReleaseInputs<'a> {
    ReleaseInputs {
        cluster: &CLUSTER,
        address: "203.0.113.9",
        holder,
        asked: &ASKED,
        ingress: &INGRESS,
        proof,
        now: Instant::now(),
    }
}

fn gate(inputs: &ReleaseInputs<'_>, machines: &[ControlPlaneMachine], machine: &str) -> Gate {
    let mut all = floating_ip_findings(inputs, machines, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
    let finding = all.remove(&name(machine)).unwrap();
    assert_eq!(finding.release, finding.finalizer);
    finding.release
}

fn proof(outcome: Option<ProofOutcome>) -> MoveProof {
    MoveProof {
        leaving: name("a"),
        holder: name("b"),
        since: Instant::now(),
        outcome,
    }
}

fn failed(is_unreachable: bool) -> ProofOutcome {
    ProofOutcome::Failed {
        message: "refused".to_owned(),
        is_unreachable,
    }
}

#[test]
fn a_machine_is_released_after_answers_at_the_floating_ip_on_another_one() {
    let machines = [leaving("a"), control_plane_machine("b")];
    let (on_a, on_b) = (Holder::Machine(name("a")), Holder::Machine(name("b")));
    let served = proof(Some(ProofOutcome::Served));
    let of_itself = MoveProof {
        holder: name("a"),
        ..proof(Some(ProofOutcome::Served))
    };
    let cases = [
        ("it has the floating IP", &on_a, Some(&served), false),
        ("it answered itself", &on_a, Some(&of_itself), false),
        ("nothing was asked yet", &on_b, None, false),
        ("requests are under way", &on_b, Some(&proof(None)), false),
        ("no answer", &on_b, Some(&proof(Some(failed(true)))), false),
        ("answered", &on_b, Some(&served), true),
        ("nowhere", &Holder::Free, Some(&served), false),
    ];
    for (what, holder, proof, expected) in cases {
        let gate = gate(&inputs(holder, proof), &machines, "a");
        assert_eq!(gate.is_open(), expected, "{what}: {gate:?}");
    }
    assert_eq!(
        gate(&inputs(&on_b, Some(&served)), &machines, "b"),
        Gate::NOT_EVALUATED
    );
    let held_there = gate(&inputs(&on_a, Some(&served)), &machines, "a");
    assert!(
        held_there.is_held() && held_there.message.contains("is on this machine"),
        "{held_there:?}"
    );
}

/// The outcome of requests that all get this reply, and how many of them were needed.
fn requested(reply: &EndpointResult) -> (usize, ProofOutcome) {
    let now = Instant::now();
    let leaving = vec![IpAddr::from([10, 6, 0, 5])];
    let mut requests = MoveProof::begin(Settings::default(), "GET it", leaving, now);
    (1..=10)
        .find_map(|count| Some((count, requests.reply(reply, now)?)))
        .unwrap()
}

#[test]
fn an_answer_of_a_machine_that_nothing_holds_any_more_releases_no_other_one() {
    let served = proof(Some(ProofOutcome::Served));
    let on_b = Holder::Machine(name("b"));
    let bypassed = ControlPlaneMachine {
        gate_override: GateOverride::Bypass {
            until: Timestamp::MAX,
            reason: "r".to_owned(),
        },
        ..leaving("b")
    };
    let unhooked = ControlPlaneMachine {
        deletion: MachineDeletion::WithoutHook,
        ..control_plane_machine("b")
    };
    let asked = ["a", "b"].map(|machine| (name(machine), None)).into();
    for (holder, is_open) in [
        (control_plane_machine("b"), true),
        // It is held until the floating IP is on another machine.
        (leaving("b"), true),
        (bypassed, false),
        (unhooked, false),
    ] {
        let inputs = ReleaseInputs {
            asked: &asked,
            ..inputs(&on_b, Some(&served))
        };
        let machines = [leaving("a"), holder];
        let gate = gate(&inputs, &machines, "a");
        assert_eq!(gate.is_open(), is_open, "{:?}", machines[1]);
    }
}

#[test]
fn five_answers_or_three_failures_in_a_row_end_a_series_of_requests() {
    let answer = |status, body| {
        Ok(EndpointReply::Answer(EndpointAnswer {
            status,
            named: Vec::new(),
            body: Excerpt::of(body),
        }))
    };
    assert_eq!(requested(&answer(200, "ok")), (5, ProofOutcome::Served));
    assert_eq!(requested(&answer(401, "")), (5, ProofOutcome::Served));
    let failed = |message: &str, is_unreachable| ProofOutcome::Failed {
        message: message.to_owned(),
        is_unreachable,
    };
    let busy = failed("GET it: the answer was 500: busy", false);
    assert_eq!(requested(&answer(500, "busy")), (3, busy));
    let silent = failed("GET it: the answer was 429", false);
    assert_eq!(requested(&answer(429, "")), (3, silent));
    let refused = EndpointFailure::Refused;
    let nothing = failed(&format!("GET it: {refused}"), true);
    assert_eq!(requested(&Err(refused)), (3, nothing));
}

#[test]
fn an_answer_counts_only_for_the_machine_it_was_asked_for_and_where_the_floating_ip_still_is() {
    let machines = [
        leaving("a"),
        control_plane_machine("b"),
        control_plane_machine("c"),
    ];
    let served = proof(Some(ProofOutcome::Served));
    let on_c = Holder::Machine(name("c"));
    assert!(!gate(&inputs(&on_c, Some(&served)), &machines, "a").is_open());
    let others = [control_plane_machine("b"), leaving("c")];
    let on_b = Holder::Machine(name("b"));
    assert!(!gate(&inputs(&on_b, Some(&served)), &others, "c").is_open());
}

#[test]
fn one_machine_is_released_at_a_time() {
    let later = ControlPlaneMachine {
        deletion: MachineDeletion::Since(Timestamp::from_second(9).unwrap()),
        ..control_plane_machine("c")
    };
    let machines = [later, leaving("a"), control_plane_machine("b")];
    let on_b = Holder::Machine(name("b"));
    let served = proof(Some(ProofOutcome::Served));
    assert!(gate(&inputs(&on_b, Some(&served)), &machines, "a").is_open());
    assert!(!gate(&inputs(&on_b, Some(&served)), &machines, "c").is_open());
}

#[test]
fn a_hold_lasts_since_it_began() {
    let nowhere = Holder::Free;
    let machines = [leaving("a"), control_plane_machine("b")];
    let findings = |before: &BTreeMap<_, _>, second| {
        let now = Timestamp::from_second(second).unwrap();
        floating_ip_findings(&inputs(&nowhere, None), &machines, before, now)
    };
    let first = findings(&BTreeMap::new(), 5);
    for found in [&first, &findings(&first, 9)] {
        let gate = &found[&name("a")].release;
        assert!(gate.is_held());
        assert_eq!(gate.since, Timestamp::from_second(5).ok());
    }
    assert_eq!(first[&name("b")].release.since, None);
}

#[test]
fn a_machine_that_the_rules_do_not_decide_on_does_not_hold_up_those_behind_it() {
    let behind = ControlPlaneMachine {
        deletion: MachineDeletion::Since(Timestamp::from_second(9).unwrap()),
        ..leaving("a")
    };
    let on_hold = ControlPlaneMachine {
        gate_override: GateOverride::Hold {
            reason: "r".to_owned(),
        },
        ..leaving("c")
    };
    // Its Node is being drained, or it is paused.
    let behind_alone = ASKED
        .clone()
        .into_iter()
        .filter(|(machine, _)| *machine == name("a"))
        .collect();
    let on_b = Holder::Machine(name("b"));
    let served = proof(Some(ProofOutcome::Served));
    for (first, asked, expected) in [
        (on_hold, &*ASKED, false),
        (leaving("c"), &behind_alone, true),
    ] {
        let machines = [first, behind.clone(), control_plane_machine("b")];
        let mut inputs = inputs(&on_b, Some(&served));
        inputs.asked = asked;
        let first = gate(&inputs, &machines, "c");
        assert_eq!(first == Gate::NOT_EVALUATED, expected, "{first:?}");
        assert!(!first.is_open());
        assert!(gate(&inputs, &machines, "a").is_open());
    }
}

#[test]
fn a_machine_whose_server_is_gone_is_released_without_a_proof() {
    let machines = [leaving("a"), control_plane_machine("b")];
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    // The seconds of the first and of the last read that found it down, and the present second.
    for (server, now, expected, wanted) in [
        (None, 60, false, false),
        (Some((None, 50)), 60, false, false),
        (Some((Some(0), 29)), 30, false, false),
        (Some((Some(0), 30)), 31, true, false),
        (Some((Some(0), 30)), 70, true, false),
        (Some((Some(0), 30)), 71, false, true),
    ] {
        let read = server.map(|(first, last): (Option<u64>, u64)| ObservedServer {
            state: first.map_or(ServerState::Active, |_| ServerState::Shutoff),
            read_at: Some(at(last)),
            down_since: first.map(at),
        });
        let asked = BTreeMap::from([(name("a"), read)]);
        // No API server answers at a floating IP whose machine is down.
        for holder in [
            Holder::Machine(name("a")),
            Holder::Machine(name("b")),
            Holder::Free,
        ] {
            let mut inputs = inputs(&holder, None);
            inputs.asked = &asked;
            inputs.now = at(now);
            let none = BTreeMap::new();
            let findings = floating_ip_findings(&inputs, &machines, &none, Timestamp::UNIX_EPOCH);
            let finding = &findings[&name("a")];
            assert_eq!(
                finding.release.is_open(),
                expected,
                "{server:?} {now} {holder:?}"
            );
            assert_eq!(finding.needs_server_read, wanted, "{server:?} {now}");
        }
    }
}

#[test]
fn cluster_api_must_have_reached_an_endpoint_for_long_that_this_process_cannot_reach() {
    let machines = [leaving("a"), control_plane_machine("b")];
    let on_b = Holder::Machine(name("b"));
    for (is_unreachable, seconds, expected) in
        [(true, 89, false), (true, 91, true), (false, 91, false)]
    {
        let proof = proof(Some(failed(is_unreachable)));
        let mut inputs = inputs(&on_b, Some(&proof));
        let reached = ClusterFacts {
            remote_connection: ObservedCondition::TrueSince(proof.since),
            ..builders::cluster_facts()
        };
        inputs.cluster = &reached;
        inputs.now = proof.since + Duration::from_secs(seconds);
        let gate = gate(&inputs, &machines, "a");
        assert_eq!(
            gate.is_open(),
            expected,
            "{is_unreachable} {seconds}: {gate:?}"
        );
    }
}

#[test]
fn what_opens_every_gate_opens_this_one_and_an_operator_holds_it() {
    let machines = [leaving("a")];
    let on_a = Holder::Machine(name("a"));
    let [mut deleting, mut new, mut bypassed, mut kept] =
        std::array::from_fn(|_| builders::cluster_facts());
    deleting.cluster_deleting = true;
    new.initialised = false;
    bypassed.gate_override = GateOverride::Bypass {
        until: Timestamp::MAX,
        reason: "r".to_owned(),
    };
    kept.gate_override = GateOverride::Hold {
        reason: "r".to_owned(),
    };
    let until = format!("bypassed by the operator until {}: r", Timestamp::MAX);
    for (cluster, message) in [
        (&deleting, CLUSTER_DELETING),
        (&new, NEVER_INITIALISED),
        (&bypassed, &until),
    ] {
        let inputs = ReleaseInputs {
            cluster,
            ..inputs(&on_a, None)
        };
        let gate = gate(&inputs, &machines, "a");
        assert!(gate.is_open(), "{cluster:?}");
        assert_eq!(gate.message, message);
    }
    let unhooked = [ControlPlaneMachine {
        deletion: MachineDeletion::WithoutHook,
        ..leaving("a")
    }];
    assert!(gate(&inputs(&on_a, None), &unhooked, "a").is_open());
    let held = ReleaseInputs {
        cluster: &kept,
        ..inputs(&on_a, None)
    };
    assert!(!gate(&held, &unhooked, "a").is_open());
}

#[test]
fn a_gate_of_a_paused_cluster_says_that_the_cluster_is_paused() {
    let machines = [leaving("a")];
    let on_a = Holder::Machine(name("a"));
    let mut paused = builders::cluster_facts();
    paused.paused = true;
    let mut annotated = paused.clone();
    annotated.gate_override = GateOverride::Hold {
        reason: "r".to_owned(),
    };
    for cluster in [&paused, &annotated] {
        let inputs = ReleaseInputs {
            cluster,
            ..inputs(&on_a, None)
        };
        let gate = gate(&inputs, &machines, "a");
        assert_eq!((gate.state, gate.reason), (GateState::Held, Reason::Paused));
        assert_eq!(gate.message, PAUSED);
    }
}

#[test]
fn the_override_of_the_machine_goes_before_that_of_the_cluster_and_a_bypass_before_a_hold() {
    let on_a = Holder::Machine(name("a"));
    let hold = |reason: &str| GateOverride::Hold {
        reason: reason.to_owned(),
    };
    let bypass = |until, reason: &str| GateOverride::Bypass {
        until,
        reason: reason.to_owned(),
    };
    let shown = |machine: GateOverride, cluster: GateOverride| {
        let machines = [ControlPlaneMachine {
            gate_override: machine,
            ..leaving("a")
        }];
        let mut inputs = inputs(&on_a, None);
        let cluster = ClusterFacts {
            gate_override: cluster,
            ..builders::cluster_facts()
        };
        inputs.cluster = &cluster;
        let gate = gate(&inputs, &machines, "a");
        (gate.state, gate.message)
    };
    let later = Timestamp::MAX;
    let shows_hold = |by: &str| (GateState::Held, format!("held by the operator: {by}"));
    let shows_bypass = |by: &str| {
        let message = format!("bypassed by the operator until {later}: {by}");
        (GateState::Bypassed, message)
    };
    assert_eq!(shown(hold("m"), hold("c")), shows_hold("m"));
    assert_eq!(
        shown(bypass(later, "m"), bypass(later, "c")),
        shows_bypass("m")
    );
    assert_eq!(shown(hold("m"), bypass(later, "c")), shows_bypass("c"));
    // A bypass that has expired counts as none.
    let over = bypass(Timestamp::UNIX_EPOCH, "m");
    assert_eq!(shown(over, hold("c")), shows_hold("c"));
}
