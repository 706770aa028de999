//! Decides what to do about every claim of a pool and every address that is released. The functions are pure.

use std::{collections::VecDeque, net::IpAddr};

use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    observation::{Address, Found, Observed},
    validate::Desired,
};
use crate::reconcile::ipam::{IPAddress, IPAddressClaim};
use capo_core::ids::FloatingIpId;

/// What to do about a claim without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PoolClaimPlan {
    /// The claim's `IPAddress` exists already, but the claim's status does not name it yet.
    Answer {
        /// Index in [`Observed::claims`].
        claim: usize,
    },
    /// The claim gets an existing floating IP.
    Give {
        /// Index in [`Observed::claims`].
        claim: usize,
        /// The floating IP's address.
        ip: IpAddr,
    },
    /// The claim gets a new floating IP.
    Allocate {
        /// Index in [`Observed::claims`].
        claim: usize,
    },
    /// An `IPAddress` of the claim's name is being deleted, or belongs to an earlier claim of that name. The claim gets
    /// another one once that one is deleted.
    Waits {
        /// The claim's name.
        claim: String,
    },
    /// An `IPAddress` with the claim's name belongs to another pool or claim.
    Blocked {
        /// The claim's name.
        claim: String,
    },
}

/// What to do about an `IPAddress` that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReleasePlan {
    /// The `IPAddress`.
    pub address: String,
    /// The floating IP to delete; `None` if the floating IP stays.
    pub delete: Option<(FloatingIpId, IpAddr)>,
}

/// Why some claims get no address now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The limit of `spec.maxIPs` is reached.
    MaxReached {
        /// The limit.
        max: usize,
        /// The number of claims that wait.
        waiting: usize,
    },
    /// A requested floating IP may still be created.
    InDoubt {
        /// The time until which it may still be created.
        until: Timestamp,
    },
}

/// What a pass does about the pool itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PoolEnd {
    /// The pool is not being deleted.
    Stays,
    /// The pool is being deleted, and these `IPAddress`es are still there.
    Waits(Vec<String>),
    /// The pool is deleted after these floating IPs, which were allocated for it and are free.
    Goes(Vec<(FloatingIpId, IpAddr)>),
}

/// The plan of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolPlan {
    /// The addresses to release.
    pub releases: Vec<ReleasePlan>,
    /// The `IPAddress`es that are released later. Each has a floating IP that is to be deleted but is in use. The
    /// `IPAddress` is kept until then, because nothing else would delete the floating IP once it is free.
    pub held: Vec<String>,
    /// The claims to answer, in order.
    pub claims: Vec<PoolClaimPlan>,
    /// Why the other claims get no address now.
    pub shortage: Option<Shortage>,
    /// What to do about the pool itself.
    pub end: PoolEnd,
}

impl PoolPlan {
    /// Decides what the pass does.
    pub(super) fn of(observed: &Observed, desired: &Desired, now: Timestamp) -> Self {
        let mut plan = Self {
            releases: Vec::new(),
            held: Vec::new(),
            claims: Vec::new(),
            shortage: None,
            end: PoolEnd::Stays,
        };
        plan.release(observed, desired);
        if observed.deleting {
            plan.end = end(observed);
            if let (PoolEnd::Goes(_), Some(until)) = (&plan.end, in_doubt(observed, now)) {
                plan.end = PoolEnd::Waits(Vec::new());
                plan.shortage = Some(Shortage::InDoubt { until });
            }
        } else {
            plan.answer(observed, desired, now);
        }
        plan
    }

    fn release(&mut self, observed: &Observed, desired: &Desired) {
        let released = observed
            .addresses
            .iter()
            .filter(|(_, address)| address.deleting && address.has_finalizer);
        for (name, address) in released {
            let delete = address
                .ip
                .and_then(|ip| observed.floating_ips.get(&ip).map(|found| (found, ip)))
                .filter(|(found, _)| found.allocated_for_pool && desired.delete_released);
            if delete.is_some_and(|(found, ip)| is_used(observed, found, ip)) {
                self.held.push(name.clone());
                continue;
            }
            self.releases.push(ReleasePlan {
                address: name.clone(),
                delete: delete.map(|(found, ip)| (found.fip.id.clone(), ip)),
            });
        }
    }

    fn answer(&mut self, observed: &Observed, desired: &Desired, now: Timestamp) {
        let mut free: VecDeque<IpAddr> = available(observed, desired).into();
        let mut given = claimed(observed).count();
        let doubt = in_doubt(observed, now);
        let mut waiting = 0;
        for (claim, wanted) in observed.claims.iter().enumerate() {
            if is_answered(observed, wanted) {
                continue;
            }
            let name = wanted.name_any();
            if let Some(address) = observed.addresses.get(&name) {
                self.claims
                    .push(if address.object.spec.claim_ref.name != name {
                        PoolClaimPlan::Blocked { claim: name }
                    } else if address.deleting || is_of_earlier_claim(&address.object, wanted) {
                        PoolClaimPlan::Waits { claim: name }
                    } else {
                        PoolClaimPlan::Answer { claim }
                    });
                continue;
            }
            if observed.foreign_names.contains(&name) {
                self.claims.push(PoolClaimPlan::Blocked { claim: name });
                continue;
            }
            if let Some(ip) = free.pop_front() {
                self.claims.push(PoolClaimPlan::Give { claim, ip });
            } else if desired.max.is_some_and(|max| given >= max) {
                waiting += 1;
                continue;
            } else if let Some(until) = doubt {
                self.shortage = Some(Shortage::InDoubt { until });
                continue;
            } else {
                self.claims.push(PoolClaimPlan::Allocate { claim });
            }
            given += 1;
        }
        if let (Some(max), true) = (desired.max, waiting > 0) {
            self.shortage = Some(Shortage::MaxReached { max, waiting });
        }
    }
}

/// Whether the claim's status names an `IPAddress` that exists. A claim whose `IPAddress` was deleted needs another
/// one.
fn is_answered(observed: &Observed, claim: &IPAddressClaim) -> bool {
    let name = &claim.status.address_ref.name;
    observed.addresses.contains_key(name) || observed.foreign_names.contains(name)
}

/// Whether the `IPAddress` was created for an earlier claim of the same name. The garbage collector deletes it, because
/// its owner is gone, and its floating IP is released then. CAPO writes the claim's uid into the owner reference too.
fn is_of_earlier_claim(address: &IPAddress, claim: &IPAddressClaim) -> bool {
    let owners = address.owner_references().iter();
    let mut claims = owners
        .filter(|owner| owner.kind == "IPAddressClaim")
        .peekable();
    claims.peek().is_some() && !claims.any(|owner| claim.metadata.uid.as_ref() == Some(&owner.uid))
}

/// The time until which a recorded creation may still be carried out; `None` if that time is over.
pub(super) fn in_doubt(observed: &Observed, now: Timestamp) -> Option<Timestamp> {
    observed.creation_until.filter(|until| *until > now)
}

/// The addresses that are assigned to claims.
pub(super) fn claimed(observed: &Observed) -> impl Iterator<Item = &Address> {
    observed
        .addresses
        .values()
        .filter(|address| !address.deleting)
}

/// Whether somebody uses the floating IP: it is on a port, regardless of who put it there, or a claim on this pool or
/// another one has it.
fn is_used(observed: &Observed, found: &Found, ip: IpAddr) -> bool {
    found.fip.port_id.is_some()
        || observed.used_elsewhere.contains(&ip)
        || claimed(observed).any(|address| address.ip == Some(ip))
}

/// Whether nobody uses the floating IP and no `IPAddress` has it. One that is being deleted does not use its floating
/// IP, but it decides first whether the floating IP is deleted.
fn is_free(observed: &Observed, found: &Found, ip: IpAddr) -> bool {
    let mut addresses = observed.addresses.values();
    !is_used(observed, found, ip)
        && !observed.elsewhere.contains(&ip)
        && !addresses.any(|address| address.ip == Some(ip))
}

/// The floating IPs that can be assigned now: first those that the user created, then those that were allocated before.
pub(super) fn available(observed: &Observed, desired: &Desired) -> Vec<IpAddr> {
    let free = |ip: &IpAddr| {
        let found = observed.floating_ips.get(ip);
        found.is_some_and(|found| is_free(observed, found, *ip))
    };
    let allocated = observed
        .floating_ips
        .iter()
        .filter(|(_, found)| found.allocated_for_pool)
        .map(|(ip, _)| *ip);
    desired
        .pre_allocated
        .iter()
        .copied()
        .chain(allocated)
        .filter(free)
        .collect()
}

/// The floating IPs in the spec that do not exist.
pub(super) fn failed(observed: &Observed, desired: &Desired) -> Vec<IpAddr> {
    let absent = |ip: &IpAddr| !observed.floating_ips.contains_key(ip);
    let listed = desired.pre_allocated.iter().copied();
    listed.filter(absent).collect()
}

fn end(observed: &Observed) -> PoolEnd {
    if !observed.addresses.is_empty() {
        return PoolEnd::Waits(observed.addresses.keys().cloned().collect());
    }
    let ours = observed
        .floating_ips
        .iter()
        .filter(|(ip, found)| found.allocated_for_pool && is_free(observed, found, **ip));
    PoolEnd::Goes(
        ours.map(|(ip, found)| (found.fip.id.clone(), *ip))
            .collect(),
    )
}

#[cfg(test)]
mod tests;
