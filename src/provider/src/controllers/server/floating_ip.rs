//! The floating IP that a server gets from a pool. A claim is created before the server, the address is put on one of
//! the server's ports once the server exists, and the claim is released at the end. Names and finalizers are the same
//! as CAPO's.

mod plan;

use std::{net::IpAddr, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::json;

use super::{StepError, StepResult, failed, failure, kubernetes_failed, wait};
use crate::{
    controllers::{Context, Outcome, capi::CLUSTER_NAME_LABEL},
    kubernetes::patch::{is_conflict, set_finalizer},
    reconcile::{
        identity::Identity,
        ipam::{IPAddress, IPAddressClaim, IPAddressClaimSpec, PoolReference},
    },
};
use capo_api::{
    GROUP,
    v1alpha1::{OpenStackFloatingIPPool, OpenStackServer},
};
use capo_core::ids::{FloatingIpId, PortId};
use capo_core::{ConditionState, FailureClass, Priority, Reason};
use capo_openstack::{
    Cloud,
    compute::Server,
    network::{FloatingIp, FloatingIpFilter},
};
use plan::{AttachmentPlan, ClaimPlan, attachment_plan, claim_plan, is_shown};

/// The finalizer that keeps a claim while its server exists. The name is CAPO's.
const CLAIM_FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim";

/// What is known of the floating IP after a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FloatingAddress {
    /// Whether the server has the floating IP; `None` leaves the condition as it is.
    pub state: Option<ConditionState>,
    /// The address, if it is on one of the server's ports.
    pub on_server: Option<IpAddr>,
}

impl FloatingAddress {
    /// Records that a step did not complete. A failure that is probably temporary leaves the condition as it is,
    /// because it says nothing about a server that has its address.
    pub(super) fn record_incomplete(&mut self, outcome: &Outcome) {
        self.state = match outcome {
            Outcome::Done
            | Outcome::Failed {
                class:
                    FailureClass::Transient
                    | FailureClass::Throttled
                    | FailureClass::Auth
                    | FailureClass::NoService
                    | FailureClass::NotSent,
                ..
            } => None,
            Outcome::Wait {
                reason, message, ..
            }
            | Outcome::Failed {
                reason, message, ..
            } => Some(ConditionState::unmet(*reason, message.clone())),
        };
    }

    fn met(&mut self, ip: IpAddr) {
        self.state = Some(ConditionState::met(Reason::Ready));
        self.on_server = Some(ip);
    }
}

/// The name of the `IPAddressClaim` of a server.
fn claim_name(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

/// The address that the pool has given to this server. If there is no claim, it is created. `None` means that the spec
/// names no pool.
pub(super) async fn claimed(
    object: &OpenStackServer,
    context: &Context,
) -> StepResult<Option<IpAddr>> {
    let Some(pool) = &object.spec.floating_ip_pool_ref else {
        return Ok(None);
    };
    let namespace = object.namespace().unwrap_or_default();
    let name = claim_name(&object.name_any());
    let (claim, address) = observe_claim(&name, &namespace, context).await?;
    let bad_answer = |answer: &str, message: &str| {
        failure(
            FailureClass::NotFound,
            Reason::FloatingIPError,
            format!("IPAddressClaim {name} names IPAddress {answer}, {message}"),
        )
    };
    match claim_plan(claim.as_ref(), address.as_ref()) {
        ClaimPlan::Use(ip) => return Ok(Some(ip)),
        ClaimPlan::Create => create_claim(object, &name, &namespace, context).await?,
        ClaimPlan::Wait => {}
        ClaimPlan::NoAddress { answer } if pool.kind == OpenStackFloatingIPPool::kind(&()) => {
            let message = format!(
                "IPAddressClaim {name} names IPAddress {answer}, which does not exist; {} {} gives it another one",
                pool.kind, pool.name
            );
            // The pool's answer names an IPAddress of the same name, so no watch shows it.
            let (reason, pause) = (Reason::WaitingForIPAMProvider, Duration::from_secs(10));
            return Err(wait(reason, message, pause));
        }
        ClaimPlan::NoAddress { answer } => return Err(bad_answer(&answer, "which does not exist")),
        ClaimPlan::UnusableAddress { answer, text } => {
            let message = format!("whose address is \"{text}\"; an IP address is needed");
            return Err(bad_answer(&answer, &message));
        }
    }
    let message = format!(
        "IPAddressClaim {name} has no address yet; {} {} gives it one",
        pool.kind, pool.name
    );
    // A watch shows the pool's answer.
    let (reason, pause) = (Reason::WaitingForIPAMProvider, Duration::from_mins(1));
    Err(wait(reason, message, pause))
}

/// Reads the claim with this name and the `IPAddress` that its status names.
async fn observe_claim(
    name: &str,
    namespace: &str,
    context: &Context,
) -> StepResult<(Option<IPAddressClaim>, Option<IPAddress>)> {
    let claims = context.api::<IPAddressClaim>(namespace);
    let claim = claims
        .get_opt(name)
        .await
        .map_err(|error| kubernetes_failed(&format!("Reading IPAddressClaim {name}"), &error))?;
    let answer = claim.as_ref().map(|claim| &claim.status.address_ref.name);
    let Some(answer) = answer.filter(|answer| !answer.is_empty()) else {
        return Ok((claim, None));
    };
    let addresses = context.api::<IPAddress>(namespace);
    let address = addresses
        .get_opt(answer)
        .await
        .map_err(|error| kubernetes_failed(&format!("Reading IPAddress {answer}"), &error))?;
    Ok((claim, address))
}

async fn create_claim(
    object: &OpenStackServer,
    name: &str,
    namespace: &str,
    context: &Context,
) -> StepResult<()> {
    let Some(pool) = &object.spec.floating_ip_pool_ref else {
        return Ok(());
    };
    let cluster = object.labels().get(CLUSTER_NAME_LABEL);
    let spec = IPAddressClaimSpec {
        cluster_name: String::new(),
        pool_ref: PoolReference {
            // A reference without a group refers to the API group of capo-rs.
            api_group: pool
                .api_group
                .clone()
                .filter(|group| !group.is_empty())
                .unwrap_or_else(|| GROUP.to_owned()),
            kind: pool.kind.clone(),
            name: pool.name.clone(),
        },
    };
    let resource = ApiResource::erase::<IPAddressClaim>(&());
    let mut claim = DynamicObject::new(name, &resource)
        .within(namespace)
        .data(json!({"spec": spec}));
    claim.metadata.finalizers = Some(vec![CLAIM_FINALIZER.to_owned()]);
    claim.metadata.labels =
        cluster.map(|cluster| [(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())].into());
    claim.metadata.owner_references = Some(vec![OwnerReference {
        api_version: OpenStackServer::api_version(&()).into_owned(),
        kind: OpenStackServer::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }]);
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), namespace, &resource);
    match api.create(&PostParams::default(), &claim).await {
        Ok(_) => Ok(()),
        // Another pass or process created the claim meanwhile.
        Err(error) if is_conflict(&error) => Ok(()),
        Err(error) => Err(kubernetes_failed(
            &format!("Creating IPAddressClaim {name}"),
            &error,
        )),
    }
}

/// Puts the address on the first port of the server that can be reached from the address's external network. No request
/// is sent if Nova shows the address already.
pub(super) async fn attach(
    identity: &Identity,
    server: &Server,
    ports: &[PortId],
    ip: IpAddr,
    floating: &mut FloatingAddress,
) -> StepResult<()> {
    if is_shown(server, ip) {
        floating.met(ip);
        return Ok(());
    }
    match attachment_plan(find(identity, ip).await?, &identity.project, ports) {
        AttachmentPlan::Attached => {}
        AttachmentPlan::Gone => {
            return Err(refused(format!(
                "Floating IP {ip} does not exist in OpenStack any more; delete the IPAddress of its claim to get another one, or \
                 the Machine to replace it"
            )));
        }
        AttachmentPlan::OnAnotherPort(there) => {
            return Err(refused(format!(
                "Floating IP {ip} is on port {there}, which is not this server's; it is put on this server once it is on no port"
            )));
        }
        AttachmentPlan::Attach(id) => associate(&identity.cloud, &id, server, ports, ip).await?,
    }
    floating.met(ip);
    Ok(())
}

fn refused(message: String) -> StepError {
    failure(FailureClass::Invalid, Reason::FloatingIPError, message)
}

/// Puts the floating IP on the first of the ports for which Neutron allows it.
async fn associate(
    cloud: &Cloud,
    id: &FloatingIpId,
    server: &Server,
    ports: &[PortId],
    ip: IpAddr,
) -> StepResult<()> {
    let mut last = "the server has no ports".to_owned();
    for port in ports {
        match cloud
            .associate_floating_ip(id, Some(port), Priority::Gate)
            .await
        {
            Ok(_) => {
                tracing::info!(%ip, %port, instance = %server.id, "Putting a floating IP on a server");
                return Ok(());
            }
            // This port has no IPv4 address, or no router connects its subnet with the external network.
            Err(error)
                if matches!(
                    error.class(),
                    FailureClass::NotFound | FailureClass::Invalid
                ) =>
            {
                last = error.to_string();
            }
            Err(error) => return Err(failed(&error, Reason::FloatingIPError)),
        }
    }
    Err(refused(format!(
        "Floating IP {ip} can't be put on any port of the server: {last}"
    )))
}

/// The floating IPs with this address that are visible with the credentials.
async fn find(identity: &Identity, ip: IpAddr) -> StepResult<Vec<FloatingIp>> {
    let filter = FloatingIpFilter {
        floating_ip_address: Some(ip),
        ..FloatingIpFilter::default()
    };
    identity
        .cloud
        .floating_ips(&filter, Priority::Settling)
        .await
        .map_err(|error| failed(&error, Reason::FloatingIPError))
}

/// Removes the finalizer of the claim once nothing of the server is left. The claim is then deleted because of its
/// owner reference, or because it is being deleted already.
pub(super) async fn release(object: &OpenStackServer, context: &Context) -> StepResult<()> {
    if object.spec.floating_ip_pool_ref.is_none() {
        return Ok(());
    }
    let name = claim_name(&object.name_any());
    let claims = context.api::<IPAddressClaim>(&object.namespace().unwrap_or_default());
    let failed =
        |error: &kube::Error| kubernetes_failed(&format!("Releasing IPAddressClaim {name}"), error);
    let Some(claim) = claims.get_opt(&name).await.map_err(|e| failed(&e))? else {
        return Ok(());
    };
    set_finalizer(&claims, &claim, CLAIM_FINALIZER, false)
        .await
        .map(drop)
        .map_err(|e| failed(&e))
}
