//! Goes through all gates and the verdict after every event, carries a release through its stages, and
//! notes what changed.

use super::{
    desired::Deletion,
    effect::{Effect, Record},
    gate::{self, Before, Ground, Needs, Ruling},
    observer::{Decision, GateName},
    serves::{self},
    state::{Member, Now, Port, Stage, Stamp, State},
};
use super::{release::carry_release, verdict::show};
use capo_core::ProvisioningStatus;
use capo_core::Reason;

/// What was found out about one machine in this pass.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) admission: Ruling,
    pub(super) release: Ruling,
    pub(super) finalizer: Ruling,
    /// The rules decide on its release.
    pub(super) ruled: bool,
}

pub(super) fn judge(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut needs = Needs::default();
    note_questions(state, now);
    draft(state, now, &mut needs);
    carry_release(state, now, &mut needs);
    decide(state, now, &mut needs, effects);
    state.reads.wanted = needs.tree;
    state.reads.lists_wanted = needs.lists;
    if !needs.health {
        state.reads.health = 0;
    }
    state.reads.health_wanted = needs.health;
    let repair_is_near = repair_is_near(state, now);
    state.reads.probes_wanted = needs.health || evidence_wanted(state, repair_is_near);
    let servers = needs.health || repair_is_near;
    for machine in state.machines.values_mut() {
        let wanted = servers && serves::wants_server(machine, now);
        state.dirty |= wanted != machine.server_wanted;
        machine.server_wanted = wanted;
    }
    let shown = show(state, now);
    if shown != state.shown {
        state.shown = shown;
        state.dirty = true;
    }
    if shown.ground.is_none() {
        state.balancer.unsettled_since = None;
    } else {
        state.balancer.unsettled_since.get_or_insert(now.instant);
    }
}

/// Since when which release is asked. Whether others serve is found out anew.
fn note_questions(state: &mut State, now: &Now) {
    for machine in state.machines.values_mut() {
        machine.others = None;
        if machine.restoring {
            machine.restoring = !machine.slots.iter().zip(&state.ports).all(|(slot, port)| {
                slot.member
                    .and_then(|index| port.members.get(index))
                    .is_some_and(|member| {
                        member.provisioning == ProvisioningStatus::Active
                            && member.weight() != Some(0)
                    })
            });
        }
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                machine
                    .asked
                    .get_or_insert(super::state::Asked { since: now.stamp() });
            }
            Deletion::Unhooked { .. } => machine.asked = None,
            Deletion::No | Deletion::Coming { .. } => {
                machine.asked = None;
                machine.stage = Stage::Serving;
            }
        }
    }
}

/// Admission, and all that comes before the rules.
fn draft(state: &mut State, now: &Now, needs: &mut Needs) {
    let mut drafts = std::mem::take(&mut state.drafts);
    drafts.clear();
    for (name, machine) in state.machines.iter() {
        let mut draft = Draft {
            admission: gate::admission(state, machine, now, needs),
            ..Draft::default()
        };
        match machine.want.deletion {
            Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
                match gate::before_rules(state, name, machine, now, needs) {
                    Before::Decided(ruling) => draft.release = ruling,
                    Before::Rules => draft.ruled = true,
                }
            }
            Deletion::Unhooked { .. } => {
                draft.release = gate::observed_release(state, name, machine, now, needs);
                draft.finalizer = gate::unhooked(state, machine, now);
            }
            Deletion::No | Deletion::Coming { .. } => {}
        }
        drafts.push(draft);
    }
    state.drafts = drafts;
}

/// The rulings, and what changed in them.
fn decide(state: &mut State, now: &Now, needs: &mut Needs, effects: &mut Vec<Effect>) {
    let mut drafts = std::mem::take(&mut state.drafts);
    for ((name, machine), draft) in state.machines.iter().zip(&mut drafts) {
        if draft.ruled {
            draft.release = gate::rules(state, name, machine, machine.others, now, needs);
        }
        if matches!(machine.want.deletion, Deletion::OutOfBand { .. }) {
            // Nothing is asked any more, but the member still goes before the server.
            draft.finalizer = if draft.release.is_open() {
                gate::unhooked(state, machine, now)
            } else {
                draft.release
            };
        }
    }
    let mut dirty = false;
    for (machine, draft) in state.machines.values_mut().zip(&drafts) {
        // Called off from outside the rules, or open without them: should it be held again, what was drained is put back.
        let is_over = match draft.release {
            Ruling::Held(ground) => ground != Ground::Paused,
            release => release.is_open(),
        };
        if !draft.ruled && machine.stage > Stage::Serving && is_over {
            machine.stage = Stage::Serving;
            machine.restoring = true;
        }
        machine.offered |= draft.admission.is_open();
        let rulings = &mut machine.rulings;
        dirty |= settle(
            GateName::Admission,
            &mut rulings.admission,
            &mut rulings.admission_since,
            draft.admission,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Release,
            &mut rulings.release,
            &mut rulings.release_since,
            draft.release,
            now,
            effects,
        );
        dirty |= settle(
            GateName::Finalizer,
            &mut rulings.finalizer,
            &mut rulings.finalizer_since,
            draft.finalizer,
            now,
            effects,
        );
    }
    state.dirty |= dirty;
    state.drafts = drafts;
}

fn settle(
    gate: GateName,
    ruling: &mut Ruling,
    since: &mut Option<Stamp>,
    new: Ruling,
    now: &Now,
    effects: &mut Vec<Effect>,
) -> bool {
    if *ruling == new {
        return false;
    }
    let old = std::mem::replace(ruling, new);
    match new {
        Ruling::Held(_) => {
            since.get_or_insert(now.stamp());
        }
        _ => {
            if let (Ruling::Held(ground), Some(since)) = (old, since.take()) {
                effects.push(Effect::Record(Record::HoldEnded(
                    gate,
                    ground.reason(),
                    now.since(since.instant),
                )));
            }
        }
    }
    let decided = |ruling: Ruling| match ruling {
        Ruling::NotAsked => None,
        Ruling::Open(ground) | Ruling::Observed(ground) => Some((Decision::Open, ground.reason())),
        Ruling::Bypassed => Some((Decision::Bypassed, Reason::OperatorBypass)),
        Ruling::Held(ground) => Some((Decision::Held, ground.reason())),
    };
    if let Some((decision, reason)) = decided(new)
        && decided(old) != Some((decision, reason))
    {
        effects.push(Effect::Record(Record::Decision(gate, decision, reason)));
    }
    true
}

/// Whether answers of API servers decide what is done with a member, beyond the gates.
fn evidence_wanted(state: &State, repair_is_near: bool) -> bool {
    state.machines.len() > 1
        && state.ports.iter().enumerate().any(|(index, port)| {
            repair_is_near
                || port.members.iter().any(Member::is_joining)
                || is_missed(state, index) && lets_newcomers_through(state, port)
        })
}

/// A machine that stays has no member in this port's pool.
fn is_missed(state: &State, port: usize) -> bool {
    state.machines.values().any(|machine| {
        let slot = machine.slots.get(port);
        slot.is_some_and(|slot| slot.member.is_none() && slot.foreign.is_none())
            && machine.want.address.is_some()
            && !serves::is_leaving(machine)
    })
}

/// Nothing but being disabled would keep clients of this port, which has a member, away from one that is not up yet.
fn lets_newcomers_through(state: &State, port: &Port) -> bool {
    let active = |member: &Member| member.provisioning == ProvisioningStatus::Active;
    !state.is_guarded(port) && port.members.iter().any(active)
}

/// An admitted machine's member failed a push, and it is soon to be decided whether another one serves.
fn repair_is_near(state: &State, now: &Now) -> bool {
    state
        .machines
        .values()
        .filter(|machine| machine.may_be_admitted())
        .flat_map(|machine| &machine.slots)
        .any(|slot| {
            let next = slot.attempts.next.filter(|_| slot.put_tried);
            next.is_some_and(|next| {
                let eve = next.checked_sub(REPAIR_EVE).unwrap_or(next);
                let over = next.checked_add(REPAIR_EVE).unwrap_or(next);
                (eve..=over).contains(&now.instant)
            })
        })
}

/// How long before a repair evidence is gathered.
pub(super) const REPAIR_EVE: std::time::Duration = std::time::Duration::from_secs(10);
