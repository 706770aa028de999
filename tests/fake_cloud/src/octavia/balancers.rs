//! Load balancers: POST (with listeners and pools or without), GET, PUT, DELETE, failover, status tree.

use serde_json::json;

use super::{
    change::Change,
    change_head, forbidden, invalid, lists, mandatory,
    model::LoadBalancer,
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    wire::{Answer, Reply, Request, Row, given, truthy},
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
        if let Some(id) = &flavor {
            let Some(known) = self.octavia.flavors.get(id) else {
                return Err(invalid("Invalid flavor_id."));
            };
            if known.get("enabled") == Some(&json!(false)) {
                let text = format!("The selected flavor is not allowed in this deployment: {id}");
                return Err(octavia_error(400, &text));
            }
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

    /// Refuses requests that the OVN provider does not support.
    pub(super) fn ovn_refuses(lb: &LoadBalancer, refused: bool, what: &str) -> Result<(), Reply> {
        if lb.provider == "ovn" && refused {
            return Err(octavia_error(
                501,
                format!("Provider 'ovn' does not support a requested option: {what}"),
            ));
        }
        Ok(())
    }

    /// Checks that all of these attributes are present.
    pub(super) fn demand(body: &Row, names: &[&str]) -> Result<(), Reply> {
        mandatory(body, names)
    }
}
