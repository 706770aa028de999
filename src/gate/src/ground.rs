//! What a gate answers, and on what ground, without words.

use super::{
    classify::Class,
    event::PartKind,
    serves::{Evidence, Lack, Want},
    state::Stamp,
};
use capo_core::FailureClass;
use capo_core::Reason;

/// A machine's gates, and since when a held one is held.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rulings {
    pub(super) admission: Ruling,
    pub(super) admission_since: Option<Stamp>,
    pub(super) release: Ruling,
    pub(super) release_since: Option<Stamp>,
    pub(super) finalizer: Ruling,
    pub(super) finalizer_since: Option<Stamp>,
}

/// A gate's answer, without words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ruling {
    /// Nobody asks.
    #[default]
    NotAsked,
    /// Go ahead.
    Open(Ground),
    /// Go ahead, the operator says so.
    Bypassed,
    /// Go ahead, as the gates only observe; enforced, it would be held on this ground.
    Observed(Ground),
    /// Not yet.
    Held(Ground),
}

impl Ruling {
    /// Open or bypassed.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open(_) | Self::Bypassed | Self::Observed(_))
    }
}

/// Why a gate is open or held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    // Open.
    /// Cluster API has admitted the machine.
    Admitted,
    /// Its members are ACTIVE on every port.
    MembersActive,
    /// The gates don't hold in this mode.
    NotEnforced,
    /// There is no managed load balancer.
    Disabled,
    /// Cluster or control plane are being deleted.
    Going,
    /// The control plane was never initialised.
    NeverInitialised,
    /// The machine was never admitted and does not serve.
    NeverServed,
    /// Its server is absent or SHUTOFF.
    ServerDown,
    /// Others serve, and its members are confirmed absent.
    Released(Evidence),
    /// Its members are absent.
    MembersGone,
    /// The load balancer can't be changed: what is left goes with it.
    LoadBalancerUnusable,
    // Held.
    /// Paused or being moved.
    Paused,
    /// The operator holds it.
    OperatorHold,
    /// Its server is not ACTIVE yet.
    ServerNotReady,
    /// Nothing was read yet.
    NotObserved,
    /// A newer read is on its way.
    NotFresh,
    /// The last read is too old.
    Stale,
    /// OpenStack can't be asked.
    Trouble(FailureClass),
    /// Two clusters claim one load balancer, or two objects one name.
    Ambiguous,
    /// There is no load balancer yet.
    LoadBalancerNotMade,
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
    /// Its member can't be made: OpenStack refuses.
    Refused(u16, FailureClass),
    /// On this port it is too early to say whether another one serves.
    WaitingForEvidence(u16, Want),
    /// On this port no other one serves.
    NoOther(u16, Lack),
    /// Too early to say whether it may go at once.
    WaitingForHistory,
    /// Another machine is released first.
    AnotherFirst,
    /// It is being drained.
    Draining,
    /// Its members are being removed.
    Removing,
}

impl Ground {
    /// The reason that conditions, events and metrics show.
    pub fn reason(self) -> Reason {
        match self {
            Self::Admitted
            | Self::MembersActive
            | Self::NotEnforced
            | Self::Going
            | Self::NeverInitialised
            | Self::NeverServed
            | Self::ServerDown
            | Self::Released(_)
            | Self::MembersGone
            | Self::LoadBalancerUnusable => Reason::MembersActive,
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
            Self::LoadBalancerPending | Self::LoadBalancerNotMade | Self::PartMissing(..) => {
                Reason::LoadBalancerPending
            }
            Self::NoneServes => Reason::NoOtherMemberServing,
            Self::Member(_, class) => class_reason(class),
            Self::Refused(_, FailureClass::Quota) => Reason::QuotaExceeded,
            Self::Refused(_, class) => match trouble_reason(class) {
                Reason::OpenStackUnavailable => Reason::MemberMissing,
                reason => reason,
            },
            Self::NoOther(_, Lack::NoEvidence) => Reason::HealthUnavailable,
            Self::WaitingForEvidence(..) | Self::NoOther(..) | Self::WaitingForHistory => {
                Reason::NoOtherMemberServing
            }
            Self::AnotherFirst | Self::Draining | Self::Removing => Reason::MemberDraining,
        }
    }
}

/// The reason for a class that is not ACTIVE.
pub(super) fn class_reason(class: Class) -> Reason {
    match class {
        Class::Missing => Reason::MemberMissing,
        Class::PendingCreate | Class::PendingUpdate | Class::Orphaned => Reason::MemberPending,
        Class::PendingDelete => Reason::MemberDraining,
        Class::Active => Reason::MembersActive,
        Class::Error => Reason::MemberError,
        Class::Foreign | Class::Unknown => Reason::MemberUnknown,
    }
}

/// The reason for OpenStack's failure.
pub(super) fn trouble_reason(class: FailureClass) -> Reason {
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
        | FailureClass::LeaseLost => Reason::OpenStackUnavailable,
    }
}

impl Ground {
    /// Nothing at all is written for a machine that is held so.
    pub(super) fn is_a_stop(self) -> bool {
        matches!(self, Self::Paused | Self::OperatorHold | Self::Ambiguous)
    }
}
