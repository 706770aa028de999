//! Changes in OpenStack, with the reasons that CAPO's events have.

use capo_core::{FailureClass, Reason};

/// What was done to an object in OpenStack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// It was created.
    Create,
    /// It was changed.
    Update,
    /// It was deleted.
    Delete,
    /// A floating IP was put on a port.
    Associate,
    /// A floating IP was taken off its port.
    Disassociate,
    /// Its tags were replaced.
    Tag,
}

impl Verb {
    /// Past participle, as texts begin with it.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Create => "Created",
            Self::Update => "Updated",
            Self::Delete => "Deleted",
            Self::Associate => "Associated",
            Self::Disassociate => "Disassociated",
            Self::Tag => "Tagged",
        }
    }

    /// The action of the event.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Associate => "Associate",
            Self::Disassociate => "Disassociate",
            Self::Tag => "Tag",
        }
    }

    /// As metrics count it.
    pub(super) fn counted(self) -> Reason {
        match self {
            Self::Create => Reason::Created,
            Self::Update | Self::Associate | Self::Disassociate | Self::Tag => Reason::Updated,
            Self::Delete => Reason::Deleted,
        }
    }
}

/// A kind of objects in OpenStack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudObject {
    /// Neutron's network.
    Network,
    /// Neutron's subnet.
    Subnet,
    /// Neutron's router.
    Router,
    /// Neutron's security group, with its rules.
    SecurityGroup,
    /// Neutron's floating IP.
    FloatingIp,
    /// Neutron's port.
    Port,
    /// Neutron's trunk.
    Trunk,
    /// Octavia's load balancer.
    LoadBalancer,
    /// Octavia's listener.
    Listener,
    /// Octavia's pool.
    Pool,
    /// Octavia's health monitor.
    Monitor,
    /// Nova's server.
    Server,
    /// Nova's server group.
    ServerGroup,
    /// Cinder's volume.
    Volume,
}

impl CloudObject {
    /// As texts name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Router => "router",
            Self::SecurityGroup => "security group",
            Self::FloatingIp => "floating IP",
            Self::Port => "port",
            Self::Trunk => "trunk",
            Self::LoadBalancer => "load balancer",
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Monitor => "monitor",
            Self::Server => "server",
            Self::ServerGroup => "server group",
            Self::Volume => "volume",
        }
    }
}

/// The reason of CAPO's event about such a change, spelled as it arrives in Kubernetes: CAPO's recorder writes all letters
/// but the first one small.
pub(crate) fn reason(verb: Verb, object: CloudObject) -> String {
    format!("Successful{}", change_in_reasons(verb, object))
}

/// The reason of CAPO's event about such a change that failed; `None` where it waits for another operation, or where there
/// is nothing left to do.
pub(crate) fn reason_of_failure(
    verb: Verb,
    object: CloudObject,
    class: FailureClass,
) -> Option<String> {
    match class {
        FailureClass::Locked
        | FailureClass::Conflict
        | FailureClass::InUse
        | FailureClass::Duplicate
        | FailureClass::NotFound
        | FailureClass::LeaseLost => None,
        _ => Some(format!("Failed{}", change_in_reasons(verb, object))),
    }
}

fn change_in_reasons(verb: Verb, object: CloudObject) -> String {
    if verb == Verb::Tag {
        return "replaceallattributetags".to_owned();
    }
    let words = format!("{}{}", verb.as_str(), object.as_str());
    words.replace(' ', "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons in the source of CAPO 0.14.7 (`record.Eventf`), through its recorder.
    #[test]
    fn the_reasons_are_those_of_capo() {
        use CloudObject as Object;
        let cases = [
            (Verb::Create, Object::Network, "SuccessfulCreateNetwork"),
            (Verb::Delete, Object::Network, "SuccessfulDeleteNetwork"),
            (Verb::Create, Object::Subnet, "SuccessfulCreateSubnet"),
            (Verb::Update, Object::Subnet, "SuccessfulUpdateSubnet"),
            (Verb::Create, Object::Router, "SuccessfulCreateRouter"),
            (Verb::Update, Object::Router, "SuccessfulUpdateRouter"),
            (Verb::Delete, Object::Router, "SuccessfulDeleteRouter"),
            (
                Verb::Create,
                Object::SecurityGroup,
                "SuccessfulCreateSecurityGroup",
            ),
            (
                Verb::Delete,
                Object::SecurityGroup,
                "SuccessfulDeleteSecurityGroup",
            ),
            (
                Verb::Create,
                Object::LoadBalancer,
                "SuccessfulCreateLoadBalancer",
            ),
            (
                Verb::Delete,
                Object::LoadBalancer,
                "SuccessfulDeleteLoadBalancer",
            ),
            (
                Verb::Create,
                Object::FloatingIp,
                "SuccessfulCreateFloatingIP",
            ),
            (
                Verb::Delete,
                Object::FloatingIp,
                "SuccessfulDeleteFloatingIP",
            ),
            (
                Verb::Associate,
                Object::FloatingIp,
                "SuccessfulAssociateFloatingIP",
            ),
            (
                Verb::Disassociate,
                Object::FloatingIp,
                "SuccessfulDisassociateFloatingIP",
            ),
            (Verb::Delete, Object::Port, "SuccessfulDeletePort"),
            (Verb::Delete, Object::Trunk, "SuccessfulDeleteTrunk"),
            (Verb::Create, Object::Server, "SuccessfulCreateServer"),
            (Verb::Create, Object::Listener, "SuccessfulCreateListener"),
            (Verb::Update, Object::Listener, "SuccessfulUpdateListener"),
            (Verb::Delete, Object::Listener, "SuccessfulDeleteListener"),
            (Verb::Create, Object::Pool, "SuccessfulCreatePool"),
            (Verb::Create, Object::Monitor, "SuccessfulCreateMonitor"),
            (Verb::Update, Object::Monitor, "SuccessfulUpdateMonitor"),
            (
                Verb::Tag,
                Object::Network,
                "SuccessfulReplaceAllAttributeTags",
            ),
        ];
        for (verb, object, in_source) in cases {
            let (first, rest) = in_source.split_at(1);
            let shown = format!("{first}{}", rest.to_lowercase());
            assert_eq!(reason(verb, object), shown);
            assert_eq!(
                reason_of_failure(verb, object, FailureClass::Quota),
                Some(shown.replace("Successful", "Failed"))
            );
            assert_eq!(reason_of_failure(verb, object, FailureClass::Locked), None);
        }
    }
}
