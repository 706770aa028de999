//! The decisions of the gates if no case applies that needs no proof: by the rules, without our hook, and while the
//! gates only observe.

use crate::model::decision::ReleaseBasis;
use std::time::{Duration, Instant};

use crate::{
    decide::{evaluation::Needs, finalizer, release},
    model::{
        decision::{GateCause, GateDecision},
        desired::ClusterFacts,
        evidence::{Lack, Others, Want},
        machine::Stage,
        state::State,
    },
    tests::{open_without_proof::world, world::machine_name},
};
use capo_core::{GateMode, GateOverride, ProvisioningStatus};
use jiff::Timestamp;

/// The decision of the finalizer gate on a machine that is deleted without our hook.
fn unhooked(change: impl FnOnce(&mut State, Instant)) -> GateDecision {
    let mut world = world();
    let now = world.present();
    let mut state = world.state.clone();
    change(&mut state, now.instant);
    let machine = state.machines.get(&machine_name(1)).unwrap();
    finalizer::finalizer_decision(&state, machine, &now)
}

fn leave(state: &mut State, absent: u32) {
    let machine = state.machines.get_mut(&machine_name(1)).unwrap();
    for slot in &mut machine.slots {
        slot.member = None;
        slot.absent_reads = absent;
    }
}

#[test]
fn a_server_goes_after_its_members_or_where_they_cannot_be_removed() {
    let held = |cause| GateDecision::Held(cause);
    let open = |cause| GateDecision::Open(cause);
    let operator_hold = GateOverride::Hold {
        reason: "h".to_owned(),
    };
    let facts = |change: fn(&mut ClusterFacts)| {
        unhooked(|state, _| change(&mut state.desired.as_mut().unwrap().cluster))
    };
    assert_eq!(unhooked(|_, _| ()), held(GateCause::Removing));
    assert_eq!(
        unhooked(|state, _| state.desired = None),
        held(GateCause::NotObserved)
    );
    assert_eq!(facts(|facts| facts.paused = true), held(GateCause::Paused));
    assert_eq!(
        unhooked(|state, _| {
            let machine = state.machines.get_mut(&machine_name(1)).unwrap();
            machine.want.paused = true;
        }),
        held(GateCause::Paused)
    );
    assert_eq!(
        facts(|facts| facts.cluster_deleting = true),
        open(GateCause::ClusterDeleting)
    );
    assert_eq!(
        unhooked(|state, _| state.desired.as_mut().unwrap().cluster.gate_override = operator_hold),
        held(GateCause::OperatorHold)
    );
    assert_eq!(
        unhooked(|state, _| state.desired.as_mut().unwrap().enabled = false),
        open(GateCause::Disabled)
    );
    let unusable = open(GateCause::LoadBalancerUnusable);
    assert_eq!(
        unhooked(|state, _| state.desired.as_mut().unwrap().id = capo_core::Lookup::Absent),
        unusable
    );
    assert_eq!(unhooked(|state, _| state.balancer.not_found = 2), unusable);
    assert_eq!(
        unhooked(|state, _| state.balancer.not_found = 1),
        held(GateCause::Removing)
    );
    assert_eq!(
        unhooked(|state, _| {
            leave(state, 2);
            state.claimed_by = Some(machine_name(7));
        }),
        held(GateCause::Ambiguous)
    );
    // Two objects of one name on another port do not concern the members of this port.
    let ambiguous = |state: &mut State| {
        state.ports.first_mut().unwrap().ambiguous = Some("two".to_owned());
    };
    assert_eq!(
        unhooked(|state, _| {
            leave(state, 2);
            ambiguous(state);
        }),
        open(GateCause::MembersGone)
    );
    assert_eq!(
        unhooked(|state, _| {
            leave(state, 2);
            state.reads.tree_read_at = None;
        }),
        held(GateCause::NotObserved)
    );
    assert_eq!(
        unhooked(|state, _| leave(state, 2)),
        open(GateCause::MembersGone)
    );
    assert_eq!(
        unhooked(|state, _| leave(state, 1)),
        held(GateCause::Removing)
    );
    assert_eq!(
        unhooked(|state, now| {
            leave(state, 2);
            state.last_write = Some(now);
        }),
        held(GateCause::Removing)
    );
    assert_eq!(
        unhooked(|state, _| state.balancer.provisioning = Some(ProvisioningStatus::Error)),
        unusable
    );
    let since = |status: ProvisioningStatus, age: Duration| {
        unhooked(|state, now| {
            state.balancer.provisioning = Some(status);
            state.balancer.since.as_mut().unwrap().instant = now.checked_sub(age).unwrap();
        })
    };
    let alert = Duration::from_mins(12);
    let less = alert.saturating_sub(Duration::from_millis(1));
    assert_eq!(since(ProvisioningStatus::PendingUpdate, alert), unusable);
    assert_eq!(
        since(ProvisioningStatus::PendingUpdate, less),
        held(GateCause::Removing)
    );
    assert_eq!(
        since(ProvisioningStatus::Active, alert),
        held(GateCause::Removing)
    );
}

#[test]
fn what_the_rules_say_at_each_stage() {
    let serve = Others::Serve;
    let unclear = Others::NotYet(6443, Want::Server);
    let none = Others::None(6443, Lack::NotOnline);
    let released = GateDecision::Open(GateCause::Released(ReleaseBasis::OthersServedLongEnough));
    let held = |cause| GateDecision::Held(cause);
    let name = machine_name(1);
    for (stage, others, before, expected) in [
        (
            Stage::Serving,
            Some(serve),
            held(GateCause::NotFresh),
            held(GateCause::Requesting),
        ),
        (
            Stage::Serving,
            Some(unclear),
            held(GateCause::NotFresh),
            held(GateCause::WaitingForEvidence(6443, Want::Server)),
        ),
        (
            Stage::Serving,
            Some(none),
            held(GateCause::NotFresh),
            held(GateCause::NoOther(6443, Lack::NotOnline)),
        ),
        (
            Stage::Draining,
            Some(serve),
            held(GateCause::NotFresh),
            held(GateCause::Draining),
        ),
        (
            Stage::Removing,
            Some(none),
            held(GateCause::NotFresh),
            held(GateCause::Removing),
        ),
        (
            Stage::Released,
            Some(serve),
            held(GateCause::Removing),
            GateDecision::Open(GateCause::Released(ReleaseBasis::OthersServedLongEnough)),
        ),
        // No newer observation has contradicted the open gate.
        (Stage::Released, Some(unclear), released, released),
        // Cluster API may find the only other API server unhealthy before Octavia is read again.
        (
            Stage::Released,
            Some(none),
            released,
            held(GateCause::NoOther(6443, Lack::NotOnline)),
        ),
        (Stage::Released, None, released, released),
        (
            Stage::Released,
            Some(unclear),
            held(GateCause::Removing),
            held(GateCause::Removing),
        ),
    ] {
        let mut world = world();
        let now = world.present();
        let state = &mut world.state;
        let machine = state.machines.get_mut(&name).unwrap();
        machine.stage = stage;
        machine.gates.release = before;
        let machine = machine.clone();
        let mut needs = Needs::default();
        let mut rule =
            |state: &State| release::rules(state, &name, &machine, others, &now, &mut needs);
        state.releasing = Some(machine_name(2));
        assert_eq!(rule(state), held(GateCause::AnotherFirst), "{stage:?}");
        state.releasing = Some(name.clone());
        assert_eq!(rule(state), expected, "{stage:?} {others:?}");
        state.reads.tree_read_at = None;
        assert_eq!(rule(state), held(GateCause::NotObserved), "{stage:?}");
        assert!(needs.health);
    }
}

#[test]
fn observing_asks_only_where_a_gate_could_hold() {
    let case = |change: &dyn Fn(&mut State)| {
        let mut world = world();
        let now = world.present();
        let state = &mut world.state;
        state.settings.mode = GateMode::Observe;
        change(state);
        let machine = state.machines.get(&machine_name(1)).unwrap();
        let mut needs = Needs::default();
        let decision =
            release::observed_release(state, &machine_name(1), machine, &now, &mut needs);
        let decided_before_the_rules = matches!(
            decision,
            GateDecision::NotEvaluated
                | GateDecision::Bypassed
                | GateDecision::Observed(GateCause::OperatorHold)
        );
        assert_eq!(needs.health, !decided_before_the_rules, "{decision:?}");
        decision
    };
    let machine = |state: &mut State, change: fn(&mut bool, &mut bool)| {
        let want = &mut state.machines.get_mut(&machine_name(1)).unwrap().want;
        change(&mut want.admitted, &mut want.paused);
    };
    assert_ne!(case(&|_| ()), GateDecision::NotEvaluated);
    let silent: [&dyn Fn(&mut State); 7] = [
        &|state| state.settings.mode = GateMode::Off,
        &|state| machine(state, |admitted, _| *admitted = false),
        &|state| machine(state, |_, paused| *paused = true),
        &|state| state.desired.as_mut().unwrap().enabled = false,
        &|state| state.desired.as_mut().unwrap().cluster.cluster_deleting = true,
        &|state| state.desired.as_mut().unwrap().cluster.paused = true,
        &|state| state.desired = None,
    ];
    for (index, change) in silent.iter().enumerate() {
        assert_eq!(case(change), GateDecision::NotEvaluated, "{index}");
    }
    assert_eq!(
        case(&|state| state.reads.tree_read_at = None),
        GateDecision::Observed(GateCause::NotObserved)
    );
    // What an operator has decided comes before the rules, as where the gates are enforced.
    let of_the_operator = |gate_override: GateOverride| {
        case(&|state| {
            state.reads.tree_read_at = None;
            let machine = state.machines.get_mut(&machine_name(1)).unwrap();
            machine.want.gate_override = gate_override.clone();
        })
    };
    let reason = "maintenance".to_owned();
    assert_eq!(
        of_the_operator(GateOverride::Hold {
            reason: reason.clone()
        }),
        GateDecision::Observed(GateCause::OperatorHold)
    );
    let until = Timestamp::MAX;
    assert_eq!(
        of_the_operator(GateOverride::Bypass { until, reason }),
        GateDecision::Bypassed
    );
}
