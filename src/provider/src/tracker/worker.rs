//! Runs [`step`] for one load balancer: a worker carries out the effects and feeds their outcomes back as events. At
//! most one call to Octavia is under way.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join, join_all},
    stream::FuturesUnordered,
};
use jiff::Timestamp;
use rand::RngExt;
use tokio::sync::mpsc;

use super::{
    inbox::{Claim, Client, Inbox, Updates},
    machine_lookup::MachineLookup,
    output::TrackerOutput,
    part_change::{PartChange, described},
    prober::Prober,
    published::PublishedFindings,
};
use crate::work_queue::WorkQueue;
use capo_core::{EndpointFailure, ObjectName, Priority, ids::LoadBalancerId};
use capo_gate::{
    Call, EndpointReply, EndpointRequest, GateObserver, Now, Settings,
    effect::Effect,
    event::{Answered, Event},
    findings::{Findings, MachineFinding, MemberFinding, Publication},
    is_call_wanted,
    octavia::Octavia,
    report,
    state::State,
    step,
};

use capo_openstack::{Withdrawal, when_sent};

/// The worker of one load balancer.
pub(super) struct Worker {
    pub(super) cluster: ObjectName,
    pub(super) settings: Settings,
    pub(super) lookup: Arc<dyn MachineLookup>,
    pub(super) observer: Arc<dyn GateObserver>,
    pub(super) prober: Arc<dyn Prober>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) findings: Arc<PublishedFindings>,
    pub(super) cluster_queue: WorkQueue,
    pub(super) machine_queue: WorkQueue,
    /// The channel of all publications, once it has a reader.
    pub(super) listener: Arc<OnceLock<mpsc::Sender<TrackerOutput>>>,
}

/// The calls and timers under way.
type Pending = FuturesUnordered<BoxFuture<'static, Vec<Event>>>;

impl Worker {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        let mut state = State::new(self.settings.clone());
        let mut client: Client = None;
        let mut pending = Pending::new();
        let mut events = Vec::new();
        let mut effects = Vec::new();
        let mut withdrawal = Withdrawal::default();
        loop {
            let next_step_at = state.next_step_at().map(tokio::time::Instant::from_std);
            let sleep = async {
                match next_step_at {
                    Some(next_step_at) => tokio::time::sleep_until(next_step_at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(arrived) = pending.next() => events.extend(arrived),
                () = self.inbox.arrived() => unpack(self.inbox.take(), &mut client, &mut events),
                () = sleep => events.push(Event::Tick),
            }
            for event in events.drain(..) {
                step(&mut state, event, &now(), &mut effects);
                for effect in effects.drain(..) {
                    if matches!(effect, Effect::Call { .. }) {
                        withdrawal = Withdrawal::default();
                    }
                    self.carry_out(effect, &state, client.as_ref(), &pending, &withdrawal);
                }
                if !is_call_wanted(&state) {
                    withdrawal.withdraw();
                }
                self.publish(report(&state, &now()));
            }
        }
    }

    fn carry_out(
        &self,
        effect: Effect,
        state: &State,
        client: Option<&Arc<dyn Octavia>>,
        pending: &Pending,
        withdrawal: &Withdrawal,
    ) {
        match effect {
            Effect::Call { id, call, priority } => {
                // The gate makes calls only while there are credentials and a load balancer.
                if let (Some(client), Some(load_balancer)) = (client, state.load_balancer()) {
                    let change = match &call {
                        Call::Write(change) => described(&self.cluster, change),
                        _ => None,
                    };
                    let sent = send(
                        client,
                        load_balancer,
                        id,
                        call,
                        priority,
                        withdrawal.clone(),
                    );
                    let listener = Arc::clone(&self.listener);
                    let reported =
                        sent.inspect(move |events| report_change(change, events, &listener));
                    pending.push(reported.boxed());
                }
            }
            Effect::Probe {
                machine,
                address,
                port,
            } => {
                let ca = state.ca().found().copied().unwrap_or_default();
                let began = now_instant();
                let probe = self.prober.probe(address, port, ca.into());
                pending.push(
                    probe
                        .map(move |outcome| {
                            vec![Event::Probed {
                                machine,
                                began,
                                outcome,
                            }]
                        })
                        .boxed(),
                );
            }
            Effect::Request { id, request } => {
                let reply = match request {
                    EndpointRequest::Readyz {
                        endpoint,
                        addresses,
                    } => {
                        let ca = state.ca();
                        let answer = if ca.is_known() {
                            let ca = ca.found().copied().unwrap_or_default();
                            self.prober.readyz(endpoint, ca.into(), addresses)
                        } else {
                            std::future::ready(Err(EndpointFailure::UnreadableCa)).boxed()
                        };
                        let replied = answer.map(|answer| answer.map(EndpointReply::Answer));
                        replied.boxed()
                    }
                    EndpointRequest::Connect { endpoint } => self
                        .prober
                        .connect(endpoint)
                        .map(|opened| opened.map(|()| EndpointReply::Connected))
                        .boxed(),
                };
                pending.push(
                    reply
                        .map(move |result| vec![Event::Replied { id, result }])
                        .boxed(),
                );
            }
            Effect::LookUp { machine } => {
                let name = ObjectName::new(self.cluster.namespace.clone(), machine.clone());
                let lookup = self.lookup.exists(name);
                pending.push(
                    lookup
                        .map(move |exists| {
                            vec![Event::LookedUp {
                                machine,
                                exists: exists.ok(),
                            }]
                        })
                        .boxed(),
                );
            }
            Effect::Record(event) => self.observer.record(&event),
        }
    }

    /// Publishes the findings, and enqueues the objects for which something changed.
    fn publish(&self, new: Findings) {
        let new = Arc::new(new);
        let old = self.findings.put(Arc::clone(&new));
        if old.as_ref().is_some_and(|old| old.shows_the_same(&new)) {
            return;
        }
        if let Some(listener) = self.listener.get() {
            // A reader that is too slow misses publications. Conditions have the same content.
            let _ = listener.try_send(TrackerOutput::Findings(Publication {
                cluster: self.cluster.clone(),
                before: old.clone(),
                after: Arc::clone(&new),
            }));
        }
        let old = old.as_deref();
        if old.is_none_or(|old| cluster_differs(old, &new)) {
            self.cluster_queue.enqueue(&self.cluster);
        }
        for (name, machine) in &new.machines {
            let before = old.and_then(|old| old.machines.get(name));
            if before.is_none_or(|before| machine_differs(before, machine)) {
                self.machine_queue.enqueue(name);
            }
        }
    }
}

/// Whether the machine's controller must reconcile the machine. The end of a request for a read of the server is no
/// reason.
fn machine_differs(old: &MachineFinding, new: &MachineFinding) -> bool {
    old.verdict != new.verdict
        || old.admission != new.admission
        || old.release != new.release
        || old.finalizer != new.finalizer
        || new.needs_server_read && !old.needs_server_read
}

/// Whether the cluster's controller must reconcile the cluster.
pub(super) fn cluster_differs(old: &Findings, new: &Findings) -> bool {
    old.provisioning_status != new.provisioning_status
        || old.operating_status != new.operating_status
        || old.absent != new.absent
        || old.infrastructure_ready != new.infrastructure_ready
        || old.settled_generation != new.settled_generation
        || old.allowed_cidrs != new.allowed_cidrs
        || old.initialised != new.initialised
        || old.verdict != new.verdict
        || old.counts_in_ready != new.counts_in_ready
        || old.members.len() != new.members.len()
        || old
            .members
            .iter()
            .zip(&new.members)
            .any(|(old, new)| member_differs(old, new))
}

fn member_differs(old: &MemberFinding, new: &MemberFinding) -> bool {
    let observed = MemberFinding {
        last_observed: new.last_observed,
        ..old.clone()
    };
    observed != *new
}

fn unpack(updates: Updates, client: &mut Client, events: &mut Vec<Event>) {
    if let Some((new, desired)) = updates.load_balancer {
        events.push(Event::LoadBalancer {
            credentials: new.is_some(),
            desired: Box::new(desired),
        });
        *client = new;
    }
    if let Some(large) = updates.large_fleet {
        events.push(Event::LargeFleet(large));
    }
    if let Some(Claim(claimed_by)) = updates.claimed_by {
        events.push(Event::Claimed(claimed_by));
    }
    for (name, desired) in updates.machines {
        events.push(Event::Machine {
            name,
            desired: desired.map(Box::new),
        });
    }
    if updates.nudged {
        events.push(Event::Nudged);
    }
}

/// Reports a change that was sent, with Octavia's answer.
fn report_change(
    change: Option<PartChange>,
    events: &[Event],
    listener: &OnceLock<mpsc::Sender<TrackerOutput>>,
) {
    let is_sent = |event: &Event| matches!(event, Event::Sent { .. });
    let (Some(change), Some(listener)) = (change, listener.get()) else {
        return;
    };
    for event in events.iter().filter(|_| events.iter().any(is_sent)) {
        if let Event::Answered {
            answer: Answered::Written(answer),
            ..
        } = event
        {
            let _ = listener.try_send(TrackerOutput::Change(change.clone().with_answer(answer)));
        }
    }
}

/// Makes a call. Its answer is stamped with the time at which the call was sent, because the call may have waited for
/// the budget.
fn send(
    client: &Arc<dyn Octavia>,
    load_balancer: &LoadBalancerId,
    id: u64,
    call: Call,
    priority: Priority,
    withdrawal: Withdrawal,
) -> BoxFuture<'static, Vec<Event>> {
    let answer = answer(client, load_balancer, call, priority);
    async move {
        let (answer, sent) = when_sent(withdrawal.scope(answer)).await;
        let sent = sent.map(|at| Event::Sent {
            id,
            at: at.into_std(),
        });
        sent.into_iter()
            .chain([Event::Answered { id, answer }])
            .collect()
    }
    .boxed()
}

fn answer(
    client: &Arc<dyn Octavia>,
    load_balancer: &LoadBalancerId,
    call: Call,
    priority: Priority,
) -> BoxFuture<'static, Answered> {
    match call {
        Call::Tree => client
            .status_tree(load_balancer, priority)
            .map(Answered::Tree)
            .boxed(),
        Call::TreeAndMembers { pools } => {
            let tree = client.status_tree(load_balancer, priority);
            let lists = pools.into_iter().map(|(port, pool)| {
                let members = client.members(&pool, priority);
                members.map(move |answer| (port, answer))
            });
            join(tree, join_all(lists))
                .map(|(tree, lists)| Answered::TreeAndMembers { tree, lists })
                .boxed()
        }
        Call::ListenersAndPools => client
            .listeners_and_pools(load_balancer, priority)
            .map(Answered::ListenersAndPools)
            .boxed(),
        Call::Members { pool } => client
            .members(&pool, priority)
            .map(Answered::Members)
            .boxed(),
        Call::Monitor { monitor } => client
            .monitor(&monitor, priority)
            .map(Answered::Monitor)
            .boxed(),
        Call::Write(change) => client
            .write(&change, priority)
            .map(Answered::Written)
            .boxed(),
    }
}

/// Tokio's clock, which tests can stop.
fn now_instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn now() -> Now {
    Now {
        instant: now_instant(),
        wall: Timestamp::now(),
        random: rand::rng().random(),
    }
}
