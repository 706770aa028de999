//! Load balancers: POST (with a graph below or without), GET, PUT, DELETE, failover, status tree.

use serde_json::{Value, json};

use super::{
    change::Change,
    change_head, forbidden, invalid, lists, mandatory,
    model::{LoadBalancer, Pool},
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    network::Kind,
    wire::{Answer, Reply, Request, Row, given, text, truthy},
    world::World,
};

const COLUMNS: [&str; 17] = [
    "id",
    "name",
    "description",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "project_id",
    "tenant_id",
    "vip_address",
    "vip_port_id",
    "vip_subnet_id",
    "vip_network_id",
    "provider",
    "flavor_id",
    "availability_zone",
    "created_at",
    "updated_at",
];

const ATTRIBUTES: [&str; 18] = [
    "name",
    "description",
    "admin_state_up",
    "vip_address",
    "vip_port_id",
    "vip_subnet_id",
    "vip_network_id",
    "vip_qos_policy_id",
    "vip_sg_ids",
    "additional_vips",
    "project_id",
    "tenant_id",
    "listeners",
    "pools",
    "provider",
    "tags",
    "flavor_id",
    "availability_zone",
];

struct Vip {
    address: String,
    port: String,
    subnet: String,
    network: String,
    owned: bool,
}

impl World {
    pub(super) fn list_balancers(&self, request: &Request) -> Answer {
        let by_name = request
            .param("name")
            .map(|name| self.octavia.by_name.get(name));
        let ids: Vec<String> = match (by_name, request.param("id")) {
            (Some(None), _) => Vec::new(),
            (Some(Some(ids)), _) => ids.iter().cloned().collect(),
            (None, Some(id)) => vec![id.to_owned()],
            (None, None) => self.octavia.balancers.keys().cloned().collect(),
        };
        let wanted = request
            .param("project_id")
            .filter(|_| request.caller.is_admin());
        let rows = ids
            .iter()
            .filter_map(|id| self.octavia.balancers.get(id))
            .filter(|lb| match wanted {
                Some(project) => lb.project == project,
                None => request.caller.is_admin() || lb.project == request.caller.project,
            })
            .filter_map(|lb| self.balancer_read(request, &lb.head.id).ok())
            .map(LoadBalancer::shown)
            .collect();
        lists::answer(request, "loadbalancers", "loadbalancers", rows, &COLUMNS)
    }

    pub(super) fn show_balancer(&self, request: &Request, id: &str) -> Answer {
        let mut row = self.balancer_read(request, id)?.shown();
        select(&mut row, &request.query);
        Ok(Reply::json(200, json!({ "loadbalancer": row })))
    }

    pub(super) fn show_tree(&self, request: &Request, id: &str) -> Answer {
        Ok(Reply::json(200, self.balancer_read(request, id)?.tree()))
    }

    pub(super) fn show_stats(&self, request: &Request, id: &str) -> Answer {
        self.balancer(request, id)?;
        Ok(Reply::json(
            200,
            json!({ "stats": { "active_connections": 0, "bytes_in": 0, "bytes_out": 0, "request_errors": 0, "total_connections": 0 } }),
        ))
    }

    pub(super) fn create_balancer(&mut self, request: &Request) -> Answer {
        let body = request.object("loadbalancer");
        only(&body, "loadbalancer", &ATTRIBUTES)?;
        let project = given(&body, "project_id")
            .unwrap_or(&request.caller.project)
            .to_owned();
        if project != request.caller.project && !request.caller.is_admin() {
            return Err(forbidden());
        }
        if given(&body, "vip_port_id").is_none()
            && given(&body, "vip_network_id").is_none()
            && given(&body, "vip_subnet_id").is_none()
        {
            return Err(octavia_error(
                400,
                "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
            ));
        }
        let flavor = given(&body, "flavor_id").map(str::to_owned);
        if let Some(flavor) = &flavor
            && !self.octavia.flavors.contains_key(flavor)
        {
            return Err(invalid("Invalid flavor_id."));
        }
        if given(&body, "availability_zone").is_some() {
            return Err(invalid("Invalid availability zone."));
        }
        let provider = given(&body, "provider")
            .unwrap_or(&self.octavia.default_provider)
            .to_owned();
        if !self.octavia.providers.contains(&provider) {
            return Err(octavia_error(
                400,
                format!("Provider '{provider}' is not enabled."),
            ));
        }
        self.octavia_quota_left(&project, "load_balancer", "Load Balancer", 1)?;
        let id = self.new_id();
        let vip = self.take_vip(&body, &id, &project)?;
        let mut head = self.head(&body, Operating::Offline);
        head.id.clone_from(&id);
        let lb = LoadBalancer {
            head,
            project,
            provider,
            flavor,
            zone: None,
            vip_address: vip.address,
            vip_port: vip.port.clone(),
            vip_subnet: vip.subnet,
            vip_network: vip.network,
            owns_vip_port: vip.owned,
            listeners: Vec::new(),
            pools: Vec::new(),
        };
        let built = self.graph(lb, &body);
        let lb = match built {
            Ok(lb) => lb,
            Err(error) => {
                if vip.owned {
                    self.remove_port(&vip.port);
                }
                return Err(error);
            }
        };
        let shown = lb.shown_full();
        for child in lb
            .listeners
            .iter()
            .map(|listener| &listener.head.id)
            .chain(lb.pools.iter().map(|pool| &pool.head.id))
            .chain(
                lb.pools
                    .iter()
                    .filter_map(|pool| Some(&pool.monitor.as_ref()?.head.id)),
            )
        {
            self.octavia.parents.insert(child.clone(), id.clone());
        }
        self.octavia
            .by_name
            .entry(lb.head.name.clone())
            .or_default()
            .insert(id.clone());
        let before = lb.clone();
        self.octavia.balancers.insert(id.clone(), lb);
        self.start_change(&id, &Change::LoadBalancerCreate, before);
        Ok(Reply::json(201, json!({ "loadbalancer": shown })))
    }

    /// Listeners and pools that came along in the POST.
    fn graph(&mut self, mut lb: LoadBalancer, body: &Row) -> Result<LoadBalancer, Reply> {
        let objects = |name: &str| -> Vec<Row> {
            body.get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_object().cloned())
                .collect()
        };
        let mut pools = objects("pools");
        let mut listeners = objects("listeners");
        for listener in &mut listeners {
            let Some(pool) = listener
                .get("default_pool")
                .and_then(Value::as_object)
                .cloned()
            else {
                continue;
            };
            if given(&pool, "name").is_none() {
                return Err(invalid(
                    "Pools must be named when creating a fully populated loadbalancer.",
                ));
            }
            if pool.len() > 1 {
                pools.push(pool);
            }
        }
        for body in &pools {
            let pool = self.graph_pool(&lb, body)?;
            if lb
                .pools
                .iter()
                .any(|other| other.head.name == pool.head.name)
            {
                return Err(invalid(
                    "Pool names must be unique when creating a fully populated loadbalancer.",
                ));
            }
            lb.pools.push(pool);
        }
        for body in &listeners {
            let mut listener = self.new_listener(&lb, body)?;
            if let Some(name) = body
                .get("default_pool")
                .and_then(|pool| pool.get("name")?.as_str())
            {
                let pool = lb.pools.iter().find(|pool| pool.head.name == name);
                let pool = pool.ok_or_else(|| {
                    invalid(format!(
                        "Pool '{name}' was referenced but no full definition was found."
                    ))
                })?;
                listener.pool = Some(pool.head.id.clone());
            }
            lb.listeners.push(listener);
        }
        Ok(lb)
    }

    fn graph_pool(&mut self, lb: &LoadBalancer, body: &Row) -> Result<Pool, Reply> {
        for attribute in ["protocol", "lb_algorithm"] {
            if given(body, attribute).is_none() {
                return Err(invalid(format!(
                    "Pool definition for '{}' missing required attribute: {attribute}",
                    text(body, "name")
                )));
            }
        }
        let mut pool = self.new_pool(lb, body)?;
        if let Some(monitor) = body.get("healthmonitor").and_then(Value::as_object) {
            pool.monitor = Some(self.new_monitor(lb, monitor)?);
        }
        for member in body
            .get("members")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let member = member.as_object().cloned().unwrap_or_default();
            // Born NO_MONITOR even where the graph has a monitor.
            let member = self.new_member(lb, &member, false)?;
            pool.members.push(member);
        }
        Ok(pool)
    }

    fn take_vip(&mut self, body: &Row, id: &str, project: &str) -> Result<Vip, Reply> {
        if let Some(port) = given(body, "vip_port_id") {
            let row = self.network.get(Kind::Port, port);
            let row = row.ok_or_else(|| octavia_error(400, format!("Port {port} not found.")))?;
            let network = text(row, "network_id").to_owned();
            let address = self.port_address(port).unwrap_or_default();
            let subnet = self.first_subnet(&network).unwrap_or_default();
            return Ok(Vip {
                address,
                port: port.to_owned(),
                subnet,
                network,
                owned: false,
            });
        }
        let (network, subnet) = match (given(body, "vip_network_id"), given(body, "vip_subnet_id"))
        {
            (_, Some(subnet)) => {
                let row = self.network.get(Kind::Subnet, subnet);
                let row =
                    row.ok_or_else(|| octavia_error(400, format!("Subnet {subnet} not found.")))?;
                (text(row, "network_id").to_owned(), subnet.to_owned())
            }
            (Some(network), None) => {
                if self.network.get(Kind::Network, network).is_none() {
                    return Err(octavia_error(400, format!("Network {network} not found.")));
                }
                let subnet = self.first_subnet(network);
                let subnet =
                    subnet.ok_or_else(|| invalid("Supplied network does not contain a subnet."))?;
                (network.to_owned(), subnet)
            }
            (None, None) => {
                return Err(octavia_error(
                    400,
                    "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
                ));
            }
        };
        let mut fixed = json!({ "subnet_id": subnet });
        if let (Some(address), Some(fixed)) = (given(body, "vip_address"), fixed.as_object_mut()) {
            fixed.insert("ip_address".into(), json!(address));
        }
        let wish = json!({
            "network_id": network, "name": format!("octavia-lb-{id}"), "device_id": format!("lb-{id}"),
            "device_owner": "Octavia", "admin_state_up": false, "fixed_ips": [fixed],
        });
        let port = self
            .create_port(&wish.as_object().cloned().unwrap_or_default(), project)
            .map_err(|reply| match reply.body {
                // Neutron's words reach the caller under Octavia's shape.
                crate::wire::Body::Json(body) => {
                    let words = body
                        .pointer("/NeutronError/message")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned();
                    octavia_error(reply.status, words)
                }
                _ => octavia_error(500, "Error creating the VIP port."),
            })?;
        let port = text(&port, "id").to_owned();
        let address = self.port_address(&port).unwrap_or_default();
        Ok(Vip {
            address,
            port,
            subnet,
            network,
            owned: true,
        })
    }

    /// Locks a load balancer, or says in which state it is.
    fn lock_balancer(
        &mut self,
        id: &str,
        status: Provisioning,
        from: &[Provisioning],
    ) -> Result<LoadBalancer, Reply> {
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(id)
            .ok_or_else(|| super::missing("Load Balancer", id))?;
        if !from.contains(&lb.head.provisioning) {
            return Err(octavia_error(
                409,
                format!(
                    "Invalid state {} of loadbalancer resource {id}",
                    lb.head.provisioning.text()
                ),
            ));
        }
        let before = lb.clone();
        lb.head.set(status, now);
        Ok(before)
    }

    pub(super) fn update_balancer(&mut self, request: &Request, id: &str) -> Answer {
        self.balancer(request, id)?;
        let body = request.object("loadbalancer");
        let before =
            self.lock_balancer(id, Provisioning::PendingUpdate, &[Provisioning::Active])?;
        if let Some(lb) = self.octavia.balancers.get_mut(id) {
            let old = lb.head.name.clone();
            change_head(&mut lb.head, &body);
            let new = lb.head.name.clone();
            if let Some(ids) = self.octavia.by_name.get_mut(&old) {
                ids.remove(id);
            }
            self.octavia
                .by_name
                .entry(new)
                .or_default()
                .insert(id.to_owned());
        }
        self.start_change(id, &Change::LoadBalancerUpdate, before);
        self.show_changed(request, id)
    }

    fn show_changed(&self, request: &Request, id: &str) -> Answer {
        let row = self.balancer(request, id)?.shown();
        Ok(Reply::json(200, json!({ "loadbalancer": row })))
    }

    pub(super) fn delete_balancer(&mut self, request: &Request, id: &str) -> Answer {
        let lb = self.balancer(request, id)?;
        let cascade = request.param("cascade").is_some_and(truthy);
        let childless = lb.listeners.is_empty() && lb.pools.is_empty();
        if !cascade && !childless {
            return Err(invalid(format!(
                "Cannot delete Load Balancer {id} - it has children"
            )));
        }
        let before = self.lock_balancer(
            id,
            Provisioning::PendingDelete,
            &[Provisioning::Active, Provisioning::Error],
        )?;
        self.start_change(id, &Change::LoadBalancerDelete, before);
        Ok(Reply::empty(204))
    }

    pub(super) fn failover(&mut self, request: &Request, id: &str) -> Answer {
        let lb = self.balancer(request, id)?;
        if !request.caller.is_admin() {
            return Err(forbidden());
        }
        if lb.provider == "ovn" {
            return Err(octavia_error(
                501,
                "Provider 'ovn' does not support a requested action: This provider does not support loadbalancer failover.",
            ));
        }
        let before = self.lock_balancer(
            id,
            Provisioning::PendingUpdate,
            &[Provisioning::Active, Provisioning::Error],
        )?;
        self.start_change(id, &Change::Failover, before);
        Ok(Reply::empty(202))
    }

    /// The common lock of changes below a load balancer: 409 unless it is ACTIVE; then it, the pool and these
    /// listeners are PENDING_UPDATE.
    pub(super) fn lock_below(
        &mut self,
        id: &str,
        listeners: &[String],
        pool: Option<&str>,
    ) -> Result<(), Reply> {
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(id)
            .ok_or_else(|| super::missing("Load Balancer", id))?;
        if lb.head.provisioning != Provisioning::Active {
            return Err(super::immutable("Load Balancer", id));
        }
        lb.head.set(Provisioning::PendingUpdate, now);
        for listener in listeners {
            if let Some(listener) = lb.listener_mut(listener) {
                listener.head.set(Provisioning::PendingUpdate, now);
            }
        }
        if let Some(pool) = pool.and_then(|pool| lb.pool_mut(pool)) {
            pool.head.set(Provisioning::PendingUpdate, now);
        }
        Ok(())
    }

    /// For changes of members and monitors: the pool must be ACTIVE, then the load balancer.
    pub(super) fn lock_pool(&mut self, id: &str, pool: &str) -> Result<LoadBalancer, Reply> {
        let lb = self
            .octavia
            .balancers
            .get(id)
            .ok_or_else(|| super::missing("Load Balancer", id))?;
        let row = lb.pool(pool).ok_or_else(|| super::missing("Pool", pool))?;
        if row.head.provisioning != Provisioning::Active {
            return Err(super::immutable("Pool", pool));
        }
        let before = lb.clone();
        let listeners = lb.listeners_of(pool);
        self.lock_below(id, &listeners, Some(pool))?;
        Ok(before)
    }

    /// Refuses what the OVN provider can't do.
    pub(super) fn ovn_refuses(lb: &LoadBalancer, refused: bool, what: &str) -> Result<(), Reply> {
        if lb.provider == "ovn" && refused {
            return Err(octavia_error(
                501,
                format!("Provider 'ovn' does not support a requested option: {what}"),
            ));
        }
        Ok(())
    }

    /// Checks that all of these attributes are there.
    pub(super) fn demand(body: &Row, names: &[&str]) -> Result<(), Reply> {
        mandatory(body, names)
    }
}
