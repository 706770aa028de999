//! What the state of a server means for the gates, for users, and for the outcome of a pass. The functions are pure.

use std::time::Duration;

use super::{StepError, wait};
use crate::{controllers::Outcome, reconcile::server_observation::ServerAddress};
use capo_api::v1beta2::NodeAddress;
use capo_core::Reason;
use capo_core::ids::ServerId;
use capo_gate::desired::ServerState;
use capo_openstack::{
    Cloud,
    compute::{AddressKind, Server, ServerStatus},
};

/// The time from the creation of a server to its first read. It is longer if many servers are awaited, so that they
/// share lists.
pub(super) fn first_read_after(cloud: &Cloud) -> Duration {
    shared_pause(Duration::from_secs(1), cloud)
}

/// The maximum age of a read of a server that something waits for. It is longer if many servers are awaited.
pub(super) fn waiting_age(cloud: &Cloud) -> Duration {
    shared_pause(Duration::from_secs(2), cloud)
}

fn shared_pause(shortest: Duration, cloud: &Cloud) -> Duration {
    grown(shortest, cloud.shared_reads().awaited_servers())
}

fn grown(shortest: Duration, awaited: u32) -> Duration {
    (shortest + Duration::from_millis(40) * awaited).min(Duration::from_secs(5))
}

/// The outcome of a pass that has just created the server.
pub(super) fn being_built(cloud: &Cloud) -> StepError {
    wait(
        Reason::InstanceNotReady,
        "The server is being built",
        first_read_after(cloud),
    )
}

/// The state of a server in the categories that the gates use.
pub(super) fn state(server: &Server) -> ServerState {
    match server.status {
        ServerStatus::Active => ServerState::Active,
        ServerStatus::Shutoff => ServerState::Shutoff,
        ServerStatus::Deleted | ServerStatus::SoftDeleted => ServerState::Absent,
        _ => ServerState::Other,
    }
}

/// The addresses of a server, sorted by network name, with IPv4 before IPv6.
pub(super) fn addresses(server: &Server) -> Vec<ServerAddress> {
    let mut addresses: Vec<ServerAddress> = server
        .addresses
        .iter()
        .flat_map(|(network, addresses)| {
            addresses.iter().filter_map(|address| {
                Some(ServerAddress {
                    network: network.clone(),
                    address: address.address?,
                    floating: address.kind == AddressKind::Floating,
                })
            })
        })
        .collect();
    addresses
        .sort_by(|a, b| (&a.network, a.address.is_ipv6()).cmp(&(&b.network, b.address.is_ipv6())));
    addresses
}

/// The outcome of a pass that has read the server.
pub(super) fn outcome(server: &Server) -> Outcome {
    match &server.status {
        ServerStatus::Active => Outcome::Done,
        ServerStatus::Build => Outcome::wait(
            Reason::InstanceNotReady,
            "The server is being built",
            Duration::from_secs(2),
        ),
        ServerStatus::Error => {
            let fault = server.fault.as_ref().map(|fault| fault.message.as_str());
            Outcome::wait(
                Reason::InstanceStateError,
                match fault.filter(|text| !text.is_empty()) {
                    Some(fault) => format!("The server is in ERROR: {fault}"),
                    None => "The server is in ERROR".to_owned(),
                },
                Duration::from_mins(1),
            )
        }
        ServerStatus::Deleted | ServerStatus::SoftDeleted => Outcome::wait(
            Reason::InstanceDeleted,
            "The server was deleted; it is not created again under the same name",
            Duration::from_mins(5),
        ),
        other => Outcome::wait(
            Reason::InstanceNotReady,
            format!("The server is {other}"),
            Duration::from_secs(30),
        ),
    }
}

/// The outcome of a pass whose server is gone although its id is known.
pub(super) fn lost(id: &ServerId) -> Outcome {
    Outcome::wait(
        Reason::InstanceNotFound,
        format!(
            "The server {id} does not exist any more; it is not created again, delete its Machine to replace it"
        ),
        Duration::from_mins(1),
    )
}

/// The server's addresses in the form that Cluster API's contract defines, followed by the server's name.
pub(super) fn node_addresses(server: &Server) -> Vec<NodeAddress> {
    addresses(server)
        .into_iter()
        .map(|seen| NodeAddress {
            type_: if seen.floating {
                "ExternalIP"
            } else {
                "InternalIP"
            }
            .to_owned(),
            address: seen.address.to_string(),
        })
        .chain([NodeAddress {
            type_: "InternalDNS".to_owned(),
            address: server.name.clone(),
        }])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_read_soon_and_many_share_their_reads() {
        let pause = |awaited| grown(Duration::from_secs(1), awaited).as_millis();
        assert_eq!([0, 10, 100, 1_000].map(pause), [1_000, 1_400, 5_000, 5_000]);
    }
}
