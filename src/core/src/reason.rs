//! The closed set of reasons that conditions, events, metrics, the command line and the docs share.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The reason of a state. One enum serves every surface, so that the strings are the same on all of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)* }

        impl Reason {
            /// Every reason, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The reason as it is written in conditions, events, metrics and docs.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim(),)* }
            }
        }
    };
}

reasons! {
    // Reasons of a load balancer gate that is not True.
    /// A member is PENDING.
    MemberPending,
    /// A member is in ERROR.
    MemberError,
    /// An expected member does not exist.
    MemberMissing,
    /// A member is being drained or removed.
    MemberDraining,
    /// A member shows a status that this version does not know, or is not ours.
    MemberUnknown,
    /// The load balancer, a listener, a pool or a monitor is PENDING or being created.
    LoadBalancerPending,
    /// The load balancer, a listener, a pool or a monitor is in ERROR.
    LoadBalancerError,
    /// No other load balancer member serves the API server.
    NoOtherMemberServing,
    /// The health of the members is unknown.
    HealthUnavailable,
    /// The server is not ACTIVE yet, or has no address yet.
    ServerNotReady,
    /// The manager has not read the load balancer yet.
    NotYetObserved,
    /// Two objects have the same name, or two clusters claim one object.
    AmbiguousMatch,
    /// The last observation is too old to decide on.
    ObservationStale,
    /// OpenStack does not answer, or answers with server errors.
    OpenStackUnavailable,
    /// OpenStack is throttling requests.
    Throttled,
    /// OpenStack rejects the credentials.
    AuthFailed,
    /// An OpenStack quota is used up.
    QuotaExceeded,
    /// An annotation of the operator holds the gate.
    OperatorHold,
    // Reasons of a load balancer gate that is True.
    /// Every expected member is ACTIVE.
    MembersActive,
    /// Cluster API has admitted the machine already.
    MachineAdmitted,
    /// Other members serve the API server, and those of the machine are removed.
    MachineReleased,
    /// The members of the machine are removed.
    MembersRemoved,
    /// The machine was never admitted and does not serve.
    MachineNeverServed,
    /// The server of the machine is absent or SHUTOFF.
    ServerGone,
    /// The API server of the machine is down and gets no clients.
    MachineDoesNotServe,
    /// The control plane was never initialised.
    ControlPlaneNotInitialized,
    /// The Cluster or its control plane is being deleted, or was deleted.
    ClusterDeleting,
    /// The load balancer takes no change, or there is none.
    LoadBalancerUnusable,
    /// The gates hold nothing in the mode that is set.
    GateNotEnforced,
    /// An annotation of the operator bypasses the gate.
    OperatorBypass,
    /// The cluster has no managed load balancer.
    LoadBalancerDisabled,
    // Conditions of Cluster API and of CAPO.
    /// Everything is as the spec describes it.
    Ready,
    /// At least one of the conditions listed in the message is not True.
    NotReady,
    /// At least one of the conditions listed in the message is unknown.
    ReadyUnknown,
    /// Reconciling is paused.
    Paused,
    /// Reconciling is not paused.
    NotPaused,
    /// The object is being deleted.
    Deleting,
    /// The Cluster's infrastructure is not provisioned yet.
    WaitingForClusterInfrastructure,
    /// The Secret with the bootstrap data does not exist yet.
    WaitingForBootstrapData,
    /// The owner reference is not set yet.
    WaitingForOwner,
    /// The instance is not ACTIVE yet.
    InstanceNotReady,
    /// The instance is in ERROR.
    InstanceStateError,
    /// The instance was deleted.
    InstanceDeleted,
    /// Deleting the instance failed.
    InstanceDeleteFailed,
    /// The instance does not exist any more.
    InstanceNotFound,
    /// Creating the instance failed.
    InstanceCreateFailed,
    /// An object that the instance depends on does not exist yet.
    DependencyFailed,
    /// Creating a port failed.
    PortCreateFailed,
    /// Creating the network failed.
    NetworkCreateFailed,
    /// Creating the subnet failed.
    SubnetCreateFailed,
    /// Creating the router failed.
    RouterCreateFailed,
    /// Creating a security group failed.
    SecurityGroupCreateFailed,
    /// The API endpoint can't be set up.
    APIEndpointConfigFailed,
    /// Attaching a floating IP failed.
    FloatingIPError,
    /// The pool has given out as many floating IPs as its spec allows.
    MaxIPsReached,
    /// The external network that the pool's spec selects is not found.
    UnableToFindNetwork,
    /// The pool has not given the machine a floating IP yet.
    WaitingForIPAMProvider,
    /// Signing in to OpenStack failed.
    OpenStackAuthenticationFailed,
    /// OpenStack rejected a request.
    OpenStackError,
    /// The spec has an impossible value; the message names the field, the value and what is allowed.
    InvalidSpec,
    /// The spec uses a feature that this version does not support.
    NotSupported,
    /// A referenced object does not exist, or several objects match the reference.
    DependencyNotFound,
    /// A programming error ended the reconciliation of the object.
    InternalError,
    // Events.
    /// A member was created in the load balancer.
    MemberCreated,
    /// A member became ACTIVE.
    MemberActive,
    /// A member was removed from the load balancer.
    MemberRemoved,
    /// A gate holds the rollout.
    GateHeld,
    /// A gate no longer holds the rollout.
    GateOpened,
    /// A gate is open because an annotation of the operator bypasses it.
    GateBypassed,
    /// The object's namespace may not use the identity that the spec names.
    IdentityAccessDenied,
    /// Something was created in OpenStack.
    Created,
    /// Something was changed in OpenStack.
    Updated,
    /// Something was deleted in OpenStack.
    Deleted,
}

impl Reason {
    /// The reason that is written as `text`; `None` if it is one of another program.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
    }

    /// Whether a hold for this reason is a step of an ordinary change and not a problem.
    pub fn is_step_of_change(self) -> bool {
        matches!(
            self,
            Self::MemberPending
                | Self::MemberMissing
                | Self::MemberDraining
                | Self::LoadBalancerPending
                | Self::ServerNotReady
                | Self::NotYetObserved
                | Self::OperatorHold
        )
    }

    /// Whether v1beta1 gives a condition with this reason the severity `Info`: something only has to be waited for.
    pub fn is_wait(self) -> bool {
        let has_other_name = matches!(
            self,
            Self::MemberPending
                | Self::MemberDraining
                | Self::LoadBalancerPending
                | Self::ServerNotReady
                | Self::NotYetObserved
                | Self::OperatorHold
                | Self::NoOtherMemberServing
                | Self::InstanceNotReady
                | Self::DependencyFailed
        );
        has_other_name || self.as_str().starts_with("Waiting")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn the_machine_crd_accepts_every_reason() {
        // Cluster API copies the condition Ready into the Machine, whose schema requires a letter or digit at both
        // ends.
        for reason in Reason::ALL {
            let text = reason.as_str();
            assert!(text.chars().all(|c| c.is_ascii_alphanumeric()), "{text}");
            assert!(
                text.starts_with(|c: char| c.is_ascii_alphabetic()),
                "{text}"
            );
        }
    }
}
