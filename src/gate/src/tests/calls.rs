//! How the world carries out effects.

use std::{net::IpAddr, time::Duration};

use crate::{
    model::{
        call::Call,
        effect::Effect,
        event::{Answered, Event, ProbeOutcome},
        octavia::Change,
        proof::{EndpointReply, EndpointRequest, EndpointResult},
    },
    plan::withdrawal::is_call_wanted,
    tests::{
        model::{ModelMember, failure},
        world::{AtEndpoint, Line, Todo, World},
    },
};
use capo_core::{EndpointAnswer, EndpointFailure, Excerpt, FailureClass, ObjectName};

impl World {
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Call { id, call, .. } if self.queue_wait.is_zero() => {
                // The worker makes the same check before it sends the call.
                if is_call_wanted(&self.state) {
                    self.call(id, call);
                } else {
                    self.withdraw(id);
                }
            }
            Effect::Call { id, call, .. } => {
                self.later(self.queue_wait, Todo::Send(self.epoch, id, call));
            }
            Effect::Probe {
                machine, address, ..
            } => {
                let outcome = if !self.routable {
                    ProbeOutcome::NoConnection
                } else if self.strangers.contains(&address) {
                    ProbeOutcome::WrongCertificate
                } else if self.model.up.contains_key(&address) {
                    ProbeOutcome::Ready
                } else {
                    ProbeOutcome::Refused
                };
                let event = Event::Probed {
                    machine,
                    began: self.now,
                    outcome,
                };
                self.later(Duration::from_millis(30), Todo::Feed(self.epoch, event));
            }
            Effect::Request { id, request } => {
                self.tally.requests += 1;
                let result = self.answer(&request);
                let event = Event::Replied { id, result };
                self.later(self.reply_time, Todo::Feed(self.epoch, event));
            }
            Effect::LookUp { machine } => {
                let exists = self
                    .nodes
                    .get(&ObjectName::new("n", machine.clone()))
                    .is_some_and(|node| !node.gone);
                let event = Event::LookedUp {
                    machine,
                    exists: Some(exists),
                };
                self.later(Duration::from_millis(30), Todo::Feed(self.epoch, event));
            }
            Effect::Record(_) => {}
        }
    }

    /// The reply to a request through the endpoint. The load balancer hands each connection to the next member in
    /// rotation.
    fn answer(&mut self, request: &EndpointRequest) -> EndpointResult {
        let result = self.result(request);
        if !matches!(result, Err(EndpointFailure::TimedOut(_))) {
            self.replied = Some(self.now);
        }
        result
    }

    fn result(&mut self, request: &EndpointRequest) -> EndpointResult {
        let port = match request {
            EndpointRequest::Readyz { endpoint, .. } | EndpointRequest::Connect { endpoint } => {
                endpoint.port
            }
        };
        if let Some(reply) = &self.replies {
            return reply.clone();
        }
        match self.endpoint {
            AtEndpoint::Unreachable => {
                return Err(EndpointFailure::TimedOut(Duration::from_secs(3)));
            }
            AtEndpoint::Stranger => return Err(EndpointFailure::OtherCa),
            AtEndpoint::Lies => {
                return Ok(EndpointReply::Answer(EndpointAnswer {
                    status: 200,
                    named: Vec::new(),
                    body: Excerpt::of("ok"),
                }));
            }
            AtEndpoint::EverySecond if self.tally.requests.is_multiple_of(2) => {
                return Err(EndpointFailure::TimedOut(Duration::from_secs(3)));
            }
            AtEndpoint::EverySecond | AtEndpoint::LoadBalancer | AtEndpoint::Unchanged => {}
        }
        self.model.advance(self.now);
        let swallows = |address: &IpAddr| self.model.never_programmed.contains(address);
        let is_up = |member: &&ModelMember| {
            swallows(&member.address)
                || self.model.up.contains_key(&member.address) && self.model.dark_port != Some(port)
        };
        let mut up: Vec<IpAddr> = self
            .model
            .in_rotation(port)
            .filter(is_up)
            .map(|member| member.address)
            .collect();
        up.sort_unstable();
        if up.is_empty() {
            return Err(EndpointFailure::Closed);
        }
        // OVN chooses a member by a hash of the connection, the amphora chooses the members in turn.
        let turn = if self.model.ovn || self.model.busy {
            let mixed = self.tally.requests.wrapping_mul(0x9E37_79B9);
            (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA6B) >> 13
        } else {
            self.tally.requests
        };
        let turn = usize::try_from(turn).unwrap_or_default() % up.len();
        // In the explored model the machine that leaves answers if it can.
        let leaving = self.state.proof.as_ref().map(|proof| &proof.machine);
        let leaving = leaving.and_then(|name| self.state.machines.get(name)?.want.address);
        let own = up.iter().position(|address| Some(*address) == leaving);
        let turn = own.filter(|_| self.timeless).unwrap_or(turn);
        if up.get(turn).is_some_and(swallows) {
            return Err(EndpointFailure::TimedOut(Duration::from_secs(3)));
        }
        Ok(match request {
            EndpointRequest::Connect { .. } => EndpointReply::Connected,
            EndpointRequest::Readyz { .. } => EndpointReply::Answer(EndpointAnswer {
                status: 200,
                named: up.get(turn).copied().into_iter().collect(),
                body: Excerpt::of("ok"),
            }),
        })
    }

    /// A write that waited for the request budget is not sent any more.
    pub(crate) fn withdraw(&mut self, id: u64) {
        self.note("withdrawn");
        let answer = Answered::Written(Err(failure(FailureClass::NotSent)));
        self.outstanding += 1;
        let event = Event::Answered { id, answer };
        self.later(Duration::ZERO, Todo::Feed(self.epoch, event));
    }

    pub(crate) fn call(&mut self, id: u64, call: Call) {
        if self.outstanding > 0 {
            self.fail("two calls under way");
        }
        self.outstanding += 1;
        self.tally.calls += 1;
        self.recent.push_back(self.now);
        while self
            .recent
            .front()
            .is_some_and(|at| self.now - *at > Duration::from_secs(60))
        {
            self.recent.pop_front();
        }
        self.most_per_minute = self.most_per_minute.max(self.recent.len());
        let line = self.line.pop_front().or_else(|| (self.fault)(&call));
        let now = self.now;
        if let Call::Write(change) = &call {
            self.count(change);
            if !matches!(line, Some(Line::Down(_))) {
                self.check_write(change);
            }
        }
        let answer = match (&call, line) {
            (_, Some(Line::Down(class))) => match call {
                Call::Tree => Answered::Tree(Err(failure(class))),
                Call::TreeAndMembers { .. } => Answered::TreeAndMembers {
                    tree: Err(failure(class)),
                    lists: Vec::new(),
                },
                Call::ListenersAndPools => Answered::ListenersAndPools(Err(failure(class))),
                Call::Members { .. } => Answered::Members(Err(failure(class))),
                Call::Monitor { .. } => Answered::Monitor(Err(failure(class))),
                Call::Write(_) => Answered::Written(Err(failure(class))),
            },
            (Call::Tree, _) => {
                self.tally.trees += 1;
                let tree = self.model.tree(now);
                self.taken = self.model.members().cloned().collect();
                Answered::Tree(tree)
            }
            (Call::TreeAndMembers { pools }, _) => {
                self.tally.trees += 1;
                self.tally.calls += u32::try_from(pools.len()).unwrap_or(u32::MAX);
                let tree = self.model.tree(now);
                self.taken = self.model.members().cloned().collect();
                let fault = self.fault;
                let lists = pools
                    .iter()
                    .map(|(port, pool)| {
                        let list = match fault(&Call::Members { pool: pool.clone() }) {
                            Some(Line::Down(class)) => Err(failure(class)),
                            _ => self.model.list(pool.as_str(), now),
                        };
                        (*port, list)
                    })
                    .collect();
                Answered::TreeAndMembers { tree, lists }
            }
            (Call::ListenersAndPools, _) => {
                Answered::ListenersAndPools(self.model.listeners_and_pools(now))
            }
            (Call::Members { pool }, _) => Answered::Members(self.model.list(pool.as_str(), now)),
            (Call::Monitor { monitor }, _) => {
                Answered::Monitor(self.model.parameters(monitor.as_str(), now))
            }
            (Call::Write(change), line) => {
                let answer = self.model.write(change, now);
                if let Err(refused) = &answer {
                    self.tally.refusals += 1;
                    self.note(format_args!("refused: {:?}", refused.class));
                }
                Answered::Written(match line {
                    Some(Line::ReplyLost) => Err(failure(FailureClass::Transient)),
                    _ => answer,
                })
            }
        };
        self.check_structure();
        let event = Event::Answered { id, answer };
        self.later(self.latency, Todo::Feed(self.epoch, event));
    }

    pub(crate) fn count(&mut self, change: &Change) {
        self.note(format_args!("{change:?}"));
        self.tally.writes += 1;
        match change {
            Change::UpdateMember { update, .. } => match (update.weight, update.admin_state_up) {
                (None, None) => self.tally.repairs += 1,
                (Some(0), _) => self.tally.drains += 1,
                (Some(_), _) => self.tally.restores += 1,
                (None, Some(_)) => {}
            },
            Change::CreateMember { new, .. } => self.tally.joins += u32::from(!new.admin_state_up),
            Change::DeleteMember { id, .. } => {
                let gone = self.snapshot.iter().find(|member| member.id == *id);
                let gone = gone.and_then(|member| self.owner(member));
                self.tally.prunes += u32::from(gone.is_none_or(|(_, node)| node.gone));
            }
            _ => {}
        }
    }
}
