//! The service catalogue that Keystone sends with a token.

use std::collections::BTreeSet;

use serde::Deserialize;
use url::Url;

use crate::{profile::Interface, service::Service, wire::null_as_default};

/// Why a catalogue has no endpoint for a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoEndpoint {
    /// The service is not in the catalogue.
    #[error("the catalogue has no {service} service; it has {there}")]
    NoService { service: Service, there: String },
    /// The service is in other regions.
    #[error("the catalogue has no {service} service in region {wanted}; it has one in {there}")]
    NotInRegion {
        service: Service,
        wanted: String,
        there: String,
    },
    /// The service has other interfaces.
    #[error("the catalogue has no {wanted} endpoint of the {service} service; it has {there}")]
    NotOfInterface {
        service: Service,
        wanted: &'static str,
        there: String,
    },
    /// The profile names no region, and the service is in several.
    #[error(
        "the {service} service is in several regions, {there}: region_name must name one of them"
    )]
    SeveralRegions { service: Service, there: String },
    /// The endpoint is not an address.
    #[error("the catalogue's {service} endpoint is not an http or https URL")]
    NotAUrl { service: Service },
}

/// The services of the token's project, and their endpoints.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Catalogue {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    #[serde(default, rename = "type", deserialize_with = "null_as_default")]
    service_type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Deserialize)]
struct Endpoint {
    #[serde(default, deserialize_with = "null_as_default")]
    interface: String,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    url: String,
}

impl Endpoint {
    fn region(&self) -> &str {
        self.region_id
            .as_deref()
            .or(self.region.as_deref())
            .unwrap_or_default()
    }
}

impl Catalogue {
    /// The regions that have an endpoint of `service`, in the order of the catalogue.
    pub(crate) fn regions(&self, service: Service, interface: Interface) -> Vec<String> {
        let mut regions: Vec<String> = Vec::new();
        let entries = self.entries.iter();
        let of_service = |entry: &&Entry| {
            service
                .catalogue_types()
                .contains(&entry.service_type.as_str())
        };
        for endpoint in entries
            .filter(of_service)
            .flat_map(|entry| &entry.endpoints)
        {
            let region = endpoint.region();
            if endpoint.interface == interface.name() && !regions.iter().any(|one| one == region) {
                regions.push(region.to_owned());
            }
        }
        regions
    }

    /// The endpoint of `service`. The error names what is missing and what exists.
    pub(crate) fn endpoint(
        &self,
        service: Service,
        region: Option<&str>,
        interface: Interface,
    ) -> Result<Url, NoEndpoint> {
        let known: Vec<&Endpoint> = service
            .catalogue_types()
            .iter()
            .flat_map(|wanted| {
                self.entries
                    .iter()
                    .filter(move |e| e.service_type == *wanted)
            })
            .flat_map(|entry| &entry.endpoints)
            .collect();
        if known.is_empty() {
            let there = joined(self.entries.iter().map(|entry| entry.service_type.as_str()));
            return Err(NoEndpoint::NoService { service, there });
        }
        let here: Vec<&Endpoint> = known
            .iter()
            .copied()
            .filter(|endpoint| region.is_none_or(|region| endpoint.region() == region))
            .collect();
        if here.is_empty() {
            let there = joined(known.iter().map(|endpoint| endpoint.region()));
            let wanted = region.unwrap_or_default();
            return Err(NoEndpoint::NotInRegion {
                service,
                wanted: wanted.to_owned(),
                there,
            });
        }
        let fitting: Vec<&Endpoint> = here
            .iter()
            .copied()
            .filter(|endpoint| endpoint.interface == interface.name())
            .collect();
        let Some(first) = fitting.first() else {
            let there = joined(here.iter().map(|endpoint| endpoint.interface.as_str()));
            let wanted = interface.name();
            return Err(NoEndpoint::NotOfInterface {
                service,
                wanted,
                there,
            });
        };
        let regions: BTreeSet<&str> = fitting.iter().map(|endpoint| endpoint.region()).collect();
        if regions.len() > 1 {
            let there = joined(regions.into_iter());
            return Err(NoEndpoint::SeveralRegions { service, there });
        }
        Url::parse(&first.url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or(NoEndpoint::NotAUrl { service })
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<_> = names.into_iter().take(20).collect();
    crate::send::error_text::stable(&names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        serde_json::from_str(
            r#"[
            {"type":"compute","name":"nova","endpoints":[
                {"interface":"public","region":"One","region_id":"One","url":"http://h/compute/v2.1"},
                {"interface":"internal","region":"One","url":"http://i/compute/v2.1"}]},
            {"type":"volumev3","endpoints":[
                {"interface":"public","region":"One","url":"http://h/volume/v3/p"}]},
            {"type":"load-balancer","endpoints":[
                {"interface":"public","region":"One","url":"http://one:9876"},
                {"interface":"public","region":"Two","url":"http://two:9876"}]},
            {"type":"image","endpoints":[{"interface":"public","region":"One","url":"ftp://h"}]},
            {"type":"identity","endpoints":null}]"#,
        )
        .unwrap()
    }

    #[test]
    fn picks_by_type_region_and_interface() {
        let catalogue = catalogue();
        let url = |service, region, interface| {
            catalogue
                .endpoint(service, region, interface)
                .map(|url| url.to_string())
        };
        assert_eq!(
            url(Service::Compute, Some("One"), Interface::Internal).unwrap(),
            "http://i/compute/v2.1"
        );
        assert_eq!(
            url(Service::Volume, None, Interface::Public).unwrap(),
            "http://h/volume/v3/p"
        );
        assert_eq!(
            url(Service::LoadBalancer, Some("Two"), Interface::Public).unwrap(),
            "http://two:9876/"
        );
    }

    #[test]
    fn regions_are_in_the_order_of_the_catalogue() {
        let catalogue = catalogue();
        let public = Interface::Public;
        let of = |service| catalogue.regions(service, public);
        assert_eq!(of(Service::LoadBalancer), ["One", "Two"]);
        assert_eq!(of(Service::Compute), ["One"]);
        assert_eq!(of(Service::Network), [""; 0]);
    }

    #[test]
    fn errors_name_what_is_missing_and_what_exists() {
        let catalogue = catalogue();
        let problem = |service, region, interface| {
            catalogue
                .endpoint(service, region, interface)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            problem(Service::Network, None, Interface::Public),
            "the catalogue has no network service; it has compute, identity, image, load-balancer, volumev3"
        );
        assert_eq!(
            problem(Service::Compute, Some("Mars"), Interface::Public),
            "the catalogue has no compute service in region Mars; it has one in One"
        );
        assert_eq!(
            problem(Service::Compute, Some("One"), Interface::Admin),
            "the catalogue has no admin endpoint of the compute service; it has internal, public"
        );
        assert_eq!(
            problem(Service::LoadBalancer, None, Interface::Public),
            "the load-balancer service is in several regions, One, Two: region_name must name one of them"
        );
        assert_eq!(
            problem(Service::Image, None, Interface::Public),
            "the catalogue's image endpoint is not an http or https URL"
        );
    }
}
