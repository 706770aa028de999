//! Parses the references of the spec to existing networks, subnets and routers.

use super::problems::{A_RANGE, AN_ADDRESS, Problems, SpecPart};
use crate::controllers::cluster::desired::{
    NetworkReference, Reference, RouterReference, SubnetReference,
};
use crate::reconcile::filters::{self, filled};
use capo_api::v1beta2::{NetworkParam, RouterParam, SubnetParam};

/// Parses the reference to an existing network.
pub(crate) fn network_reference(param: &NetworkParam) -> NetworkReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Reference::Filter(filters::networks(filter))
}

/// Parses the reference to an existing router.
pub(crate) fn router_reference(param: &RouterParam) -> RouterReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Reference::Filter(filters::routers(filter))
}

/// Parses the references to existing subnets; `field` is their path in the spec.
pub(crate) fn subnets(
    params: &[SubnetParam],
    field: &str,
    part: SpecPart,
    problems: &mut Problems<'_>,
) -> Vec<SubnetReference> {
    params
        .iter()
        .enumerate()
        .map(|(at, param)| subnet(param, &format!("{field}[{at}]"), part, problems))
        .collect()
}

/// Parses the reference to an existing subnet; `field` is its path in the spec.
pub(crate) fn subnet(
    param: &SubnetParam,
    field: &str,
    part: SpecPart,
    problems: &mut Problems<'_>,
) -> SubnetReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    let gateway_ip = filled(filter.gateway_ip.clone()).and_then(|text| {
        problems.parsed(
            part,
            &format!("{field}.filter.gatewayIP"),
            &text,
            AN_ADDRESS,
        )
    });
    let cidr = filled(filter.cidr.clone())
        .and_then(|text| problems.parsed(part, &format!("{field}.filter.cidr"), &text, A_RANGE));
    Reference::Filter(filters::subnets(filter, gateway_ip, cidr))
}
