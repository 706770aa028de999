//! PUT of all members of a pool at once.

use serde_json::Value;

use super::{change::Change, invalid, members::ATTRIBUTES, missing, only, status::Provisioning};
use crate::{
    wire::{Answer, Reply, Request, Row, truthy},
    world::World,
};

impl World {
    pub(super) fn batch_members(&mut self, request: &Request, parent: &str, pool: &str) -> Answer {
        let lb = self.balancer(request, parent)?.clone();
        let additive = request.param("additive_only").is_some_and(truthy);
        let bodies: Vec<Row> = match request.body.get("members").and_then(Value::as_array) {
            Some(list) => list
                .iter()
                .filter_map(|body| body.as_object().cloned())
                .collect(),
            None => {
                return Err(super::octavia_error(
                    400,
                    "Invalid input for field/attribute members. Value: 'None'. Mandatory field missing.",
                ));
            }
        };
        let row = lb.pool(pool).ok_or_else(|| missing("Pool", pool))?.clone();
        let monitored = row.monitor.is_some();
        let mut created = Vec::new();
        let mut updated: Vec<(String, Row)> = Vec::new();
        for body in &bodies {
            only(body, "members", &ATTRIBUTES)?;
            let wanted = self.new_member(&lb, body, monitored)?;
            let known = row
                .members
                .iter()
                .find(|member| member.address == wanted.address && member.port == wanted.port);
            match known {
                Some(known) if updated.iter().any(|(id, _)| *id == known.head.id) => {
                    return Err(invalid(
                        "Member must be updated only once in the same request.",
                    ));
                }
                Some(known) => updated.push((known.head.id.clone(), body.clone())),
                None => created.push(wanted),
            }
        }
        let (others, deleted): (Vec<String>, Vec<String>) = row
            .members
            .iter()
            .map(|member| member.head.id.clone())
            .filter(|id| !updated.iter().any(|(known, _)| known == id))
            .partition(|_| additive);
        let before = self.lock_pool(parent, pool)?;
        if created.is_empty() && updated.is_empty() && others.is_empty() && deleted.is_empty() {
            // No member changes and none exists, so the transaction and its lock are rolled back.
            self.octavia.balancers.insert(parent.to_owned(), before);
            return Ok(Reply::empty(202));
        }
        let growth = if additive {
            created.len()
        } else {
            created.len().saturating_sub(deleted.len())
        };
        if growth > 0
            && let Err(reply) = self.octavia_quota_left(&lb.project, "member", "Member", growth)
        {
            self.octavia.balancers.insert(parent.to_owned(), before);
            return Err(reply);
        }
        let now = self.now;
        let change = Change::MemberBatch {
            pool: pool.to_owned(),
            created: created
                .iter()
                .map(|member| member.head.id.clone())
                .collect(),
            updated: updated.iter().map(|(id, _)| id.clone()).collect(),
            deleted: deleted.clone(),
            untouched: others,
        };
        if let Some(row) = self
            .octavia
            .balancers
            .get_mut(parent)
            .and_then(|lb| lb.pool_mut(pool))
        {
            row.members.extend(created);
            for (id, body) in &updated {
                if let Some(member) = row.member_mut(id) {
                    // Every listed member is a full row, so an attribute that is left out gets its default.
                    member.weight = 1;
                    member.head.enabled = true;
                    Self::change_member(member, body)?;
                    member.head.set(Provisioning::PendingUpdate, now);
                }
            }
            for id in &deleted {
                if let Some(member) = row.member_mut(id) {
                    member.head.set(Provisioning::PendingDelete, now);
                }
            }
        }
        self.start_change(parent, &change, before);
        Ok(Reply::empty(202))
    }
}
