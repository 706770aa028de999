//! The closed set of reasons that conditions, events, metrics, the command line and the docs share.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Why something is as it is. One enum for every surface, so that the strings are the same on all of them.
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
    // The load balancer gate, not True.
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
    /// No other member serves the API server.
    NoOtherMemberServing,
    /// The health of members can't be told.
    HealthUnavailable,
    /// The server is not ACTIVE yet, or has no address yet.
    ServerNotReady,
    /// Nothing was observed yet.
    NotYetObserved,
    /// Two objects answer to one name, or two clusters claim one object.
    AmbiguousMatch,
    /// The last observation is too old to decide on.
    ObservationStale,
    /// OpenStack does not answer, or answers with errors.
    OpenStackUnavailable,
    /// OpenStack asks for fewer calls.
    Throttled,
    /// OpenStack refuses the credentials.
    AuthFailed,
    /// An OpenStack quota is used up.
    QuotaExceeded,
    /// The operator holds the gate.
    OperatorHold,
    // The load balancer gate, True.
    /// Every expected member is ACTIVE.
    MembersActive,
    /// The operator bypasses the gate.
    OperatorBypass,
    /// The cluster has no managed load balancer.
    LoadBalancerDisabled,
    // Conditions of Cluster API and of CAPO.
    /// All is well.
    Ready,
    /// Something listed in the message is not.
    NotReady,
    /// Something listed in the message is unknown.
    ReadyUnknown,
    /// Reconciling is paused.
    Paused,
    /// Reconciling is not paused.
    NotPaused,
    /// The object is being deleted.
    Deleting,
    /// The Cluster's infrastructure is not provisioned yet.
    WaitingForClusterInfrastructure,
    /// The bootstrap data secret is not there yet.
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
    /// The instance known by its id is not there any more.
    InstanceNotFound,
    /// Creating the instance failed.
    InstanceCreateFailed,
    /// Something the instance depends on is not there yet.
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
    /// Signing in to OpenStack failed.
    OpenStackAuthenticationFailed,
    /// OpenStack refuses the request.
    OpenStackError,
    /// The object asks for something impossible; the message names field, value and what is allowed.
    InvalidSpec,
    /// The object asks for something this version does not do yet.
    NotSupported,
    /// The object named does not exist, or more than one does.
    DependencyNotFound,
    // Events.
    /// A member was created in the load balancer.
    MemberCreated,
    /// A member turned ACTIVE.
    MemberActive,
    /// A member is gone from the load balancer.
    MemberRemoved,
    /// A gate holds Cluster API.
    GateHeld,
    /// A gate does not hold any more.
    GateOpened,
    /// A gate is open because the operator says so.
    GateBypassed,
    /// The object's namespace may not use the identity it names.
    IdentityAccessDenied,
    /// Something was created in OpenStack.
    Created,
    /// Something was deleted in OpenStack.
    Deleted,
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
    fn every_reason_is_taken_by_the_machine_crd() {
        // Cluster API copies our Ready into the Machine, whose schema wants letters first and last.
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
