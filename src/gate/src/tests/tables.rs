//! Tables of classes, gaps and providers.

use std::time::{Duration, Instant};

use crate::{
    decide::classify,
    model::{
        attempts::Attempts,
        clock::Stamp,
        machine::Slot,
        member::{Class, Member, Owner},
        part::{ConsecutiveReads, PartState},
        port::Port,
        settings::Schedule,
    },
    plan::schedule::settling_gap,
    tests::world::address,
};
use capo_core::{OperatingStatus, Provider, ProvisioningStatus};

fn member(status: &str, owner: Owner, pending: &[u64]) -> Member {
    let start = Instant::now();
    let mut run = ConsecutiveReads::default();
    for after in pending {
        run.record(true, start + Duration::from_secs(*after));
    }
    Member {
        id: "m".into(),
        name: "n".to_owned(),
        address: Some(address(1)),
        port: 6443,
        provisioning: ProvisioningStatus::from(status),
        operating: OperatingStatus::Online,
        since: Stamp {
            instant: start,
            wall: jiff::Timestamp::UNIX_EPOCH,
        },
        active_reads: 0,
        pending_reads: run,
        online: ConsecutiveReads::default(),
        down: ConsecutiveReads::default(),
        detail: None,
        owner,
        ownerless_reads: 0,
        prunes: Attempts::default(),
        failures: 0,
    }
}

#[test]
fn classes() {
    let amphora = Provider::Amphora;
    for (status, owner, pending, provider, class) in [
        ("ACTIVE", Owner::Ours, &[][..], amphora, Class::Active),
        ("ERROR", Owner::Ours, &[], amphora, Class::Error),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingUpdate,
        ),
        (
            "PENDING_DELETE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingDelete,
        ),
        ("DELETED", Owner::Ours, &[], amphora, Class::Missing),
        ("FROZEN", Owner::Ours, &[], amphora, Class::Unknown),
        ("ACTIVE", Owner::NameOnly, &[], amphora, Class::Foreign),
        ("ACTIVE", Owner::AddressOnly, &[], amphora, Class::Foreign),
        // Three reads over at least a minute show that an operation is lost; with OVN it takes two minutes.
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 60],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 30, 59],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 30, 60],
            amphora,
            Class::Orphaned,
        ),
        (
            "PENDING_DELETE",
            Owner::Ours,
            &[0, 30, 60],
            Provider::Unknown,
            Class::Orphaned,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[0, 60, 119],
            Provider::Ovn,
            Class::PendingUpdate,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[0, 60, 120],
            Provider::Ovn,
            Class::Orphaned,
        ),
        // Only a PENDING status can be lost.
        ("ERROR", Owner::Ours, &[0, 60, 120], amphora, Class::Error),
    ] {
        let found = classify::member(
            &member(status, owner, pending),
            provider.orphan_span().unwrap_or_default(),
        );
        assert_eq!(found, class, "{status} {owner:?} {pending:?} {provider:?}");
    }
}

#[test]
fn places_of_machines() {
    let mut port = Port::new("lb", 6443);
    port.members = vec![
        member("ACTIVE", Owner::Ours, &[]),
        member("ERROR", Owner::Ours, &[]),
    ];
    for (found, foreign, has_duplicates, class) in [
        (None, None, false, Class::Missing),
        (Some(0), None, false, Class::Active),
        (Some(1), None, false, Class::Error),
        (Some(0), Some(1), false, Class::Active),
        (None, Some(0), false, Class::Foreign),
        (Some(0), None, true, Class::Foreign),
        (Some(9), None, false, Class::Missing),
    ] {
        let slot = Slot {
            member: found,
            foreign,
            has_duplicates,
            ..Slot::default()
        };
        let span = Duration::from_mins(1);
        let class_found = classify::slot(&slot, &port, span);
        assert_eq!(class_found, class, "{found:?} {foreign:?} {has_duplicates}");
    }
}

#[test]
fn parts_that_a_put_may_repair() {
    for (status, pending, broken) in [
        ("ACTIVE", &[][..], false),
        ("ACTIVE", &[0, 30, 60], false),
        ("ERROR", &[], true),
        ("PENDING_UPDATE", &[], false),
        ("PENDING_UPDATE", &[0, 30, 59], false),
        ("PENDING_UPDATE", &[0, 30, 60], true),
    ] {
        let like = member(status, Owner::Ours, pending);
        let part = PartState {
            provisioning: like.provisioning,
            since: like.since,
            pending_reads: like.pending_reads,
        };
        let found = classify::part_is_broken(&part, Duration::from_mins(1));
        assert_eq!(found, broken, "{status} {pending:?}");
    }
}

#[test]
fn an_interrupted_series_of_reads_begins_again() {
    let start = Instant::now();
    let mut run = ConsecutiveReads::default();
    for (after, pending) in [
        (0, true),
        (30, true),
        (59, false),
        (60, true),
        (90, true),
        (119, true),
    ] {
        run.record(pending, start + Duration::from_secs(after));
    }
    assert!(!run.spans(3, Duration::from_secs(60)));
    run.record(true, start + Duration::from_secs(120));
    assert!(run.spans(3, Duration::from_secs(60)));
}

#[test]
fn gaps_after_a_write() {
    let schedule = Schedule::default();
    let mut at = Duration::ZERO;
    let mut times = Vec::new();
    for read in 0..20 {
        at += settling_gap(&schedule, Provider::Amphora, false, read, at);
        times.push(at.as_secs_f64());
    }
    let expected = [1.05, 2.7, 4.35, 6.0, 8.0, 10.0, 12.5, 17.5, 22.5];
    assert_eq!(times.get(..9), Some(&expected[..]));
    for (seconds, gap) in [
        (119, 5),
        (120, 30),
        (899, 30),
        (900, 60),
        (2099, 60),
        (2100, 300),
    ] {
        let elapsed = Duration::from_secs(seconds);
        let found = settling_gap(&schedule, Provider::Amphora, false, 50, elapsed);
        assert_eq!(found, Duration::from_secs(gap), "after {seconds} s");
    }
    let first = |provider, creating| settling_gap(&schedule, provider, creating, 0, Duration::ZERO);
    assert_eq!(first(Provider::Ovn, false), Duration::from_millis(500));
    assert_eq!(first(Provider::Amphora, true), Duration::from_secs(10));
    assert_eq!(
        first(Provider::Unknown, false),
        Duration::from_millis(1_050)
    );
}

#[test]
fn providers_by_name() {
    for (name, provider) in [
        ("amphora", Provider::Amphora),
        ("amphorav2", Provider::AmphoraV2),
        ("octavia", Provider::Amphora),
        ("", Provider::Amphora),
        ("ovn", Provider::Ovn),
        ("f5", Provider::Unknown),
    ] {
        assert_eq!(Provider::of(name), provider, "{name}");
    }
}
