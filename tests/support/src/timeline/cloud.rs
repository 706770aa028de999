//! The cloud's side: its actual rows, its servers, and every call about one cluster.

use std::{collections::BTreeMap, time::Duration};

use fake_cloud::{Call as RecordedCall, Control, Event, Service, octavia::model::LoadBalancer};
use tokio::task::JoinHandle;

use super::{Call, Member, MemberKey, Remains, Server, Timeline, What};

/// The interval between two reads of the rows. The time of a status is exact nevertheless, because it is in the row.
const INTERVAL: Duration = Duration::from_millis(50);

/// Watches one cluster in one cloud; ends when dropped.
#[derive(Debug)]
pub struct CloudWatch {
    control: Control,
    timeline: Timeline,
    cluster: String,
    work: JoinHandle<()>,
}

impl Drop for CloudWatch {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl CloudWatch {
    /// Starts to watch the cluster of this namespace and name.
    pub fn start(control: &Control, timeline: &Timeline, namespace: &str, cluster: &str) -> Self {
        let prefix = format!("k8s-clusterapi-cluster-{namespace}-{cluster}");
        let mut watch = Watching {
            control: control.clone(),
            timeline: timeline.clone(),
            cluster: cluster.to_owned(),
            load_balancer: format!("{prefix}-kubeapi"),
            known: Vec::new(),
            members: BTreeMap::new(),
            last_call: 0,
            open: Vec::new(),
        };
        let mut events = control.events();
        let work = tokio::spawn(async move {
            let mut interval = tokio::time::interval(INTERVAL);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = interval.tick() => watch.look(),
                    event = events.recv() => match event {
                        Ok(event) => watch.server(&event),
                        Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                        Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                    },
                }
            }
        });
        Self {
            control: control.clone(),
            timeline: timeline.clone(),
            cluster: prefix,
            work,
        }
    }

    /// Records objects that exist twice and, if the cluster was deleted, those that are left.
    pub fn finish(&self, deleted: bool) {
        let left = if deleted {
            let left = self.control.leftovers(&self.cluster);
            left.into_iter()
                .map(|left| format!("{} {}", left.kind, left.name))
                .collect()
        } else {
            Vec::new()
        };
        let twice = self.control.duplicates().into_iter();
        let twice = twice
            .map(|found| format!("{} {}", found.kind, found.key))
            .collect();
        self.timeline.note(What::Remains(Remains { left, twice }));
    }
}

struct Watching {
    control: Control,
    timeline: Timeline,
    cluster: String,
    load_balancer: String,
    /// Ids of the cluster's load balancer, listeners, pools and monitors, including deleted ones.
    known: Vec<String>,
    members: BTreeMap<MemberKey, Member>,
    last_call: u64,
    /// Calls that had no answer at the last read.
    open: Vec<u64>,
}

impl Watching {
    fn look(&mut self) {
        let (elapsed, balancers) = self.control.load_balancers(&self.load_balancer);
        let clock = CloudClock {
            elapsed,
            now: self.timeline.clock().now(),
        };
        let mut found = BTreeMap::new();
        for (balancer, applied) in &balancers {
            self.learn(balancer);
            for pool in &balancer.pools {
                for row in &pool.members {
                    let prefix = format!("{}-{}-", self.load_balancer, row.port);
                    let key = MemberKey {
                        port: row.port,
                        machine: row.head.name.strip_prefix(&prefix).unwrap_or("").to_owned(),
                        id: row.head.id.clone(),
                    };
                    let running = applied
                        .iter()
                        .filter_map(|listener| listener.pool.as_ref())
                        .flat_map(|pool| &pool.members)
                        .find(|running| running.id == row.head.id);
                    let taking = running.is_some_and(|running| {
                        running.enabled
                            && running.plugged
                            && running.weight > 0
                            && row.up != Some(false)
                    });
                    let member = Member {
                        key: key.clone(),
                        address: row.address.clone(),
                        provisioning: row.head.provisioning.text().to_owned(),
                        operating: row.head.operating.text().to_owned(),
                        enabled: row.head.enabled,
                        weight: row.weight,
                        taking,
                    };
                    found.insert(key, (row.head.changed, member));
                }
            }
        }
        for (key, (changed, member)) in &found {
            let last = self.members.get(key);
            if last == Some(member) {
                continue;
            }
            let moved = last.is_none_or(|last| last.provisioning != member.provisioning);
            let at = if moved { clock.of(*changed) } else { clock.now };
            self.timeline.note_at(at, What::Member(member.clone()));
        }
        for key in self.members.keys().filter(|key| !found.contains_key(key)) {
            self.timeline
                .note_at(clock.now, What::MemberGone(key.clone()));
        }
        self.members = found
            .into_iter()
            .map(|(key, (_, member))| (key, member))
            .collect();
        self.calls(&clock);
    }

    fn learn(&mut self, balancer: &LoadBalancer) {
        let pools = balancer.pools.iter().flat_map(|pool| {
            let monitor = pool.monitor.iter().map(|monitor| &monitor.head.id);
            std::iter::once(&pool.head.id).chain(monitor)
        });
        let listeners = balancer.listeners.iter().map(|listener| &listener.head.id);
        for id in std::iter::once(&balancer.head.id)
            .chain(listeners)
            .chain(pools)
        {
            if !self.known.contains(id) {
                self.known.push(id.clone());
            }
        }
    }

    /// Records new calls, and those that were answered since the last read.
    fn calls(&mut self, clock: &CloudClock) {
        let from = self.open.first().map_or(self.last_call, |first| first - 1);
        let calls = self.control.calls_since(from);
        let mut open = Vec::new();
        for call in calls {
            let looked_at = call.sequence <= self.last_call;
            if looked_at && !self.open.contains(&call.sequence) {
                continue;
            }
            self.last_call = self.last_call.max(call.sequence);
            let young = clock.elapsed.as_secs_f64() - call.at < 60.0;
            if call.status.is_none() && young {
                open.push(call.sequence);
                continue;
            }
            if self.is_about_us(&call) {
                let at = clock.of(Duration::from_secs_f64(call.at));
                self.timeline.note_at(at, What::Call(written(call)));
            }
        }
        self.open = open;
    }

    fn is_about_us(&self, call: &RecordedCall) -> bool {
        let octavia = call.service == Service::LoadBalancer;
        if !octavia && (call.method == "GET" || call.service == Service::Identity) {
            return false;
        }
        let named = |text: &str| {
            text.contains(&self.load_balancer)
                || (!octavia && text.contains(&format!("\"{}-", self.cluster)))
                || self.known.iter().any(|id| text.contains(id))
        };
        named(&call.path)
            || call.query.iter().any(|(_, value)| named(value))
            || call
                .body
                .as_ref()
                .is_some_and(|body| named(&body.to_string()))
    }

    fn server(&mut self, event: &Event) {
        let (id, name, state) = match event {
            Event::ServerUp { id, name, .. } => (id, name, Server::Up),
            Event::ServerDown { id, name, .. } => (id, name, Server::Down),
            Event::ServerGone { id, name } => (id, name, Server::Gone),
            _ => return,
        };
        // Servers have the names of their machines, and machines begin with the name of their control plane.
        if name.starts_with(&format!("{}-", self.cluster)) {
            if !self.known.contains(id) {
                self.known.push(id.clone());
            }
            self.timeline.note(What::Server(name.clone(), state));
        }
    }
}

/// The cloud's clock beside the timeline's.
struct CloudClock {
    elapsed: Duration,
    now: Duration,
}

impl CloudClock {
    /// A moment of the cloud's clock; zero if it was before the timeline's beginning.
    fn of(&self, moment: Duration) -> Duration {
        (self.now + moment).saturating_sub(self.elapsed)
    }
}

fn written(call: RecordedCall) -> Call {
    Call {
        ours: call.agent.starts_with("capo-rs"),
        octavia: call.service == Service::LoadBalancer,
        label: call.label,
        method: call.method,
        path: call.path,
        status: call.status,
        took: Duration::from_secs_f64(call.duration.unwrap_or_default()),
        body: call.body.unwrap_or_default(),
    }
}
