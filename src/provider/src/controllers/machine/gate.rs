//! What the gates mean for one machine: may it count as provisioned (G1), does it carry our hook (G2),
//! may its server go (G3). Plain functions; the evidence itself is weighed in the membership room.

use crate::reconcile::deletion_hooks::{HeldAt, HookChange, Hooks};
use capo_core::GateMode;
use capo_core::Reason;
use capo_gate::findings::{Gate, MachineFinding};

/// What the gates ask about one machine.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each named where it is read"
)]
pub(super) struct Question<'a> {
    /// The mode of the gates.
    pub mode: GateMode,
    /// A control-plane machine of a cluster with a load balancer of ours. Nobody else ever waits for one.
    pub gated: bool,
    /// Paused, or being moved by clusterctl.
    pub untouchable: bool,
    /// The Cluster is being deleted, or absent in an uncached read: open, and nothing is waited for.
    pub going: bool,
    /// The Machine took over the provider id, or we said `provisioned` before: it can't be taken back.
    pub admitted: bool,
    /// The server was ACTIVE in the last read.
    pub server_active: bool,
    /// The owning Machine, if there is one.
    pub machine: Option<MachineSight>,
    /// What the load balancer's task found out about it.
    pub finding: Option<&'a MachineFinding>,
}

/// What the gates ask about the owning Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MachineSight {
    /// It is being deleted.
    pub deleting: bool,
    /// Where one of our hooks holds it.
    pub held_at: Option<HeldAt>,
    /// Its `OpenStackMachine` is being deleted.
    pub infrastructure_deleting: bool,
    /// Those of our hooks that it carries.
    pub carried: Hooks,
    /// Those that hold a Machine of its version.
    pub wanted: Hooks,
}

/// Go ahead, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Go ahead.
    Open,
    /// Not yet.
    Held {
        /// Why not.
        reason: Reason,
        /// What was seen, what unblocks.
        message: String,
    },
}

impl Answer {
    fn held(reason: Reason, message: &str) -> Self {
        Self::Held {
            reason,
            message: message.to_owned(),
        }
    }
}

/// G1: may `status.initialization.provisioned` be set?
pub(super) fn admission(question: &Question<'_>) -> Answer {
    if question.admitted {
        return Answer::Open;
    }
    if !question.server_active {
        return Answer::held(Reason::InstanceNotReady, "The server is not ACTIVE yet");
    }
    if !question.gated || question.mode != GateMode::Enforce {
        return Answer::Open;
    }
    asked(question.finding.map(|finding| &finding.admission))
}

/// G2: what becomes of our hooks on the Machine? None is ever put on a Machine that is being deleted, so
/// that a user who takes them off there has the last word.
pub(super) fn hook(question: &Question<'_>) -> HookChange {
    let Some(machine) = question.machine else {
        return HookChange::Keep;
    };
    if question.untouchable {
        return HookChange::Keep;
    }
    let holds = question.gated && question.mode == GateMode::Enforce && !question.going;
    let release = question.finding.is_some_and(|f| f.release.is_open());
    match (machine.carried.any(), machine.deleting) {
        (_, false) if holds && machine.carried != machine.wanted => HookChange::Put(machine.wanted),
        (true, false) if !question.gated || question.mode == GateMode::Off => HookChange::Remove,
        (true, true) if !holds => HookChange::Remove,
        (true, true) if release => release_hooks(machine),
        _ => HookChange::Keep,
    }
}

/// A release before the drain leaves the hook after it: a drain may take hours, and the question is asked again then.
fn release_hooks(machine: MachineSight) -> HookChange {
    match machine.held_at {
        Some(HeldAt::PreDrain) => HookChange::Release(Hooks {
            pre_drain: false,
            ..machine.carried
        }),
        Some(HeldAt::PreTerminate) => HookChange::Release(Hooks::default()),
        None if machine.infrastructure_deleting => HookChange::Release(Hooks::default()),
        None => HookChange::Keep,
    }
}

/// G3: may the server go, and the finalizer with it?
pub(super) fn may_delete_server(question: &Question<'_>) -> Answer {
    if question.untouchable {
        return Answer::held(Reason::Paused, "Paused, or being moved: nothing is touched");
    }
    if !question.gated || question.going {
        return Answer::Open;
    }
    // A Machine that is being deleted without our hook is not held; its member goes before its server all the same, and
    // the tracker decides when.
    match asked(question.finding.map(|finding| &finding.finalizer)) {
        Answer::Held { .. } if question.mode != GateMode::Enforce => Answer::Open,
        answer => answer,
    }
}

fn asked(gate: Option<&Gate>) -> Answer {
    match gate {
        Some(Gate::Open { .. } | Gate::Bypassed { .. }) => Answer::Open,
        Some(Gate::Held {
            reason, message, ..
        }) => Answer::Held {
            reason: *reason,
            message: message.clone(),
        },
        Some(Gate::NotAsked) | None => Answer::held(
            Reason::NotYetObserved,
            "The machine's load balancer members were not read yet",
        ),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use capo_core::ConditionState;

    const OPEN: Gate = Gate::Open {
        reason: Reason::MembersActive,
        message: String::new(),
    };
    const BYPASSED: Gate = Gate::Bypassed {
        message: String::new(),
    };

    fn held() -> Gate {
        Gate::Held {
            reason: Reason::MemberPending,
            message: "port 6443: PENDING_CREATE".to_owned(),
            since: Timestamp::UNIX_EPOCH,
        }
    }

    fn finding(gate: &Gate) -> MachineFinding {
        MachineFinding {
            verdict: ConditionState::default(),
            admission: gate.clone(),
            release: gate.clone(),
            finalizer: gate.clone(),
            server_wanted: false,
        }
    }

    /// A Machine whose pre-terminate hook is enough.
    fn sight(deleting: bool, hooked: bool) -> MachineSight {
        let wanted = Hooks::wanted(Some("v1.34.0"));
        MachineSight {
            deleting,
            held_at: (deleting && hooked).then_some(HeldAt::PreTerminate),
            infrastructure_deleting: false,
            carried: if hooked { wanted } else { Hooks::default() },
            wanted,
        }
    }

    fn question(finding: Option<&MachineFinding>) -> Question<'_> {
        Question {
            mode: GateMode::Enforce,
            gated: true,
            untouchable: false,
            going: false,
            admitted: false,
            server_active: true,
            machine: Some(sight(false, false)),
            finding,
        }
    }

    #[test]
    fn a_control_plane_machine_is_admitted_by_its_members_only() {
        for (gate, open) in [
            (OPEN, true),
            (BYPASSED, true),
            (held(), false),
            (Gate::NotAsked, false),
        ] {
            let finding = finding(&gate);
            assert_eq!(
                admission(&question(Some(&finding))) == Answer::Open,
                open,
                "{gate:?}"
            );
        }
        assert_ne!(admission(&question(None)), Answer::Open);
        let open = finding(&OPEN);
        let mut early = question(Some(&open));
        early.server_active = false;
        assert_ne!(admission(&early), Answer::Open);
    }

    #[test]
    fn what_was_admitted_stays_admitted() {
        let mut question = question(None);
        question.admitted = true;
        question.server_active = false;
        assert_eq!(admission(&question), Answer::Open);
    }

    #[test]
    fn a_worker_never_waits_for_a_load_balancer() {
        let mut worker = question(None);
        worker.gated = false;
        assert_eq!(admission(&worker), Answer::Open);
        assert_eq!(hook(&worker), HookChange::Keep);
        assert_eq!(may_delete_server(&worker), Answer::Open);
    }

    #[test]
    fn observing_never_holds_and_off_takes_hooks_away() {
        let held = finding(&held());
        for mode in [GateMode::Observe, GateMode::Off] {
            let mut question = question(Some(&held));
            question.mode = mode;
            assert_eq!(admission(&question), Answer::Open);
            assert_eq!(hook(&question), HookChange::Keep);
            assert_eq!(may_delete_server(&question), Answer::Open);
            // Nor does a load balancer that was not read yet.
            question.finding = None;
            assert_eq!(may_delete_server(&question), Answer::Open);
            question.finding = Some(&held);
            for deleting in [false, true] {
                question.machine = Some(sight(deleting, true));
                let expected = if deleting || mode == GateMode::Off {
                    HookChange::Remove
                } else {
                    HookChange::Keep
                };
                assert_eq!(hook(&question), expected, "{mode:?} {deleting}");
            }
        }
    }

    #[test]
    fn the_hook_through_its_life() {
        use HookChange::{Keep, Release};
        let put = HookChange::Put(Hooks::wanted(Some("v1.34.0")));
        let (open, held, not_asked) = (finding(&OPEN), finding(&held()), finding(&Gate::NotAsked));
        let cases = [
            // hooked, deleting, finding, change
            (false, false, None, put),
            (false, false, Some(&open), put),
            (true, false, Some(&open), Keep),
            (true, true, None, Keep),
            (true, true, Some(&not_asked), Keep),
            (true, true, Some(&held), Keep),
            (true, true, Some(&open), Release(Hooks::default())),
            // A user took it off: not put back.
            (false, true, Some(&held), Keep),
            (false, true, None, Keep),
        ];
        for (hooked, deleting, finding, expected) in cases {
            let mut asked = question(finding);
            asked.machine = Some(sight(deleting, hooked));
            assert_eq!(hook(&asked), expected, "{hooked} {deleting} {finding:?}");
            asked.untouchable = true;
            assert_eq!(hook(&asked), Keep);
        }
        let mut absent = question(Some(&open));
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
            // Updated in place.
            (both, late, false, HookChange::Put(late)),
            // On its way out nothing is added, whoever took it off.
            (late, both, true, HookChange::Keep),
            (Hooks::default(), both, true, HookChange::Keep),
        ] {
            let mut question = question(None);
            question.machine = Some(MachineSight {
                deleting,
                held_at: None,
                infrastructure_deleting: false,
                carried,
                wanted,
            });
            assert_eq!(hook(&question), expected, "{carried:?} {wanted:?}");
        }
    }

    #[test]
    fn a_release_before_the_drain_leaves_the_hook_after_it() {
        let open = finding(&OPEN);
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
            // The drain is under way, or is being repeated.
            (late, None, false, HookChange::Keep),
            (late, None, true, HookChange::Release(Hooks::default())),
        ] {
            let mut question = question(Some(&open));
            question.machine = Some(MachineSight {
                deleting: true,
                held_at,
                infrastructure_deleting,
                carried,
                wanted: carried,
            });
            assert_eq!(hook(&question), expected, "{carried:?} {held_at:?}");
        }
    }

    #[test]
    fn a_cluster_that_goes_waits_for_nothing() {
        let held = finding(&held());
        let mut question = question(Some(&held));
        question.going = true;
        question.machine = Some(sight(true, true));
        assert_eq!(hook(&question), HookChange::Remove);
        assert_eq!(may_delete_server(&question), Answer::Open);
        // Nor is a hook put on a Machine that will be deleted in a moment.
        question.machine = Some(sight(false, false));
        assert_eq!(hook(&question), HookChange::Keep);
    }

    #[test]
    fn paused_goes_before_everything_else() {
        let open = finding(&OPEN);
        let mut question = question(Some(&open));
        question.untouchable = true;
        for (gated, going) in [(true, false), (true, true), (false, false)] {
            (question.gated, question.going) = (gated, going);
            assert_ne!(
                may_delete_server(&question),
                Answer::Open,
                "{gated} {going}"
            );
            assert_eq!(hook(&question), HookChange::Keep);
        }
    }

    #[test]
    fn a_load_balancer_of_ours_no_more_means_no_hook() {
        let mut question = question(None);
        question.gated = false;
        question.machine = Some(sight(false, true));
        assert_eq!(hook(&question), HookChange::Remove);
        question.machine = Some(sight(true, true));
        assert_eq!(hook(&question), HookChange::Remove);
    }

    #[test]
    fn the_server_goes_after_its_member() {
        for (gate, open) in [
            (OPEN, true),
            (BYPASSED, true),
            (held(), false),
            (Gate::NotAsked, false),
        ] {
            let finding = finding(&gate);
            assert_eq!(
                may_delete_server(&question(Some(&finding))) == Answer::Open,
                open,
                "{gate:?}"
            );
        }
        assert_ne!(may_delete_server(&question(None)), Answer::Open);
    }
}
