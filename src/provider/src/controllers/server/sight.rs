//! What this process last read of each server: shared by the controllers, never written to Kubernetes.
//!
//! The gates need to know how old a look at a server is, which no status can say. So the server
//! controller, which reads Nova anyway, leaves every answer here with the moment at which the read
//! began, and the machine controller picks it up.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};

use capo_core::ObjectName;
use capo_gate::desired::{ServerSight, ServerState};

/// The last look at each server, by the name of its `OpenStackServer`. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Sights(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    seen: HashMap<ObjectName, Sight>,
    wanted: HashSet<ObjectName>,
}

/// One look at a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// What the gates ask for.
    pub server: ServerSight,
    /// Its addresses; the last ones known while it is absent.
    pub addresses: Vec<SeenAddress>,
}

/// An address of a server as Nova shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAddress {
    /// The network's name.
    pub network: String,
    /// The address.
    pub address: IpAddr,
    /// A floating one, that is not the port's own.
    pub floating: bool,
}

impl Sights {
    /// Leaves what a read that began at `read_at` saw. Answers whether somebody wants to know: because
    /// more than the time is new, or because a new look was asked for.
    pub fn record(
        &self,
        name: &ObjectName,
        state: ServerState,
        addresses: Option<Vec<SeenAddress>>,
        read_at: Instant,
    ) -> bool {
        let mut shared = self.lock();
        let before = shared.seen.get(name);
        let next = next(before, state, addresses, read_at);
        let news = before.is_none_or(|before| is_news(before, &next));
        shared.seen.insert(name.clone(), next);
        shared.wanted.remove(name) || news
    }

    /// Asks for a new look at a server: the next one is told about even if it shows nothing new.
    /// Answers whether nobody had asked yet.
    pub fn want(&self, name: &ObjectName) -> bool {
        self.lock().wanted.insert(name.clone())
    }

    /// Whether somebody waits for a new look at a server.
    pub fn is_wanted(&self, name: &ObjectName) -> bool {
        self.lock().wanted.contains(name)
    }

    /// The last look at a server.
    pub fn get(&self, name: &ObjectName) -> Option<Sight> {
        self.lock().seen.get(name).cloned()
    }

    /// Forgets a server whose object is gone.
    pub fn forget(&self, name: &ObjectName) {
        let mut shared = self.lock();
        shared.seen.remove(name);
        shared.wanted.remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock()
    }
}

/// A look after another one.
fn next(
    before: Option<&Sight>,
    state: ServerState,
    addresses: Option<Vec<SeenAddress>>,
    read_at: Instant,
) -> Sight {
    let down = matches!(state, ServerState::Absent | ServerState::Shutoff);
    let down_reads = if down {
        before
            .map_or(0, |before| before.server.down_reads)
            .saturating_add(1)
    } else {
        0
    };
    Sight {
        server: ServerSight {
            state,
            read_at: Some(read_at),
            down_reads,
        },
        addresses: addresses
            .or_else(|| before.map(|before| before.addresses.clone()))
            .unwrap_or_default(),
    }
}

/// The gates tell one read of a server that is down from two, and no more.
fn is_news(before: &Sight, after: &Sight) -> bool {
    before.server.state != after.server.state
        || before.server.down_reads.min(2) != after.server.down_reads.min(2)
        || before.addresses != after.addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_server_that_is_down_are_counted_until_it_is_up() {
        let sights = Sights::default();
        let name = ObjectName::new("default", "m1");
        let seen = [
            (ServerState::Other, 0, true),
            (ServerState::Active, 0, true),
            (ServerState::Active, 0, false),
            (ServerState::Shutoff, 1, true),
            (ServerState::Shutoff, 2, true),
            (ServerState::Absent, 3, true),
            (ServerState::Absent, 4, false),
            (ServerState::Active, 0, true),
        ];
        for (state, down_reads, news) in seen {
            assert_eq!(
                sights.record(&name, state, None, Instant::now()),
                news,
                "{state:?}"
            );
            assert_eq!(sights.get(&name).unwrap().server.down_reads, down_reads);
        }
    }

    #[test]
    fn a_look_that_was_asked_for_is_told_even_without_news() {
        let sights = Sights::default();
        let name = ObjectName::new("default", "m1");
        sights.record(&name, ServerState::Active, None, Instant::now());
        assert!(!sights.record(&name, ServerState::Active, None, Instant::now()));
        assert!(sights.want(&name) && !sights.want(&name));
        assert!(sights.record(&name, ServerState::Active, None, Instant::now()));
        assert!(!sights.is_wanted(&name));
        assert!(!sights.record(&name, ServerState::Active, None, Instant::now()));
    }

    #[test]
    fn addresses_outlive_the_server() {
        let sights = Sights::default();
        let name = ObjectName::new("default", "m1");
        let address = SeenAddress {
            network: "n".to_owned(),
            address: IpAddr::from([10, 0, 0, 5]),
            floating: false,
        };
        sights.record(
            &name,
            ServerState::Active,
            Some(vec![address.clone()]),
            Instant::now(),
        );
        sights.record(&name, ServerState::Absent, None, Instant::now());
        assert_eq!(sights.get(&name).unwrap().addresses, [address]);
    }
}
