//! Reads how the user points to networks, subnets and routers that exist.

use super::{
    spec::{A_RANGE, AN_ADDRESS, Problems},
    wanted::Lookup,
};
use capo_api::v1beta2::{NetworkParam, RouterParam, SubnetParam};
use capo_openstack::network::{NetworkFilter, RouterFilter, SubnetFilter, TagFilter};

/// A network of the user's.
pub(crate) fn network_lookup(param: &NetworkParam) -> Lookup<NetworkFilter> {
    if let Some(id) = &param.id {
        return Lookup::Id(id.clone());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Lookup::Filter(NetworkFilter {
        id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id,
        external: None,
        tags: tags(
            filter.tags,
            filter.tags_any,
            filter.not_tags,
            filter.not_tags_any,
        ),
    })
}

/// A router of the user's.
pub(crate) fn router_lookup(param: &RouterParam) -> Lookup<RouterFilter> {
    if let Some(id) = &param.id {
        return Lookup::Id(id.clone());
    }
    let filter = param.filter.clone().unwrap_or_default();
    Lookup::Filter(RouterFilter {
        id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id,
        tags: tags(
            filter.tags,
            filter.tags_any,
            filter.not_tags,
            filter.not_tags_any,
        ),
    })
}

/// Subnets of the user's; `field` is their place in the spec.
pub(crate) fn subnets(
    params: &[SubnetParam],
    field: &str,
    condition: &'static str,
    problems: &mut Problems<'_>,
) -> Vec<Lookup<SubnetFilter>> {
    params
        .iter()
        .enumerate()
        .map(|(at, param)| subnet(param, &format!("{field}[{at}]"), condition, problems))
        .collect()
}

/// A subnet of the user's; `field` is its place in the spec.
pub(crate) fn subnet(
    param: &SubnetParam,
    field: &str,
    condition: &'static str,
    problems: &mut Problems<'_>,
) -> Lookup<SubnetFilter> {
    if let Some(id) = &param.id {
        return Lookup::Id(id.clone());
    }
    let filter = param.filter.clone().unwrap_or_default();
    let gateway_ip = filter.gateway_ip.as_deref().and_then(|text| {
        problems.parsed(
            condition,
            &format!("{field}.filter.gatewayIP"),
            text,
            AN_ADDRESS,
        )
    });
    let cidr = filter.cidr.as_deref().and_then(|text| {
        problems.parsed(condition, &format!("{field}.filter.cidr"), text, A_RANGE)
    });
    Lookup::Filter(SubnetFilter {
        id: None,
        network_id: None,
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id,
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
