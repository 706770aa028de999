//! The canonical form of a world: worlds that behave alike are made equal.
//!
//! - Every moment is moved to the beginning of its tick, because decisions depend only on how many ticks ago it was.
//!   Only the moments that are compared with each other (reads, lists, the last write) keep their order within the
//!   tick.
//! - A moment or a count that is beyond its last threshold is reduced to that threshold, because no decision depends on
//!   more. (Thresholds that can be set are set in ticks: [`explore`](super::explore).)
//! - The wall clock stands still. Of the times of deletions only the order is kept.
//! - Values that only metrics and texts use are cleared. The ids of members are numbered again from the beginning.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    model::{clock::Stamp, desired::Deletion, event::Event, part::ConsecutiveReads, state::State},
    tests::world::{Todo, World},
};

/// The time within which only the order of moments counts. It is longer than the 15 s for which a read is fresh, and no
/// longer than any other time on which a decision depends.
pub(crate) const TICK: Duration = Duration::from_secs(20);
/// In ticks. A read is stale after three times the widest gap, which is two ticks.
const STALE: u32 = 7;
/// In ticks. A PENDING status is stuck after four ticks. A read of a server and evidence against a machine count for a
/// minute, a lookup for 75 s.
const STUCK: u32 = 4;
/// In ticks. A warning is due after two ticks, which is also the steady gap.
const WARNED: u32 = 3;
/// In ticks. No read takes longer than two ticks.
const SLOW: u32 = 2;
/// In ticks. If no proof is possible, other machines must serve for 90 s.
const UNPROVEN: u32 = 5;
/// In ticks. The gate repeats requests through the endpoint 30 s after they were answered.
const RENEWED: u32 = 2;
/// In ticks. ONLINE counts after one tick, which is the monitor's span and longer than the pause between probes.
const ONLINE: u32 = 1;

/// The clock of a world.
#[derive(Clone, Copy)]
struct Clock {
    start: Instant,
    now: Instant,
}

impl Clock {
    fn tick(self, moment: Instant) -> u32 {
        let since = moment.saturating_duration_since(self.start);
        u32::try_from(since.as_secs() / TICK.as_secs()).unwrap_or(u32::MAX)
    }

    /// The beginning of the moment's tick, or of the oldest tick that counts.
    fn floor(self, moment: Instant, oldest: u32) -> Instant {
        let oldest = self.tick(self.now).saturating_sub(oldest);
        self.start + TICK * self.tick(moment).max(oldest)
    }

    fn stamp(self, stamp: &mut Stamp, oldest: u32) {
        stamp.instant = self.floor(stamp.instant, oldest);
        stamp.wall = Timestamp::UNIX_EPOCH;
    }

    fn maybe(self, moment: &mut Option<Instant>, oldest: u32) {
        if let Some(moment) = moment {
            *moment = self.floor(*moment, oldest);
        }
    }

    /// Reduces a moment of which decisions only depend on whether it has come.
    fn coming(self, moment: &mut Option<Instant>) {
        *moment = moment.filter(|moment| self.tick(*moment) >= self.tick(self.now));
        self.maybe(moment, 0);
    }

    fn shorten(self, first: &mut Instant, last: &mut Instant, longest: u32) {
        let span = (self.tick(*last) - self.tick(*first)).min(longest);
        *last = self.floor(*last, longest);
        *first = last.checked_sub(TICK * span).unwrap_or(*last);
    }

    fn shorten_run(self, run: &mut ConsecutiveReads, longest: u32) {
        self.shorten_to(3, run, longest);
    }

    fn shorten_to(self, reads: u32, run: &mut ConsecutiveReads, longest: u32) {
        run.reads = run.reads.min(reads);
        if let (Some(first), Some(last)) = (&mut run.first, &mut run.last) {
            self.shorten(first, last, longest);
        }
    }
}

pub(crate) fn tidy(world: &mut World) {
    let clock = Clock {
        start: world.start,
        now: world.now,
    };
    world.recent.clear();
    world.most_per_minute = 0;
    world.model.writes.clear();
    events(world, clock);
    deletions(world);
    ages(&mut world.state, clock);
    for machine in world.state.machines.values_mut() {
        clock.maybe(&mut machine.want.server.read_at, STUCK);
    }
    for node in world.nodes.values_mut() {
        clock.maybe(&mut node.want.server.read_at, STUCK);
        clock.maybe(&mut node.want.server.down_since, STUCK);
    }
    for (began, _) in world.probed.values_mut() {
        *began = clock.floor(*began, STUCK);
    }
    for up in world.model.up.values_mut() {
        *up = clock.floor(*up, ONLINE);
    }
    if let Some(running) = &mut world.model.running {
        // The operation ends only when `End` is chosen.
        running.ends = world.now + Duration::from_hours(1_000);
    }
    order(world, clock);
}

/// Removes the events of processes that are gone, and events that are on their way twice.
fn events(world: &mut World, clock: Clock) {
    let epoch = std::mem::take(&mut world.epoch);
    let mut seen = HashSet::new();
    world.queue.retain_mut(|(_, _, todo)| match todo {
        Todo::Feed(of, _) if *of != epoch => false,
        Todo::Feed(of, event) => {
            *of = 0;
            if let Event::Probed { began, .. } = event {
                *began = clock.floor(*began, STUCK);
            }
            true
        }
        other => seen.insert(format!("{other:?}")),
    });
    requests(world, clock);
    // The call under way gets the number 1.
    let state = &mut world.state;
    state.last_call_id = u64::from(state.call.is_some());
    for (_, _, todo) in &mut world.queue {
        if let Todo::Feed(_, Event::Answered { id, .. }) = todo {
            *id = u64::from(state.call.as_ref().is_some_and(|call| call.id == *id));
        }
    }
    if let Some(call) = &mut state.call {
        call.id = 1;
    }
}

/// Numbers the requests through the endpoint from 0 again. A reply to a request that is no longer under way is ignored.
fn requests(world: &mut World, clock: Clock) {
    let state = &mut world.state;
    let mut numbers = Vec::new();
    if let Some(proof) = &mut state.proof {
        proof.began = clock.floor(proof.began, ONLINE);
        for port in &mut proof.ports {
            clock.maybe(&mut port.sent, ONLINE);
            port.answers = port.answers.min(3);
            port.failures = port.failures.min(3);
            for request in &mut port.requests {
                numbers.push(*request);
                *request = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
            }
        }
    }
    state.last_request_id = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
    world.queue.retain_mut(|(_, _, todo)| match todo {
        Todo::Feed(_, Event::Replied { id, .. }) => {
            let place = numbers.iter().position(|number| number == id);
            *id = place.map_or(0, |place| u64::try_from(place).unwrap_or(u64::MAX) + 1);
            place.is_some()
        }
        _ => true,
    });
}

fn deletions(world: &mut World) {
    let base = Timestamp::UNIX_EPOCH;
    let mut order: Vec<Timestamp> = world
        .nodes
        .values()
        .map(|node| node.want.deletion)
        .chain(
            world
                .state
                .machines
                .values()
                .map(|machine| machine.want.deletion),
        )
        .filter_map(Deletion::since)
        .collect();
    order.sort_unstable();
    order.dedup();
    let rank = |since: Timestamp| {
        let rank = order.partition_point(|other| *other < since);
        base + SignedDuration::from_secs(i64::try_from(rank).unwrap_or(i64::MAX))
    };
    let renumber = |deletion: &mut Deletion| match deletion {
        Deletion::No => {}
        Deletion::BeforeHook { since }
        | Deletion::AtHook { since }
        | Deletion::AfterHook { since }
        | Deletion::Unhooked { since }
        | Deletion::OutOfBand { since } => *since = rank(*since),
    };
    for node in world.nodes.values_mut() {
        renumber(&mut node.want.deletion);
    }
    for machine in world.state.machines.values_mut() {
        renumber(&mut machine.want.deletion);
    }
    // The next deletion is later than all others.
    let next = i64::try_from(order.len()).unwrap_or(i64::MAX);
    world.wall = base + SignedDuration::from_secs(next);
}

fn ages(state: &mut State, clock: Clock) {
    state.last_step = None;
    state.balancer.unsettled_since = None;
    state.balancer.not_found = state.balancer.not_found.min(3);
    if let Some(since) = &mut state.balancer.since {
        clock.stamp(since, STUCK);
    }
    clock.maybe(&mut state.watched_since, ONLINE);
    clock.maybe(&mut state.next_step_at, 0);
    if let Some(trouble) = &mut state.trouble {
        clock.stamp(&mut trouble.since, 0);
        trouble.until = clock.floor(trouble.until, 0);
        trouble.failures = trouble.failures.min(7);
    }
    for lookup in state.lookups.values_mut() {
        lookup.changed_at = clock.floor(lookup.changed_at, STUCK);
    }
    let reads = &mut state.reads;
    clock.maybe(&mut reads.tree_tried_at, WARNED);
    for took in [&mut reads.round_trip, &mut reads.waited] {
        *took = TICK
            * u32::try_from(took.as_secs() / TICK.as_secs())
                .unwrap_or(SLOW)
                .min(SLOW);
    }
    reads.stale_after = TICK
        * u32::try_from(reads.stale_after.as_secs() / TICK.as_secs())
            .unwrap_or(STALE)
            .min(STALE - 1);
    reads.health = 0;
    // The lists and monitors are read again after every second settled read, not after every sixth.
    reads.steady = reads.steady.max(4);
    if let Some(settling) = &mut reads.settling {
        // Every gap is the same, so decisions depend only on whether a read was tried since.
        settling.start = if reads
            .tree_tried_at
            .is_some_and(|tried| settling.start <= tried)
        {
            clock.start
        } else {
            clock.floor(settling.start, WARNED)
        };
        settling.reads = settling.reads.min(1);
    }
    let unseen = state.ports.iter().any(|port| port.unseen.is_some());
    if !unseen && let Some(listeners_and_pools) = &mut reads.listeners_and_pools_read_at {
        *listeners_and_pools = clock.start;
    }
    for port in &mut state.ports {
        // A list that was read in an earlier tick is not fresh any more.
        port.listed = port
            .listed
            .filter(|listed| clock.tick(*listed) == clock.tick(clock.now));
        clock.coming(&mut port.attempts.next);
        port.attempts.count = port.attempts.count.min(4);
        clock.shorten_run(&mut port.none_online, ONLINE);
        let parts = [
            port.listener.as_mut().map(|part| &mut part.state),
            port.pool.as_mut().map(|part| &mut part.state),
            port.monitor.as_mut().map(|part| &mut part.state),
        ];
        for part in parts.into_iter().flatten() {
            clock.stamp(&mut part.since, 0);
            clock.shorten_run(&mut part.pending_reads, WARNED);
        }
        for member in &mut port.members {
            clock.stamp(&mut member.since, STUCK);
            clock.shorten_run(&mut member.pending_reads, WARNED);
            clock.shorten_run(&mut member.down, WARNED);
            member.ownerless_reads = member.ownerless_reads.min(2);
            clock.shorten_to(2, &mut member.online, ONLINE);
        }
    }
    for machine in state.machines.values_mut() {
        clock.maybe(&mut machine.want.server.down_since, STUCK);
        clock.maybe(&mut machine.probe.sent, ONLINE);
        if let Some((began, _)) = &mut machine.probe.seen {
            *began = clock.floor(*began, STUCK);
        }
        if let Some((seen, _)) = &mut machine.reach {
            *seen = clock.floor(*seen, ONLINE);
        }
        clock.coming(&mut machine.release_attempts.next);
        machine.release_attempts.count = machine.release_attempts.count.min(4);
        clock.maybe(&mut machine.others_since, UNPROVEN);
        clock.maybe(&mut machine.proven, RENEWED);
        // Only texts use this value.
        machine.called_off_because = None;
        if let Some(since) = &mut machine.waiting_since {
            clock.stamp(since, WARNED);
        }
        clock.maybe(&mut machine.drained_since, 0);
        clock.maybe(&mut machine.hook_gone_since, WARNED);
        clock.maybe(&mut machine.others_unknown_since, WARNED);
        machine.others = None;
        // Only texts and metrics use these values.
        machine.gates.admission_since = None;
        machine.gates.release_since = None;
        machine.gates.finalizer_since = None;
        for slot in &mut machine.slots {
            slot.absent_reads = slot.absent_reads.min(2);
            clock.maybe(&mut slot.deleted, 0);
            if let Some((sent, _)) = &mut slot.posted {
                *sent = clock.floor(*sent, 0);
            }
            clock.coming(&mut slot.attempts.next);
            slot.attempts.count = slot.attempts.count.min(4);
        }
    }
}

/// Moments that are compared with each other keep their order within their tick, and the present moment comes after all
/// of them.
fn order(world: &mut World, clock: Clock) {
    let state = &mut world.state;
    // A write before everything that was read since has no effect on decisions any more.
    let reads = state
        .reads
        .tree_read_at
        .iter()
        .chain(state.call.iter().map(|call| &call.began));
    let oldest = reads
        .map(|stamp| stamp.instant)
        .chain(state.ports.iter().filter_map(|port| port.listed))
        .min();
    state.last_write = state
        .last_write
        .filter(|written| oldest.is_some_and(|oldest| *written > oldest));
    let mut moments: Vec<&mut Instant> = Vec::new();
    moments.extend(state.last_write.as_mut());
    moments.extend(state.reads.listeners_and_pools_read_at.as_mut());
    moments.extend(state.reads.interval_after.as_mut());
    moments.extend(
        state
            .ports
            .iter_mut()
            .filter_map(|port| port.listed.as_mut()),
    );
    for stamp in state
        .reads
        .tree_read_at
        .iter_mut()
        .chain(state.call.iter_mut().map(|call| &mut call.began))
    {
        stamp.wall = Timestamp::UNIX_EPOCH;
        moments.push(&mut stamp.instant);
    }
    moments.sort_unstable();
    let mut last: Option<(Instant, Instant)> = None;
    for moment in moments {
        let floor = clock.floor(*moment, STALE);
        let moved = match last {
            Some((old, new)) if old == *moment => new,
            Some((_, new)) if clock.tick(new) == clock.tick(floor) => {
                new + Duration::from_millis(1)
            }
            _ => floor,
        };
        last = Some((*moment, moved));
        *moment = moved;
    }
    let floor = clock.floor(world.now, 0);
    world.now = match last {
        Some((_, new)) if clock.tick(new) == clock.tick(floor) => new + Duration::from_millis(1),
        _ => floor,
    };
}
