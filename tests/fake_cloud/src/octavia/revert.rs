//! The way in which changes fail, and the flows of the OVN provider.

use std::time::Duration;

use super::{
    change::{Anomaly, Change, Ending, Push, Stage, Step},
    model::Object,
    plan::Plan,
    status::Provisioning,
};

impl Plan<'_> {
    pub(super) fn failure(&mut self, change: &Change, stage: Stage, odd: Anomaly) {
        let listeners = self.listeners();
        match change {
            Change::LoadBalancerCreate => {
                self.error(Object::LoadBalancer);
                for listener in listeners {
                    self.error(listener);
                }
                return;
            }
            Change::LoadBalancerUpdate | Change::LoadBalancerDelete | Change::Failover => {
                self.error(Object::LoadBalancer);
                return;
            }
            _ => {}
        }
        let batch = match change {
            Change::MemberBatch {
                pool,
                created,
                updated,
                deleted,
                untouched,
            } => {
                for id in deleted {
                    let wait = if self.steps.is_empty() {
                        self.timing.work / 4
                    } else {
                        self.timing.step
                    };
                    self.after(wait, Step::Remove(Object::Member(pool.clone(), id.clone())));
                }
                let members = |ids: &[String]| -> Vec<Object> {
                    ids.iter()
                        .map(|id| Object::Member(pool.clone(), id.clone()))
                        .collect()
                };
                let updated: Vec<String> = updated.iter().chain(untouched).cloned().collect();
                Some(vec![members(deleted), members(&updated), members(created)])
            }
            _ => None,
        };
        let own = change.object();
        let groups = batch.unwrap_or_else(|| vec![vec![own.clone()]]);
        if stage == Stage::Database {
            self.then(Step::Push(Push::Rows));
            for object in groups.iter().flatten() {
                self.error(object.clone());
            }
        }
        if stage == Stage::Network {
            if let Change::MemberCreate(pool, id) = change {
                self.then(Step::Unplugged(pool.clone(), id.clone()));
            }
        } else {
            // The revert of the push task itself writes every listener of the load balancer, for a moment.
            let wait = if self.steps.is_empty() {
                self.timing.work
            } else {
                self.timing.work * 3 / 4
            };
            let mut first = true;
            for listener in &listeners {
                let wait = if first { wait } else { self.timing.step };
                first = false;
                self.after(wait, Step::Set(listener.clone(), Provisioning::Error));
            }
        }
        if odd == Anomaly::DatabaseOutage {
            let gap = if self.timing.gap.is_zero() {
                Duration::from_secs(2)
            } else {
                self.timing.gap
            };
            self.after(
                self.timing.work + gap,
                Step::Set(Object::LoadBalancer, Provisioning::Active),
            );
            return;
        }
        if matches!(own, Object::Listener(_)) {
            self.error(own);
            self.active(Object::LoadBalancer);
            return;
        }
        let gap = if odd == Anomaly::SplitRevert {
            self.timing.gap.max(Duration::from_millis(900))
        } else {
            self.timing.step
        };
        for (place, group) in groups.iter().enumerate() {
            let mut wait = if place == 0 { None } else { Some(gap) };
            for object in group {
                let lost = odd == Anomaly::LostErrorWrite;
                if !lost {
                    match wait.take() {
                        Some(wait) => {
                            self.after(wait, Step::Set(object.clone(), Provisioning::Error));
                        }
                        None => self.error(object.clone()),
                    }
                }
            }
            for listener in &listeners {
                self.active(listener.clone());
            }
            if let Some(pool) = change.pool() {
                self.active(Object::Pool(pool.to_owned()));
            }
            self.active(Object::LoadBalancer);
        }
    }

    /// After each of its own requests OVN reports ACTIVE for all rows it knows.
    pub(super) fn ovn(&mut self, change: &Change, ending: Ending) {
        if ending == Ending::Odd(Anomaly::WorkerKilled) {
            return;
        }
        if ending == Ending::Odd(Anomaly::EarlyActive) {
            // At any moment, an event of its health checks reports the statuses of all rows.
            self.early(change);
            return;
        }
        let swallowed = ending == Ending::Odd(Anomaly::PushSwallowed);
        let failing = matches!(
            ending,
            Ending::Failure(_) | Ending::Odd(Anomaly::Failed | Anomaly::LostErrorWrite)
        );
        let Change::MemberBatch {
            pool,
            created,
            updated,
            deleted,
            untouched,
        } = change
        else {
            // A failed creation reads ACTIVE; updates and deletions report ERROR.
            if failing && !matches!(change, Change::MemberCreate(..)) {
                self.failure(change, Stage::Network, Anomaly::Failed);
            } else {
                self.success(change, (!failing && !swallowed).then_some(Push::Rows));
                for listener in self.listeners() {
                    if !self.steps.iter().any(|(_, step)| matches!(step, Step::Remove(object) if *object == listener || *object == Object::LoadBalancer)) {
                        self.active(listener);
                    }
                }
            }
            return;
        };
        let work = self.timing.work;
        let known: Vec<String> = created
            .iter()
            .chain(updated)
            .chain(untouched)
            .chain(deleted)
            .cloned()
            .collect();
        let groups = [(created, false), (updated, false), (deleted, true)];
        let count = groups.iter().filter(|(ids, _)| !ids.is_empty()).count();
        for (ids, removes) in groups {
            if ids.is_empty() {
                continue;
            }
            if !swallowed {
                self.after(work, Step::Push(Push::Plugged));
            }
            if removes {
                for id in ids {
                    self.then(Step::Remove(Object::Member(pool.clone(), id.clone())));
                }
            } else {
                for id in &known {
                    self.active(Object::Member(pool.clone(), id.clone()));
                }
            }
            self.active(Object::Pool(pool.clone()));
            for listener in self.listeners() {
                self.active(listener);
            }
            self.active(Object::LoadBalancer);
        }
        if count == 0 {
            self.active(Object::Pool(pool.clone()));
            self.load_balancer_and_listeners_active();
        }
        if failing {
            for id in updated {
                self.error(Object::Member(pool.clone(), id.clone()));
            }
        }
    }
}
