//! Parses the references of the spec to existing networks, subnets and routers.

use super::problems::{A_RANGE, AN_ADDRESS, Part, Problems};
use crate::controllers::cluster::desired::{
    NetworkReference, Reference, RouterReference, SubnetReference,
};
use capo_api::v1beta2::{NetworkParam, RouterParam, SubnetParam};
use capo_openstack::network::{NetworkFilter, RouterFilter, SubnetFilter, TagFilter};

/// Parses the reference to an existing network.
pub(crate) fn network_reference(param: &NetworkParam) -> NetworkReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Reference::Filter(NetworkFilter {
        id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id.map(Into::into),
        external: None,
        tags: tags(
            filter.tags,
            filter.tags_any,
            filter.not_tags,
            filter.not_tags_any,
        ),
    })
}

/// Parses the reference to an existing router.
pub(crate) fn router_reference(param: &RouterParam) -> RouterReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Reference::Filter(RouterFilter {
        id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id.map(Into::into),
        tags: tags(
            filter.tags,
            filter.tags_any,
            filter.not_tags,
            filter.not_tags_any,
        ),
    })
}

/// Parses the references to existing subnets; `field` is their path in the spec.
pub(crate) fn subnets(
    params: &[SubnetParam],
    field: &str,
    part: Part,
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
    part: Part,
    problems: &mut Problems<'_>,
) -> SubnetReference {
    if let Some(id) = &param.id {
        return Reference::Id(id.clone().into());
    }
    let filter = param.filter.clone().unwrap_or_default();
    let gateway_ip = filter.gateway_ip.as_deref().and_then(|text| {
        problems.parsed(part, &format!("{field}.filter.gatewayIP"), text, AN_ADDRESS)
    });
    let cidr = filter
        .cidr
        .as_deref()
        .and_then(|text| problems.parsed(part, &format!("{field}.filter.cidr"), text, A_RANGE));
    Reference::Filter(SubnetFilter {
        id: None,
        network_id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id.map(Into::into),
        ip_version: filter
            .ip_version
            .and_then(|version| version.try_into().ok()),
        gateway_ip,
        cidr,
        ipv6_address_mode: filter.ipv6_address_mode,
        ipv6_ra_mode: filter.ipv6_ra_mode,
        tags: tags(
            filter.tags,
            filter.tags_any,
            filter.not_tags,
            filter.not_tags_any,
        ),
    })
}

fn tags(
    tags: Vec<String>,
    tags_any: Vec<String>,
    not_tags: Vec<String>,
    not_tags_any: Vec<String>,
) -> TagFilter {
    TagFilter {
        tags,
        tags_any,
        not_tags,
        not_tags_any,
    }
}
