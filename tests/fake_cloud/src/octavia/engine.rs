//! Carries accepted changes out, step by step, on the cloud's timers, and holds the configuration of the data path.

use std::{collections::VecDeque, time::Duration};

use super::{
    applied::{AppliedMember, rendered},
    change::{Anomaly, Change, Ending, Push, Step},
    model::{LoadBalancer, Object},
    plan::{Timing, plan},
    rules,
    status::{Operating, Provisioning},
};
use crate::{
    events::Event,
    settings::seconds,
    world::{Effect, World},
};

/// A change under way.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// The load balancer.
    pub balancer: String,
    /// The change's name.
    pub name: &'static str,
    /// The time at which the change was accepted, on the cloud's clock.
    pub since: Duration,
    steps: VecDeque<(Duration, Step)>,
    before: Option<LoadBalancer>,
    /// Whether its worker is dead.
    pub dead: bool,
}

impl World {
    /// Begins a change. Its rows are PENDING already; `before` is the state before it.
    pub(crate) fn start_change(&mut self, balancer: &str, change: &Change, before: LoadBalancer) {
        let Some(lb) = self.octavia.balancers.get(balancer) else {
            return;
        };
        let rule = rules::take(&mut self.octavia.rules, lb, change);
        let default = match change {
            _ if lb.provider == "ovn" => self.durations.ovn_operation,
            Change::LoadBalancerCreate => self.durations.load_balancer_create,
            Change::LoadBalancerDelete => self.durations.load_balancer_delete,
            Change::Failover => self.durations.failover,
            _ => self.durations.operation,
        };
        let mut work = seconds(
            rule.as_ref()
                .and_then(|rule| rule.duration)
                .unwrap_or(default),
        );
        if lb.provider == "ovn" {
            // There is one queue for all load balancers, so requests are carried out one after the other.
            let free = self.octavia.queue_free.max(self.now.elapsed);
            self.octavia.queue_free = free + work;
            work += free.saturating_sub(self.now.elapsed);
        }
        let ending = rule
            .as_ref()
            .map_or(Ending::Success, rules::OperationRule::ending);
        let gap = seconds(rule.as_ref().map_or(0.0, |rule| rule.gap));
        let timing = Timing {
            work,
            step: seconds(self.durations.step),
            gap,
        };
        let killed = ending == Ending::Odd(Anomaly::WorkerKilled);
        let steps = plan(
            lb,
            change,
            if killed { Ending::Success } else { ending },
            timing,
        );
        if ending == Ending::Odd(Anomaly::StaleReads) {
            let until = self.now.elapsed
                + if gap.is_zero() {
                    Duration::from_secs(1)
                } else {
                    gap
                };
            self.octavia
                .stale
                .insert(balancer.to_owned(), (until, before.clone()));
        }
        let operation = Operation {
            balancer: balancer.to_owned(),
            name: change.name(),
            since: self.now.elapsed,
            steps: steps.into(),
            before: (ending == Ending::Odd(Anomaly::OldValuesPushed)).then_some(before),
            dead: killed,
        };
        self.octavia.next_operation += 1;
        let id = self.octavia.next_operation;
        let first = operation.steps.front().map(|(wait, _)| *wait);
        self.octavia.operations.insert(id, operation);
        if killed {
            if !gap.is_zero() {
                self.after_duration(gap, Effect::OctaviaResume(id));
            }
        } else if let Some(wait) = first {
            self.after_duration(wait, Effect::OctaviaStep(id));
        } else {
            self.octavia.operations.remove(&id);
        }
    }

    /// Another worker continues the changes of a stopped one, by itself or on an operator's command.
    pub(crate) fn resume_change(&mut self, id: u64) {
        let Some(operation) = self.octavia.operations.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut operation.dead, false) {
            let wait = operation
                .steps
                .front()
                .map_or(Duration::ZERO, |(wait, _)| *wait);
            self.after_duration(wait, Effect::OctaviaStep(id));
        }
    }

    /// Resumes all stopped changes of load balancers whose name or id contains this text. Returns their number.
    pub(crate) fn resume_changes(&mut self, balancer: &str) -> usize {
        let dead: Vec<u64> = self
            .octavia
            .operations
            .iter()
            .filter(|(_, operation)| operation.dead)
            .filter(|(_, operation)| {
                operation.balancer == balancer
                    || self
                        .octavia
                        .balancers
                        .get(&operation.balancer)
                        .is_some_and(|lb| lb.head.name.contains(balancer))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in &dead {
            self.resume_change(*id);
        }
        dead.len()
    }

    /// Carries out the next step of a change, which is due.
    pub(crate) fn octavia_step(&mut self, id: u64) {
        let Some(mut operation) = self.octavia.operations.remove(&id) else {
            return;
        };
        let Some((_, step)) = operation.steps.pop_front() else {
            return;
        };
        self.carry_out(&operation.balancer, &step, operation.before.as_ref());
        if let Some((wait, _)) = operation.steps.front() {
            let wait = *wait;
            self.octavia.operations.insert(id, operation);
            self.after_duration(wait, Effect::OctaviaStep(id));
        }
    }

    fn carry_out(&mut self, balancer: &str, step: &Step, before: Option<&LoadBalancer>) {
        let now = self.now;
        match step {
            Step::Set(object, status) => self.write_status(balancer, object, *status),
            Step::ActiveUnlessError(object) => {
                if let Some(head) = self
                    .octavia
                    .balancers
                    .get_mut(balancer)
                    .and_then(|lb| lb.head_mut(object))
                    && head.provisioning != Provisioning::Error
                {
                    head.set(Provisioning::Active, now);
                }
            }
            Step::Remove(object) => self.remove_object(balancer, object),
            Step::Push(push) => self.push(balancer, *push, before),
            Step::MarkAll => {
                let Some(lb) = self.octavia.balancers.get_mut(balancer) else {
                    return;
                };
                let mut objects: Vec<Object> = lb
                    .listeners
                    .iter()
                    .map(|listener| Object::Listener(listener.head.id.clone()))
                    .collect();
                for pool in &lb.pools {
                    objects.push(Object::Pool(pool.head.id.clone()));
                    objects.push(Object::Monitor(pool.head.id.clone()));
                    let members = pool
                        .members
                        .iter()
                        .map(|member| Object::Member(pool.head.id.clone(), member.head.id.clone()));
                    objects.extend(members);
                }
                for object in objects {
                    self.write_status(balancer, &object, Provisioning::Active);
                }
            }
            Step::Unplugged(pool, member) => {
                let member = self
                    .octavia
                    .balancers
                    .get_mut(balancer)
                    .and_then(|lb| lb.pool_mut(pool)?.member_mut(member));
                if let Some(member) = member {
                    member.plugged = false;
                }
            }
        }
        self.heartbeat_soon(balancer);
    }

    /// Writes a status as a flow does. A held member gets the status that it is held in instead of ACTIVE.
    fn write_status(&mut self, balancer: &str, object: &Object, status: Provisioning) {
        let now = self.now;
        let Some(lb) = self.octavia.balancers.get_mut(balancer) else {
            return;
        };
        let Some(head) = lb.head_mut(object) else {
            return;
        };
        let mut status = status;
        let mut release = None;
        if let (Object::Member(..), Provisioning::Active) = (object, status)
            && let Some(hold) = self
                .octavia
                .holds
                .iter_mut()
                .find(|hold| hold.matches(&head.id, &head.name))
        {
            let fresh = self
                .octavia
                .held
                .insert(head.id.clone(), hold.status)
                .is_none();
            if fresh && let Some(count) = &mut hold.count {
                *count -= 1;
            }
            status = hold.status;
            release = hold.release_after.map(|after| (after, head.id.clone()));
        }
        head.set(status, now);
        if let Some((after, member)) = release {
            self.after(after, Effect::ReleaseMember(member));
        }
    }

    /// Lets a held member turn ACTIVE, if it still has the status it is held in.
    pub(crate) fn release_member(&mut self, member: &str) {
        let Some(status) = self.octavia.held.remove(member) else {
            return;
        };
        let now = self.now;
        for lb in self.octavia.balancers.values_mut() {
            let found = lb.pools.iter_mut().find_map(|pool| pool.member_mut(member));
            if let Some(found) = found {
                if found.head.provisioning == status {
                    found.head.set(Provisioning::Active, now);
                }
                return;
            }
        }
    }

    fn push(&mut self, balancer: &str, push: Push, before: Option<&LoadBalancer>) {
        let Some(lb) = self.octavia.balancers.get_mut(balancer) else {
            return;
        };
        if push == Push::Plugged {
            for member in lb.pools.iter_mut().flat_map(|pool| &mut pool.members) {
                member.plugged = true;
            }
        }
        let mut applied = rendered(lb);
        if let (Push::Before, Some(before)) = (push, before) {
            let old: Vec<AppliedMember> = rendered(before)
                .into_iter()
                .filter_map(|listener| listener.pool)
                .flat_map(|pool| pool.members)
                .collect();
            for member in applied
                .iter_mut()
                .filter_map(|listener| listener.pool.as_mut())
                .flat_map(|pool| &mut pool.members)
            {
                if let Some(old) = old.iter().find(|old| old.id == member.id) {
                    member.clone_from(old);
                }
            }
        }
        let same = self.octavia.applied.get(balancer) == Some(&applied);
        if !same {
            self.octavia.applied.insert(balancer.to_owned(), applied);
            self.emit(Event::DataPath {
                load_balancer: balancer.to_owned(),
            });
        }
    }

    fn remove_object(&mut self, balancer: &str, object: &Object) {
        let mut gone = Vec::new();
        if let Some(lb) = self.octavia.balancers.get_mut(balancer) {
            match object {
                Object::LoadBalancer => self.forget_balancer(balancer),
                Object::Listener(id) => {
                    lb.listeners.retain(|listener| listener.head.id != *id);
                    gone.push(id.clone());
                }
                Object::Pool(id) => {
                    if let Some(monitor) = lb.pool(id).and_then(|pool| pool.monitor.as_ref()) {
                        gone.push(monitor.head.id.clone());
                    }
                    lb.pools.retain(|pool| pool.head.id != *id);
                    for listener in &mut lb.listeners {
                        if listener.pool.as_deref() == Some(id) {
                            listener.pool = None;
                        }
                    }
                    gone.push(id.clone());
                }
                Object::Monitor(pool) => {
                    if let Some(pool) = lb.pool_mut(pool) {
                        gone.extend(pool.monitor.take().map(|monitor| monitor.head.id));
                        for member in &mut pool.members {
                            member.head.operating = Operating::NoMonitor;
                            member.up = None;
                        }
                    }
                }
                Object::Member(pool, id) => {
                    if let Some(pool) = lb.pool_mut(pool) {
                        pool.members.retain(|member| member.head.id != *id);
                    }
                    self.octavia.held.remove(id);
                }
            }
        }
        for id in gone {
            self.octavia.parents.remove(&id);
        }
    }

    /// Removes a load balancer with all its parts and the port that it owned.
    fn forget_balancer(&mut self, balancer: &str) {
        let Some(lb) = self.octavia.balancers.remove(balancer) else {
            return;
        };
        self.octavia.parents.retain(|_, parent| parent != balancer);
        if let Some(ids) = self.octavia.by_name.get_mut(&lb.head.name) {
            ids.remove(balancer);
            if ids.is_empty() {
                self.octavia.by_name.remove(&lb.head.name);
            }
        }
        for member in lb.pools.iter().flat_map(|pool| &pool.members) {
            self.octavia.held.remove(&member.head.id);
        }
        self.octavia.applied.remove(balancer);
        self.octavia.stale.remove(balancer);
        if lb.owns_vip_port {
            self.remove_port(&lb.vip_port);
        }
        self.emit(Event::DataPath {
            load_balancer: balancer.to_owned(),
        });
    }
}
