//! Octavia's load balancers and their direct parts.

use std::collections::BTreeSet;

use capo_core::{FailureClass, ProvisioningStatus, ids::LoadBalancerId};
use capo_openstack::{
    ApiVersion,
    load_balancer::{
        HealthMonitorFilter, HealthMonitorUpdate, LbAlgorithm, ListenerProtocol, ListenerUpdate,
        LoadBalancer, LoadBalancerFilter, MonitorParameters, MonitorType, NewHealthMonitor,
        NewListener, NewLoadBalancer, NewPool, Pool, PoolProtocol, StatusTree,
    },
    network::{Network, Subnet},
};

use super::{CloudUnderTest, Contract, GATE, refused};
use crate::waiting::until_true;

/// A load balancer with one listener and pool, all ACTIVE.
pub struct Balancer {
    pub network: Network,
    pub subnet: Subnet,
    pub lb: LoadBalancer,
    pub pool: Pool,
}

impl Balancer {
    pub async fn with(contract: &Contract, cidr: &str) -> Self {
        let (network, subnet) = contract.network(cidr).await;
        let lb = contract
            .cloud
            .create_load_balancer(&new_balancer(contract, &subnet), GATE)
            .await
            .unwrap();
        active(contract, &lb.id).await;
        let listener = new_listener(contract, &lb.id, 6443);
        let listener = contract
            .cloud
            .create_listener(&listener, GATE)
            .await
            .unwrap();
        settled(contract, &lb.id).await;
        let new = NewPool {
            name: format!("{}-6443", contract.name),
            protocol: PoolProtocol::Tcp,
            lb_algorithm: LbAlgorithm::RoundRobin,
            listener_id: Some(listener.id),
            loadbalancer_id: None,
            tags: vec![],
        };
        let pool = contract.cloud.create_pool(&new, GATE).await.unwrap();
        settled(contract, &lb.id).await;
        Self {
            network,
            subnet,
            lb,
            pool,
        }
    }

    pub async fn delete(self, contract: &Contract) {
        until_true("the deletion is accepted", async || {
            contract
                .cloud
                .delete_load_balancer(&self.lb.id, GATE)
                .await
                .is_ok()
        })
        .await;
        gone(contract, &self.lb.id).await;
        contract.delete_network(&self.network).await;
    }
}

pub fn new_balancer(contract: &Contract, subnet: &Subnet) -> NewLoadBalancer {
    NewLoadBalancer {
        name: contract.name.clone(),
        description: "of a contract".into(),
        vip_subnet_id: Some(subnet.id.clone()),
        tags: vec!["one".into()],
        ..NewLoadBalancer::default()
    }
}

fn new_listener(contract: &Contract, lb: &LoadBalancerId, port: u16) -> NewListener {
    NewListener {
        loadbalancer_id: lb.clone(),
        name: format!("{}-{port}", contract.name),
        protocol: ListenerProtocol::Tcp,
        protocol_port: port,
        allowed_cidrs: None,
        tags: vec!["one".into()],
    }
}

pub async fn tree(contract: &Contract, lb: &LoadBalancerId) -> StatusTree {
    contract.cloud.status_tree(lb, GATE).await.unwrap()
}

/// Waits until the load balancer, its listeners and its pools are ACTIVE.
///
/// Octavia turns a load balancer ACTIVE a moment before its listeners. A client that writes within that moment sees
/// them turn ACTIVE during its own change.
async fn settled(contract: &Contract, lb: &LoadBalancerId) {
    until_true(
        "load balancer, listeners and pools are ACTIVE",
        async || {
            let tree = tree(contract, lb).await;
            let listeners = tree.listeners.iter().map(|one| &one.provisioning_status);
            let pools = tree.pools.iter().map(|one| &one.provisioning_status);
            std::iter::once(&tree.provisioning_status)
                .chain(listeners)
                .chain(pools)
                .all(|status| *status == ProvisioningStatus::Active)
        },
    )
    .await;
}

/// Waits until the load balancer accepts writes.
pub async fn active(contract: &Contract, lb: &LoadBalancerId) {
    until_true("the load balancer is ACTIVE", async || {
        let status = contract
            .cloud
            .load_balancer(lb, GATE)
            .await
            .unwrap()
            .provisioning_status;
        assert_ne!(status, ProvisioningStatus::Error);
        status == ProvisioningStatus::Active
    })
    .await;
}

pub async fn gone(contract: &Contract, lb: &LoadBalancerId) {
    until_true("the load balancer is gone", async || {
        contract
            .cloud
            .load_balancer(lb, GATE)
            .await
            .is_err_and(|error| error.is_not_found())
    })
    .await;
}

pub async fn from_nothing_to_nothing(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let project = cloud.project_id().await.unwrap();
    assert!(cloud.load_balancer_api_version(GATE).await.unwrap() >= ApiVersion::new(2, 12));
    let providers = cloud.load_balancer_providers(GATE).await.unwrap();
    assert!(
        providers.iter().any(|provider| provider.name == "amphora"),
        "{providers:?}"
    );
    assert!(
        cloud
            .load_balancer_flavors("no-such-flavor", GATE)
            .await
            .unwrap()
            .is_empty()
    );
    let (network, subnet) = contract.network("10.67.0.0/24").await;
    let lb = cloud
        .create_load_balancer(&new_balancer(&contract, &subnet), GATE)
        .await
        .unwrap();
    assert_eq!(lb.provisioning_status, ProvisioningStatus::PendingCreate);
    assert!(lb.vip_address.is_some() && lb.vip_port_id.is_some());
    assert_eq!(
        (lb.project_id.as_ref(), &*lb.tags),
        (Some(&project), &["one".to_owned()][..])
    );
    let bare = tree(&contract, &lb.id).await;
    assert!(bare.listeners.is_empty() && bare.pools.is_empty());
    let early = refused(
        cloud
            .create_listener(&new_listener(&contract, &lb.id, 6443), GATE)
            .await,
    );
    assert!(early.is(FailureClass::Locked), "{early}");
    let early = refused(cloud.delete_load_balancer(&lb.id, GATE).await);
    assert!(early.is(FailureClass::Locked), "{early}");
    active(&contract, &lb.id).await;
    let named = |name: &str| LoadBalancerFilter {
        name: Some(name.to_owned()),
        project_id: Some(project.clone()),
        ..LoadBalancerFilter::default()
    };
    assert_eq!(
        cloud
            .load_balancers(&named(&contract.name), GATE)
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(
        cloud
            .load_balancers(&named(&contract.name[..12]), GATE)
            .await
            .unwrap()
            .is_empty()
    );

    let listener = new_listener(&contract, &lb.id, 6443);
    let listener = cloud.create_listener(&listener, GATE).await.unwrap();
    active(&contract, &lb.id).await;
    let mut pools = Vec::new();
    for (listener_id, loadbalancer_id) in [
        (Some(listener.id.clone()), None),
        (None, Some(lb.id.clone())),
    ] {
        let new = NewPool {
            name: contract.name.clone(),
            protocol: PoolProtocol::Tcp,
            lb_algorithm: LbAlgorithm::RoundRobin,
            listener_id,
            loadbalancer_id,
            tags: vec![],
        };
        pools.push(cloud.create_pool(&new, GATE).await.unwrap());
        active(&contract, &lb.id).await;
    }
    let monitor = NewHealthMonitor {
        pool_id: pools[0].id.clone(),
        name: contract.name.clone(),
        monitor_type: MonitorType::Tcp,
        url_path: None,
        parameters: MonitorParameters {
            delay: 10,
            timeout: 5,
            max_retries: 5,
            max_retries_down: 3,
        },
    };
    let made = cloud.create_health_monitor(&monitor, GATE).await.unwrap();
    active(&contract, &lb.id).await;

    let seen = tree(&contract, &lb.id).await;
    assert_eq!(seen.listeners.len(), 1);
    assert_eq!(seen.listeners[0].pools, [pools[0].id.clone()]);
    assert_eq!(
        seen.pools.len(),
        1,
        "a pool that no listener uses is not in the tree"
    );
    let in_tree = seen.pools[0].health_monitor.as_ref().unwrap();
    assert_eq!(
        (&in_tree.id, &in_tree.monitor_type),
        (&made.id, &MonitorType::Tcp)
    );
    // The type can't be changed, so the monitor is deleted and one of another type is created.
    cloud.delete_health_monitor(&made.id, GATE).await.unwrap();
    active(&contract, &lb.id).await;
    let asking = NewHealthMonitor {
        monitor_type: MonitorType::Https,
        url_path: Some("/readyz".to_owned()),
        ..monitor.clone()
    };
    let made = cloud.create_health_monitor(&asking, GATE).await.unwrap();
    active(&contract, &lb.id).await;
    let seen = tree(&contract, &lb.id).await;
    let in_tree = seen.pools[0].health_monitor.as_ref().unwrap();
    assert_eq!(
        (&in_tree.id, &in_tree.monitor_type),
        (&made.id, &MonitorType::Https)
    );
    let listed: BTreeSet<_> = cloud
        .pools(&lb.id, GATE)
        .await
        .unwrap()
        .into_iter()
        .map(|pool| pool.id)
        .collect();
    assert_eq!(
        listed,
        pools.iter().map(|pool| pool.id.clone()).collect(),
        "in the list it is"
    );
    let listeners = cloud.listeners(&lb.id, GATE).await.unwrap();
    assert_eq!(listeners[0].default_pool_id.as_ref(), Some(&pools[0].id));
    assert_eq!(
        (listeners[0].protocol_port, &*listeners[0].tags),
        (6443, &["one".to_owned()][..])
    );
    let by_pool = HealthMonitorFilter {
        pool_id: Some(pools[0].id.clone()),
        ..HealthMonitorFilter::default()
    };
    let monitors = cloud.health_monitors(&by_pool, GATE).await.unwrap();
    assert_eq!(monitors.len(), 1);
    assert_eq!(monitors[0].parameters, monitor.parameters);
    let update = HealthMonitorUpdate {
        parameters: Some(MonitorParameters {
            delay: 7,
            ..monitor.parameters
        }),
    };
    cloud
        .update_health_monitor(&made.id, &update, GATE)
        .await
        .unwrap();
    active(&contract, &lb.id).await;
    let read = cloud.health_monitor(&made.id, GATE).await.unwrap();
    assert_eq!((read.parameters.delay, read.parameters.timeout), (7, 5));
    for cidrs in [vec!["10.0.0.0/8".parse().unwrap()], vec![]] {
        let update = ListenerUpdate {
            allowed_cidrs: Some(cidrs.clone()),
            ..ListenerUpdate::default()
        };
        cloud
            .update_listener(&listener.id, &update, GATE)
            .await
            .unwrap();
        active(&contract, &lb.id).await;
        let read = cloud.listeners(&lb.id, GATE).await.unwrap().remove(0);
        assert_eq!(read.allowed_cidrs, cidrs);
    }
    let other_family = ListenerUpdate {
        allowed_cidrs: Some(vec!["2001:db8::/32".parse().unwrap()]),
        ..ListenerUpdate::default()
    };
    let error = refused(
        cloud
            .update_listener(&listener.id, &other_family, GATE)
            .await,
    );
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");
    cloud
        .update_listener(&listener.id, &ListenerUpdate::default(), GATE)
        .await
        .unwrap();
    active(&contract, &lb.id).await;

    cloud.delete_load_balancer(&lb.id, GATE).await.unwrap();
    gone(&contract, &lb.id).await;
    assert!(refused(cloud.members(&pools[0].id, GATE).await).is_not_found());
    assert!(
        cloud
            .load_balancers(&named(&contract.name), GATE)
            .await
            .unwrap()
            .is_empty()
    );
    contract.delete_network(&network).await;
}

pub async fn what_octavia_refuses(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let balancer = Balancer::with(&contract, "10.68.0.0/24").await;
    let unknown = NewLoadBalancer {
        provider: Some("no-such-provider".into()),
        ..new_balancer(&contract, &balancer.subnet)
    };
    let error = refused(cloud.create_load_balancer(&unknown, GATE).await);
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");
    assert!(error.message().contains("no-such-provider"), "{error}");
    let again = new_listener(&contract, &balancer.lb.id, 6443);
    let error = refused(cloud.create_listener(&again, GATE).await);
    assert!(error.is(FailureClass::Duplicate), "{error}");
    let second = NewPool {
        name: contract.name.clone(),
        protocol: PoolProtocol::Tcp,
        lb_algorithm: LbAlgorithm::RoundRobin,
        listener_id: Some(
            tree(&contract, &balancer.lb.id).await.listeners[0]
                .id
                .clone(),
        ),
        loadbalancer_id: None,
        tags: vec![],
    };
    let error = refused(cloud.create_pool(&second, GATE).await);
    assert!(error.is(FailureClass::Duplicate), "{error}");
    let slower_than_delay = NewHealthMonitor {
        pool_id: balancer.pool.id.clone(),
        name: contract.name.clone(),
        monitor_type: MonitorType::Tcp,
        url_path: None,
        parameters: MonitorParameters {
            delay: 5,
            timeout: 5,
            max_retries: 0,
            max_retries_down: 3,
        },
    };
    let error = refused(cloud.create_health_monitor(&slower_than_delay, GATE).await);
    assert_eq!(error.class(), FailureClass::Invalid, "{error}");
    active(&contract, &balancer.lb.id).await;
    balancer.delete(&contract).await;
}
