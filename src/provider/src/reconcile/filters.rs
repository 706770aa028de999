//! Converts references of the API to queries of OpenStack, and picks the object that a reference means from the answer.
//! The functions are pure.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;

use super::{
    StepResult,
    matching::{Match, resolve},
    server_error::{failed, failure},
};
use capo_api::v1beta2::{NetworkFilter, RouterFilter, SecurityGroupFilter, SubnetFilter};
use capo_core::{FailureClass, Reason};
use capo_openstack::{Error, network};

/// A query with the fields that the filters of all kinds have, and with those that are given.
macro_rules! query {
    ($kind:ident, $filter:ident $(, $field:ident: $value:expr)* $(,)?) => {
        network::$kind {
            name: filled($filter.name),
            description: filled($filter.description),
            project_id: filled($filter.project_id).map(Into::into),
            tags: network::TagFilter {
                tags: $filter.tags,
                tags_any: $filter.tags_any,
                not_tags: $filter.not_tags,
                not_tags_any: $filter.not_tags_any,
            },
            $($field: $value,)*
            ..network::$kind::default()
        }
    };
}

/// The maximum age of the result of a lookup that found exactly one object.
const KEPT: Duration = Duration::from_mins(5);

/// The maximum age of a result with none or several objects. It is shorter, because missing objects are created
/// meanwhile.
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
    found: Vec<T>,
    field: &str,
    what: &str,
    id: impl Fn(&T) -> &str,
) -> StepResult<T> {
    match resolve(found, None, id) {
        Match::One(one) => Ok(one),
        Match::None => Err(failure(
            FailureClass::NotFound,
            Reason::DependencyNotFound,
            format!("{field}: no {what} found"),
        )),
        Match::Several(mut ids) => {
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

/// A query for networks.
pub(crate) fn networks(filter: NetworkFilter) -> network::NetworkFilter {
    query!(NetworkFilter, filter)
}

/// A query for routers.
pub(crate) fn routers(filter: RouterFilter) -> network::RouterFilter {
    query!(RouterFilter, filter)
}

/// A query for security groups.
pub(crate) fn security_groups(filter: SecurityGroupFilter) -> network::SecurityGroupFilter {
    query!(SecurityGroupFilter, filter)
}

/// A query for subnets in any network. `gateway_ip` and `cidr` are the values of the filter's fields of these names;
/// the callers report a text that can't be parsed in their own ways.
pub(crate) fn subnets(
    filter: SubnetFilter,
    gateway_ip: Option<IpAddr>,
    cidr: Option<IpNet>,
) -> network::SubnetFilter {
    let ip_version = filter.ip_version.filter(|version| *version != 0);
    query!(
        SubnetFilter,
        filter,
        ip_version: ip_version.and_then(|version| version.try_into().ok()),
        gateway_ip: gateway_ip,
        cidr: cidr,
        ipv6_address_mode: filled(filter.ipv6_address_mode),
        ipv6_ra_mode: filled(filter.ipv6_ra_mode),
    )
}

/// Returns the text, or `None` if it is empty, because an empty text in a filter means that the field is not set. CAPO
/// sends no empty text in a query either.
pub(crate) fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
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
