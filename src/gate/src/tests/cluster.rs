//! What Cluster API and the controllers do around a load balancer: machines are created, admitted and deleted.

use std::{net::IpAddr, time::Duration};

use crate::{
    builders,
    model::{
        clock::Now,
        desired::{Deletion, DesiredMachine, ObservedCondition, ObservedServer, ServerState},
        event::{Answered, Event},
    },
    plan::withdrawal::is_call_wanted,
    report::report,
    tests::world::{CONNECTION_GRACE, Todo, World, address, machine_name},
};
use capo_core::{ConditionStatus, ObjectName, Reason};

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) want: DesiredMachine,
    /// Whether the machine controller of this process has handed it over.
    pub(crate) known: bool,
    pub(crate) gone: bool,
}

impl World {
    pub(crate) fn add(&mut self, index: u8, admitted: bool, deletion: Deletion) -> ObjectName {
        self.add_at(index, address(index), admitted, deletion)
    }

    pub(crate) fn add_at(
        &mut self,
        index: u8,
        address: IpAddr,
        admitted: bool,
        deletion: Deletion,
    ) -> ObjectName {
        let name = machine_name(index);
        let want = DesiredMachine {
            uid: Some(format!("{name} 1")),
            machine: Some(name.name.clone()),
            address: Some(address),
            admitted,
            server: ObservedServer {
                state: ServerState::Active,
                read_at: Some(self.now),
                down_since: None,
            },
            deletion,
            has_node: admitted,
            ..builders::machine(ObjectName::new("n", "c"))
        };
        self.offered.remove(&name);
        self.nodes.insert(
            name.clone(),
            Node {
                want,
                known: true,
                gone: false,
            },
        );
        self.set_machine(&name);
        name
    }

    /// Adds an admitted machine whose API server is up.
    pub(crate) fn add_serving(&mut self, index: u8) -> ObjectName {
        self.model.up.insert(address(index), self.now);
        self.add(index, true, Deletion::No)
    }

    /// The machine that has an address.
    pub(crate) fn holder(&self, address: IpAddr) -> Option<(&ObjectName, &Node)> {
        let mut nodes = self.nodes.iter();
        nodes.find(|(_, node)| !node.gone && node.want.address == Some(address))
    }

    /// The API server at an address goes down.
    pub(crate) fn fall(&mut self, address: IpAddr) {
        if self.model.up.remove(&address).is_some() {
            self.fell.insert(address, self.now);
        }
    }

    pub(crate) fn change(&mut self, name: &ObjectName, change: impl FnOnce(&mut DesiredMachine)) {
        if let Some(node) = self.nodes.get_mut(name) {
            change(&mut node.want);
        }
        self.set_machine_after(self.lag, name);
    }

    /// Hands over after `lag` what is true by then: a cache is behind, but never goes back in time.
    pub(crate) fn set_machine_after(&mut self, lag: Duration, name: &ObjectName) {
        if lag.is_zero() {
            self.set_machine(name);
        } else {
            self.later(lag, Todo::SetMachine(name.clone()));
        }
    }

    pub(crate) fn set_machine(&mut self, name: &ObjectName) {
        let Some(node) = self.nodes.get(name).filter(|node| node.known) else {
            return;
        };
        let mut desired = (!node.gone).then(|| Box::new(node.want.clone()));
        if let Some(desired) = desired.as_mut().filter(|_| self.elsewhere) {
            desired.server.state = ServerState::Other;
            desired.server.down_since = None;
        }
        self.step(Event::Machine {
            name: name.clone(),
            desired,
        });
    }

    pub(crate) fn delete(&mut self, name: &ObjectName) {
        let since = self.present().wall;
        self.note(format_args!("{name} deletes, at the hook"));
        self.change(name, |want| want.deletion = Deletion::AtHook { since });
    }

    /// Sets Cluster API's condition to False once Cluster API has not reached the API servers for its grace period.
    pub(crate) fn watch_connection(&mut self) {
        if self
            .desired
            .cluster
            .remote_connection
            .true_since()
            .is_none()
        {
            return;
        }
        self.model.advance(self.now);
        let port = self.desired.ports.first().copied().unwrap_or_default();
        if self.model.serves(port) {
            self.served = self.now;
        } else if self.now - self.served >= CONNECTION_GRACE {
            self.desired.cluster.remote_connection = ObservedCondition::False;
            self.set_load_balancer();
        }
    }

    pub(crate) fn turn(&mut self, todo: Todo) {
        match todo {
            Todo::Feed(epoch, event) => {
                if epoch == self.epoch {
                    if let Event::Answered { answer, .. } = &event {
                        self.outstanding -= 1;
                        if matches!(
                            answer,
                            Answered::Tree(Ok(_)) | Answered::TreeAndMembers { tree: Ok(_), .. }
                        ) {
                            self.snapshot = std::mem::take(&mut self.taken);
                        }
                    }
                    self.step(event);
                }
            }
            Todo::Send(epoch, id, call) => {
                if epoch == self.epoch {
                    if !is_call_wanted(&self.state) {
                        self.withdraw(id);
                        return;
                    }
                    let at = self.now;
                    self.step(Event::Sent { id, at });
                    self.is_late = true;
                    self.call(id, call);
                    self.is_late = false;
                }
            }
            Todo::SetMachine(name) => {
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.known = true;
                }
                self.set_machine(&name);
            }
            Todo::Admit(name) => {
                let address = self.nodes.get(&name).and_then(|node| node.want.address);
                let is_up = address.is_some_and(|address| self.model.up.contains_key(&address));
                self.change(&name, |want| {
                    want.admitted = true;
                    want.has_node = is_up;
                });
            }
            Todo::ReadServer(name) if !self.nova => {
                // The controller tries again.
                self.later(Duration::from_secs(5), Todo::ReadServer(name));
            }
            Todo::ReadServer(name) => {
                let now = self.now;
                self.change(&name, |want| {
                    want.server.read_at = Some(now);
                    let down = want.server.state != ServerState::Active;
                    let first = want.server.down_since.unwrap_or(now);
                    want.server.down_since = down.then_some(first);
                });
            }
            Todo::EndDrain(name) => self.change(&name, |want| {
                if let Deletion::BeforeHook { since } = want.deletion {
                    want.deletion = Deletion::AtHook { since };
                }
            }),
            Todo::Unhook(name) => {
                let node = self.nodes.get(&name).filter(|node| {
                    !node.gone
                        && matches!(
                            node.want.deletion,
                            Deletion::AtHook { .. } | Deletion::AfterHook { .. }
                        )
                });
                let Some(address) = node.map(|node| node.want.address) else {
                    return;
                };
                self.change(&name, |want| {
                    if let Deletion::AtHook { since } | Deletion::AfterHook { since } =
                        want.deletion
                    {
                        want.deletion = Deletion::Unhooked { since };
                    }
                });
                // KubeadmControlPlane removes the etcd member at this point.
                if let Some(address) = address {
                    self.fall(address);
                }
                let finding = self.findings.machines.get(&name);
                if self.controllers && finding.is_some_and(|finding| finding.finalizer.is_open()) {
                    self.later(Duration::from_millis(400), Todo::Finish(name));
                }
            }
            Todo::Finish(name) => {
                if let Some(node) = self.nodes.get_mut(&name)
                    && !node.gone
                {
                    node.gone = true;
                    if let Some(address) = node.want.address {
                        self.fall(address);
                    }
                    self.note(format_args!("{name} is gone"));
                    self.set_machine_after(self.lag, &name);
                }
            }
        }
    }

    /// The API server at an address comes up, and the Node of its machine joins.
    pub(crate) fn boot(&mut self, address: IpAddr) {
        self.model.up.entry(address).or_insert(self.now);
        let nodes = self.nodes.iter();
        let joining: Vec<_> = nodes
            .filter(|(_, node)| node.want.address == Some(address) && node.want.admitted)
            .map(|(name, _)| name.clone())
            .collect();
        for name in joining {
            self.change(&name, |want| want.has_node = true);
        }
    }

    /// Publishes changed findings, as a worker does.
    pub(crate) fn publish(&mut self, now: &Now) {
        let findings = report(&self.state, now);
        if self.published > 0 && findings.shows_the_same(&self.findings) {
            self.findings = findings;
            return;
        }
        self.published += 1;
        let verdict = &findings.verdict;
        if self.findings.verdict != *verdict {
            self.note(format_args!(
                "cluster: {:?} {} {}",
                verdict.status, verdict.reason, verdict.message
            ));
        }
        let mut todo = Vec::new();
        for (name, machine) in &findings.machines {
            let before = self.findings.machines.get(name);
            let Some(node) = self.nodes.get(name) else {
                continue;
            };
            if self.noting && before.is_none_or(|before| before != machine) {
                let at = (self.now - self.start).as_secs_f64();
                self.log.push_back(format!(
                    "{at:9.2} {name}: {:?} | {:?} | {:?} wanted={}",
                    machine.admission,
                    machine.release,
                    machine.finalizer,
                    machine.needs_server_read
                ));
            }
            self.tally.holds += u32::from(machine.release.is_held());
            if machine.admission.is_open() {
                self.offered.insert(name.clone());
            }
            if machine.admission.is_open() && !node.want.admitted {
                self.check_admission(name, &machine.admission);
                self.tally.admissions += 1;
                todo.push((2_000, Todo::Admit(name.clone())));
            }
            if machine.needs_server_read {
                todo.push((200, Todo::ReadServer(name.clone())));
            }
            if machine.release.is_open() && matches!(node.want.deletion, Deletion::AtHook { .. }) {
                self.tally.releases += 1;
                self.check_release(name, &machine.release);
                todo.push((200, Todo::Unhook(name.clone())));
            }
            let asked = matches!(
                node.want.deletion,
                Deletion::Unhooked { .. } | Deletion::OutOfBand { .. }
            );
            if machine.finalizer.is_open() && asked {
                todo.push((400, Todo::Finish(name.clone())));
            }
        }
        self.check_leaving();
        if verdict.status == ConditionStatus::True && verdict.reason == Reason::MembersActive {
            self.check_true();
        }
        self.findings = findings;
        if self.controllers {
            for (after, todo) in todo {
                self.later(Duration::from_millis(after), todo);
            }
        }
    }
}
