//! What must happen, one story for each case.

mod addresses;
mod after_hook;
mod dead;
mod drained;
mod faults;
mod freshness;
mod jobboard;
mod leader;
mod members;
mod open;
mod proof;
mod releases;
mod repairs;
mod slow;
mod strangers;
mod structure;
mod unapplied;
mod unreachable;
mod withdrawal;

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use crate::tests::world::{Todo, World, address, machine_name};
use capo_core::{ProvisioningStatus, Reason};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(count: u64) -> Duration {
    SECOND * u32::try_from(count).unwrap_or(u32::MAX)
}

fn world(machines: u8) -> World {
    let all: Vec<u8> = (1..=machines).collect();
    world_of(&all)
}

/// A settled load balancer with these machines, which serve. Most stories begin with it, so each is made once.
fn world_of(machines: &[u8]) -> World {
    static MADE: Mutex<BTreeMap<Vec<u8>, World>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock();
    let world = made
        .entry(machines.to_vec())
        .or_insert_with(|| make_world(machines));
    world.clone()
}

fn make_world(machines: &[u8]) -> World {
    let mut world = World::new(&[6443], SECOND);
    for index in machines {
        world.add_serving(*index);
    }
    world.run(seconds(400));
    assert_eq!(
        world.findings.verdict.reason,
        Reason::MembersActive,
        "{:?}",
        world.findings.verdict
    );
    world
}

fn held(world: &World, index: u8) -> Option<Reason> {
    let finding = world.findings.machines.get(&machine_name(index))?;
    let release = &finding.release;
    release.is_held().then_some(release.reason)
}

fn gone(world: &World, index: u8) -> bool {
    world
        .nodes
        .get(&machine_name(index))
        .is_some_and(|node| node.gone)
}

fn member_of(world: &World, index: u8) -> Option<ProvisioningStatus> {
    world
        .model
        .members()
        .find(|member| member.address == address(index))
        .map(|member| member.provisioning.clone())
}

/// Lets time pass in a world without controllers, except that the servers are read for which a gate asks.
fn run_with_reads_of_servers(world: &mut World, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        world.run(SECOND.min(end - world.now));
        let machines = world.findings.machines.iter();
        let wanted: Vec<_> = machines
            .filter(|(_, finding)| finding.needs_server_read)
            .map(|(name, _)| name.clone())
            .collect();
        for name in wanted {
            world.turn(Todo::ReadServer(name));
        }
    }
}
