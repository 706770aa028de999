//! The list of database transactions and pushes of every change.
//!
//! The functions are pure: the input is the change, its end, its durations and the load balancer; the output is the
//! steps.

use std::time::Duration;

use super::{
    change::{Anomaly, Change, Ending, Push, Stage, Step},
    model::{LoadBalancer, Object},
    status::Provisioning,
};

/// The durations of the parts of a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// The time until the work is done.
    pub work: Duration,
    /// The time between two transactions afterwards.
    pub step: Duration,
    /// The anomaly's own time.
    pub gap: Duration,
}

/// The steps of a change, each with the delay before it.
pub(super) fn plan(
    lb: &LoadBalancer,
    change: &Change,
    ending: Ending,
    timing: Timing,
) -> Vec<(Duration, Step)> {
    let mut plan = Plan {
        lb,
        timing,
        steps: Vec::new(),
    };
    if lb.provider == "ovn" {
        plan.ovn(change, ending);
    } else {
        plan.amphora(change, ending);
    }
    plan.steps
}

/// A plan under construction.
pub(super) struct Plan<'a> {
    pub(super) lb: &'a LoadBalancer,
    pub(super) timing: Timing,
    pub(super) steps: Vec<(Duration, Step)>,
}

impl Plan<'_> {
    pub(super) fn after(&mut self, wait: Duration, step: Step) {
        self.steps.push((wait, step));
    }

    pub(super) fn then(&mut self, step: Step) {
        let wait = if self.steps.is_empty() {
            self.timing.work
        } else {
            self.timing.step
        };
        self.after(wait, step);
    }

    pub(super) fn active(&mut self, object: Object) {
        self.then(Step::Set(object, Provisioning::Active));
    }

    pub(super) fn error(&mut self, object: Object) {
        self.then(Step::Set(object, Provisioning::Error));
    }

    pub(super) fn listeners(&self) -> Vec<Object> {
        self.lb
            .listeners
            .iter()
            .map(|listener| Object::Listener(listener.head.id.clone()))
            .collect()
    }

    pub(super) fn load_balancer_and_listeners_active(&mut self) {
        self.active(Object::LoadBalancer);
        for listener in self.listeners() {
            self.then(Step::ActiveUnlessError(listener));
        }
    }

    fn amphora(&mut self, change: &Change, ending: Ending) {
        match ending {
            Ending::Success | Ending::Odd(Anomaly::Whitewash | Anomaly::StaleReads) => {
                self.success(change, Some(Push::Rows));
            }
            Ending::Odd(Anomaly::PushSwallowed) => self.success(change, None),
            Ending::Odd(Anomaly::OldValuesPushed) => self.success(change, Some(Push::Before)),
            Ending::Odd(Anomaly::EarlyActive) => self.early(change),
            Ending::Odd(Anomaly::ResumedLater) => self.resumed_later(change),
            Ending::Odd(Anomaly::ListenersLeftPending) => {
                self.success(change, Some(Push::Rows));
                self.steps
                    .retain(|(_, step)| !matches!(step, Step::ActiveUnlessError(_)));
            }
            Ending::Odd(Anomaly::CertificateError) => {
                self.success(change, Some(Push::Rows));
                for listener in self.listeners() {
                    let place = self
                        .steps
                        .iter()
                        .position(|(_, step)| matches!(step, Step::Push(_)))
                        .map_or(0, |place| place + 1);
                    self.steps.insert(
                        place,
                        (self.timing.step, Step::Set(listener, Provisioning::Error)),
                    );
                }
            }
            Ending::Odd(Anomaly::UnattachedPoolsPending) => {
                self.success(change, Some(Push::Rows));
                self.keep_unattached_pools();
            }
            Ending::Odd(Anomaly::PartialReport) => {
                self.success(change, Some(Push::Rows));
                let own = change.object();
                self.steps.retain(|(_, step)| !matches!(step, Step::Set(object, _) if *object == own && own != Object::LoadBalancer));
                if let (Some((wait, _)), Some(first)) =
                    (self.steps.first().cloned(), self.steps.first_mut())
                {
                    first.0 = wait.max(self.timing.work);
                }
            }
            Ending::Failure(stage) => self.failure(change, stage, Anomaly::Failed),
            Ending::Odd(
                odd @ (Anomaly::Failed
                | Anomaly::SplitRevert
                | Anomaly::LostErrorWrite
                | Anomaly::DatabaseOutage),
            ) => {
                self.failure(
                    change,
                    if odd == Anomaly::DatabaseOutage {
                        Stage::Network
                    } else {
                        Stage::Push
                    },
                    odd,
                );
            }
            Ending::Odd(Anomaly::WorkerKilled) => {}
        }
    }

    pub(super) fn success(&mut self, change: &Change, push: Option<Push>) {
        let pushes = |plan: &mut Self, kind: Push| {
            if let Some(push) = push {
                plan.then(Step::Push(if push == Push::Rows { kind } else { push }));
            }
        };
        match change {
            Change::LoadBalancerCreate | Change::Failover => {
                pushes(self, Push::Plugged);
                self.then(Step::MarkAll);
                self.active(Object::LoadBalancer);
            }
            Change::LoadBalancerUpdate => {
                pushes(self, Push::Rows);
                self.active(Object::LoadBalancer);
            }
            Change::LoadBalancerDelete => self.then(Step::Remove(Object::LoadBalancer)),
            Change::ListenerCreate(_) | Change::ListenerUpdate(_) => {
                pushes(self, Push::Rows);
                // A listener in ERROR is only repaired by a change of its own.
                self.active(Object::LoadBalancer);
                self.active(change.object());
            }
            Change::ListenerDelete(_) => {
                pushes(self, Push::Rows);
                self.then(Step::Remove(change.object()));
                self.active(Object::LoadBalancer);
            }
            Change::PoolDelete(_) => {
                pushes(self, Push::Rows);
                self.then(Step::Remove(change.object()));
                self.load_balancer_and_listeners_active();
            }
            Change::PoolCreate(_) | Change::PoolUpdate(_) => {
                pushes(self, Push::Rows);
                self.active(change.object());
                self.load_balancer_and_listeners_active();
            }
            Change::MonitorDelete(pool) | Change::MemberDelete(pool, _) => {
                pushes(self, Push::Rows);
                self.then(Step::Remove(change.object()));
                self.active(Object::Pool(pool.clone()));
                self.load_balancer_and_listeners_active();
            }
            Change::MonitorCreate(pool)
            | Change::MonitorUpdate(pool)
            | Change::MemberCreate(pool, _)
            | Change::MemberUpdate(pool, _) => {
                pushes(self, Push::Rows);
                self.active(change.object());
                self.active(Object::Pool(pool.clone()));
                self.load_balancer_and_listeners_active();
            }
            Change::MemberBatch {
                pool,
                created,
                updated,
                deleted,
                untouched,
            } => {
                let early = self.timing.work / 4;
                for id in deleted {
                    let wait = if self.steps.is_empty() {
                        early
                    } else {
                        self.timing.step
                    };
                    self.after(wait, Step::Remove(Object::Member(pool.clone(), id.clone())));
                }
                if let Some(push) = push {
                    let wait = if deleted.is_empty() {
                        self.timing.work
                    } else {
                        self.timing.work.saturating_sub(early)
                    };
                    self.after(
                        wait,
                        Step::Push(if push == Push::Rows {
                            Push::Plugged
                        } else {
                            push
                        }),
                    );
                }
                for id in created.iter().chain(updated).chain(untouched) {
                    self.active(Object::Member(pool.clone(), id.clone()));
                }
                self.active(Object::Pool(pool.clone()));
                self.load_balancer_and_listeners_active();
            }
        }
    }

    /// K: the parents turn ACTIVE half-way. The object itself turns ACTIVE at the end.
    pub(super) fn early(&mut self, change: &Change) {
        self.success(change, Some(Push::Rows));
        let own = change.object();
        let steps = std::mem::take(&mut self.steps);
        let parents: Vec<Step> = steps
            .iter()
            .map(|(_, step)| step.clone())
            .filter(|step| match step {
                Step::Set(object, _) => *object != own && !matches!(object, Object::Member(..)),
                Step::ActiveUnlessError(_) => true,
                _ => false,
            })
            .collect();
        let half = self.timing.work / 2;
        for step in parents.iter().cloned() {
            let wait = if self.steps.is_empty() {
                half
            } else {
                self.timing.step
            };
            self.after(wait, step);
        }
        let mut first = true;
        for (_, step) in steps
            .into_iter()
            .filter(|(_, step)| !parents.contains(step))
        {
            let wait = if first { half } else { self.timing.step };
            first = false;
            self.after(wait, step);
        }
    }

    /// The parents turn ACTIVE at the usual time. The whole change runs once more when another worker resumes it.
    fn resumed_later(&mut self, change: &Change) {
        self.success(change, None);
        let own = change.object();
        self.steps.retain(|(_, step)| match step {
            Step::Set(object, _) => *object != own && !matches!(object, Object::Member(..)),
            step => matches!(step, Step::ActiveUnlessError(_)),
        });
        if let Some((wait, _)) = self.steps.first_mut() {
            *wait = self.timing.work;
        }
        let mut resumed = Plan {
            lb: self.lb,
            timing: Timing {
                work: if self.timing.gap.is_zero() {
                    Duration::from_mins(5)
                } else {
                    self.timing.gap
                },
                ..self.timing
            },
            steps: Vec::new(),
        };
        resumed.success(change, Some(Push::Rows));
        self.steps.append(&mut resumed.steps);
    }

    fn keep_unattached_pools(&mut self) {
        let attached: Vec<&str> = self
            .lb
            .listeners
            .iter()
            .filter_map(|listener| listener.pool.as_deref())
            .collect();
        let place = self
            .steps
            .iter()
            .position(|(_, step)| *step == Step::MarkAll);
        let Some(place) = place else { return };
        self.steps.remove(place);
        let mut kept = Vec::new();
        for listener in self.listeners() {
            kept.push((self.timing.step, Step::Set(listener, Provisioning::Active)));
        }
        for pool in self
            .lb
            .pools
            .iter()
            .filter(|pool| attached.contains(&pool.head.id.as_str()))
        {
            let id = &pool.head.id;
            kept.push((
                self.timing.step,
                Step::Set(Object::Pool(id.clone()), Provisioning::Active),
            ));
            kept.push((
                self.timing.step,
                Step::Set(Object::Monitor(id.clone()), Provisioning::Active),
            ));
            for member in &pool.members {
                let object = Object::Member(id.clone(), member.head.id.clone());
                kept.push((self.timing.step, Step::Set(object, Provisioning::Active)));
            }
        }
        self.steps.splice(place..place, kept);
    }
}
