//! The metric catalogue, in one place.
//!
//! Metrics with names of CAPO (`capo_openstack_api_*`) and of controller-runtime have the same meaning as there, so
//! that existing boards continue to work. States of members, gates, budgets and queues are rendered at the scrape from
//! the data of their owners, so that series of deleted objects disappear at once.

mod buckets;
pub mod catalogue;
mod controllers;
mod families;
mod findings;
mod kubernetes;
mod log_lines;
mod member_states;
mod members;
mod openstack;
mod page;
mod process;
mod states;
mod webhooks;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use prometheus::{Registry, proto::MetricFamily};

use families::FamilyText;

use crate::tracker::Tracker;
use capo_core::{ConditionStatus, ObjectName};
use capo_gate::findings::Findings;
use capo_openstack::Clouds;

pub use log_lines::CountLogLines;
pub use page::page;

/// The media type of the text that [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The longest label value from outside, in bytes. Longer ones are cut.
const LONGEST_LABEL: usize = 253;

/// The settings that the metrics need at the start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which members have series of their own (`--metrics-member-detail`).
    pub member_detail: MemberDetail,
    /// How many members may have them (`--metrics-max-members`).
    pub max_members: usize,
    /// How long a member may be pending before an alert fires (`--member-alert-after`).
    pub member_alert_after: Duration,
    /// The longest time between two passes over an object (`--sync-period`).
    pub sync_period: Duration,
    /// Features by name, and whether each is on.
    pub features: Vec<(&'static str, bool)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            member_detail: MemberDetail::Auto,
            max_members: 500,
            member_alert_after: Duration::from_mins(12),
            sync_period: Duration::from_mins(10),
            features: Vec::new(),
        }
    }
}

/// Which members have series of their own. All members are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MemberDetail {
    /// All, or if there are too many those that are not ACTIVE and ONLINE
    Auto,
    /// All, regardless of their number
    Full,
    /// None
    Off,
}

/// State that only the leader has.
#[derive(Clone)]
pub struct Leading {
    /// The load balancers' workers.
    pub tracker: Tracker,
    /// Sign-ins and budgets.
    pub clouds: Clouds,
}

/// Every counter, gauge and histogram of this process. A clone is cheap and shares them.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

struct Families {
    settings: Settings,
    registry: Registry,
    openstack: openstack::Families,
    members: members::Families,
    webhooks: webhooks::Families,
    controllers: controllers::Families,
    kubernetes: kubernetes::Families,
    process: process::Families,
}

impl Metrics {
    /// All families, at zero.
    ///
    /// # Errors
    /// The catalogue has a mistake, which the tests of the metrics exclude.
    pub fn new(settings: Settings) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        Ok(Self(Arc::new(Families {
            openstack: openstack::Families::new(&registry)?,
            members: members::Families::new(&registry)?,
            webhooks: webhooks::Families::new(&registry)?,
            controllers: controllers::Families::new(&registry)?,
            kubernetes: kubernetes::Families::new(&registry)?,
            process: process::Families::new(&registry, &settings)?,
            settings,
            registry,
        })))
    }

    /// Everything in Prometheus's text format. `leading` is `None` while this process does not lead: only
    /// the leader observes members.
    ///
    /// # Errors
    /// The catalogue has a mistake, which the tests of the metrics exclude.
    pub fn render(&self, leading: Option<&Leading>) -> Result<String, prometheus::Error> {
        let Some(leading) = leading else {
            return self.page_of(Vec::new(), Vec::new());
        };
        let levels = self.0.openstack.levels(&leading.clouds.levels())?;
        self.page_of(self.states(&leading.tracker.all()), levels)
    }

    /// The metrics in Prometheus's text format, with load balancers that have these findings.
    ///
    /// # Errors
    /// The catalogue has a mistake, which the tests of the metrics exclude.
    pub fn render_findings(
        &self,
        findings: &[(ObjectName, Arc<Findings>)],
    ) -> Result<String, prometheus::Error> {
        self.page_of(self.states(findings), Vec::new())
    }

    fn states(&self, findings: &[(ObjectName, Arc<Findings>)]) -> Vec<FamilyText> {
        let servers = self.0.controllers.objects("OpenStackServer");
        let floating_ips = self.0.controllers.objects("OpenStackFloatingIPPool");
        states::families(&self.0.settings, findings, servers, floating_ips)
    }

    /// The page: these families, and those that are counted in this process.
    fn page_of(
        &self,
        mut families: Vec<FamilyText>,
        more: Vec<MetricFamily>,
    ) -> Result<String, prometheus::Error> {
        let counted = self.0.registry.gather().into_iter();
        let queues = self.0.controllers.queues()?;
        for family in counted
            .chain(more)
            .chain(queues)
            .chain(process::Families::now()?)
        {
            families.push(FamilyText::of(&family)?);
        }
        families.sort_by(|one, other| one.name.cmp(&other.name));
        let length = families.iter().map(|family| family.text.len()).sum();
        let mut page = String::with_capacity(length);
        for family in families {
            page.push_str(&family.text);
        }
        Ok(page)
    }

    /// The status of one of the conditions that summarise all objects.
    pub fn operator(&self, condition: &str, status: ConditionStatus) {
        self.0.process.operator(condition, status);
    }

    /// Sets whether this process leads.
    pub fn leading(&self, leads: bool) {
        self.0.process.leading(leads);
    }
}

/// A text of unknown origin as a label value, cut to the longest length. The encoder escapes it.
fn label(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_LABEL))
        .unwrap_or(text)
}

/// Now, as Prometheus writes it.
fn now() -> f64 {
    families::seconds(Timestamp::now())
}

#[cfg(test)]
mod tests;
