//! The API server's floating IP. A later pass finds it again in every case, and it is never replaced by another one.

pub(crate) mod plan;
mod removal;

use std::net::IpAddr;

use self::plan::FloatingIpPlan;
pub(crate) use self::removal::remove;
use super::{endpoint::name::EndpointName, step_context::StepContext};
use crate::controllers::Outcome;
use crate::kubernetes::conditions::kind::{API_ENDPOINT_READY, BASTION_READY};
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult, matching::resolve};
use capo_core::{
    Priority, Reason,
    ids::{NetworkId, PortId},
};
use capo_openstack::{
    Error,
    network::{FloatingIp, FloatingIpFilter, NewFloatingIp, Tagged},
};

/// The use of a floating IP, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The floating IP is in front of the load balancer.
    LoadBalancer,
    /// The floating IP is in front of the bastion.
    Bastion,
    /// The floating IP is in front of the API server of a control-plane machine.
    Machine,
}

impl Purpose {
    fn target(self) -> &'static str {
        match self {
            Self::LoadBalancer => "load balancer",
            Self::Bastion => "bastion",
            Self::Machine => "control-plane machine",
        }
    }

    /// The name of a new floating IP in records of creations, because Neutron chooses its address.
    pub(crate) fn recorded_name(self) -> String {
        format!("for the {}", self.owner())
    }

    fn owner(self) -> &'static str {
        match self {
            Self::LoadBalancer | Self::Machine => "API server",
            Self::Bastion => "bastion",
        }
    }

    /// The condition that shows the errors.
    fn condition(self) -> &'static str {
        match self {
            Self::LoadBalancer | Self::Machine => API_ENDPOINT_READY,
            Self::Bastion => BASTION_READY,
        }
    }
}

/// Where a floating IP should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FloatingIpTarget<'a> {
    /// The external network.
    pub external: &'a NetworkId,
    /// The address that a new floating IP should have; `None` leaves the choice to Neutron.
    pub address: Option<IpAddr>,
    /// The port on which the floating IP is put.
    pub port: Option<&'a PortId>,
}

/// The error of a request about a floating IP.
pub(crate) fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(API_ENDPOINT_READY, Reason::FloatingIPError, doing, error)
}

/// Returns the floating IP in `external`, after putting it on `port` if a port is given. It is the one that is on the
/// port already; else the one with the address that the spec, the status or the endpoint names, directly or by a DNS
/// name; else one that was created for this cluster and is on no port, for example because a pass was interrupted; else
/// a new one, which is created on the port with one request.
pub(crate) async fn ensure(
    context: &StepContext<'_>,
    external: &NetworkId,
    port: Option<&PortId>,
    name: &mut EndpointName,
) -> StepResult<FloatingIp> {
    let present = match port {
        Some(port) => on_port(context, port).await?,
        None => None,
    };
    let given = context.desired.floating_ip;
    let place = FloatingIpTarget {
        external,
        address: desired_address(context),
        port,
    };
    let host = context.desired.endpoint.given_host.as_deref();
    let found = match (present, place.address, host) {
        (Some(fip), _, host) if plan::fits(&fip, given) => {
            if let Some(host) = host.filter(|host| host.parse::<IpAddr>().is_err()) {
                warn_if_elsewhere(context, host, name, &fip).await;
            }
            Some(fip)
        }
        (_, Some(address), _) => {
            let given = given == Some(address);
            by_address(context, address, given).await?
        }
        (_, None, Some(host)) => by_name(context, place, host, name).await?,
        (_, None, None) => left_over(context, external).await?,
    };
    put_in_place(context, found, place, given, Purpose::LoadBalancer).await
}

/// Puts the floating IP that was found on the port of `place`, or creates one there if none was found. A floating IP
/// that was created for this cluster, and not by the user who named it in the spec (`given`), gets missing tags.
pub(crate) async fn put_in_place(
    context: &StepContext<'_>,
    found: Option<FloatingIp>,
    place: FloatingIpTarget<'_>,
    given: Option<IpAddr>,
    purpose: Purpose,
) -> StepResult<FloatingIp> {
    if found.is_some() {
        let name = purpose.recorded_name();
        context.creations.found(CloudObject::FloatingIp, &name);
    }
    let fip = match plan::plan(found, place.port) {
        FloatingIpPlan::Use(fip) => fip,
        FloatingIpPlan::Associate { fip, port } => associate(context, &fip, &port, purpose).await?,
        FloatingIpPlan::Occupied { fip, port } => {
            return Err(StepError::refused(
                purpose.condition(),
                Reason::FloatingIPError,
                format!(
                    "Floating IP {} is on port {port}; it is put on the {} once it is on no port",
                    fip.address_or_id(),
                    purpose.target()
                ),
            ));
        }
        FloatingIpPlan::Create => create(context, place, purpose).await?,
    };
    if plan::is_ours(&fip, given, &context.desired.names.description()) {
        let tagged = Tagged::FloatingIp(&fip.id);
        context.tag(purpose.condition(), tagged, &fip.tags).await?;
    }
    Ok(fip)
}

/// Reports if the name of the endpoint resolves to other addresses than the floating IP in use, for example because of
/// a mistake in the DNS. A name that does not resolve at the moment is not reported.
async fn warn_if_elsewhere(
    context: &StepContext<'_>,
    host: &str,
    name: &mut EndpointName,
    fip: &FloatingIp,
) {
    let named = name.addresses(host).await.unwrap_or_default();
    let is_named = |address: &IpAddr| named.contains(address);
    if named.is_empty() || fip.floating_ip_address.as_ref().is_none_or(is_named) {
        return;
    }
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    let note = format!(
        "OpenStackCluster {}: spec.controlPlaneEndpoint.host {host} resolves to {}, but the API server's floating IP is {}",
        context.desired.object,
        named.join(", "),
        fip.address_or_id()
    );
    let reason = Reason::APIEndpointConfigFailed;
    let events = context.events;
    events.warning(&context.object, reason, "Reconcile", &note);
}

/// Returns the floating IP to which the name of the endpoint resolves. If there is none, it is created with that
/// address if Neutron allows that. Otherwise another free floating IP of this cluster is used, and an event asks the
/// owner of the name to change the DNS record.
async fn by_name(
    context: &StepContext<'_>,
    place: FloatingIpTarget<'_>,
    host: &str,
    name: &mut EndpointName,
) -> StepResult<Option<FloatingIp>> {
    let named = name.addresses(host).await?;
    for address in &named {
        if let Some(fip) = by_address(context, *address, false).await? {
            return Ok(Some(fip));
        }
    }
    // Floating IPs are IPv4 only.
    if let Some(address) = named.iter().find(|address| address.is_ipv4()) {
        let place = FloatingIpTarget {
            address: Some(*address),
            ..place
        };
        match create(context, place, Purpose::LoadBalancer).await {
            Ok(fip) => return Ok(Some(fip)),
            Err(StepError {
                outcome: Outcome::Failed { class, .. },
                ..
            }) if plan::is_address_unavailable(class) => {}
            Err(error) => return Err(error),
        }
    }
    let found = left_over(context, place.external).await?;
    let used = match &found {
        Some(fip) => format!("floating IP {}", fip.address_or_id()),
        None => "a new floating IP".to_owned(),
    };
    let note = format!(
        "OpenStackCluster {}: spec.controlPlaneEndpoint.host {host} does not resolve to a floating IP of this project, so \
         {used} is put on the load balancer; change the DNS record to its address",
        context.desired.object
    );
    let events = context.events;
    events.warning(
        &context.object,
        Reason::APIEndpointConfigFailed,
        "Reconcile",
        &note,
    );
    Ok(found)
}

/// The API server's address that clients use, or will use.
pub(crate) fn desired_address(context: &StepContext<'_>) -> Option<IpAddr> {
    let endpoint = context.desired.endpoint.given_host.as_deref();
    context
        .desired
        .floating_ip
        .or(context.known.floating_ip)
        .or_else(|| endpoint.and_then(|host| host.parse().ok()))
}

/// The floating IP on a port.
pub(crate) async fn on_port(
    context: &StepContext<'_>,
    port: &PortId,
) -> StepResult<Option<FloatingIp>> {
    let filter = FloatingIpFilter {
        port_id: Some(port.clone()),
        ..FloatingIpFilter::default()
    };
    let found = context
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|e| failed("Looking for the API server's floating IP", &e))?;
    Ok(found.into_iter().next())
}

/// Looks a floating IP up by its address. If the spec gives the address (`given`), the floating IP may be in another
/// project that shares it; any other one must be in the cluster's project.
pub(crate) async fn by_address(
    context: &StepContext<'_>,
    address: IpAddr,
    given: bool,
) -> StepResult<Option<FloatingIp>> {
    let filter = FloatingIpFilter {
        floating_ip_address: Some(address),
        project_id: (!given).then(|| context.project.clone()),
        ..FloatingIpFilter::default()
    };
    let found = context
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(&format!("Looking for floating IP {address}"), &e))?;
    resolve(found, None, |fip| &fip.id)
        .at_most_one(API_ENDPOINT_READY, &format!("Floating IP {address}"))
}

/// Returns the only floating IP that was created for this cluster and is on no port. The bastion's floating IP has the
/// same description, so its address is left out.
async fn left_over(
    context: &StepContext<'_>,
    external: &NetworkId,
) -> StepResult<Option<FloatingIp>> {
    let found = described_as_ours(context).await?;
    let free: Vec<FloatingIp> = found
        .into_iter()
        .filter(|fip| fip.port_id.is_none() && fip.floating_network_id == *external)
        .collect();
    let what = format!(
        "Description \"{}\" of free floating IPs",
        context.desired.names.description()
    );
    resolve(free, None, |fip| &fip.id).at_most_one(API_ENDPOINT_READY, &what)
}

/// Every floating IP in the cluster's project with the description of this cluster, except for the bastion's.
pub(crate) async fn described_as_ours(context: &StepContext<'_>) -> StepResult<Vec<FloatingIp>> {
    let found = described(context).await?;
    let bastion = context.known.bastion_floating_ip;
    Ok(found
        .into_iter()
        .filter(|fip| bastion.is_none() || fip.floating_ip_address != bastion)
        .collect())
}

/// Every floating IP in the cluster's project with the description of this cluster.
pub(crate) async fn described(context: &StepContext<'_>) -> StepResult<Vec<FloatingIp>> {
    let filter = FloatingIpFilter {
        description: Some(context.desired.names.description()),
        project_id: Some(context.project.clone()),
        ..FloatingIpFilter::default()
    };
    context
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|e| failed("Looking for floating IPs of this cluster", &e))
}

/// Puts a floating IP on a port.
pub(crate) async fn associate(
    context: &StepContext<'_>,
    fip: &FloatingIp,
    port: &PortId,
    purpose: Purpose,
) -> StepResult<FloatingIp> {
    let address = fip.address_or_id();
    let doing = format!("Putting floating IP {address} on the {}", purpose.target());
    let answer = context
        .cloud
        .associate_floating_ip(&fip.id, Some(port), Priority::Settling)
        .await;
    let about = (CloudObject::FloatingIp, &*address, fip.id.as_str());
    context
        .answered(
            Verb::Associate,
            about,
            &format!("put on port {port}"),
            answer,
        )
        .map_err(|e| failed(&doing, &e).shown_by(purpose.condition()))
}

/// Creates a floating IP on its port with one request.
async fn create(
    context: &StepContext<'_>,
    place: FloatingIpTarget<'_>,
    purpose: Purpose,
) -> StepResult<FloatingIp> {
    let new = NewFloatingIp {
        floating_network_id: place.external.clone(),
        floating_ip_address: place.address,
        port_id: place.port.cloned(),
        description: context.desired.names.description(),
    };
    let owner = purpose.owner();
    let doing = place.address.map_or_else(
        || format!("Creating a floating IP for the {owner}"),
        |address| {
            format!("Creating floating IP {address}, which does not exist in this project, for the {owner}")
        },
    );
    let (kind, recorded) = (CloudObject::FloatingIp, purpose.recorded_name());
    let begun = context
        .creations
        .begin(purpose.condition(), kind, &recorded);
    begun.await?;
    let answer = context
        .cloud
        .create_floating_ip(&new, Priority::Settling)
        .await;
    context.creations.settle(kind, &recorded, &answer);
    let fip = answer
        .inspect_err(|e| {
            let name = place.address.map(|address| address.to_string());
            let name = name.unwrap_or_default();
            context.failed(Verb::Create, kind, &name, e);
        })
        .map_err(|e| failed(&doing, &e).shown_by(purpose.condition()))?;
    let name = fip.address_or_id();
    context.changed(Verb::Create, kind, &name, fip.id.as_str(), "");
    Ok(fip)
}
