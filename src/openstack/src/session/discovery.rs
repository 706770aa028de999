//! Derives the addresses of calls from a catalogue's endpoints, and reads version documents. It is pure.

use serde::Deserialize;
use url::Url;

use crate::service::{ApiVersion, Service};
use capo_core::ids::ProjectId;

/// The base address to which a call's path is appended. Endpoints come with and without a version, with a path before
/// it, and with the project after it.
pub(crate) fn base(service: Service, endpoint: &Url, project_id: &ProjectId) -> Url {
    let mut segments = segments(endpoint);
    let versioned = segments.iter().position(|segment| is_version(segment));
    match service {
        Service::Compute if versioned.is_none() => segments.push("v2.1".to_owned()),
        Service::Network if versioned.is_none() => segments.push("v2.0".to_owned()),
        Service::Image if versioned.is_none() => segments.push("v2".to_owned()),
        Service::Volume if versioned.is_none() => {
            segments.push("v3".to_owned());
            segments.push(project_id.to_string());
        }
        Service::LoadBalancer => {
            if let Some(at) = versioned {
                segments.truncate(at);
            }
            segments.push("v2".to_owned());
            segments.push("lbaas".to_owned());
        }
        Service::Compute
        | Service::Network
        | Service::Image
        | Service::Volume
        | Service::Identity => {}
    }
    with_segments(endpoint, &segments)
}

/// The address of the version document. Nova's is at its versioned address (without the project), Octavia's list is at
/// the root.
pub(crate) fn versions(service: Service, endpoint: &Url) -> Url {
    let mut segments = segments(endpoint);
    let versioned = segments.iter().position(|segment| is_version(segment));
    match (service, versioned) {
        (Service::Compute, Some(at)) => segments.truncate(at + 1),
        (Service::Compute, None) => segments.push("v2.1".to_owned()),
        (_, Some(at)) => segments.truncate(at),
        (_, None) => {}
    }
    let mut url = with_segments(endpoint, &segments);
    // The path ends with a slash, because without it some services redirect.
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// `base` with `path` appended, every segment encoded. `None` if a segment can't be part of a path: an id that is
/// empty, `.` or `..` would address the collection or its parent.
pub(crate) fn address(base: &Url, path: &[String]) -> Option<Url> {
    if path
        .iter()
        .any(|segment| matches!(segment.as_str(), "" | "." | ".."))
    {
        return None;
    }
    let mut segments = segments(base);
    segments.extend(path.iter().cloned());
    Some(with_segments(base, &segments))
}

fn segments(url: &Url) -> Vec<String> {
    url.path_segments()
        .into_iter()
        .flatten()
        .filter(|segment| !segment.is_empty())
        .map(str::to_owned)
        .collect()
}

fn with_segments(url: &Url, segments: &[String]) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    if let Ok(mut path) = url.path_segments_mut() {
        // `extend` encodes every segment. Segments of the endpoint are encoded already, and their `%` would be encoded
        // twice, so endpoints with encoded characters in their path are not supported. Segments of a call are plain
        // ids.
        path.clear().extend(segments);
    }
    url
}

fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        && ApiVersion::parse(segment).is_some()
}

/// A version document, of one version or of all versions.
#[derive(Deserialize)]
pub(crate) struct VersionDocument {
    #[serde(default)]
    version: Option<Version>,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    id: String,
    /// Nova's largest microversion.
    #[serde(default)]
    version: Option<String>,
}

impl VersionDocument {
    /// The newest version, or microversion, that is offered.
    pub(crate) fn newest(&self) -> Option<ApiVersion> {
        self.version
            .iter()
            .chain(&self.versions)
            .filter_map(|version| {
                let micro = version.version.as_deref().filter(|text| !text.is_empty());
                ApiVersion::parse(micro.unwrap_or(&version.id))
            })
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_endpoint() {
        let table = [
            (
                Service::LoadBalancer,
                "http://h:9876",
                "http://h:9876/v2/lbaas",
                "http://h:9876/",
            ),
            (
                Service::LoadBalancer,
                "http://h:9876/",
                "http://h:9876/v2/lbaas",
                "http://h:9876/",
            ),
            (
                Service::LoadBalancer,
                "http://h/load-balancer",
                "http://h/load-balancer/v2/lbaas",
                "http://h/load-balancer/",
            ),
            (
                Service::LoadBalancer,
                "http://h/lb/v2.0",
                "http://h/lb/v2/lbaas",
                "http://h/lb/",
            ),
            (
                Service::LoadBalancer,
                "http://h/lb/v2.0/lbaas",
                "http://h/lb/v2/lbaas",
                "http://h/lb/",
            ),
            (
                Service::Network,
                "http://h:9696",
                "http://h:9696/v2.0",
                "http://h:9696/",
            ),
            (
                Service::Network,
                "http://h/networking/v2.0/",
                "http://h/networking/v2.0",
                "http://h/networking/",
            ),
            (
                Service::Compute,
                "http://h/compute/v2.1",
                "http://h/compute/v2.1",
                "http://h/compute/v2.1/",
            ),
            (
                Service::Compute,
                "http://h:8774/v2.1/p",
                "http://h:8774/v2.1/p",
                "http://h:8774/v2.1/",
            ),
            (
                Service::Compute,
                "http://h:8774",
                "http://h:8774/v2.1",
                "http://h:8774/v2.1/",
            ),
            (
                Service::Image,
                "http://h:9292",
                "http://h:9292/v2",
                "http://h:9292/",
            ),
            (
                Service::Image,
                "http://h/image/v2/",
                "http://h/image/v2",
                "http://h/image/",
            ),
            (
                Service::Volume,
                "http://h/volume",
                "http://h/volume/v3/project",
                "http://h/volume/",
            ),
            (
                Service::Volume,
                "http://h/volume/v3",
                "http://h/volume/v3",
                "http://h/volume/",
            ),
            (
                Service::Volume,
                "http://h:8776/v3/p",
                "http://h:8776/v3/p",
                "http://h:8776/",
            ),
        ];
        for (service, endpoint, expected, document) in table {
            let endpoint = Url::parse(endpoint).unwrap();
            assert_eq!(
                base(service, &endpoint, &"project".into()).as_str(),
                expected
            );
            assert_eq!(versions(service, &endpoint).as_str(), document);
        }
    }

    #[test]
    fn an_id_can_not_address_another_path() {
        let base = Url::parse("http://h/v2.0").unwrap();
        let path = ["ports".to_owned(), "../a?b#c/d".to_owned()];
        assert_eq!(
            address(&base, &path).unwrap().as_str(),
            "http://h/v2.0/ports/..%2Fa%3Fb%23c%2Fd"
        );
        for id in ["", ".", ".."] {
            assert_eq!(address(&base, &["ports".to_owned(), id.to_owned()]), None);
        }
    }

    #[test]
    fn version_documents() {
        let newest = |text: &str| {
            serde_json::from_str::<VersionDocument>(text)
                .unwrap()
                .newest()
        };
        assert_eq!(
            newest(r#"{"version":{"id":"v2.1","version":"2.96","min_version":"2.1"}}"#),
            Some(ApiVersion::new(2, 96))
        );
        assert_eq!(
            newest(r#"{"versions":[{"id":"v2.30","status":"CURRENT"},{"id":"v2.4"}]}"#),
            Some(ApiVersion::new(2, 30))
        );
        assert_eq!(newest(r#"{"versions":[]}"#), None);
    }
}
