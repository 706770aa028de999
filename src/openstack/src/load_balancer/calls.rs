//! Octavia's calls. All lists are complete, because the client follows their pages.

use super::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, Listener, ListenerUpdate,
    LoadBalancer, LoadBalancerFilter, LoadBalancerFlavor, Member, MemberUpdate, NewHealthMonitor,
    NewListener, NewLoadBalancer, NewMember, NewPool, Pool, PoolUpdate, Provider, StatusTree,
};
use crate::{Cloud, Error, Service, request::Call, wire::push_some};
use capo_core::Priority;
use capo_core::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId, ProjectId};

const LB: Service = Service::LoadBalancer;

impl Cloud {
    /// Load balancers that match. Of their listeners and pools only the ids are returned.
    pub async fn load_balancers(
        &self,
        filter: &LoadBalancerFilter,
        priority: Priority,
    ) -> Result<Vec<LoadBalancer>, Error> {
        let mut call = Call::get(LB, "loadbalancer_list", ["loadbalancers"]).at(priority);
        push_some(&mut call.query, "name", filter.name.as_ref());
        push_some(&mut call.query, "project_id", filter.project_id.as_ref());
        push_some(
            &mut call.query,
            "vip_network_id",
            filter.vip_network_id.as_ref(),
        );
        filter.tags.query(&mut call.query);
        self.list(call, "loadbalancers").await
    }

    /// One load balancer.
    pub async fn load_balancer(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> Result<LoadBalancer, Error> {
        let call = Call::get(LB, "loadbalancer_get", ["loadbalancers", id.as_str()]).at(priority);
        self.one(call, "loadbalancer").await
    }

    /// Requests the creation of a load balancer. It is PENDING_CREATE in the answer.
    pub async fn create_load_balancer(
        &self,
        new: &NewLoadBalancer,
        priority: Priority,
    ) -> Result<LoadBalancer, Error> {
        let call = Call::post(LB, "loadbalancer_create", ["loadbalancers"])
            .json("loadbalancer", new)
            .at(priority);
        self.one(call, "loadbalancer").await
    }

    /// Requests the deletion of a load balancer and all its parts. It is deleted when Octavia answers 404.
    pub async fn delete_load_balancer(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> Result<(), Error> {
        let call = Call::delete(LB, "loadbalancer_delete", ["loadbalancers", id.as_str()])
            .query("cascade", "true")
            .at(priority);
        self.done(call).await
    }

    /// The load balancer and all parts attached to it with both statuses, as of one moment.
    pub async fn status_tree(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> Result<StatusTree, Error> {
        let call = Call::get(
            LB,
            "loadbalancer_status_get",
            ["loadbalancers", id.as_str(), "status"],
        )
        .at(priority);
        self.one(call, "statuses").await
    }

    /// The listeners of a load balancer.
    pub async fn listeners(
        &self,
        load_balancer_id: &LoadBalancerId,
        priority: Priority,
    ) -> Result<Vec<Listener>, Error> {
        let call = Call::get(LB, "loadbalancer_listener_list", ["listeners"])
            .query("loadbalancer_id", load_balancer_id.as_str())
            .at(priority);
        self.list(call, "listeners").await
    }

    /// The listeners of all load balancers of a project.
    pub async fn listeners_of_project(
        &self,
        project: &ProjectId,
        priority: Priority,
    ) -> Result<Vec<Listener>, Error> {
        let call = Call::get(LB, "loadbalancer_listener_list", ["listeners"])
            .query("project_id", project.as_str())
            .at(priority);
        self.list(call, "listeners").await
    }

    /// Requests the creation of a listener.
    pub async fn create_listener(
        &self,
        new: &NewListener,
        priority: Priority,
    ) -> Result<Listener, Error> {
        let call = Call::post(LB, "loadbalancer_listener_create", ["listeners"])
            .json("listener", new)
            .at(priority);
        self.one(call, "listener").await
    }

    /// Changes a listener. With an empty update Octavia writes the existing configuration to the data path again.
    pub async fn update_listener(
        &self,
        id: &ListenerId,
        update: &ListenerUpdate,
        priority: Priority,
    ) -> Result<Listener, Error> {
        let call = Call::put(
            LB,
            "loadbalancer_listener_update",
            ["listeners", id.as_str()],
        )
        .json("listener", update)
        .at(priority);
        self.one(call, "listener").await
    }

    /// The pools of a load balancer, including those without a listener.
    pub async fn pools(
        &self,
        load_balancer_id: &LoadBalancerId,
        priority: Priority,
    ) -> Result<Vec<Pool>, Error> {
        let call = Call::get(LB, "loadbalancer_pool_list", ["pools"])
            .query("loadbalancer_id", load_balancer_id.as_str())
            .at(priority);
        self.list(call, "pools").await
    }

    /// The pools of all load balancers of a project.
    pub async fn pools_of_project(
        &self,
        project: &ProjectId,
        priority: Priority,
    ) -> Result<Vec<Pool>, Error> {
        let call = Call::get(LB, "loadbalancer_pool_list", ["pools"])
            .query("project_id", project.as_str())
            .at(priority);
        self.list(call, "pools").await
    }

    /// Requests the creation of a pool.
    pub async fn create_pool(&self, new: &NewPool, priority: Priority) -> Result<Pool, Error> {
        let call = Call::post(LB, "loadbalancer_pool_create", ["pools"])
            .json("pool", new)
            .at(priority);
        self.one(call, "pool").await
    }

    /// Changes a pool. With an empty update Octavia writes the existing configuration to the data path again.
    pub async fn update_pool(
        &self,
        id: &PoolId,
        update: &PoolUpdate,
        priority: Priority,
    ) -> Result<Pool, Error> {
        let call = Call::put(LB, "loadbalancer_pool_update", ["pools", id.as_str()])
            .json("pool", update)
            .at(priority);
        self.one(call, "pool").await
    }

    /// Health monitors that match.
    pub async fn health_monitors(
        &self,
        filter: &HealthMonitorFilter,
        priority: Priority,
    ) -> Result<Vec<HealthMonitor>, Error> {
        let mut call =
            Call::get(LB, "loadbalancer_healthmonitor_list", ["healthmonitors"]).at(priority);
        push_some(&mut call.query, "name", filter.name.as_ref());
        push_some(&mut call.query, "pool_id", filter.pool_id.as_ref());
        push_some(&mut call.query, "project_id", filter.project_id.as_ref());
        self.list(call, "healthmonitors").await
    }

    /// One health monitor.
    pub async fn health_monitor(
        &self,
        id: &MonitorId,
        priority: Priority,
    ) -> Result<HealthMonitor, Error> {
        let call = Call::get(
            LB,
            "loadbalancer_healthmonitor_get",
            ["healthmonitors", id.as_str()],
        )
        .at(priority);
        self.one(call, "healthmonitor").await
    }

    /// Requests the creation of a health monitor. A provider that does not support its type answers 501, class
    /// `NotImplemented`.
    pub async fn create_health_monitor(
        &self,
        new: &NewHealthMonitor,
        priority: Priority,
    ) -> Result<HealthMonitor, Error> {
        let call = Call::post(LB, "loadbalancer_healthmonitor_create", ["healthmonitors"])
            .json("healthmonitor", new)
            .at(priority);
        self.one(call, "healthmonitor").await
    }

    /// Changes a health monitor. With an empty update Octavia writes the existing configuration to the data path again.
    pub async fn update_health_monitor(
        &self,
        id: &MonitorId,
        update: &HealthMonitorUpdate,
        priority: Priority,
    ) -> Result<HealthMonitor, Error> {
        let call = Call::put(
            LB,
            "loadbalancer_healthmonitor_update",
            ["healthmonitors", id.as_str()],
        )
        .json("healthmonitor", update)
        .at(priority);
        self.one(call, "healthmonitor").await
    }

    /// Requests the deletion of a listener. Its pool stays.
    pub async fn delete_listener(&self, id: &ListenerId, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(
            LB,
            "loadbalancer_listener_delete",
            ["listeners", id.as_str()],
        );
        self.done(call.at(priority)).await
    }

    /// Requests the deletion of a pool with its members and its health monitor.
    pub async fn delete_pool(&self, id: &PoolId, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(LB, "loadbalancer_pool_delete", ["pools", id.as_str()]);
        self.done(call.at(priority)).await
    }

    /// Requests the deletion of a health monitor.
    pub async fn delete_health_monitor(
        &self,
        id: &MonitorId,
        priority: Priority,
    ) -> Result<(), Error> {
        let path = ["healthmonitors", id.as_str()];
        let call = Call::delete(LB, "loadbalancer_healthmonitor_delete", path);
        self.done(call.at(priority)).await
    }

    /// The members of a pool with all their fields.
    pub async fn members(
        &self,
        pool_id: &PoolId,
        priority: Priority,
    ) -> Result<Vec<Member>, Error> {
        let call = Call::get(
            LB,
            "loadbalancer_member_list",
            ["pools", pool_id.as_str(), "members"],
        )
        .at(priority);
        self.list(call, "members").await
    }

    /// Requests the creation of a member. It is PENDING_CREATE in the answer.
    pub async fn create_member(
        &self,
        pool_id: &PoolId,
        new: &NewMember,
        priority: Priority,
    ) -> Result<Member, Error> {
        let call = Call::post(
            LB,
            "loadbalancer_member_create",
            ["pools", pool_id.as_str(), "members"],
        )
        .json("member", new)
        .at(priority);
        self.one(call, "member").await
    }

    /// Changes a member. With an empty update Octavia writes the existing configuration to the data path again.
    pub async fn update_member(
        &self,
        pool_id: &PoolId,
        member_id: &MemberId,
        update: &MemberUpdate,
        priority: Priority,
    ) -> Result<Member, Error> {
        let path = ["pools", pool_id.as_str(), "members", member_id.as_str()];
        let call = Call::put(LB, "loadbalancer_member_update", path)
            .json("member", update)
            .at(priority);
        self.one(call, "member").await
    }

    /// Requests the deletion of a member. The member is deleted when a later read does not have it any more.
    pub async fn delete_member(
        &self,
        pool_id: &PoolId,
        member_id: &MemberId,
        priority: Priority,
    ) -> Result<(), Error> {
        let path = ["pools", pool_id.as_str(), "members", member_id.as_str()];
        let call = Call::delete(LB, "loadbalancer_member_delete", path).at(priority);
        self.done(call).await
    }

    /// The providers that are enabled.
    pub async fn load_balancer_providers(
        &self,
        priority: Priority,
    ) -> Result<Vec<Provider>, Error> {
        let call = Call::get(LB, "loadbalancer_provider_list", ["providers"]).at(priority);
        self.list(call, "providers").await
    }

    /// Octavia's flavors of this name.
    pub async fn load_balancer_flavors(
        &self,
        name: &str,
        priority: Priority,
    ) -> Result<Vec<LoadBalancerFlavor>, Error> {
        let call = Call::get(LB, "loadbalancer_flavor_list", ["flavors"])
            .query("name", name)
            .at(priority);
        self.list(call, "flavors").await
    }
}
