use jiff::Timestamp;

use super::*;
use capo_core::{ConditionState, GateState};

fn open() -> Gate {
    Gate::open(Reason::MembersActive, "")
}

fn held() -> Gate {
    let message = "port 6443: PENDING_CREATE";
    Gate::held(Reason::MemberPending, message, Timestamp::UNIX_EPOCH)
}

fn bypassed() -> Gate {
    Gate {
        state: GateState::Bypassed,
        ..Gate::open(Reason::OperatorBypass, "")
    }
}

/// Gates of every kind, and whether each is open.
fn gates() -> [(Gate, bool); 4] {
    [
        (open(), true),
        (bypassed(), true),
        (held(), false),
        (Gate::NOT_EVALUATED, false),
    ]
}

fn finding(gate: &Gate) -> MachineFinding {
    MachineFinding {
        verdict: ConditionState::default(),
        admission: gate.clone(),
        release: gate.clone(),
        finalizer: gate.clone(),
        needs_server_read: false,
    }
}

/// A Machine of a version for which the pre-terminate hook is enough.
fn owning_machine(deleting: bool, hooked: bool) -> OwningMachine {
    let wanted = Hooks::wanted(Some("v1.34.0"));
    OwningMachine {
        deleting,
        held_at: (deleting && hooked).then_some(HeldAt::PreTerminate),
        infrastructure_deleting: false,
        carried: if hooked { wanted } else { Hooks::default() },
        wanted,
    }
}

fn inputs(finding: Option<&MachineFinding>) -> GateInputs<'_> {
    GateInputs {
        mode: GateMode::Enforce,
        paused: false,
        cluster_deleting_or_absent: false,
        admitted: false,
        server_active: true,
        machine: Some(owning_machine(false, false)),
        finding,
    }
}

#[test]
fn a_control_plane_machine_is_admitted_by_its_members_only() {
    for (gate, open) in gates() {
        let finding = finding(&gate);
        assert_eq!(
            admission(&inputs(Some(&finding))) == Ok(()),
            open,
            "{gate:?}"
        );
    }
    assert_ne!(admission(&inputs(None)), Ok(()));
    let open = finding(&open());
    let mut early = inputs(Some(&open));
    early.server_active = false;
    assert_ne!(admission(&early), Ok(()));
}

#[test]
fn what_was_admitted_stays_admitted() {
    let mut inputs = inputs(None);
    inputs.admitted = true;
    inputs.server_active = false;
    assert_eq!(admission(&inputs), Ok(()));
}

#[test]
fn a_worker_never_waits_for_a_load_balancer() {
    let mut worker = inputs(None);
    worker.mode = GateMode::Off;
    assert_eq!(admission(&worker), Ok(()));
    assert_eq!(hook(&worker), HookChange::Keep);
    assert_eq!(may_delete_server(&worker), Ok(()));
}

#[test]
fn observing_never_holds_and_off_takes_hooks_away() {
    let held = finding(&held());
    for mode in [GateMode::Observe, GateMode::Off] {
        let mut inputs = inputs(Some(&held));
        inputs.mode = mode;
        assert_eq!(admission(&inputs), Ok(()));
        assert_eq!(hook(&inputs), HookChange::Keep);
        assert_eq!(may_delete_server(&inputs), Ok(()));
        // A load balancer that was not read yet does not hold the deletion either.
        inputs.finding = None;
        assert_eq!(may_delete_server(&inputs), Ok(()));
        inputs.finding = Some(&held);
        for deleting in [false, true] {
            inputs.machine = Some(owning_machine(deleting, true));
            let expected = if deleting || mode == GateMode::Off {
                HookChange::Remove
            } else {
                HookChange::Keep
            };
            assert_eq!(hook(&inputs), expected, "{mode:?} {deleting}");
        }
    }
}

#[test]
fn the_hook_through_its_life() {
    use HookChange::{Keep, Release};
    let put = HookChange::Put(Hooks::wanted(Some("v1.34.0")));
    let (open, held, not_asked) = (
        finding(&open()),
        finding(&held()),
        finding(&Gate::NOT_EVALUATED),
    );
    let cases = [
        // hooked, deleting, finding, change
        (false, false, None, put),
        (false, false, Some(&open), put),
        (true, false, Some(&open), Keep),
        (true, true, None, Keep),
        (true, true, Some(&not_asked), Keep),
        (true, true, Some(&held), Keep),
        (true, true, Some(&open), Release(Hooks::default())),
        // A user removed the hook, so it is not put back.
        (false, true, Some(&held), Keep),
        (false, true, None, Keep),
    ];
    for (hooked, deleting, finding, expected) in cases {
        let mut asked = inputs(finding);
        asked.machine = Some(owning_machine(deleting, hooked));
        assert_eq!(hook(&asked), expected, "{hooked} {deleting} {finding:?}");
        asked.paused = true;
        assert_eq!(hook(&asked), Keep);
    }
    let mut absent = inputs(Some(&open));
    absent.machine = None;
    assert_eq!(hook(&absent), Keep);
}

#[test]
fn a_machine_carries_the_hooks_that_its_version_needs() {
    let both = Hooks::wanted(Some("v1.30.9"));
    let late = Hooks::wanted(Some("v1.31.0"));
    for (carried, wanted, deleting, expected) in [
        (Hooks::default(), both, false, HookChange::Put(both)),
        (late, both, false, HookChange::Put(both)),
        (both, both, false, HookChange::Keep),
        // The version was changed by an update in place.
        (both, late, false, HookChange::Put(late)),
        // If a user removed a hook from a machine that is being deleted, it is not put back.
        (late, both, true, HookChange::Keep),
        (Hooks::default(), both, true, HookChange::Keep),
    ] {
        let mut inputs = inputs(None);
        inputs.machine = Some(OwningMachine {
            deleting,
            held_at: None,
            infrastructure_deleting: false,
            carried,
            wanted,
        });
        assert_eq!(hook(&inputs), expected, "{carried:?} {wanted:?}");
    }
}

#[test]
fn a_release_before_the_drain_leaves_the_hook_after_it() {
    let open = finding(&open());
    let both = Hooks::wanted(Some("v1.30.9"));
    let late = Hooks::wanted(Some("v1.31.0"));
    for (carried, held_at, infrastructure_deleting, expected) in [
        (
            both,
            Some(HeldAt::PreDrain),
            false,
            HookChange::Release(late),
        ),
        (
            both,
            Some(HeldAt::PreTerminate),
            false,
            HookChange::Release(Hooks::default()),
        ),
        // The drain is under way or is being repeated.
        (late, None, false, HookChange::Keep),
        (late, None, true, HookChange::Release(Hooks::default())),
    ] {
        let mut inputs = inputs(Some(&open));
        inputs.machine = Some(OwningMachine {
            deleting: true,
            held_at,
            infrastructure_deleting,
            carried,
            wanted: carried,
        });
        assert_eq!(hook(&inputs), expected, "{carried:?} {held_at:?}");
    }
}

#[test]
fn a_cluster_that_goes_waits_for_nothing() {
    let held = finding(&held());
    let mut inputs = inputs(Some(&held));
    inputs.cluster_deleting_or_absent = true;
    inputs.machine = Some(owning_machine(true, true));
    assert_eq!(hook(&inputs), HookChange::Remove);
    assert_eq!(may_delete_server(&inputs), Ok(()));
    // No hook is put on a Machine that will be deleted in a moment.
    inputs.machine = Some(owning_machine(false, false));
    assert_eq!(hook(&inputs), HookChange::Keep);
}

#[test]
fn paused_goes_before_everything_else() {
    let open = finding(&open());
    let mut inputs = inputs(Some(&open));
    inputs.paused = true;
    for (mode, is_deleting) in [
        (GateMode::Enforce, false),
        (GateMode::Enforce, true),
        (GateMode::Off, false),
    ] {
        (inputs.mode, inputs.cluster_deleting_or_absent) = (mode, is_deleting);
        assert_ne!(may_delete_server(&inputs), Ok(()), "{mode:?} {is_deleting}");
        assert_eq!(hook(&inputs), HookChange::Keep);
    }
}

#[test]
fn a_load_balancer_of_ours_no_more_means_no_hook() {
    let mut inputs = inputs(None);
    inputs.mode = GateMode::Off;
    inputs.machine = Some(owning_machine(false, true));
    assert_eq!(hook(&inputs), HookChange::Remove);
    inputs.machine = Some(owning_machine(true, true));
    assert_eq!(hook(&inputs), HookChange::Remove);
}

#[test]
fn the_server_goes_after_its_member() {
    for (gate, open) in gates() {
        let finding = finding(&gate);
        assert_eq!(
            may_delete_server(&inputs(Some(&finding))) == Ok(()),
            open,
            "{gate:?}"
        );
    }
    assert_ne!(may_delete_server(&inputs(None)), Ok(()));
}
