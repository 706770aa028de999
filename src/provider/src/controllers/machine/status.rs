//! Collects what a pass shows of a machine, builds the status with [`report`], and writes it with one patch. Also
//! publishes the events that belong to it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{
    address_pairs,
    pass::Pass,
    report::{self, Report},
};
use crate::{
    controllers::Outcome,
    kubernetes::{
        conditions::kind,
        patch::{Written, write_status},
    },
    reconcile::{
        StepError,
        health_check::{self, Deadline},
        server_spec,
    },
};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{ConditionState, GateMode, GateOverride, Reason, gate_override};
use capo_gate::findings::{Gate, MachineFinding};

impl Pass<'_> {
    pub(super) fn instance(&self) -> ConditionState {
        match &self.related.server {
            Some(server) => report::instance(server),
            None => ConditionState::unknown(
                Reason::NotYetObserved,
                "The OpenStackServer has not been reconciled yet",
            ),
        }
    }

    /// The condition `InstanceReady` after a pass that did not complete. If a server exists, the condition describes
    /// the server; other conditions show what keeps the machine from being admitted.
    pub(super) fn instance_after(&self, outcome: &Outcome) -> ConditionState {
        match outcome {
            Outcome::Wait {
                reason, message, ..
            } if self.related.server.is_none()
                || (self.is_deleting() && *reason != Reason::Deleting) =>
            {
                ConditionState::unmet(*reason, message.clone())
            }
            Outcome::Failed {
                reason, message, ..
            } if self.related.server.is_none() => ConditionState::unmet(*reason, message.clone()),
            _ => self.instance(),
        }
    }

    /// Whether the server controller has observed the changes that this machine made to the `OpenStackServer`.
    fn server_has_caught_up(&self) -> bool {
        let (Some(server), Some(cluster)) = (&self.related.server, &self.related.openstack_cluster)
        else {
            return false;
        };
        let observed = server
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed == server.metadata.generation
            && address_pairs::are_applied(&self.object, server)
            && server_spec::identity_to_set(
                &server.spec.identity_ref,
                server_spec::identity(&self.object.spec, cluster),
            )
            .is_none()
    }

    fn load_balancer(&self) -> Option<ConditionState> {
        if !self.related.control_plane {
            return None;
        }
        if self.related.openstack_cluster.is_some() && !self.related.is_gated() {
            return Some(ConditionState::met(Reason::LoadBalancerDisabled));
        }
        let mut verdict = self
            .finding()
            .map_or_else(ConditionState::default, |finding| finding.verdict.clone());
        if let Some(deadline) = self.start_up_deadline() {
            verdict.message = format!("{}. {deadline}", verdict.message);
        }
        Some(verdict)
    }

    /// The time at which a MachineHealthCheck replaces the machine, if that is so near that most machines would have a
    /// Node by now.
    fn start_up_deadline(&self) -> Option<Deadline> {
        self.deadline()
            .filter(|deadline| deadline.is_near(Timestamp::now()))
    }

    /// The time until that deadline is shown; `None` if it is shown already or will never be shown.
    pub(super) fn until_warning(&self) -> Option<Duration> {
        let left = self.deadline()?.near_at().duration_since(Timestamp::now());
        let left = Duration::try_from(left).ok()?;
        (!left.is_zero()).then_some(left + Duration::from_millis(100))
    }

    /// The time at which a MachineHealthCheck replaces the machine, while a gate keeps it from having a Node.
    fn deadline(&self) -> Option<Deadline> {
        let held = self
            .finding()
            .is_some_and(|finding| finding.admission.is_held());
        let machine = self.related.machine.as_deref().filter(|_| held)?;
        let checks = self.context.stores.health_checks.state();
        health_check::deadline(&checks, machine, self.related.cluster.as_deref())
    }

    /// Publishes events about problems around the machine that the outcome of no step contains.
    fn warn(&self, load_balancer: Option<&ConditionState>) {
        let about = self.object.object_ref(&());
        let warn = |reason, action, note: &str| {
            self.context.events.warning(&about, reason, action, note);
        };
        if let Some(machine) = &self.related.machine
            && !self.related.rivals.is_empty()
        {
            let note = format!(
                "Machine {} has this OpenStackMachine in spec.infrastructureRef, and so have others: {}. One server can't be \
                 two Machines; capo-rs uses the first one; the others will never become ready",
                machine.name_any(),
                self.related.rivals.join(", ")
            );
            warn(Reason::AmbiguousMatch, "Reconcile", &note);
        }
        let annotation = self.object.annotations().get(gate_override::KEY);
        if let GateOverride::Refused { message } =
            gate_override::parse_optional(annotation.map(String::as_str), Timestamp::now())
        {
            let note = format!("Annotation {}: {message}", gate_override::KEY);
            warn(Reason::InvalidSpec, "Gate", &note);
        }
        if let Some(deadline) = self.start_up_deadline() {
            let reason = load_balancer.map_or(Reason::NotYetObserved, |verdict| verdict.reason);
            warn(reason, "Gate", &deadline.to_string());
        }
    }

    pub(super) async fn report(
        &mut self,
        instance: ConditionState,
        outcome: Outcome,
        paused: bool,
    ) -> Outcome {
        outcome.publish_failure(&self.object, &self.context.events);
        let load_balancer = self.load_balancer();
        if !paused {
            self.warn(load_balancer.as_ref());
        }
        let server = self.related.server.clone();
        let report = Report {
            paused,
            instance,
            load_balancer,
            unreachable: self.floating_ip_ingress(),
            active_members: self
                .findings
                .as_ref()
                .filter(|_| self.related.is_gated())
                .and_then(|findings| report::active_members(findings, &self.name.name)),
            provisioned: self.provisioned,
            server: server.as_deref(),
            failure_domain: server
                .as_ref()
                .and_then(|server| server.spec.availability_zone.clone())
                .filter(|zone| !zone.is_empty()),
            failure: failure(&outcome),
            complete: outcome == Outcome::Done && self.server_has_caught_up(),
        };
        let api = self.context.api::<OpenStackMachine>(&self.name.namespace);
        let now = Timestamp::now();
        let held_back = AtomicBool::new(false);
        let written = write_status(&self.context.replaced, &api, &self.object, |fresh| {
            let provisioned = report.provisioned && self.may_be_provisioned(fresh);
            held_back.store(report.provisioned && !provisioned, Ordering::Relaxed);
            let report = Report {
                provisioned,
                ..report.clone()
            };
            report::status(fresh, &report, now)
        })
        .await;
        match written {
            Err(error) => Outcome::status_not_written(&error),
            Ok(_) if held_back.into_inner() => {
                // The gate needs a newer read of the load balancer first, or the object has changed.
                if let Some(cluster) = self.related.cluster_key() {
                    self.context.tracker.nudge(&cluster);
                }
                Outcome::wait(
                    Reason::NotYetObserved,
                    "The load balancer is being read again",
                    Duration::from_secs(1),
                )
            }
            Ok(Written::Changed(_) | Written::Unchanged | Written::Gone) => outcome,
        }
    }

    /// Whether `fresh` may be written as provisioned at this moment. The object must be as it was when the gate was
    /// decided, the facts behind the decision must still be true and recent, and this process must still be the leader.
    fn may_be_provisioned(&self, fresh: &OpenStackMachine) -> bool {
        let is_as_observed = fresh.uid() == self.observed.uid()
            && fresh.annotations() == self.observed.annotations()
            && fresh.metadata.deletion_timestamp == self.observed.metadata.deletion_timestamp;
        self.was_provisioned
            || is_as_observed
                && self.may_open_gates()
                && (!self.is_held_by_the_gates() || self.may_act_on(|gates| &gates.admission))
    }

    fn is_held_by_the_gates(&self) -> bool {
        self.related.is_gated() && self.context.tracker.settings().mode == GateMode::Enforce
    }

    /// Whether this process may write a change that opens a gate, which requires that it holds the leader lease at this
    /// moment.
    pub(super) fn may_open_gates(&self) -> bool {
        self.context.clouds.lease().may_open_gates()
    }

    /// Whether a gate of this machine is open in the latest findings, and rests on a read that is recent enough.
    pub(super) fn may_act_on(&self, gate: impl Fn(&MachineFinding) -> &Gate) -> bool {
        let cluster = self.related.cluster_key();
        let findings = cluster.and_then(|cluster| self.latest_findings(&cluster));
        findings.is_some_and(|findings| {
            let now = tokio::time::Instant::now().into_std();
            let gates = findings.machines.get(&self.name);
            gates.is_some_and(|gates| findings.may_act_on(gate(gates), now))
        })
    }
}

/// What Ready shows of a pass that failed. A conflict is not shown, because the next pass resolves it seconds later.
fn failure(outcome: &Outcome) -> Option<ConditionState> {
    match outcome {
        Outcome::Failed { class, .. } if !class.is_conflict() => {
            Some(StepError::of(kind::READY, outcome.clone()).state)
        }
        _ => None,
    }
}
