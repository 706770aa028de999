//! Explores completely what can happen in a small model: answers, probes and lookups arrive in any order, operations
//! end in any way, machines come and go, the process dies, another cluster claims the load balancer, and time passes.
//! The numbers of faults and of acts are limited by a budget. The world checks its invariants at every turn.
//!
//! The model has one load balancer with one port and a pool with or without a health monitor, two machines that serve
//! and a third one that may be added. Time advances in ticks of 20 s ([`tidy`]): within a tick events have an order but
//! no duration. A second load balancer would add no states to explore: its worker shares no state with the first one's
//! (`histories_of_two_load_balancers_are_those_of_each_alone`), and a hand-over for one load balancer affects the
//! worker of another only by the claim (`registry::tests`), which is one of the acts here. The states of two load
//! balancers are therefore the pairs of the states of one.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

use crate::{
    model::{
        desired::Deletion,
        event::{Answered, Event},
        settings::{Schedule, Settings},
    },
    tests::{
        acts::{Act, play},
        canonical::key,
        histories::recover,
        model::{Fate, failure},
        tidy::{TICK, tidy},
        world::{AtEndpoint, Todo, World, address, machine_name},
    },
};
use capo_core::FailureClass;

/// What may happen next. The number is the index of an event that is on its way.
#[derive(Debug, Clone)]
enum Choice {
    /// An event that is on its way arrives.
    Arrive(usize),
    /// An answer that is on its way is lost. This is a fault.
    Lose(usize),
    /// Octavia ends its operation in this way. Every way except success is a fault.
    End(Fate),
    /// Something happens in the cluster.
    Act(Act),
    /// The API server of a machine that was added comes up.
    Boot(u8),
    /// Another cluster claims the load balancer, or stops claiming it.
    Claim(bool),
    /// A tick passes. While an event is on its way, this is a fault.
    Wait,
}

/// A load balancer, and what may still happen to it.
#[derive(Clone)]
struct Situation {
    world: World,
    faults: u8,
    acts: u8,
    claimed: bool,
}

/// What was explored.
#[derive(Debug, Default)]
struct Count {
    states: usize,
    steps: usize,
    recoveries: usize,
    /// Whether nothing was left out.
    is_complete: bool,
}

impl Situation {
    fn choices(&self) -> Vec<Choice> {
        let world = &self.world;
        let mut choices = Vec::new();
        for (index, (_, _, todo)) in world.queue.iter().enumerate() {
            choices.push(Choice::Arrive(index));
            if self.faults > 0 && matches!(todo, Todo::Feed(_, Event::Answered { .. })) {
                choices.push(Choice::Lose(index));
            }
        }
        if world.model.running.is_some() {
            choices.push(Choice::End(Fate::Fine));
            if self.faults > 0 {
                choices.extend([Fate::Fails, Fate::Lost].map(Choice::End));
            }
        }
        for index in [1, 3] {
            let added = world.holder(address(index)).filter(|(name, _)| {
                // The machines 1 and 2 have served from the beginning.
                **name != machine_name(1)
            });
            if added.is_some() && !world.model.up.contains_key(&address(index)) {
                choices.push(Choice::Boot(index));
            }
        }
        if self.acts > 0 {
            choices.extend(self.acts().into_iter().map(Choice::Act));
            choices.push(Choice::Claim(!self.claimed));
        }
        if world.queue.is_empty() || self.faults > 0 {
            choices.push(Choice::Wait);
        }
        choices
    }

    /// The acts that would change something at this point.
    fn acts(&self) -> Vec<Act> {
        let deletion = |index| {
            let node = self.world.nodes.get(&machine_name(index));
            node.filter(|node| !node.gone)
                .map(|node| node.want.deletion)
        };
        let mut acts = vec![Act::Restart];
        if !self.world.nodes.contains_key(&machine_name(3)) {
            acts.push(Act::Add(3));
        }
        for index in [1, 2] {
            match deletion(index) {
                Some(Deletion::No) => acts.push(Act::Delete(index)),
                Some(Deletion::AtHook { .. }) => acts.push(Act::TakeHook(index)),
                _ => {}
            }
        }
        if self.world.model.up.contains_key(&address(2)) {
            acts.push(Act::ApiDown(2));
        }
        if deletion(1).is_some() {
            acts.push(Act::Vanish(1));
        } else if self.world.holder(address(1)).is_none() {
            acts.push(Act::Reuse(1));
        }
        acts.push(Act::Elsewhere(!self.world.elsewhere));
        acts.push(Act::Stranger(3));
        let endpoints = [
            AtEndpoint::LoadBalancer,
            AtEndpoint::Unreachable,
            AtEndpoint::Unchanged,
        ];
        let others = endpoints.into_iter();
        acts.extend(
            others
                .filter(|other| *other != self.world.endpoint)
                .map(Act::Endpoint),
        );
        acts
    }

    fn choose(&mut self, choice: &Choice) {
        let world = &mut self.world;
        let is_idle = world.queue.is_empty();
        world.note(format_args!("{choice:?}"));
        // An event that happens later in a tick has a later time.
        world.now += Duration::from_millis(1);
        match choice {
            Choice::Arrive(index) | Choice::Lose(index) => {
                let (_, _, mut todo) = world.queue.remove(*index);
                if matches!(choice, Choice::Lose(..)) {
                    self.faults -= 1;
                    if let Todo::Feed(_, Event::Answered { answer, .. }) = &mut todo {
                        lose(answer);
                    }
                }
                world.turn(todo);
            }
            Choice::End(fate) => {
                self.faults -= u8::from(*fate != Fate::Fine);
                if let Some(running) = &mut world.model.running {
                    running.fate = *fate;
                    running.ends = world.now;
                    world.model.advance(world.now);
                }
            }
            Choice::Act(act) => {
                self.acts -= 1;
                play(world, act.clone());
            }
            Choice::Boot(index) => play(world, Act::Boot(*index)),
            Choice::Claim(claimed) => {
                self.acts -= 1;
                self.claimed = *claimed;
                let other = claimed.then(|| capo_core::ObjectName::new("n", "other"));
                world.step(Event::Claimed(other));
            }
            Choice::Wait => {
                self.faults -= u8::from(!is_idle);
                let ticks = (world.now - world.start).as_secs() / TICK.as_secs() + 1;
                world.now = world.start + TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
                if world
                    .state
                    .next_step_at()
                    .is_some_and(|next_step_at| next_step_at <= world.now)
                {
                    world.step(Event::Tick);
                }
            }
        }
        tidy(world);
    }
}

fn lose(answer: &mut Answered) {
    let lost = failure(FailureClass::Transient);
    *answer = match answer {
        Answered::Tree(_) => Answered::Tree(Err(lost)),
        Answered::TreeAndMembers { .. } => Answered::TreeAndMembers {
            tree: Err(lost),
            lists: Vec::new(),
        },
        Answered::ListenersAndPools(_) => Answered::ListenersAndPools(Err(lost)),
        Answered::Members(_) => Answered::Members(Err(lost)),
        Answered::Monitor(_) => Answered::Monitor(Err(lost)),
        Answered::Written(_) => Answered::Written(Err(lost)),
    };
}

/// Explores everything that can happen from `start` on, or `most` states of it. From every `recover`th state on, it
/// also checks that the cluster recovers.
fn explore(start: Situation, most: usize, recover: usize) -> Count {
    let mut count = Count::default();
    let mut seen = HashSet::from([key(&start.world, (start.faults, start.acts, start.claimed))]);
    let choices = start.choices();
    // The path to the present state: what happened, and what else may happen from each place on.
    let mut way = vec![(None, start.clone(), choices)];
    while let Some((_, place, choices)) = way.last_mut() {
        let Some(choice) = choices.pop() else {
            way.pop();
            continue;
        };
        if seen.len() >= most {
            count.states = seen.len();
            return count;
        }
        let mut next = place.clone();
        count.steps += 1;
        let turned = catch_unwind(AssertUnwindSafe(|| {
            next.choose(&choice);
            let is_new = seen.insert(key(&next.world, (next.faults, next.acts, next.claimed)));
            if is_new && seen.len().is_multiple_of(recover) {
                get_well(next.world.clone());
                count.recoveries += 1;
            }
            is_new
        }));
        match turned {
            Ok(true) => {
                let choices = next.choices();
                way.push((Some(choice), next, choices));
            }
            Ok(false) => {}
            Err(panic) => {
                let choices = way.iter().filter_map(|(choice, ..)| choice.as_ref());
                replay(start, choices.chain([&choice]));
                resume_unwind(panic);
            }
        }
    }
    count.states = seen.len();
    count.is_complete = true;
    count
}

fn get_well(mut world: World) {
    world.timeless = false;
    world.model.operation = Duration::from_secs(1);
    world.step(Event::Claimed(None));
    recover(&mut world);
}

/// Makes the same choices again, and prints what happens.
#[allow(clippy::print_stderr, reason = "a test that fails prints why")]
fn replay<'a>(mut place: Situation, way: impl Iterator<Item = &'a Choice>) {
    place.world.noting = true;
    for choice in way {
        eprintln!("{choice:?}");
        let _ = catch_unwind(AssertUnwindSafe(|| place.choose(choice)));
    }
}

/// Settings in which times differ by ticks. Every gap is one or two ticks, so that a few ticks are enough to
/// distinguish everything.
fn settings() -> Settings {
    Settings {
        warn_after: TICK * 2,
        alert_after: TICK * 3,
        stuck_after: TICK * 4,
        orphan_after: Some(TICK * 2),
        // Within a tick nothing takes time, and the machine that leaves answers if it can, so one answer proves as much
        // as five.
        proof_answers: 1,
        proof_window: TICK,
        schedule: Schedule {
            first: Vec::new(),
            settling: TICK,
            slow: TICK,
            slower: TICK,
            given_up: TICK,
            creating: TICK,
            health: TICK,
            health_at_most: TICK,
            steady: TICK * 2,
            steady_large: TICK * 2,
            jitter: 0.0,
        },
        ..Settings::default()
    }
}

/// Two machines serve behind a settled load balancer.
fn settled(monitors: bool, faults: u8, acts: u8) -> Situation {
    let mut world = World::since(Instant::now(), &[6443], Duration::from_secs(1));
    world.settings = settings();
    world.desired.monitor.max_retries_down = 1;
    world.desired.monitor.delay = 5;
    world.model.monitors = monitors;
    world.restart();
    for index in [1, 2] {
        world.add_serving(index);
    }
    world.run(TICK * 40);
    world.noting = false;
    world.log.clear();
    world.timeless = true;
    // Octavia's operations end only when `End` is chosen.
    world.model.operation = Duration::from_hours(1_000);
    tidy(&mut world);
    Situation {
        world,
        faults,
        acts,
        claimed: false,
    }
}

#[allow(
    clippy::print_stdout,
    reason = "how much was gone through is to be seen"
)]
fn go_through(monitors: bool, faults: u8, acts: u8, most: usize) -> Count {
    let recover = if most == usize::MAX { 2_999 } else { 199 };
    let count = explore(settled(monitors, faults, acts), most, recover);
    println!(
        "health monitor {monitors}, faults {faults}, acts {acts}: {}: {} states, {} transitions; from {} states all got well",
        if count.is_complete {
            "complete"
        } else {
            "cut off"
        },
        count.states,
        count.steps,
        count.recoveries
    );
    count
}

/// The number of states of two acts with a fault that are explored. Their whole space is too large.
const TWO_ACTS_AND_A_FAULT: usize = 100_000;

/// Whether the environment variable `CAPO_RS_DEEP` asks for larger budgets.
pub(crate) fn is_deep() -> bool {
    std::env::var_os("CAPO_RS_DEEP").is_some()
}

#[test]
fn everything_that_can_happen_keeps_the_invariants() {
    for monitors in [true, false] {
        for (faults, acts) in [(0, 0), (1, 0)] {
            assert!(go_through(monitors, faults, acts, usize::MAX).is_complete);
        }
        if is_deep() {
            for (faults, acts) in [(0, 1), (1, 1), (0, 2)] {
                assert!(go_through(monitors, faults, acts, usize::MAX).is_complete);
            }
            go_through(monitors, 1, 2, TWO_ACTS_AND_A_FAULT);
        } else {
            go_through(monitors, 1, 2, 1_500);
        }
    }
}
