//! The provider id of a machine, `openstack://<region>/<server id>`. It is the same text as that of kubelet's flag.

use capo_core::ids::ServerId;

/// The provider id of a server. The region is that of the machine's own identity, and empty where the machine has none,
/// because kubelet's provider id has no region then, whatever the cluster's region is.
pub(crate) fn provider_id(region: Option<&str>, server: &ServerId) -> String {
    format!("openstack://{}/{server}", region.unwrap_or_default())
}

/// The id of the server in a provider id.
pub(crate) fn server_id(provider_id: &str) -> Option<ServerId> {
    let (_, id) = provider_id.strip_prefix("openstack://")?.split_once('/')?;
    (!id.is_empty() && !id.contains('/')).then(|| id.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_id_is_what_the_cloud_provider_writes() {
        assert_eq!(provider_id(None, &"42".into()), "openstack:///42");
        assert_eq!(provider_id(Some("R1"), &"42".into()), "openstack://R1/42");
    }

    #[test]
    fn a_provider_id_names_one_server() {
        assert_eq!(server_id("openstack:///42"), Some("42".into()));
        assert_eq!(server_id("openstack://region/42"), Some("42".into()));
        for odd in [
            "",
            "42",
            "openstack:",
            "openstack://",
            "openstack://42",
            "openstack://R1/",
            "aws:///z/i",
            "openstack://a/b/c",
        ] {
            assert_eq!(server_id(odd), None, "{odd}");
        }
    }
}
