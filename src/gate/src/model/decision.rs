//! What a gate decides, and why.

use crate::model::{
    clock::Stamp,
    evidence::{Lack, Want},
    member::Class,
    part::PartKind,
};
use capo_core::{FailureClass, GateState, Reason, label_enum};

label_enum! {
    /// The three gates, as metrics and the command line name them.
    pub enum GateName {
        /// Whether the machine may count as provisioned.
        Admission = "admission",
        /// Whether our hook may be removed from the Machine.
        Release = "release",
        /// Whether the server may be deleted, and the finalizer removed after it.
        Finalizer = "finalizer",
    }
}

/// A machine's gates, and since when a held one is held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GateDecisions {
    pub(crate) admission: GateDecision,
    pub(crate) admission_since: Option<Stamp>,
    pub(crate) release: GateDecision,
    pub(crate) release_since: Option<Stamp>,
    pub(crate) finalizer: GateDecision,
    pub(crate) finalizer_since: Option<Stamp>,
}

/// A gate's decision, without its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateDecision {
    /// The gate was not evaluated, because nothing waits for it.
    #[default]
    NotEvaluated,
    /// The gate does not hold the machine, for this cause.
    Open(GateCause),
    /// The gate does not hold the machine, because an operator bypasses it.
    Bypassed,
    /// The gate does not hold the machine, because the gates only observe. If they were enforced, it would hold the
    /// machine for this cause.
    Observed(GateCause),
    /// The gate holds the machine, for this cause.
    Held(GateCause),
}

impl GateDecision {
    /// Whether the gate does not hold the machine.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open(_) | Self::Bypassed | Self::Observed(_))
    }

    /// The state that metrics and conditions show.
    pub fn state(self) -> GateState {
        match self {
            Self::NotEvaluated => GateState::Unknown,
            Self::Open(_) | Self::Observed(_) => GateState::Open,
            Self::Bypassed => GateState::Bypassed,
            Self::Held(_) => GateState::Held,
        }
    }

    /// The reason that events and metrics show; `None` where the gate was not evaluated.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::NotEvaluated => None,
            Self::Open(cause) | Self::Observed(cause) | Self::Held(cause) => Some(cause.reason()),
            Self::Bypassed => Some(Reason::OperatorBypass),
        }
    }
}

/// What a release rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseBasis {
    /// Requests through the endpoint were answered without the machine.
    Proof,
    /// The manager does not reach the endpoint, but other machines have served for long enough.
    OthersServedLongEnough,
}

/// Why a gate is open or held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateCause {
    // Causes for which a gate is open.
    /// Cluster API has admitted the machine.
    Admitted,
    /// Its members are ACTIVE on every port.
    MembersActive,
    /// The gates hold nothing in the mode that `--load-balancer-gate` sets.
    NotEnforced,
    /// There is no managed load balancer.
    Disabled,
    /// The Cluster or its control plane is being deleted, or was deleted.
    ClusterDeleting,
    /// The control plane was never initialised.
    NeverInitialised,
    /// The machine was never admitted and does not serve.
    NeverServed,
    /// Its server is absent or SHUTOFF.
    ServerDown,
    /// Cluster API finds its API server unhealthy, and a health monitor has found its member down on every port.
    DoesNotServe,
    /// Other machines serve, and the machine's members are confirmed absent.
    Released(ReleaseBasis),
    /// Its members are absent.
    MembersGone,
    /// The load balancer accepts no change, so the machine's member in it can't be removed.
    LoadBalancerUnusable,
    // Causes for which a gate is held.
    /// The cluster or the machine is paused or being moved by clusterctl.
    Paused,
    /// An annotation by the operator holds it.
    OperatorHold,
    /// The machine's server is not ACTIVE yet.
    ServerNotReady,
    /// Nothing was read yet.
    NotObserved,
    /// A newer read is on its way.
    NotFresh,
    /// The last read is too old.
    Stale,
    /// OpenStack does not answer.
    Trouble(FailureClass),
    /// Two clusters claim one load balancer, or two objects one name.
    Ambiguous,
    /// There is no load balancer yet.
    LoadBalancerNotCreated,
    /// The load balancer is not found.
    LoadBalancerAbsent,
    /// A listener, pool or monitor of this port is in ERROR.
    PartError(u16, PartKind),
    /// A listener, pool or monitor of this port is not there.
    PartMissing(u16, PartKind),
    /// No member serves the endpoint though the control plane was initialised.
    NoneServes,
    /// The load balancer is in ERROR.
    LoadBalancerError,
    /// A listener or pool is not there yet.
    LoadBalancerPending,
    /// Its member on this port is not ACTIVE.
    Member(u16, Class),
    /// Its member can't be created: OpenStack refuses.
    Refused(u16, FailureClass),
    /// It is not known yet whether another machine serves this port.
    WaitingForEvidence(u16, Want),
    /// On this port no other machine serves.
    NoOther(u16, Lack),
    /// Another machine is released first.
    AnotherFirst,
    /// The first request through the endpoint is under way.
    Requesting,
    /// What answers through the endpoint is no API server of this cluster.
    WrongAnswer,
    /// The manager does not reach the endpoint, and others have not served for long enough yet.
    Unreachable,
    /// Neither the manager nor Cluster API reaches the endpoint.
    UnreachableForAll,
    /// Without the machine too few requests through the endpoint were answered.
    Unproven,
    /// The machine's members are being drained.
    Draining,
    /// Requests through the endpoint are made without the machine.
    Proving,
    /// The machine's members are removed, and the requests are made again.
    Confirming,
    /// The machine's members are being removed.
    Removing,
}

/// The sentence of [`GateCause::ClusterDeleting`].
pub(crate) const CLUSTER_DELETING: &str =
    "The Cluster or its control plane is being deleted, or was deleted";
/// The sentence of [`GateCause::Disabled`].
pub(crate) const NO_MANAGED_LOAD_BALANCER: &str = "The cluster has no managed load balancer";
/// The sentence of [`GateCause::NeverInitialised`].
pub(crate) const NEVER_INITIALISED: &str = "The control plane was never initialised";
/// The sentence of [`GateCause::Paused`].
pub(crate) const PAUSED: &str =
    "The cluster or machine is paused or is being moved, so capo-rs changes nothing";
/// The sentence of [`GateCause::ServerDown`].
pub(crate) const SERVER_DOWN: &str = "Its server is absent or SHUTOFF";

impl GateCause {
    /// The reason that conditions, events and metrics show for this cause.
    pub fn reason(self) -> Reason {
        match self {
            Self::Admitted => Reason::MachineAdmitted,
            Self::MembersActive => Reason::MembersActive,
            Self::NotEnforced => Reason::GateNotEnforced,
            Self::ClusterDeleting => Reason::ClusterDeleting,
            Self::NeverInitialised => Reason::ControlPlaneNotInitialized,
            Self::NeverServed => Reason::MachineNeverServed,
            Self::ServerDown => Reason::ServerGone,
            Self::DoesNotServe => Reason::MachineDoesNotServe,
            Self::Released(_) => Reason::MachineReleased,
            Self::MembersGone => Reason::MembersRemoved,
            Self::LoadBalancerUnusable => Reason::LoadBalancerUnusable,
            Self::Disabled => Reason::LoadBalancerDisabled,
            Self::Paused => Reason::Paused,
            Self::OperatorHold => Reason::OperatorHold,
            Self::ServerNotReady => Reason::ServerNotReady,
            Self::NotObserved | Self::NotFresh => Reason::NotYetObserved,
            Self::Stale => Reason::ObservationStale,
            Self::Trouble(class) => trouble_reason(class),
            Self::Ambiguous => Reason::AmbiguousMatch,
            Self::LoadBalancerAbsent | Self::LoadBalancerError | Self::PartError(..) => {
                Reason::LoadBalancerError
            }
            Self::LoadBalancerPending | Self::LoadBalancerNotCreated | Self::PartMissing(..) => {
                Reason::LoadBalancerPending
            }
            Self::Member(_, class) => class_reason(class),
            Self::Refused(_, FailureClass::Quota) => Reason::QuotaExceeded,
            Self::Refused(_, class) => match trouble_reason(class) {
                Reason::OpenStackUnavailable => Reason::MemberMissing,
                reason => reason,
            },
            Self::NoOther(_, Lack::NoEvidence) | Self::Unreachable | Self::UnreachableForAll => {
                Reason::HealthUnavailable
            }
            Self::NoneServes
            | Self::WaitingForEvidence(..)
            | Self::NoOther(..)
            | Self::WrongAnswer
            | Self::Unproven => Reason::NoOtherMemberServing,
            Self::AnotherFirst
            | Self::Requesting
            | Self::Draining
            | Self::Proving
            | Self::Removing
            | Self::Confirming => Reason::MemberDraining,
        }
    }
}

impl GateCause {
    /// Whether nothing is written for a machine that is held for this cause.
    pub(crate) fn forbids_writes(self) -> bool {
        matches!(self, Self::Paused | Self::OperatorHold | Self::Ambiguous)
    }
}

/// The reason that shows a member's class.
pub(crate) fn class_reason(class: Class) -> Reason {
    match class {
        Class::Missing => Reason::MemberMissing,
        Class::PendingCreate | Class::PendingUpdate | Class::Orphaned => Reason::MemberPending,
        Class::PendingDelete => Reason::MemberDraining,
        Class::Active => Reason::MembersActive,
        Class::Error => Reason::MemberError,
        Class::Foreign | Class::Unknown => Reason::MemberUnknown,
    }
}

/// The reason for a failed call to OpenStack.
pub(crate) fn trouble_reason(class: FailureClass) -> Reason {
    match class {
        FailureClass::Throttled => Reason::Throttled,
        FailureClass::Auth | FailureClass::Denied => Reason::AuthFailed,
        FailureClass::Quota => Reason::QuotaExceeded,
        FailureClass::Transient
        | FailureClass::Locked
        | FailureClass::Duplicate
        | FailureClass::InUse
        | FailureClass::Conflict
        | FailureClass::NotFound
        | FailureClass::Invalid
        | FailureClass::NotImplemented
        | FailureClass::NoService
        | FailureClass::NotSent => Reason::OpenStackUnavailable,
    }
}
