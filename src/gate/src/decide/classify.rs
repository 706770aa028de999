//! The class of every expected and of every found member.

use std::time::Duration;

use crate::model::{
    machine::Slot,
    member::{Class, Member, Owner},
    part::PartState,
    port::Port,
};
use capo_core::ProvisioningStatus;

/// The class of a member that exists.
pub(crate) fn member(member: &Member, orphan_span: Duration) -> Class {
    if matches!(member.owner, Owner::NameOnly | Owner::AddressOnly) {
        return Class::Foreign;
    }
    if member.provisioning.is_pending() && member.pending_reads.spans(3, orphan_span) {
        return Class::Orphaned;
    }
    match &member.provisioning {
        ProvisioningStatus::Active => Class::Active,
        ProvisioningStatus::PendingCreate => Class::PendingCreate,
        ProvisioningStatus::PendingUpdate => Class::PendingUpdate,
        ProvisioningStatus::PendingDelete => Class::PendingDelete,
        ProvisioningStatus::Error => Class::Error,
        ProvisioningStatus::Deleted => Class::Missing,
        ProvisioningStatus::Unknown(_) => Class::Unknown,
    }
}

/// The class of a machine's place in a pool.
pub(crate) fn slot(slot: &Slot, port: &Port, orphan_span: Duration) -> Class {
    match (slot.member, slot.foreign) {
        (Some(_), _) if slot.has_duplicates => Class::Foreign,
        (Some(index), _) => port
            .members
            .get(index)
            .map_or(Class::Missing, |found| member(found, orphan_span)),
        (None, Some(_)) => Class::Foreign,
        (None, None) => Class::Missing,
    }
}

/// Whether a listener, pool or monitor is in a state that a PUT of its own values may repair.
pub(crate) fn part_is_broken(part: &PartState, orphan_span: Duration) -> bool {
    part.provisioning == ProvisioningStatus::Error
        || part.provisioning.is_pending() && part.pending_reads.spans(3, orphan_span)
}
