//! The names and descriptions of a cluster's OpenStack objects. They are the same as CAPO's, so that objects created by
//! CAPO are found.

use capo_core::label_enum;

/// The cluster resource name, `<namespace>-<name of the Cluster>`, from which every other name is derived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names(String);

impl Names {
    /// The names for the Cluster `cluster` in `namespace`.
    pub(crate) fn new(namespace: &str, cluster: &str) -> Self {
        Self(format!("{namespace}-{cluster}"))
    }

    /// The name that the network, the subnet and the router have in common.
    pub(crate) fn network(&self) -> String {
        format!("k8s-clusterapi-cluster-{}", self.0)
    }

    /// The name of the load balancer. The names of listeners, pools and members are derived from it.
    pub(crate) fn load_balancer(&self) -> String {
        format!("{}-kubeapi", self.network())
    }

    /// The name of the security group of one kind of machine.
    pub(crate) fn security_group(&self, role: Role) -> String {
        format!("k8s-cluster-{}-secgroup-{}", self.0, role.as_str())
    }

    /// The description of subnet, router, load balancer and floating IP.
    pub(crate) fn description(&self) -> String {
        format!(
            "Created by cluster-api-provider-openstack cluster {}",
            self.0
        )
    }
}

/// The description of every managed security group.
pub(crate) const SECURITY_GROUP_DESCRIPTION: &str = "Cluster API managed group";

label_enum! {
    /// The machines that a managed security group is for. The texts appear in the group's name and in
    /// `remoteManagedGroups` of the API.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum Role {
        /// Control-plane machines.
        ControlPlane = "controlplane",
        /// All other machines.
        Worker = "worker",
        /// The bastion.
        Bastion = "bastion",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_capo() {
        let names = Names::new("prod", "c1");
        assert_eq!(names.network(), "k8s-clusterapi-cluster-prod-c1");
        assert_eq!(
            names.load_balancer(),
            "k8s-clusterapi-cluster-prod-c1-kubeapi"
        );
        assert_eq!(
            names.security_group(Role::ControlPlane),
            "k8s-cluster-prod-c1-secgroup-controlplane"
        );
        assert_eq!(
            names.description(),
            "Created by cluster-api-provider-openstack cluster prod-c1"
        );
    }

    #[test]
    fn two_clusters_can_compute_one_name() {
        assert_eq!(Names::new("a-b", "c"), Names::new("a", "b-c"));
    }
}
