//! Changes in OpenStack, with the reasons that CAPO's events have.

use capo_core::{FailureClass, Reason, label_enum};

label_enum! {
    /// What was done to an object in OpenStack, as the action of the event names it.
    pub enum Verb {
        /// It was created.
        Create = "Create",
        /// It was changed.
        Update = "Update",
        /// It was deleted.
        Delete = "Delete",
        /// A floating IP was put on a port.
        Associate = "Associate",
        /// A floating IP was taken off its port.
        Disassociate = "Disassociate",
        /// Its tags were replaced.
        Tag = "Tag",
    }
}

impl Verb {
    /// The past participle, with which texts begin.
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

    /// The reason under which metrics count the change.
    pub(super) fn counted(self) -> Reason {
        match self {
            Self::Create => Reason::Created,
            Self::Update | Self::Associate | Self::Disassociate | Self::Tag => Reason::Updated,
            Self::Delete => Reason::Deleted,
        }
    }
}

label_enum! {
    /// A kind of objects in OpenStack, as texts name it.
    pub enum CloudObject {
        /// Neutron's network.
        Network = "network",
        /// Neutron's subnet.
        Subnet = "subnet",
        /// Neutron's router.
        Router = "router",
        /// Neutron's security group, with its rules.
        SecurityGroup = "security group",
        /// Neutron's floating IP.
        FloatingIp = "floating IP",
        /// Neutron's port.
        Port = "port",
        /// Neutron's trunk.
        Trunk = "trunk",
        /// Octavia's load balancer.
        LoadBalancer = "load balancer",
        /// Octavia's listener.
        Listener = "listener",
        /// Octavia's pool.
        Pool = "pool",
        /// Octavia's health monitor.
        Monitor = "monitor",
        /// Nova's server.
        Server = "server",
        /// Nova's server group.
        ServerGroup = "server group",
        /// Cinder's volume.
        Volume = "volume",
    }
}

/// The reason of CAPO's event about such a change. CAPO's recorder changes all letters except the first one to lower
/// case, and so does this function.
pub(crate) fn reason(verb: Verb, object: CloudObject) -> String {
    format!("Successful{}", change_in_reasons(verb, object))
}

/// The reason of CAPO's event about such a change that failed. `None` if the change waits for another operation, or if
/// there is nothing left to do.
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
        | FailureClass::NotSent => None,
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

    /// The reasons in the source of CAPO 0.14.7 (`record.Eventf`), as its recorder spells them.
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
            let event_reason = format!("{first}{}", rest.to_lowercase());
            assert_eq!(reason(verb, object), event_reason);
            assert_eq!(
                reason_of_failure(verb, object, FailureClass::Quota),
                Some(event_reason.replace("Successful", "Failed"))
            );
            assert_eq!(reason_of_failure(verb, object, FailureClass::Locked), None);
        }
    }
}
