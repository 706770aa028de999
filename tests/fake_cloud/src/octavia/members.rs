//! Members, one at a time.

use serde_json::{Value, json};

use super::{
    change::Change,
    change_head, integer, lists, missing,
    model::{LoadBalancer, Member},
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    network::Kind,
    wire::{Answer, Reply, Request, Row, given},
    world::World,
};

const COLUMNS: [&str; 18] = [
    "id",
    "name",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "address",
    "protocol_port",
    "weight",
    "backup",
    "subnet_id",
    "project_id",
    "tenant_id",
    "monitor_address",
    "monitor_port",
    "created_at",
    "updated_at",
    "vnic_type",
    "pool_id",
];

pub(super) const ATTRIBUTES: [&str; 14] = [
    "name",
    "admin_state_up",
    "address",
    "protocol_port",
    "weight",
    "backup",
    "subnet_id",
    "project_id",
    "tenant_id",
    "monitor_port",
    "monitor_address",
    "tags",
    "request_sriov",
    "id",
];

const CHANGEABLE: [&str; 7] = [
    "name",
    "admin_state_up",
    "weight",
    "backup",
    "monitor_port",
    "monitor_address",
    "tags",
];

impl World {
    pub(super) fn list_members(&self, request: &Request, lb: &str, pool: &str) -> Answer {
        let lb = self.balancer_read(request, lb)?;
        let rows = lb
            .pool(pool)
            .map(|pool| {
                pool.members
                    .iter()
                    .map(|member| member.shown(&lb.project))
                    .collect()
            })
            .unwrap_or_default();
        lists::answer(
            request,
            "members",
            &format!("pools/{pool}/members"),
            rows,
            &COLUMNS,
        )
    }

    pub(super) fn show_member(&self, request: &Request, lb: &str, pool: &str, id: &str) -> Answer {
        let lb = self.balancer_read(request, lb)?;
        let member = lb
            .pool(pool)
            .and_then(|pool| pool.member(id))
            .ok_or_else(|| missing("Member", id))?;
        let mut row = member.shown(&lb.project);
        select(&mut row, &request.query);
        Ok(Reply::json(200, json!({ "member": row })))
    }

    /// A member's row from a body.
    pub(super) fn new_member(
        &mut self,
        lb: &LoadBalancer,
        body: &Row,
        monitored: bool,
    ) -> Result<Member, Reply> {
        Self::demand(body, &["address", "protocol_port"])?;
        let port = Self::port_number(body, "protocol_port")?.unwrap_or_default();
        let address = Self::address(body, "address")?.unwrap_or_default();
        if address == "169.254.169.254" {
            return Err(octavia_error(
                400,
                format!("{address} is not a valid option for member address"),
            ));
        }
        let weight = integer(body, "weight", 0, 256)?.unwrap_or(1);
        if let Some(subnet) = given(body, "subnet_id")
            && self.network.get(Kind::Subnet, subnet).is_none()
        {
            return Err(missing("Subnet", subnet));
        }
        let checked_elsewhere = given(body, "monitor_address").is_some()
            || body.get("monitor_port").is_some_and(|port| !port.is_null());
        Self::ovn_refuses(
            lb,
            checked_elsewhere,
            "OVN provider does not support monitor_address or monitor_port option",
        )?;
        Ok(Member {
            head: self.head(
                body,
                if monitored {
                    Operating::Offline
                } else {
                    Operating::NoMonitor
                },
            ),
            address,
            port,
            weight,
            backup: body.get("backup").and_then(Value::as_bool).unwrap_or(false),
            subnet: given(body, "subnet_id").map(str::to_owned),
            monitor_address: Self::address(body, "monitor_address")?,
            monitor_port: Self::port_number(body, "monitor_port")?,
            plugged: true,
            up: None,
            forced: None,
        })
    }

    pub(super) fn create_member(&mut self, request: &Request, parent: &str, pool: &str) -> Answer {
        let body = request.object("member");
        only(&body, "member", &ATTRIBUTES)?;
        let lb = self.balancer(request, parent)?.clone();
        let monitored = lb.pool(pool).is_some_and(|pool| pool.monitor.is_some());
        let member = self.new_member(&lb, &body, monitored)?;
        self.octavia_quota_left(&lb.project, "member", "Member", 1)?;
        let twin = lb.pool(pool).is_some_and(|pool| {
            pool.members
                .iter()
                .any(|other| other.address == member.address && other.port == member.port)
        });
        let mutable = |status: Provisioning| status == Provisioning::Active;
        let free = lb
            .pool(pool)
            .is_some_and(|pool| mutable(pool.head.provisioning))
            && mutable(lb.head.provisioning);
        if twin && free {
            return Err(octavia_error(
                409,
                format!(
                    "Another member on this pool is already using ip {} on protocol_port {}",
                    member.address, member.port
                ),
            ));
        }
        let before = self.lock_pool(parent, pool)?;
        let id = member.head.id.clone();
        let shown = member.shown(&before.project);
        if let Some(row) = self
            .octavia
            .balancers
            .get_mut(parent)
            .and_then(|lb| lb.pool_mut(pool))
        {
            row.members.push(member);
        }
        self.start_change(parent, &Change::MemberCreate(pool.to_owned(), id), before);
        Ok(Reply::json(201, json!({ "member": shown })))
    }

    /// Writes the attributes of a body into a member's row.
    pub(super) fn change_member(member: &mut Member, body: &Row) -> Result<(), Reply> {
        change_head(&mut member.head, body);
        if body.contains_key("weight") {
            member.weight = integer(body, "weight", 0, 256)?.unwrap_or(1);
        }
        if let Some(backup) = body.get("backup") {
            member.backup = backup.as_bool().unwrap_or(false);
        }
        if body.contains_key("monitor_address") {
            member.monitor_address = Self::address(body, "monitor_address")?;
        }
        if body.contains_key("monitor_port") {
            member.monitor_port = Self::port_number(body, "monitor_port")?;
        }
        Ok(())
    }

    pub(super) fn update_member(
        &mut self,
        request: &Request,
        parent: &str,
        pool: &str,
        id: &str,
    ) -> Answer {
        let lb = self.balancer(request, parent)?;
        let member = lb
            .pool(pool)
            .and_then(|pool| pool.member(id))
            .ok_or_else(|| missing("Member", id))?;
        let body = request.object("member");
        only(&body, "member", &CHANGEABLE)?;
        // Values are checked before anything is locked.
        Self::change_member(&mut member.clone(), &body)?;
        let before = self.lock_pool(parent, pool)?;
        let now = self.now;
        let mut shown = None;
        let row = self
            .octavia
            .balancers
            .get_mut(parent)
            .and_then(|lb| lb.pool_mut(pool));
        if let Some(member) = row.and_then(|pool| pool.member_mut(id)) {
            Self::change_member(member, &body)?;
            member.head.set(Provisioning::PendingUpdate, now);
            shown = Some(member.shown(&before.project));
        }
        self.start_change(
            parent,
            &Change::MemberUpdate(pool.to_owned(), id.to_owned()),
            before,
        );
        Ok(Reply::json(200, json!({ "member": shown })))
    }

    pub(super) fn delete_member(
        &mut self,
        request: &Request,
        parent: &str,
        pool: &str,
        id: &str,
    ) -> Answer {
        let lb = self.balancer(request, parent)?;
        if lb.pool(pool).and_then(|pool| pool.member(id)).is_none() {
            return Err(missing("Member", id));
        }
        let before = self.lock_pool(parent, pool)?;
        let now = self.now;
        let row = self
            .octavia
            .balancers
            .get_mut(parent)
            .and_then(|lb| lb.pool_mut(pool));
        if let Some(member) = row.and_then(|pool| pool.member_mut(id)) {
            member.head.set(Provisioning::PendingDelete, now);
        }
        self.start_change(
            parent,
            &Change::MemberDelete(pool.to_owned(), id.to_owned()),
            before,
        );
        Ok(Reply::empty(204))
    }
}
