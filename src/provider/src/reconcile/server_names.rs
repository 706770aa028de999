//! The names, descriptions and tags of the objects that belong to a server. They are the same as CAPO's, so that
//! objects created by CAPO are found and adopted. The functions are pure.

/// The name of the port at `index` of a server's list, counted from 0.
pub(crate) fn port(server: &str, suffix: Option<&str>, index: usize) -> String {
    match suffix.filter(|suffix| !suffix.is_empty()) {
        Some(suffix) => format!("{server}-{suffix}"),
        None => format!("{server}-{index}"),
    }
}

/// The group of servers that share a managed server group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerGroupOwner<'a> {
    /// The servers of the control plane.
    ControlPlane,
    /// The servers of the MachineDeployment with this name.
    Deployment(&'a str),
    /// The servers of the MachineSet with this name, which belongs to no MachineDeployment.
    Set(&'a str),
    /// The servers of the Machines that belong to none of these.
    Machines,
    /// The bastion.
    Bastion,
}

/// The name of a managed server group. It contains the policy, because the policy of a group can't be changed. Machines
/// from a template with another policy get another group.
pub(crate) fn server_group(
    namespace: &str,
    cluster: &str,
    owner: ServerGroupOwner<'_>,
    policy: &str,
) -> String {
    let owner = match owner {
        ServerGroupOwner::ControlPlane => "controlplane".to_owned(),
        ServerGroupOwner::Deployment(name) => format!("deployment-{name}"),
        ServerGroupOwner::Set(name) => format!("set-{name}"),
        ServerGroupOwner::Machines => "machines".to_owned(),
        ServerGroupOwner::Bastion => "bastion".to_owned(),
    };
    format!("k8s-clusterapi-cluster-{namespace}-{cluster}-{owner}-{policy}")
}

/// The name of the volume that a server boots from.
pub(crate) fn root_volume(server: &str) -> String {
    format!("{server}-root")
}

/// The name of the volume of the additional block device `device`.
pub(crate) fn device_volume(server: &str, device: &str) -> String {
    format!("{server}-{device}")
}

/// The description of a port or trunk for which the user gave none.
pub(crate) fn port_description(cluster: &str) -> String {
    format!("Created by cluster-api-provider-openstack cluster {cluster}")
}

/// The description of the root volume.
pub(crate) fn root_volume_description(server: &str) -> String {
    format!("Root volume for {server}")
}

/// The description of the volume of an additional block device.
pub(crate) fn device_volume_description(server: &str) -> String {
    format!("Additional block device for {server}")
}

/// Merges both lists in their order, with each tag only once.
pub(crate) fn merged_tags(first: &[String], second: &[String]) -> Vec<String> {
    let mut merged: Vec<String> = Vec::new();
    for tag in first.iter().chain(second) {
        if !merged.contains(tag) {
            merged.push(tag.clone());
        }
    }
    merged
}

/// The tags of an object together with the missing ones; `None` if none is missing. Other tags stay. CAPO differs: it
/// removes tags that a user added to security groups.
pub(crate) fn with_missing_tags(present: &[String], wanted: &[String]) -> Option<Vec<String>> {
    let is_missing = |tag| !present.contains(tag);
    wanted
        .iter()
        .any(is_missing)
        .then(|| merged_tags(present, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_called_by_suffix_or_place() {
        assert_eq!(port("m1", None, 0), "m1-0");
        assert_eq!(port("m1", Some(""), 2), "m1-2");
        assert_eq!(port("m1", Some("storage"), 1), "m1-storage");
    }

    #[test]
    fn tags_are_kept_once() {
        let tags = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            merged_tags(&tags(&["a", "b"]), &tags(&["b", "c", "a"])),
            tags(&["a", "b", "c"])
        );
    }

    #[test]
    fn missing_tags_are_added_and_further_ones_stay() {
        let tags =
            |text: &str| -> Vec<String> { text.split_whitespace().map(Into::into).collect() };
        for (present, wanted, all) in [
            ("", "", None),
            ("theirs", "", None),
            ("theirs ours", "ours", None),
            ("theirs", "ours", Some("theirs ours")),
            ("a", "b a c", Some("a b c")),
        ] {
            let expected = all.map(tags);
            assert_eq!(
                with_missing_tags(&tags(present), &tags(wanted)),
                expected,
                "{present}"
            );
        }
    }
}
