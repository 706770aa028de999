//! The invariants, checked at every turn. `tests/rollout/README.md` defines I1 to I4, I7 and I8.

use std::{net::IpAddr, time::Duration};

use crate::{
    decide::serving,
    model::{
        desired::{Deletion, ObservedCondition, ServerState},
        event::ProbeOutcome,
        findings::Gate,
        machine::Stage,
        member::{JOINING, LEAVING},
        octavia::Change,
        state::FRESH,
    },
    tests::{
        cluster::Node,
        model::ModelMember,
        world::{CONNECTION_GRACE, NAME, World},
    },
};
use capo_core::{
    GateMode, GateOverride, GateState, ObjectName, OperatingStatus, ProvisioningStatus,
};

impl World {
    pub(crate) fn owner(&self, member: &ModelMember) -> Option<(&ObjectName, &Node)> {
        let name = member
            .name
            .strip_prefix(&format!("{NAME}-{}-", member.port))?;
        self.nodes.get_key_value(&ObjectName::new("n", name))
    }

    /// Whether the machine is admitted, as far as this process knows or has caused it.
    fn is_admitted(&self, name: &ObjectName) -> bool {
        let known = self.state.machines.get(name);
        self.offered.contains(name) || known.is_some_and(|machine| machine.want.admitted)
    }

    /// Whether a truthful monitor has shown the member as ONLINE for long enough to be believed. Octavia does not check
    /// a disabled member.
    fn is_known_to_serve(&self, member: &ModelMember) -> bool {
        let up = self.model.up.get(&member.address);
        self.model.monitors
            && !self.model.ovn
            && !self.model.health_unreported.contains(&member.address)
            && member.admin_up
            && member.provisioning == ProvisioningStatus::Active
            && up.is_some_and(|up| self.now - *up > Duration::from_mins(5))
    }

    /// Whether the member's API server has been up for longer than any read is old.
    fn has_been_up(&self, member: &ModelMember) -> bool {
        let up = self.model.up.get(&member.address);
        let is_dark = self.model.dark_port == Some(member.port);
        !is_dark && up.is_some_and(|up| self.now - *up > Duration::from_mins(11))
    }

    /// Checks that a change is allowed by what was read last.
    pub(crate) fn check_write(&self, change: &Change) {
        if self.desired.cluster.paused {
            self.fail("a write while paused");
        }
        if self.is_of_paused_machine(change) {
            self.fail("a write to a member of a machine that is paused");
        }
        match change {
            Change::DeleteMember { id, .. } => self.check_removal(id.as_str()),
            Change::CreateMember { new, .. } if !new.admin_state_up => {
                self.check_joining(new.protocol_port);
            }
            Change::CreateMember { new, .. } => {
                self.check_newcomer(new.address, new.protocol_port);
            }
            Change::UpdateMember { id, update, .. }
                if update.admin_state_up == Some(true) || update.weight == Some(1) =>
            {
                self.check_enabling(id.as_str());
            }
            _ => {}
        }
    }

    /// Whether the member has the name of a machine which this process knows to be paused.
    fn is_of_paused_machine(&self, change: &Change) -> bool {
        let name = match change {
            Change::CreateMember { new, .. } => Some(&new.name),
            Change::UpdateMember { id, .. } | Change::DeleteMember { id, .. } => {
                let mut members = self.model.members();
                let member = members.find(|member| member.id == *id);
                member.map(|member| &member.name)
            }
            _ => None,
        };
        name.is_some_and(|name| {
            let mut machines = self.state.machines.iter();
            machines.any(|(machine, known)| {
                known.want.paused && name.ends_with(&format!("-{}", machine.name))
            })
        })
    }

    /// I2: the last member of a port stays, and while every member of a port is in ERROR, no member of an admitted
    /// machine that stays is deleted.
    fn check_removal(&self, id: &str) {
        let Some(victim) = self.snapshot.iter().find(|member| member.id == *id) else {
            self.fail("a member is deleted that was not read");
        };
        let takes_clients = |member: &ModelMember| {
            member.admin_up
                && member.weight > 0
                && member.provisioning != ProvisioningStatus::PendingDelete
        };
        let is_gone = self.owner(victim).is_none_or(|(_, node)| node.gone);
        let another = self.snapshot.iter().any(|member| {
            // The member of a machine that is gone may also be replaced by a member that Octavia has once applied.
            let may = self.model.up.contains_key(&member.address)
                || is_gone && member.provisioning != ProvisioningStatus::PendingCreate;
            member.port == victim.port
                && member.id != victim.id
                && takes_clients(member)
                && (member.provisioning == ProvisioningStatus::Active || may)
        });
        let broken = |member: &&ModelMember| member.provisioning == ProvisioningStatus::Error;
        let mut siblings = self
            .snapshot
            .iter()
            .filter(|member| member.port == victim.port);
        let stays = self.owner(victim).is_some_and(|(name, node)| {
            !node.gone && self.is_admitted(name) && node.want.deletion == Deletion::No
        });
        if stays && siblings.all(|member| broken(&member)) {
            self.fail("a batch failed, and a member of it is deleted");
        }
        // The removal of a member that is not ACTIVE takes nothing away from clients if its API server is not up.
        let is_of_use = victim.provisioning == ProvisioningStatus::Active
            || takes_clients(victim) && self.model.up.contains_key(&victim.address);
        if !is_of_use || another || self.desired.cluster.cluster_deleting {
            return;
        }
        // A machine that is not admitted has the address now, and gets no member of its own before this one is removed.
        let holder = self.holder(victim.address);
        if is_gone && holder.is_some_and(|(name, _)| !self.is_admitted(name)) {
            return;
        }
        let Some((name, node)) = self.owner(victim) else {
            self.fail("the last member of a port is deleted, and no machine leaves");
        };
        let bypassed = matches!(node.want.gate_override, GateOverride::Bypass { .. })
            || matches!(
                self.desired.cluster.gate_override,
                GateOverride::Bypass { .. }
            );
        let open = matches!(node.want.deletion, Deletion::Unhooked { .. })
            || bypassed
            || !self.is_admitted(name) && !self.is_known_to_serve(victim)
            || !self.desired.cluster.initialised
            || node.want.server.state != ServerState::Active
            // The machine demonstrably does not serve.
            || node.want.api_server_pod == ObservedCondition::False
                && !self.model.up.contains_key(&victim.address);
        if !open {
            self.fail(&format!("I2: {} was the last of its port", victim.name));
        }
    }

    /// A member may be created disabled only while another member of the port serves.
    fn check_joining(&self, port: u16) {
        let is_shown_online = |member: &ModelMember| {
            let mut read = self.state.ports.iter().flat_map(|port| port.members.iter());
            read.any(|read| read.id == member.id && read.operating == OperatingStatus::Online)
        };
        let in_service = self.snapshot.iter().any(|member| {
            let is_applied = match member.provisioning {
                ProvisioningStatus::Active => true,
                ProvisioningStatus::Error => is_shown_online(member),
                _ => false,
            };
            member.port == port && is_applied && member.admin_up && member.weight > 0
        });
        if !in_service {
            self.fail("a member joins admin-down though none is in service");
        }
    }

    /// A member that the operator took out of service stays out of service.
    fn check_enabling(&self, id: &str) {
        let is_not_ours = self.model.members().any(|member| {
            let by_us = |tag: &String| tag == JOINING || tag == LEAVING;
            member.id == *id && !member.tags.iter().any(by_us)
        });
        if is_not_ours {
            self.fail("a member is put in service that another client of Octavia took out");
        }
        let joins = |member: &&ModelMember| member.tags.iter().any(|tag| tag == JOINING);
        let joining = self
            .model
            .members()
            .filter(joins)
            .find(|member| member.id == *id);
        if let Some(member) = joining.filter(|_| !serving::any_release_is_open(&self.state)) {
            self.check_newcomer(member.address, member.port);
        }
    }

    /// Clients are not sent to an API server that is not known to be up while another member has been serving.
    fn check_newcomer(&self, address: IpAddr, port: u16) {
        if self.settings.mode != GateMode::Enforce || self.is_late {
            return;
        }
        // What counts is what this process knows, because its caches may be behind.
        let owner = |address: IpAddr| {
            let mut machines = self.state.machines.iter();
            machines.find(|(_, machine)| machine.want.address == Some(address))
        };
        // The last answer to a probe: a success counts for 15 s, a failure for a minute.
        let answered = |name: &ObjectName| {
            let (began, outcome) = self.probed.get(name)?;
            let is_ready = *outcome == ProbeOutcome::Ready;
            let counts = if is_ready { FRESH } else { FRESH * 4 };
            (self.now - *began <= counts).then_some(is_ready)
        };
        let is_up = owner(address).is_some_and(|(name, machine)| {
            answered(name) == Some(true)
                || matches!(machine.want.api_server_pod, ObservedCondition::TrueSince(_))
                || matches!(machine.want.node, ObservedCondition::TrueSince(_))
        });
        // The machine is no newcomer if it served until its member was removed, or if nothing else is known to serve.
        let comes_back = owner(address).is_some_and(|(_, machine)| {
            machine.restoring || serving::is_last_api_server(&self.state, machine)
        });
        // Cluster API reaches no API server, or the machine's Node has joined and its members of other ports are in
        // service, and no monitor shows which API server is up.
        let in_service = |member: &ModelMember| {
            member.address == address && member.port != port && member.admin_up
        };
        let is_half = owner(address).is_some_and(|(_, machine)| machine.want.has_node)
            && self.model.members().any(in_service);
        let is_lost = !self.model.monitors
            && (is_half || self.desired.cluster.remote_connection == ObservedCondition::False);
        if is_up || comes_back || is_lost {
            return;
        }
        let another = self.snapshot.iter().any(|member| {
            member.port == port
                && member.address != address
                && member.provisioning == ProvisioningStatus::Active
                && member.admin_up
                && member.weight > 0
                && self.has_been_up(member)
                && owner(member.address).is_some_and(|(_, machine)| {
                    machine.want.deletion == Deletion::No
                        && machine.want.api_server_pod != ObservedCondition::False
                        && machine.want.server.state == ServerState::Active
                })
        });
        if another {
            self.fail(&format!(
                "clients are sent to {address}, which did not answer, beside a member that serves"
            ));
        }
    }

    /// Two machines never leave at once: one is drained or removed by the rules, and the others wait. A machine whose
    /// release needs no proof does not wait.
    pub(crate) fn check_leaving(&self) {
        let leaving = self.state.machines.values().filter(|machine| {
            machine.stage > Stage::Serving
                && machine.stage < Stage::Released
                && !machine.gates.release.is_open()
                && matches!(
                    machine.want.deletion,
                    Deletion::AtHook { .. } | Deletion::OutOfBand { .. }
                )
        });
        if leaving.count() > 1 {
            self.fail("two are leaving at once");
        }
    }

    /// I3: no object exists twice.
    pub(crate) fn check_structure(&self) {
        let mut names: Vec<&str> = self
            .model
            .listeners
            .iter()
            .map(|listener| listener.name.as_str())
            .collect();
        names.sort_unstable();
        let many = names.len();
        names.dedup();
        let mut pools: Vec<&str> = self
            .model
            .pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect();
        pools.sort_unstable();
        let many_pools = pools.len();
        pools.dedup();
        // A machine whose address changed has a member at both addresses for a while.
        let mut members: Vec<_> = self
            .model
            .members()
            .map(|member| (member.name.as_str(), member.address))
            .collect();
        members.sort_unstable();
        let many_members = members.len();
        members.dedup();
        if many != names.len() || many_pools != pools.len() || many_members != members.len() {
            self.fail("I3: something exists twice");
        }
    }

    /// I1: the member of each port was read ACTIVE at the machine's current address.
    pub(crate) fn check_admission(&self, name: &ObjectName, gate: &Gate) {
        if gate.state != GateState::Open || !gate.message.contains("read ACTIVE") {
            return;
        }
        let address = self.nodes.get(name).and_then(|node| node.want.address);
        for port in &self.desired.ports {
            let active = self.snapshot.iter().any(|member| {
                member.port == *port
                    && Some(member.address) == address
                    && member.provisioning == ProvisioningStatus::Active
            });
            if !active {
                self.fail(&format!(
                    "I1: {name} admitted without an ACTIVE member on {port}"
                ));
            }
        }
    }

    /// A release by the rules: the member of another machine gets traffic and is ACTIVE, and its API server was up a
    /// moment ago.
    pub(crate) fn check_release(&self, name: &ObjectName, gate: &Gate) {
        let message = &gate.message;
        if gate.state != GateState::Open || !message.contains("Its members are removed") {
            return;
        }
        let answers = |replied| self.now - replied < Duration::from_secs(60);
        if message.contains("No proof was possible") && self.replied.is_some_and(answers) {
            self.fail(&format!(
                "released {name} without a proof though the endpoint answered a moment ago"
            ));
        }
        let address = self.nodes.get(name).and_then(|node| node.want.address);
        self.check_out_of_rotation(name, message);
        for port in &self.desired.ports {
            let other = self.snapshot.iter().any(|member| {
                member.port == *port
                    && Some(member.address) != address
                    && member.provisioning == ProvisioningStatus::Active
                    && member.admin_up
                    && member.weight > 0
            });
            if !other {
                self.fail(&format!(
                    "released {name} though nothing else serves {port}"
                ));
            }
        }
        // Without a proof the gate depends on Cluster API's conditions, which change late.
        let lateness = if message.contains("No proof was possible") {
            CONNECTION_GRACE + Duration::from_secs(60)
        } else {
            Duration::from_secs(60)
        };
        let was_up = |address: &IpAddr| {
            let fell = self.fell.get(address);
            self.model.up.contains_key(address)
                || fell.is_some_and(|fell| self.now - *fell < lateness)
        };
        let mut members = self.snapshot.iter();
        if !members.any(|member| Some(member.address) != address && was_up(&member.address)) {
            self.fail(&format!(
                "released {name} though no other API server was up"
            ));
        }
    }

    /// A proof shows that the data path sends no more clients to the machine. Where members are not met in turn, a
    /// machine can be missed by chance.
    fn check_out_of_rotation(&self, name: &ObjectName, message: &str) {
        let is_by_chance = self.model.ovn || self.model.busy;
        if is_by_chance || message.contains("No proof was possible") {
            return;
        }
        let address = self.nodes.get(name).and_then(|node| node.want.address);
        let port = self.desired.ports.first().copied().unwrap_or_default();
        let mut in_rotation = self.model.in_rotation(port);
        let gets_clients = in_rotation.any(|member| {
            Some(member.address) == address
                && self.model.up.contains_key(&member.address)
                && !self.model.never_programmed.contains(&member.address)
        });
        if gets_clients && self.model.dark_port != Some(port) {
            self.fail(&format!("released {name} though it still gets clients"));
        }
    }

    pub(crate) fn check_true(&self) {
        for node in self.nodes.values().filter(|node| node.known && !node.gone) {
            if node.want.deletion != Deletion::No || node.want.address.is_none() {
                continue;
            }
            let count = self
                .snapshot
                .iter()
                .filter(|member| {
                    Some(member.address) == node.want.address
                        && member.provisioning == ProvisioningStatus::Active
                })
                .count();
            // The state may not have been stepped yet with what the controllers handed over last.
            if count < self.desired.ports.len()
                && self
                    .state
                    .machines
                    .values()
                    .any(|machine| machine.want == node.want)
            {
                self.fail("True without every member ACTIVE");
            }
        }
    }
}
