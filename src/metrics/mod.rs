//! The metric catalogue, in one place.
//!
//! Names of CAPO (`capo_openstack_api_*`) and of controller-runtime keep their meaning, so that existing
//! boards go on working. States of members and gates are rendered from what the membership tasks
//! publish, at the moment of the scrape: what is gone vanishes at once and nothing can leak.

mod catalogue;
mod controllers;

mod members;
mod openstack;

mod process;
mod states;
mod webhooks;

use std::sync::Arc;

use prometheus::{Registry, TextEncoder};

use crate::membership::Membership;

/// Media type of what [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every counter, gauge and histogram of this process. A cheap clone; all clones are one.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

struct Families {
    registry: Registry,
    openstack: openstack::Families,
    members: members::Families,
    webhooks: webhooks::Families,
    controllers: controllers::Families,
    process: process::Families,
}

impl Metrics {
    /// All families, at zero.
    ///
    /// # Errors
    /// Never with the catalogue as it is; a name that is not one would be told here.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        Ok(Self(Arc::new(Families {
            openstack: openstack::Families::new(&registry)?,
            members: members::Families::new(&registry)?,
            webhooks: webhooks::Families::new(&registry)?,
            controllers: controllers::Families::new(&registry)?,
            process: process::Families::new(&registry)?,
            registry,
        })))
    }

    /// Everything in Prometheus's text format. `membership` is `None` while this process does not lead:
    /// only the leader observes members.
    ///
    /// # Errors
    /// Never with the catalogue as it is.
    pub fn render(&self, membership: Option<&Membership>) -> Result<String, prometheus::Error> {
        self.0.process.refresh();
        let mut families = self.0.registry.gather();
        if let Some(membership) = membership {
            families.extend(states::families(&membership.all())?);
        }
        TextEncoder::new().encode_to_string(&families)
    }

    /// Whether this process leads.
    pub fn leading(&self, leads: bool) {
        self.0.process.leading(leads);
    }
}

#[cfg(test)]
mod tests;
