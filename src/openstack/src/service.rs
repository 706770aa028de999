//! The OpenStack services that are called, and the versions of their APIs.

use std::fmt;

/// A service of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Keystone.
    Identity,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Octavia.
    LoadBalancer,
    /// Glance.
    Image,
    /// Cinder.
    Volume,
}

impl Service {
    /// Every service, in a fixed order.
    pub const ALL: [Self; 6] = [
        Self::Identity,
        Self::Compute,
        Self::Network,
        Self::LoadBalancer,
        Self::Image,
        Self::Volume,
    ];

    /// The official service type, which is also the metric label `api`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
            Self::Volume => "block-storage",
        }
    }

    /// The catalogue types under which the service is found, the preferred one first. Source: the OpenStack service
    /// types authority, and older names that deployments still use.
    pub const fn catalogue_types(self) -> &'static [&'static str] {
        match self {
            Self::Identity => &["identity"],
            Self::Compute => &["compute"],
            Self::Network => &["network"],
            Self::LoadBalancer => &["load-balancer"],
            Self::Image => &["image"],
            Self::Volume => &["block-storage", "volumev3", "block-store", "volume"],
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A version of an API, compared by number: 2.9 is older than 2.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiVersion {
    /// The part before the dot.
    pub major: u32,
    /// The part after the dot.
    pub minor: u32,
}

impl ApiVersion {
    /// The version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads `2.53`, `v2.53` or `v2`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Some(Self::new(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::ApiVersion;

    #[test]
    fn versions_compare_by_number() {
        let parse = |text| ApiVersion::parse(text).unwrap();
        assert!(parse("v2.9") < parse("2.12"));
        assert!(parse("v2") < parse("v2.1"));
        assert!(ApiVersion::parse("latest").is_none());
    }
}
