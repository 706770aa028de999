//! A cluster that CAPO made, with a control-plane machine: taken over without a single write to OpenStack.

use serde_json::{Value, json};

use test_support::{
    env::{Environment, environment::is},
    waiting::until_true,
};

use super::{
    made_by_capo::{Bastion, Capo, bastion_machine},
    quick,
};
use crate::{
    contract::{Access, Raw},
    env::apply::apply,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_capo_made_is_taken_over_without_a_write() {
    take_over("capo-made", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_a_bastion_is_taken_over_without_a_write() {
    take_over("capo-bastion", true).await;
}

/// The `OpenStackServer` of a bastion, with its status.
async fn bastion_object(environment: &Environment, bastion: &Bastion, network: &Value) {
    let owner = environment
        .cluster_api
        .get("OpenStackCluster", "c1")
        .await
        .unwrap()
        .unwrap();
    let machine = bastion_machine();
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {"name": "c1-bastion", "namespace": environment.namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c1"},
            "finalizers": ["openstackserver.infrastructure.cluster.x-k8s.io"],
            "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": "OpenStackCluster", "name": "c1",
                "uid": owner["metadata"]["uid"]}]},
        "spec": {"identityRef": machine["identityRef"], "flavor": "m1.small", "image": machine["image"], "sshKeyName": "",
            "tags": [format!("of-{}-c1", environment.namespace)],
            "ports": [{"network": {"id": network}, "securityGroups": [{"id": bastion.group}]}]},
    });
    apply(&environment.admin, &[object]).await.unwrap();
    let status = json!({"ready": true, "instanceID": bastion.server["id"], "instanceState": "ACTIVE",
        "resolved": {"imageID": bastion.server["image"]["id"], "flavorID": bastion.server["flavor"]["id"],
            "ports": [{"name": "c1-bastion-0", "networkID": network, "securityGroups": [bastion.group]}]},
        "resources": {"ports": [{"id": bastion.port["id"]}]}});
    environment
        .patch_status("OpenStackServer", "c1-bastion", status)
        .await;
}

#[expect(clippy::too_many_lines, reason = "everything that CAPO leaves behind")]
async fn take_over(namespace: &str, with_bastion: bool) {
    let environment = Environment::in_namespace(namespace)
        .cloud(quick())
        .start()
        .await;
    let (base, tag) = (format!("{namespace}-c1"), format!("of-{namespace}-c1"));
    let (base, tag) = (base.as_str(), tag.as_str());
    let description = format!("Created by cluster-api-provider-openstack cluster {base}");
    let access = Access {
        auth_url: environment.cloud.auth_url(),
        user: "demo".into(),
        password: "secret".into(),
        project: "demo".into(),
    };
    let capo = Capo {
        raw: Raw::sign_in(&access).await,
    };
    let named = format!("k8s-clusterapi-cluster-{base}");

    // Network.
    let network = capo
        .make(
            "network",
            "networks",
            "network",
            json!({"name": named, "admin_state_up": true}),
        )
        .await;
    capo.tag("networks", &network["id"], tag).await;
    let subnet = json!({"name": named, "network_id": network["id"], "cidr": "10.6.0.0/24", "ip_version": 4,
        "description": description, "dns_nameservers": ["9.9.9.9"]});
    let subnet = capo.make("network", "subnets", "subnet", subnet).await;
    capo.tag("subnets", &subnet["id"], tag).await;
    let public = capo
        .listed("network", "networks", "networks", "public")
        .await;
    let router = json!({"name": named, "description": description,
        "external_gateway_info": {"network_id": public["id"]}});
    let router = capo.make("network", "routers", "router", router).await;
    capo.tag("routers", &router["id"], tag).await;
    let path = format!(
        "routers/{}/add_router_interface",
        router["id"].as_str().unwrap()
    );
    capo.put("network", &path, json!({"subnet_id": subnet["id"]}))
        .await;
    let (control_plane, worker) = capo.security_groups(base, tag).await;
    let bastion = if with_bastion {
        let nodes = [&control_plane, &worker];
        let (network, external) = (&network["id"], &public["id"]);
        Some(capo.bastion(base, network, external, nodes).await)
    } else {
        None
    };

    // Load balancer and its floating IP.
    let balancer_name = format!("{named}-kubeapi");
    let balancer = json!({"name": balancer_name, "description": description, "vip_subnet_id": subnet["id"],
        "vip_network_id": network["id"], "tags": [tag]});
    let balancer = capo
        .make("load-balancer", "loadbalancers", "loadbalancer", balancer)
        .await;
    let id = balancer["id"].as_str().unwrap();
    capo.balancer_is_active(id).await;
    let floating = json!({"floating_network_id": public["id"], "description": description, "port_id": balancer["vip_port_id"]});
    let floating = capo
        .make("network", "floatingips", "floatingip", floating)
        .await;
    capo.tag("floatingips", &floating["id"], tag).await;
    let port_name = format!("{balancer_name}-6443");
    let mut listener = json!({"name": port_name, "loadbalancer_id": id, "protocol": "TCP", "protocol_port": 6443, "tags": [tag]});
    if let Some(bastion) = &bastion {
        let whole = |address: &Value| format!("{}/32", address.as_str().unwrap());
        let gateway = &router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"];
        listener["allowed_cidrs"] = json!([
            "10.6.0.0/24",
            "192.0.2.0/24",
            whole(gateway),
            whole(bastion.address()),
            whole(bastion.floating_address()),
        ]);
    }
    let listener = capo
        .make("load-balancer", "listeners", "listener", listener)
        .await;
    capo.balancer_is_active(id).await;
    let pool = json!({"name": port_name, "listener_id": listener["id"], "protocol": "TCP",
        "lb_algorithm": "ROUND_ROBIN", "tags": [tag]});
    let pool = capo.make("load-balancer", "pools", "pool", pool).await;
    capo.balancer_is_active(id).await;
    let monitor = json!({"name": port_name, "pool_id": pool["id"], "type": "TCP", "delay": 10, "timeout": 5,
        "max_retries": 5, "max_retries_down": 3});
    capo.make("load-balancer", "healthmonitors", "healthmonitor", monitor)
        .await;
    capo.balancer_is_active(id).await;

    // A server with its port, and its member.
    let port = json!({"name": "cp-0-0", "network_id": network["id"], "security_groups": [control_plane],
        "fixed_ips": [{"subnet_id": subnet["id"]}], "description": "Created by cluster-api-provider-openstack cluster c1"});
    let port = capo.make("network", "ports", "port", port).await;
    capo.tag("ports", &port["id"], tag).await;
    let address = port["fixed_ips"][0]["ip_address"].clone();
    let flavor = capo
        .listed("compute", "flavors/detail", "flavors", "m1.small")
        .await;
    let image = capo.listed("image", "images", "images", "cirros").await;
    let server = json!({"name": "cp-0", "flavorRef": flavor["id"], "imageRef": image["id"],
        "networks": [{"port": port["id"]}]});
    let server = capo.make("compute", "servers", "server", server).await;
    let server_path = format!("servers/{}", server["id"].as_str().unwrap());
    until_true("the server is ACTIVE", async || {
        capo.raw.get("compute", &server_path).await.1["server"]["status"] == "ACTIVE"
    })
    .await;
    let member = json!({"name": format!("{port_name}-cp-0"), "address": address, "protocol_port": 6443, "tags": [tag]});
    let path = format!("pools/{}/members", pool["id"].as_str().unwrap());
    capo.make("load-balancer", &path, "member", member).await;
    capo.balancer_is_active(id).await;
    let mark = environment.cloud.control().last_call();

    // The objects as CAPO leaves them. They are paused, because the operator pauses them before the deployments are
    // swapped.
    let change = if with_bastion {
        json!({"bastion": {"enabled": true, "spec": bastion_machine()},
    "apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24"]}}})
    } else {
        json!({})
    };
    let mut infrastructure = environment.cluster("c1", change);
    infrastructure["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    infrastructure["metadata"]["finalizers"] =
        json!(["openstackcluster.infrastructure.cluster.x-k8s.io"]);
    infrastructure["spec"]["controlPlaneEndpoint"] =
        json!({"host": floating["floating_ip_address"], "port": 6443});
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    let machine = json!({"identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
        "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "cirros"}},
        "providerID": format!("openstack:///{}", server["id"].as_str().unwrap())});
    environment
        .cluster_api
        .create_machine("c1", "cp-0", true, machine.clone())
        .await;
    let owner = environment
        .cluster_api
        .get("OpenStackMachine", "cp-0")
        .await
        .unwrap()
        .unwrap();
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
        "metadata": {"name": "cp-0", "namespace": environment.namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c1"},
            "finalizers": ["openstackserver.infrastructure.cluster.x-k8s.io"],
            "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": "OpenStackMachine", "name": "cp-0",
                "uid": owner["metadata"]["uid"]}]},
        "spec": {"identityRef": machine["identityRef"], "flavor": "m1.small", "image": machine["image"], "sshKeyName": "",
            "tags": [tag], "userDataRef": {"name": "cp-0-bootstrap"},
            "ports": [{"network": {"id": network["id"]}, "fixedIPs": [{"subnet": {"id": subnet["id"]}}],
                "description": "Created by cluster-api-provider-openstack cluster c1", "tags": [tag],
                "securityGroups": [{"id": control_plane}]}]},
    });
    apply(&environment.admin, &[object]).await.unwrap();
    let (bastion_status, bastion_group) = match &bastion {
        Some(bastion) => {
            bastion_object(&environment, bastion, &network["id"]).await;
            let name = format!("k8s-cluster-{base}-secgroup-bastion");
            (bastion.status(), json!({"id": bastion.group, "name": name}))
        }
        None => (Value::Null, Value::Null),
    };
    for (kind, name, status) in [
        (
            "OpenStackServer",
            "cp-0",
            json!({"ready": true, "instanceID": server["id"], "instanceState": "ACTIVE",
            "resolved": {"imageID": image["id"], "flavorID": flavor["id"], "ports": [{"name": "cp-0-0",
                "networkID": network["id"], "fixedIPs": [{"subnet": subnet["id"]}], "securityGroups": [control_plane],
                "description": "Created by cluster-api-provider-openstack cluster c1", "tags": [tag]}]},
            "resources": {"ports": [{"id": port["id"]}]}}),
        ),
        (
            "OpenStackMachine",
            "cp-0",
            json!({"initialization": {"provisioned": true}, "instanceID": server["id"],
            "instanceState": "ACTIVE"}),
        ),
        (
            "OpenStackCluster",
            "c1",
            json!({"initialization": {"provisioned": true},
            "network": {"id": network["id"], "name": named, "subnets": [{"id": subnet["id"], "name": named, "cidr": "10.6.0.0/24"}]},
            "router": {"id": router["id"], "name": named}, "externalNetwork": {"id": public["id"], "name": "public"},
            "controlPlaneSecurityGroup": {"id": control_plane, "name": format!("k8s-cluster-{base}-secgroup-controlplane")},
            "workerSecurityGroup": {"id": worker, "name": format!("k8s-cluster-{base}-secgroup-worker")},
            "apiServerManagedLoadBalancer": {"id": id, "name": balancer_name, "ip": floating["floating_ip_address"],
                "internalIP": balancer["vip_address"]},
            "bastion": bastion_status, "bastionSecurityGroup": bastion_group}),
        ),
    ] {
        environment.patch_status(kind, name, status).await;
    }

    // The objects are resumed under the other deployment, which finds everything as it should be.
    environment
        .patch(
            "OpenStackCluster",
            "c1",
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}),
        )
        .await;
    let taken = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            is(cluster, "Ready", "True") && is(cluster, "APIServerLoadBalancerReady", "True")
        })
        .await;
    assert_eq!(taken["status"]["apiServerManagedLoadBalancer"]["id"], id);
    environment
        .cluster_api
        .until_object("OpenStackMachine", "cp-0", |machine| {
            is(machine, "Ready", "True")
        })
        .await;
    environment.one_more_pass("c1").await;
    if let Some(bastion) = &bastion {
        let taken = environment
            .until_object("OpenStackCluster", "c1", |cluster| !cluster.is_null())
            .await;
        assert_eq!(
            taken["status"]["bastion"]["floatingIP"],
            *bastion.floating_address()
        );
        assert_eq!(taken["status"]["bastionSecurityGroup"]["id"], bastion.group);
        let allowed = &taken["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
        assert_eq!(allowed.as_array().map(Vec::len), Some(5), "{allowed}");
    }
    let written = environment.writes_since(mark);
    assert_eq!(written, Vec::<String>::new(), "taking over changes nothing");
    environment.delete("c1").await;
}
