//! What this process last read of each server. All controllers share it, and it is never written to Kubernetes.
//!
//! The gates need the age of a read, which no status shows. The server controller, which reads Nova anyway, stores
//! every answer here with the moment at which the read began, and the machine controller uses it.

use std::{net::IpAddr, time::Instant};

use super::ObjectCache;
use capo_core::{ObjectName, ids::NetworkId};
use capo_gate::desired::{ObservedServer, ServerState};
use capo_openstack::network::Port;

/// What is known of each server, by the name of its `OpenStackServer`. A clone is cheap and shares the data.
///
/// The cache itself is used without a uid, because the controller of machines may see a machine before or after its
/// `OpenStackServer`. It then takes what is known under the name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observations(ObjectCache<KnownServer>);

/// What is known of one server.
#[derive(Debug, Default)]
struct KnownServer {
    /// The uid of the `OpenStackServer`, once its controller has seen it.
    uid: Option<String>,
    observation: Option<Observation>,
    expected: Vec<PortAddress>,
    read_requested_at: Option<Instant>,
    request_hash: Option<u64>,
}

/// The result of one read of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    /// The state of the server and the age of the read, as the gates need them.
    pub server: ObservedServer,
    /// Whether the read found the server.
    pub found: bool,
    /// The addresses of the server. If the read did not find the server, the addresses of the last read that did.
    pub addresses: Vec<ServerAddress>,
}

/// An address of a server as Nova shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// The network's name.
    pub network: String,
    /// The address.
    pub address: IpAddr,
    /// Whether it is a floating IP. Otherwise it is a fixed address of the port.
    pub floating: bool,
}

/// An address of a port. It is used for a server whose addresses Nova does not show yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortAddress {
    /// Neutron's id of the network.
    pub network: NetworkId,
    /// The address.
    pub address: IpAddr,
}

impl PortAddress {
    /// The fixed addresses of a port.
    pub(crate) fn all_of(port: &Port) -> impl Iterator<Item = Self> {
        let addresses = port.fixed_ips.iter().filter_map(|fixed| fixed.ip_address);
        addresses.map(|address| Self {
            network: port.network_id.clone(),
            address,
        })
    }
}

impl Observations {
    /// Records which object has the name. What is known of another object, which was deleted and created again under
    /// the same name, is forgotten, except for a request for a new read. A user who removes the finalizer can delete an
    /// object without its controller.
    pub(crate) fn begin(&self, name: &ObjectName, uid: Option<&str>) {
        self.update(name, |known| {
            if known.is_of_another(uid) {
                *known = KnownServer {
                    read_requested_at: known.read_requested_at,
                    ..KnownServer::default()
                };
            }
            known.uid = uid.map(str::to_owned);
        });
    }

    /// Records which addresses a server that was just created will get.
    pub(crate) fn expect(&self, name: &ObjectName, addresses: Vec<PortAddress>) {
        self.update(name, |known| known.expected = addresses);
    }

    /// The addresses that a server created by this process will get, until Nova shows them. `uid` is that of the
    /// `OpenStackServer`, if there is one.
    pub(crate) fn expected(&self, name: &ObjectName, uid: Option<&str>) -> Vec<PortAddress> {
        self.read(name, uid, |known| known.expected.clone())
            .unwrap_or_default()
    }

    /// Records the result of a read that began at `read_at`; `addresses` is `None` if the read found no server. Returns
    /// whether the machine has to be enqueued, because something besides the time changed or because a new read was
    /// requested.
    pub(crate) fn record(
        &self,
        name: &ObjectName,
        state: ServerState,
        addresses: Option<Vec<ServerAddress>>,
        read_at: Instant,
    ) -> bool {
        self.update(name, |known| {
            if addresses.as_ref().is_some_and(|shown| !shown.is_empty()) {
                known.expected.clear();
            }
            let before = known.observation.as_ref();
            let next = next(before, state, addresses, read_at);
            let changed = before.is_none_or(|before| differs(before, &next));
            known.observation = Some(next);
            known.read_requested_at.take().is_some() || changed
        })
    }

    /// Requests a new read of a server. The next read enqueues the machine even if it shows nothing new. Returns
    /// whether this is the first request since the last read.
    pub(crate) fn request_read(&self, name: &ObjectName) -> bool {
        self.update(name, |known| {
            let is_first = known.read_requested_at.is_none();
            known.read_requested_at.get_or_insert_with(Instant::now);
            is_first
        })
    }

    /// The time of the pending request for a new read of a server; `None` if there is none.
    pub(crate) fn read_requested_at(&self, name: &ObjectName) -> Option<Instant> {
        self.read(name, None, |known| known.read_requested_at)?
    }

    /// Records the hash of what the object requested in a pass.
    pub(crate) fn record_request_hash(&self, name: &ObjectName, request_hash: u64) {
        self.update(name, |known| known.request_hash = Some(request_hash));
    }

    /// Whether the object requests something else than in the last pass of this process; `None` if there was no such
    /// pass.
    pub(crate) fn has_changed(&self, name: &ObjectName, request_hash: u64) -> Option<bool> {
        let before = self.read(name, None, |known| known.request_hash)??;
        Some(before != request_hash)
    }

    /// The last observation of a server. `uid` is that of the `OpenStackServer`, if there is one.
    pub(crate) fn get(&self, name: &ObjectName, uid: Option<&str>) -> Option<Observation> {
        self.read(name, uid, |known| known.observation.clone())?
    }

    /// Forgets a server whose object is gone.
    pub(crate) fn forget(&self, name: &ObjectName) {
        self.0.forget(name);
    }

    fn read<R>(
        &self,
        name: &ObjectName,
        uid: Option<&str>,
        read: impl FnOnce(&KnownServer) -> R,
    ) -> Option<R> {
        let read = |known: &KnownServer| (!known.is_of_another(uid)).then(|| read(known));
        self.0.read(name, None, read)?
    }

    fn update<R>(&self, name: &ObjectName, change: impl FnOnce(&mut KnownServer) -> R) -> R {
        self.0.update(name, None, change)
    }
}

impl KnownServer {
    fn is_of_another(&self, uid: Option<&str>) -> bool {
        uid.zip(self.uid.as_deref())
            .is_some_and(|(uid, own)| uid != own)
    }
}

/// The observation that follows `before`.
fn next(
    before: Option<&Observation>,
    state: ServerState,
    addresses: Option<Vec<ServerAddress>>,
    read_at: Instant,
) -> Observation {
    let down = matches!(state, ServerState::Absent | ServerState::Shutoff);
    let first = before
        .and_then(|before| before.server.down_since)
        .unwrap_or(read_at);
    Observation {
        server: ObservedServer {
            state,
            read_at: Some(read_at),
            down_since: down.then_some(first),
        },
        found: addresses.is_some(),
        addresses: addresses
            .or_else(|| before.map(|before| before.addresses.clone()))
            .unwrap_or_default(),
    }
}

/// Whether something besides the time of the read differs. The gates distinguish a server that is down from one that is
/// down for good, and nothing finer.
fn differs(before: &Observation, after: &Observation) -> bool {
    before.server.state != after.server.state
        || before.server.is_down_for_good() != after.server.is_down_for_good()
        || before.addresses != after.addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_down_for_good_after_two_reads_that_span_30_s() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        let begun = Instant::now();
        let seen = [
            (0, ServerState::Other, false, true),
            (10, ServerState::Active, false, true),
            (20, ServerState::Active, false, false),
            (100, ServerState::Shutoff, false, true),
            (101, ServerState::Shutoff, false, false),
            (129, ServerState::Shutoff, false, false),
            (130, ServerState::Shutoff, true, true),
            (131, ServerState::Absent, true, true),
            (200, ServerState::Absent, true, false),
            (201, ServerState::Active, false, true),
            (300, ServerState::Absent, false, true),
        ];
        for (at, state, down, news) in seen {
            let read_at = begun + std::time::Duration::from_secs(at);
            assert_eq!(
                observations.record(&name, state, None, read_at),
                news,
                "{at}"
            );
            let server = observations.get(&name, None).unwrap().server;
            assert_eq!(server.is_down_for_good(), down, "{at}");
        }
    }

    #[test]
    fn a_requested_read_wakes_the_machine_even_if_it_shows_nothing_new() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        observations.record(&name, ServerState::Active, None, Instant::now());
        assert!(!observations.record(&name, ServerState::Active, None, Instant::now()));
        assert!(observations.request_read(&name) && !observations.request_read(&name));
        assert!(observations.record(&name, ServerState::Active, None, Instant::now()));
        assert_eq!(observations.read_requested_at(&name), None);
        assert!(!observations.record(&name, ServerState::Active, None, Instant::now()));
    }

    #[test]
    fn the_addresses_of_ports_count_until_nova_shows_its_own() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        let expected = vec![PortAddress {
            network: NetworkId::from("n"),
            address: IpAddr::from([10, 0, 0, 5]),
        }];
        let shown = ServerAddress {
            network: "n".to_owned(),
            address: IpAddr::from([10, 0, 0, 5]),
            floating: false,
        };
        observations.expect(&name, expected.clone());
        for (addresses, left) in [
            (None, &expected),
            (Some(Vec::new()), &expected),
            (Some(vec![shown]), &Vec::new()),
        ] {
            observations.record(&name, ServerState::Other, addresses, Instant::now());
            assert_eq!(observations.expected(&name, None), *left);
        }
        observations.expect(&name, expected);
        observations.forget(&name);
        assert!(observations.expected(&name, None).is_empty());
    }

    #[test]
    fn addresses_outlive_the_server() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        let address = ServerAddress {
            network: "n".to_owned(),
            address: IpAddr::from([10, 0, 0, 5]),
            floating: false,
        };
        observations.record(
            &name,
            ServerState::Active,
            Some(vec![address.clone()]),
            Instant::now(),
        );
        observations.record(&name, ServerState::Absent, None, Instant::now());
        assert_eq!(observations.get(&name, None).unwrap().addresses, [address]);
    }

    #[test]
    fn another_object_of_the_same_name_starts_with_nothing_but_the_requested_read() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        let expected = vec![PortAddress {
            network: NetworkId::from("n"),
            address: IpAddr::from([10, 0, 0, 5]),
        }];
        observations.begin(&name, Some("1"));
        observations.expect(&name, expected.clone());
        let begun = Instant::now();
        observations.record(&name, ServerState::Absent, None, begun);
        observations.record_request_hash(&name, 7);
        observations.begin(&name, Some("1"));
        assert!(observations.get(&name, Some("1")).is_some());
        assert_eq!(observations.expected(&name, Some("1")), expected);
        // A machine whose server object is not there takes what is known under the name.
        assert!(observations.get(&name, None).is_some());

        // Before the pass over the new object, no other object takes what is known of the former one for the new one.
        assert_eq!(observations.get(&name, Some("2")), None);
        assert_eq!(observations.expected(&name, Some("2")), []);
        observations.request_read(&name);
        observations.begin(&name, Some("2"));
        assert_eq!(observations.get(&name, None), None);
        assert_eq!(observations.expected(&name, None), []);
        assert_eq!(observations.has_changed(&name, 7), None);
        assert!(observations.read_requested_at(&name).is_some());
        let later = begun + std::time::Duration::from_secs(100);
        observations.record(&name, ServerState::Absent, None, later);
        let server = observations.get(&name, Some("2")).unwrap().server;
        assert!(!server.is_down_for_good(), "after a single read");
    }

    #[test]
    fn a_read_that_is_requested_before_the_first_pass_stays_requested() {
        let observations = Observations::default();
        let name = ObjectName::new("default", "m1");
        observations.request_read(&name);
        observations.begin(&name, Some("1"));
        assert!(observations.read_requested_at(&name).is_some());
    }
}
