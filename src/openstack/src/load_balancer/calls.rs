//! Octavia's calls. All lists are complete, because the client follows their pages.

use super::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, Listener, ListenerUpdate,
    LoadBalancer, LoadBalancerFilter, LoadBalancerFlavor, Member, MemberUpdate, NewHealthMonitor,
    NewListener, NewLoadBalancer, NewMember, NewPool, Pool, PoolUpdate, Provider, StatusTree,
};
use crate::{
    Service,
    request::{Call, calls},
};
use capo_core::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId, ProjectId};

const LB: Service = Service::LoadBalancer;

/// The path of a member.
fn member<'a>(pool: &'a PoolId, id: &'a MemberId) -> [&'a str; 4] {
    ["pools", pool.as_str(), "members", id.as_str()]
}

calls! {
    /// Load balancers that match. Of their listeners and pools only the ids are returned.
    fn load_balancers(filter: &LoadBalancerFilter) -> Vec<LoadBalancer> = list(
        Call::get(LB, "loadbalancer_list", ["loadbalancers"])
            .each("name", &filter.name)
            .each("project_id", &filter.project_id)
            .each("vip_network_id", &filter.vip_network_id)
            .tags(&filter.tags),
        "loadbalancers"
    );

    /// One load balancer.
    fn load_balancer(id: &LoadBalancerId) -> LoadBalancer =
        one(Call::get(LB, "loadbalancer_get", ["loadbalancers", id.as_str()]), "loadbalancer");

    /// Requests the creation of a load balancer. It is PENDING_CREATE in the answer.
    fn create_load_balancer(new: &NewLoadBalancer) -> LoadBalancer = one(
        Call::post(LB, "loadbalancer_create", ["loadbalancers"]).json("loadbalancer", new),
        "loadbalancer"
    );

    /// Requests the deletion of a load balancer and all its parts. It is deleted when Octavia answers 404.
    fn delete_load_balancer(id: &LoadBalancerId) -> () = done(
        Call::delete(LB, "loadbalancer_delete", ["loadbalancers", id.as_str()])
            .query("cascade", "true")
    );

    /// The load balancer and all parts attached to it with both statuses, as of one moment.
    fn status_tree(id: &LoadBalancerId) -> StatusTree = one(
        Call::get(LB, "loadbalancer_status_get", ["loadbalancers", id.as_str(), "status"]),
        "statuses"
    );

    /// The listeners of a load balancer.
    fn listeners(load_balancer_id: &LoadBalancerId) -> Vec<Listener> = list(
        Call::get(LB, "loadbalancer_listener_list", ["listeners"])
            .query("loadbalancer_id", load_balancer_id.as_str()),
        "listeners"
    );

    /// The listeners of all load balancers of a project.
    fn listeners_of_project(project: &ProjectId) -> Vec<Listener> = list(
        Call::get(LB, "loadbalancer_listener_list", ["listeners"])
            .query("project_id", project.as_str()),
        "listeners"
    );

    /// Requests the creation of a listener.
    fn create_listener(new: &NewListener) -> Listener = one(
        Call::post(LB, "loadbalancer_listener_create", ["listeners"]).json("listener", new),
        "listener"
    );

    /// Changes a listener. With an empty update Octavia writes the existing configuration to the data path again.
    fn update_listener(id: &ListenerId, update: &ListenerUpdate) -> Listener = one(
        Call::put(LB, "loadbalancer_listener_update", ["listeners", id.as_str()])
            .json("listener", update),
        "listener"
    );

    /// Requests the deletion of a listener. Its pool stays.
    fn delete_listener(id: &ListenerId) -> () =
        done(Call::delete(LB, "loadbalancer_listener_delete", ["listeners", id.as_str()]));

    /// The pools of a load balancer, including those without a listener.
    fn pools(load_balancer_id: &LoadBalancerId) -> Vec<Pool> = list(
        Call::get(LB, "loadbalancer_pool_list", ["pools"])
            .query("loadbalancer_id", load_balancer_id.as_str()),
        "pools"
    );

    /// The pools of all load balancers of a project.
    fn pools_of_project(project: &ProjectId) -> Vec<Pool> = list(
        Call::get(LB, "loadbalancer_pool_list", ["pools"]).query("project_id", project.as_str()),
        "pools"
    );

    /// Requests the creation of a pool.
    fn create_pool(new: &NewPool) -> Pool =
        one(Call::post(LB, "loadbalancer_pool_create", ["pools"]).json("pool", new), "pool");

    /// Changes a pool. With an empty update Octavia writes the existing configuration to the data path again.
    fn update_pool(id: &PoolId, update: &PoolUpdate) -> Pool = one(
        Call::put(LB, "loadbalancer_pool_update", ["pools", id.as_str()]).json("pool", update),
        "pool"
    );

    /// Requests the deletion of a pool with its members and its health monitor.
    fn delete_pool(id: &PoolId) -> () =
        done(Call::delete(LB, "loadbalancer_pool_delete", ["pools", id.as_str()]));

    /// Health monitors that match.
    fn health_monitors(filter: &HealthMonitorFilter) -> Vec<HealthMonitor> = list(
        Call::get(LB, "loadbalancer_healthmonitor_list", ["healthmonitors"])
            .each("name", &filter.name)
            .each("pool_id", &filter.pool_id)
            .each("project_id", &filter.project_id),
        "healthmonitors"
    );

    /// One health monitor.
    fn health_monitor(id: &MonitorId) -> HealthMonitor = one(
        Call::get(LB, "loadbalancer_healthmonitor_get", ["healthmonitors", id.as_str()]),
        "healthmonitor"
    );

    /// Requests the creation of a health monitor. A provider that does not support its type answers 501, class
    /// `NotImplemented`.
    fn create_health_monitor(new: &NewHealthMonitor) -> HealthMonitor = one(
        Call::post(LB, "loadbalancer_healthmonitor_create", ["healthmonitors"])
            .json("healthmonitor", new),
        "healthmonitor"
    );

    /// Changes a health monitor. With an empty update Octavia writes the existing configuration to the data path again.
    fn update_health_monitor(id: &MonitorId, update: &HealthMonitorUpdate) -> HealthMonitor = one(
        Call::put(LB, "loadbalancer_healthmonitor_update", ["healthmonitors", id.as_str()])
            .json("healthmonitor", update),
        "healthmonitor"
    );

    /// Requests the deletion of a health monitor.
    fn delete_health_monitor(id: &MonitorId) -> () = done(
        Call::delete(LB, "loadbalancer_healthmonitor_delete", ["healthmonitors", id.as_str()])
    );

    /// The members of a pool with all their fields.
    fn members(pool: &PoolId) -> Vec<Member> = list(
        Call::get(LB, "loadbalancer_member_list", ["pools", pool.as_str(), "members"]),
        "members"
    );

    /// Requests the creation of a member. It is PENDING_CREATE in the answer.
    fn create_member(pool: &PoolId, new: &NewMember) -> Member = one(
        Call::post(LB, "loadbalancer_member_create", ["pools", pool.as_str(), "members"])
            .json("member", new),
        "member"
    );

    /// Changes a member. With an empty update Octavia writes the existing configuration to the data path again.
    fn update_member(pool: &PoolId, id: &MemberId, update: &MemberUpdate) -> Member = one(
        Call::put(LB, "loadbalancer_member_update", member(pool, id)).json("member", update),
        "member"
    );

    /// Requests the deletion of a member. The member is deleted when a later read does not have it any more.
    fn delete_member(pool: &PoolId, id: &MemberId) -> () =
        done(Call::delete(LB, "loadbalancer_member_delete", member(pool, id)));

    /// The providers that are enabled.
    fn load_balancer_providers() -> Vec<Provider> =
        list(Call::get(LB, "loadbalancer_provider_list", ["providers"]), "providers");

    /// Octavia's flavors of this name.
    fn load_balancer_flavors(name: &str) -> Vec<LoadBalancerFlavor> =
        list(Call::get(LB, "loadbalancer_flavor_list", ["flavors"]).query("name", name), "flavors");
}
