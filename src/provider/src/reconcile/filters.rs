//! Converts references of the API to queries of OpenStack, and picks the object that a reference means from the answer.
//! The functions are pure.

use std::time::Duration;

use super::{
    StepResult,
    server_error::{failed, failure},
};
use capo_api::v1beta2::{NetworkFilter, SecurityGroupFilter, SubnetFilter};
use capo_core::{FailureClass, Reason, ids::NetworkId};
use capo_openstack::{Error, network};

/// The tag conditions of a filter. Every filter type has the same fields for them.
macro_rules! tags {
    ($filter:expr) => {
        network::TagFilter {
            tags: $filter.tags.clone(),
            tags_any: $filter.tags_any.clone(),
            not_tags: $filter.not_tags.clone(),
            not_tags_any: $filter.not_tags_any.clone(),
        }
    };
}

/// The maximum age of the result of a lookup that found exactly one object.
const KEPT: Duration = Duration::from_mins(5);

/// The maximum age of a result with none or several objects. It is shorter, because missing objects are created meanwhile.
const KEPT_WITHOUT_RESULT: Duration = Duration::from_secs(2);

/// Returns the result of a lookup that is shared with other objects. If an older result has not exactly one object, the
/// lookup is repeated.
pub(crate) async fn looked_up<T, F>(look_up: impl Fn(Duration) -> F) -> StepResult<Vec<T>>
where
    F: Future<Output = Result<Vec<T>, Error>>,
{
    let mut found = look_up(KEPT).await;
    if found.as_ref().is_ok_and(|found| found.len() != 1) {
        found = look_up(KEPT_WITHOUT_RESULT).await;
    }
    found.map_err(|error| failed(&error, Reason::DependencyFailed))
}

/// Returns the only object that was found, or an error if there is none or more than one. `field` is the path of the
/// reference in the spec, `what` describes the kind of object, `id` returns the id of a candidate.
pub(crate) fn only_one<T>(
    mut found: Vec<T>,
    field: &str,
    what: &str,
    id: impl Fn(&T) -> &str,
) -> StepResult<T> {
    match (found.pop(), found.as_slice()) {
        (Some(one), []) => Ok(one),
        (None, _) => Err(failure(
            FailureClass::NotFound,
            Reason::DependencyNotFound,
            format!("{field}: no {what} found"),
        )),
        (Some(last), others) => {
            let mut ids: Vec<&str> = others.iter().map(&id).chain([id(&last)]).collect();
            ids.sort_unstable();
            ids.truncate(5);
            Err(failure(
                FailureClass::Invalid,
                Reason::AmbiguousMatch,
                format!(
                    "{field}: more than one {what} found ({}); name it by id",
                    ids.join(", ")
                ),
            ))
        }
    }
}

pub(crate) fn networks(filter: &NetworkFilter) -> network::NetworkFilter {
    network::NetworkFilter {
        name: filled(filter.name.as_ref()),
        description: filled(filter.description.as_ref()),
        project_id: filled(filter.project_id.as_ref()).map(Into::into),
        tags: tags!(filter),
        ..network::NetworkFilter::default()
    }
}

pub(crate) fn security_groups(filter: &SecurityGroupFilter) -> network::SecurityGroupFilter {
    network::SecurityGroupFilter {
        name: filled(filter.name.as_ref()),
        description: filled(filter.description.as_ref()),
        project_id: filled(filter.project_id.as_ref()).map(Into::into),
        tags: tags!(filter),
        ..network::SecurityGroupFilter::default()
    }
}

/// A query for subnets, in this network if it is known. A value that is not an address or a range is an error of the
/// spec.
pub(crate) fn subnets(
    filter: &SubnetFilter,
    network_id: Option<&NetworkId>,
    field: &str,
) -> StepResult<network::SubnetFilter> {
    Ok(network::SubnetFilter {
        network_id: network_id.cloned(),
        name: filled(filter.name.as_ref()),
        description: filled(filter.description.as_ref()),
        project_id: filled(filter.project_id.as_ref()).map(Into::into),
        ip_version: filter
            .ip_version
            .and_then(|version| u8::try_from(version).ok()),
        gateway_ip: parsed(
            filter.gateway_ip.as_ref(),
            &format!("{field}.gatewayIP"),
            "an IP address",
        )?,
        cidr: parsed(
            filter.cidr.as_ref(),
            &format!("{field}.cidr"),
            "a range such as 10.0.0.0/24",
        )?,
        ipv6_address_mode: filled(filter.ipv6_address_mode.as_ref()),
        ipv6_ra_mode: filled(filter.ipv6_ra_mode.as_ref()),
        tags: tags!(filter),
        ..network::SubnetFilter::default()
    })
}

/// Returns the text, or `None` if it is empty, because an empty text in a filter means that the field is not set.
fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// Parses a value of the spec, or returns an error that says what is wrong with it.
pub(crate) fn parsed<T: std::str::FromStr>(
    text: Option<&String>,
    field: &str,
    allowed: &str,
) -> StepResult<Option<T>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        failure(
            FailureClass::Invalid,
            Reason::InvalidSpec,
            format!("{field}: \"{text}\" is not {allowed}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(found: &[&str]) -> Option<(Reason, String)> {
        match only_one(found.to_vec(), "spec.image", "image named \"x\"", |id| id) {
            Ok(_) => None,
            Err(error) => Some((error.state.reason, error.state.message)),
        }
    }

    #[test]
    fn one_is_taken_and_none_and_two_are_named() {
        assert_eq!(message(&["a"]), None);
        assert_eq!(
            message(&[]),
            Some((
                Reason::DependencyNotFound,
                "spec.image: no image named \"x\" found".to_owned()
            ))
        );
        assert_eq!(
            message(&["b", "a"]),
            Some((
                Reason::AmbiguousMatch,
                "spec.image: more than one image named \"x\" found (a, b); name it by id"
                    .to_owned()
            ))
        );
    }

    #[test]
    fn a_value_that_does_not_parse_is_named() {
        let wrong = parsed::<std::net::IpAddr>(Some(&"10.0.0".to_owned()), "a.b", "an IP address")
            .unwrap_err();
        assert_eq!(wrong.state.reason, Reason::InvalidSpec);
        assert_eq!(wrong.state.message, "a.b: \"10.0.0\" is not an IP address");
    }
}
