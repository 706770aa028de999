//! Judges the facts and the plan. The functions are pure.

use super::{
    facts::{CloudFacts, ClusterFacts, Facts},
    finding::{About, Code, Finding, Level},
    managers::{self, Reach},
};
use crate::manager::plan::{Assessment, ObjectPlan, Plan};
use capo_core::Provider;
use capo_openstack::{Interface, LimitedResource, load_balancer::ALLOWED_CIDRS};

/// The version of Cluster API's kinds that capo-rs reads; Cluster API serves it from 1.11 on.
pub(super) const CLUSTER_API: &str = "v1beta2";

/// The versions that our definitions serve.
const SERVED: [&str; 3] = ["v1alpha1", "v1beta1", "v1beta2"];

/// The findings, those about the whole installation first.
pub(super) fn assess(facts: &Facts, reach: &Reach, plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut about = About::installation(&mut findings);
    installation(facts, &mut about);
    managers::assess(&facts.managers, reach, &mut about);
    for cluster in &facts.clusters {
        of_cluster(
            cluster,
            &mut About::object(cluster.object.to_string(), &mut findings),
        );
    }
    for object in &plan.objects {
        of_plan(
            object,
            &mut About::object(object.object.to_string(), &mut findings),
        );
    }
    findings
}

fn installation(facts: &Facts, about: &mut About<'_>) {
    if !facts
        .cluster_api
        .iter()
        .any(|version| version == CLUSTER_API)
    {
        let served = facts.cluster_api.join(", ");
        about.find(
            Level::Problem,
            Code::ClusterApiTooOld,
            format!("Clusters are served as {served:?}; {CLUSTER_API} is needed, which Cluster API serves from 1.11 on"),
        );
    }
    if !facts.cert_manager {
        about.find(
            Level::Problem,
            Code::CertManagerMissing,
            "cert-manager's Certificates are not served; install it, or print the manifests with --without-cert-manager",
        );
    }
    for definition in &facts.definitions {
        let foreign = definition.stored.iter();
        let foreign: Vec<&str> = foreign
            .map(String::as_str)
            .filter(|version| !SERVED.contains(version))
            .collect();
        if !foreign.is_empty() {
            about.find(
                Level::Problem,
                Code::StoredVersions,
                format!(
                    "{} may have objects that are stored as {}, which capo-rs does not serve, so that Kubernetes refuses its \
                     definitions; `capo-rs migrate-storage` rewrites the objects while CAPO runs",
                    definition.name,
                    foreign.join(" and ")
                ),
            );
        } else if definition.served.iter().any(|version| version == "v1beta1") {
            about.find(
                Level::Note,
                Code::StoredVersions,
                format!(
                    "{} stores {}; objects may be stored as {}. The definitions of capo-rs store v1beta2, after which those of \
                     CAPO up to 0.14 are refused until `capo-rs migrate-storage --to=v1beta1`, unless they were printed with \
                     --storage-version=v1beta1",
                    definition.name,
                    definition.storage,
                    definition.stored.join(" and ")
                ),
            );
        }
    }
    for identity in &facts.open_identities {
        about.find(
            Level::Note,
            Code::IdentityOpenToEveryNamespace,
            format!(
                "OpenStackClusterIdentity {identity} has no namespaceSelector: whoever may create an OpenStackCluster in any \
                 namespace may use its credentials"
            ),
        );
    }
}

fn of_cluster(cluster: &ClusterFacts, about: &mut About<'_>) {
    match &cluster.cloud {
        Err(error) => about.find(Level::Unknown, Code::CloudUnreadable, error),
        Ok(cloud) => of_cloud(cloud, cluster.restricts_clients, about),
    }
    if cluster.provider.as_deref().map(Provider::of) == Some(Provider::Ovn) {
        about.find(
            Level::Note,
            Code::LoadBalancerProvider,
            "the OVN provider ignores weights: a leaving member is disabled in place of drained",
        );
    }
    if let Some((endpoint, Err(error))) = &cluster.endpoint {
        about.find(
            Level::Note,
            Code::EndpointUnreachable,
            format!(
                "{endpoint} can't be reached from here: {error}. If the manager can't reach it either, a leaving member is \
                 released only after other members have served for 90 s without interruption"
            ),
        );
    }
}

fn of_cloud(cloud: &CloudFacts, restricts_clients: bool, about: &mut About<'_>) {
    if cloud.interface != Interface::Public {
        about.find(
            Level::Problem,
            Code::EndpointInterface,
            format!(
                "its clouds.yaml selects the {} endpoints. CAPO ignores the field interface and heeds endpoint_type alone: \
                 where interface is set, capo-rs would call other endpoints than CAPO; take the line out to keep them",
                cloud.interface.name()
            ),
        );
    }
    for remark in &cloud.remarks {
        let text = format!("in its clouds.yaml, {remark}");
        about.find(Level::Note, Code::SettingIgnored, text);
    }
    if let Some(version) = cloud.octavia
        && restricts_clients
        && version < ALLOWED_CIDRS
    {
        about.find(
            Level::Problem,
            Code::OctaviaTooOld,
            format!("spec names allowedCIDRs, for which Octavia {ALLOWED_CIDRS} is needed; this one offers {version}"),
        );
    }
    if let [first, _, ..] = cloud.regions.as_slice() {
        about.find(
            Level::Problem,
            Code::RegionMissing,
            format!(
                "the cloud has the regions {}, and neither identityRef.region nor region_name in the clouds.yaml names one. \
                 CAPO takes the first, {first}; capo-rs takes none and changes nothing. Write region_name: {first} into the \
                 clouds.yaml, which changes nothing for CAPO",
                cloud.regions.join(", ")
            ),
        );
    }
    for quota in cloud.quotas.iter().filter(|quota| quota.is_exhausted()) {
        let (level, effect) = without(quota.resource);
        about.find(
            level,
            Code::QuotaExhausted,
            format!(
                "{} of {} {} are in use: {effect}",
                quota.used, quota.limit, quota.resource
            ),
        );
    }
    for reason in &cloud.unknown_quotas {
        about.find(
            Level::Note,
            Code::QuotaUnknown,
            format!("a quota can't be read: {reason}"),
        );
    }
}

/// What can't be done if no more of a resource can be created.
fn without(resource: LimitedResource) -> (Level, &'static str) {
    match resource {
        LimitedResource::Servers
        | LimitedResource::Cores
        | LimitedResource::Memory
        | LimitedResource::Ports
        | LimitedResource::Members => (
            Level::Problem,
            "a machine that is replaced needs more of them until the old one is gone",
        ),
        LimitedResource::Volumes | LimitedResource::VolumeSize => {
            (Level::Note, "a machine with volumes can't be replaced")
        }
        LimitedResource::FloatingIps => (
            Level::Note,
            "a machine with an address of an OpenStackFloatingIPPool can't be replaced, nor a cluster with a floating IP added",
        ),
        LimitedResource::SecurityGroups => (
            Level::Note,
            "a cluster with managed security groups can't be added",
        ),
        LimitedResource::LoadBalancers => (
            Level::Note,
            "a cluster with a load balancer can't be added, nor a load balancer that is lost created again",
        ),
    }
}

fn of_plan(object: &ObjectPlan, about: &mut About<'_>) {
    for refusal in &object.refusals {
        let code = if refusal.reason == "NotSupported" {
            Code::NotSupported
        } else {
            Code::InvalidSpec
        };
        about.find(Level::Problem, code, &refusal.message);
    }
    let (openstack, kubernetes) = (object.openstack.len(), object.kubernetes.len());
    if openstack + kubernetes > 0 {
        about.find(
            Level::Problem,
            Code::ChangesPlanned,
            format!("calls that change OpenStack: {openstack}, changes in Kubernetes: {kubernetes}; `capo-rs plan` lists them"),
        );
    }
    match &object.result {
        Assessment::Completed | Assessment::Waiting { .. } => {}
        Assessment::Failed { reason, message } => {
            about.find(
                Level::Unknown,
                Code::NotJudged,
                format!("{reason}: {message}"),
            );
        }
        Assessment::NotReached => {
            about.find(Level::Unknown, Code::NotJudged, "it had no pass in time");
        }
    }
}

#[cfg(test)]
mod tests;
