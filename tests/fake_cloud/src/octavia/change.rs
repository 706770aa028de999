//! Every change that Octavia carries out, as the list of database transactions and pushes it consists of.
//!
//! Pure: which change, how it ends, how long it takes, and what the load balancer looks like, in; steps out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    model::{LoadBalancer, Object},
    status::Provisioning,
};

/// A change that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST of a load balancer.
    LoadBalancerCreate,
    /// PUT of a load balancer.
    LoadBalancerUpdate,
    /// DELETE of a load balancer.
    LoadBalancerDelete,
    /// Failover.
    Failover,
    /// POST of a listener.
    ListenerCreate(String),
    /// PUT of a listener.
    ListenerUpdate(String),
    /// DELETE of a listener.
    ListenerDelete(String),
    /// POST of a pool.
    PoolCreate(String),
    /// PUT of a pool.
    PoolUpdate(String),
    /// DELETE of a pool.
    PoolDelete(String),
    /// POST of the monitor of a pool.
    MonitorCreate(String),
    /// PUT of the monitor of a pool.
    MonitorUpdate(String),
    /// DELETE of the monitor of a pool.
    MonitorDelete(String),
    /// POST of a member: pool, member.
    MemberCreate(String, String),
    /// PUT of a member.
    MemberUpdate(String, String),
    /// DELETE of a member.
    MemberDelete(String, String),
    /// PUT of the members of a pool.
    MemberBatch {
        /// The pool.
        pool: String,
        /// New rows.
        created: Vec<String>,
        /// Rows named in the request that existed.
        updated: Vec<String>,
        /// Rows that leave.
        deleted: Vec<String>,
        /// Rows not named in an additive request: the driver gets them as if they were updated.
        untouched: Vec<String>,
    },
}

impl Change {
    /// The name that rules match: `member-create`, `load-balancer-delete`, ...
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LoadBalancerCreate => "load-balancer-create",
            Self::LoadBalancerUpdate => "load-balancer-update",
            Self::LoadBalancerDelete => "load-balancer-delete",
            Self::Failover => "load-balancer-failover",
            Self::ListenerCreate(_) => "listener-create",
            Self::ListenerUpdate(_) => "listener-update",
            Self::ListenerDelete(_) => "listener-delete",
            Self::PoolCreate(_) => "pool-create",
            Self::PoolUpdate(_) => "pool-update",
            Self::PoolDelete(_) => "pool-delete",
            Self::MonitorCreate(_) => "monitor-create",
            Self::MonitorUpdate(_) => "monitor-update",
            Self::MonitorDelete(_) => "monitor-delete",
            Self::MemberCreate(..) => "member-create",
            Self::MemberUpdate(..) => "member-update",
            Self::MemberDelete(..) => "member-delete",
            Self::MemberBatch { .. } => "member-batch",
        }
    }

    /// The object that the change is about.
    pub fn object(&self) -> Object {
        match self {
            Self::LoadBalancerCreate
            | Self::LoadBalancerUpdate
            | Self::LoadBalancerDelete
            | Self::Failover => Object::LoadBalancer,
            Self::ListenerCreate(id) | Self::ListenerUpdate(id) | Self::ListenerDelete(id) => {
                Object::Listener(id.clone())
            }
            Self::PoolCreate(id) | Self::PoolUpdate(id) | Self::PoolDelete(id) => {
                Object::Pool(id.clone())
            }
            Self::MonitorCreate(pool) | Self::MonitorUpdate(pool) | Self::MonitorDelete(pool) => {
                Object::Monitor(pool.clone())
            }
            Self::MemberCreate(pool, id)
            | Self::MemberUpdate(pool, id)
            | Self::MemberDelete(pool, id) => Object::Member(pool.clone(), id.clone()),
            Self::MemberBatch { pool, .. } => Object::Pool(pool.clone()),
        }
    }

    fn pool(&self) -> Option<&str> {
        match self {
            Self::MonitorCreate(pool)
            | Self::MonitorUpdate(pool)
            | Self::MonitorDelete(pool)
            | Self::MemberCreate(pool, _)
            | Self::MemberUpdate(pool, _)
            | Self::MemberDelete(pool, _)
            | Self::MemberBatch { pool, .. } => Some(pool),
            _ => None,
        }
    }
}

/// Where a failing change fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Before the push, while a port is plugged: a new member has no interface afterwards.
    Network,
    /// The push to the amphorae fails: the old configuration stays.
    #[default]
    Push,
    /// After the push, writing the result: the new configuration is in place.
    Database,
}

/// Things that happen in the field though the API says otherwise. Letters are those of the fact sheet on Octavia.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anomaly {
    /// A, F, H: the change fails as Octavia fails.
    #[serde(alias = "A", alias = "F", alias = "H")]
    Failed,
    /// B: a failing batch unlocks the load balancer group by group, `gap` seconds apart.
    #[serde(alias = "B")]
    SplitRevert,
    /// C: it fails, and writing ERROR to the member is lost: PENDING for ever below ACTIVE.
    #[serde(alias = "C")]
    LostErrorWrite,
    /// D: it fails while the database is away: the load balancer turns ACTIVE, the rest stays PENDING for ever.
    #[serde(alias = "D")]
    DatabaseOutage,
    /// E: nothing out of the ordinary: an additive batch that succeeds marks every member ACTIVE.
    #[serde(alias = "E")]
    Whitewash,
    /// G: it succeeds though the push was swallowed.
    #[serde(alias = "G", alias = "not-applied")]
    PushSwallowed,
    /// I: pools without a listener stay as they are below an ACTIVE load balancer.
    #[serde(alias = "I")]
    UnattachedPoolsPending,
    /// J: the provider reports everything but the object itself.
    #[serde(alias = "J")]
    PartialReport,
    /// K: listeners, pool and load balancer turn ACTIVE half-way.
    #[serde(alias = "K")]
    EarlyActive,
    /// L: the worker dies between load balancer and listeners.
    #[serde(alias = "L")]
    ListenersLeftPending,
    /// M: the listener's certificate can't be had: it is in ERROR, the rest is well.
    #[serde(alias = "M")]
    CertificateError,
    /// N: reads answer the state before the change for `gap` seconds.
    #[serde(alias = "N")]
    StaleReads,
    /// The worker is gone: everything stays PENDING, or until `gap` seconds later another one goes on.
    WorkerKilled,
    /// A batch pushes the values from before, and still turns ACTIVE.
    OldValuesPushed,
}

/// How a change ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Success,
    /// Badly.
    Failure(Stage),
    /// Strangely.
    Odd(Anomaly),
}

/// What a push delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The rows as they are.
    Rows,
    /// The rows as they are, interfaces plugged for every member first.
    Plugged,
    /// The rows as they were when the change was accepted.
    Before,
}

/// One transaction or push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes a provisioning status.
    Set(Object, Provisioning),
    /// Writes ACTIVE unless the row is in ERROR.
    ActiveUnlessError(Object),
    /// Takes a row away.
    Remove(Object),
    /// Delivers a configuration to the data path.
    Push(Push),
    /// Marks everything below the load balancer ACTIVE.
    MarkAll,
    /// A new member was left without an interface.
    Unplugged(String, String),
}

/// How long the parts of a change take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Until the work is done.
    pub work: Duration,
    /// Between transactions afterwards.
    pub step: Duration,
    /// The anomaly's own time.
    pub gap: Duration,
}

/// The steps of a change, each with the time that passes before it.
pub fn plan(
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

struct Plan<'a> {
    lb: &'a LoadBalancer,
    timing: Timing,
    steps: Vec<(Duration, Step)>,
}

impl Plan<'_> {
    fn after(&mut self, wait: Duration, step: Step) {
        self.steps.push((wait, step));
    }

    fn then(&mut self, step: Step) {
        let wait = if self.steps.is_empty() {
            self.timing.work
        } else {
            self.timing.step
        };
        self.after(wait, step);
    }

    fn active(&mut self, object: Object) {
        self.then(Step::Set(object, Provisioning::Active));
    }

    fn error(&mut self, object: Object) {
        self.then(Step::Set(object, Provisioning::Error));
    }

    fn listeners(&self) -> Vec<Object> {
        self.lb
            .listeners
            .iter()
            .map(|listener| Object::Listener(listener.head.id.clone()))
            .collect()
    }

    fn load_balancer_and_listeners_active(&mut self) {
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

    fn success(&mut self, change: &Change, push: Option<Push>) {
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
                // A listener that was in ERROR is repaired by its own change.
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

    /// K: parents first, half-way; the object itself at the end.
    fn early(&mut self, change: &Change) {
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

    fn failure(&mut self, change: &Change, stage: Stage, odd: Anomaly) {
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
            // The push task's own revert: every listener of the load balancer, for a moment.
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

    /// OVN reports ACTIVE for everything it knows after each of its own requests.
    fn ovn(&mut self, change: &Change, ending: Ending) {
        if ending == Ending::Odd(Anomaly::WorkerKilled) {
            return;
        }
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
            // A failing creation still shows the generic ACTIVE; updates and deletions do report ERROR.
            if failing && !matches!(change, Change::MemberCreate(..)) {
                self.failure(change, Stage::Network, Anomaly::Failed);
            } else {
                self.success(change, (!failing).then_some(Push::Rows));
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
            self.after(work, Step::Push(Push::Plugged));
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
