//! Neutron's lists: visibility, filters, order, pages and links; and its quotas.

use serde_json::{Value, json};

use super::{Kind, neutron_error};
use crate::{
    listing::{AUXILIARY, TAG_FILTERS, compare, encode, equals, select, tags_match},
    wire::{Answer, Reply, Request, Row, Service, text, truthy},
    world::World,
};

impl World {
    /// Whether the caller may see a row: its own rows, and shared and external ones; an administrator sees all rows.
    pub(super) fn may_see(request: &Request, row: &Row) -> bool {
        let flag = |name| row.get(name).and_then(Value::as_bool).unwrap_or(false);
        request.caller.is_admin()
            || text(row, "project_id") == request.caller.project
            || flag("shared")
            || flag("router:external")
    }

    pub(super) fn list_network(&self, request: &Request, kind: Kind) -> Answer {
        let table = self.network.table(kind);
        let mut query = request.query.clone();
        for (key, _) in &mut query {
            if key == "tenant_id" {
                "project_id".clone_into(key);
            }
        }
        let known = |key: &str| {
            AUXILIARY.contains(&key)
                || TAG_FILTERS.contains(&key)
                || kind.filters().contains(&key)
                || table.all().next().is_none_or(|row| row.contains_key(key))
        };
        let unknown: Vec<&str> = query
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| !known(key))
            .collect();
        if !unknown.is_empty() {
            let list: Vec<String> = unknown.iter().map(|key| format!("'{key}'")).collect();
            return Err(neutron_error(
                400,
                "HTTPBadRequest",
                format!("[{}] is invalid attribute for filtering", list.join(", ")),
            ));
        }
        let mut rows: Vec<Row> = table
            .candidates(&query)
            .into_iter()
            .filter(|row| Self::may_see(request, row) && matches(row, &query))
            .map(|row| self.shown(kind, row.clone()))
            .collect();
        sort(&mut rows, &query);
        let links = page(request, kind, &mut rows, &query)?;
        for row in &mut rows {
            select(row, &query);
        }
        let mut body = json!({ kind.plural(): rows });
        if let (Some(links), Some(object)) = (links, body.as_object_mut()) {
            object.insert(format!("{}_links", kind.plural()), links);
        }
        Ok(Reply::json(200, body))
    }

    pub(super) fn show_network_row(&self, request: &Request, kind: Kind, row: &Row) -> Reply {
        let mut row = self.shown(kind, row.clone());
        select(&mut row, &request.query);
        Reply::json(200, json!({ kind.singular(): row }))
    }

    /// A row in an answer, with the attributes that come from other rows.
    pub(crate) fn shown(&self, kind: Kind, mut row: Row) -> Row {
        let id = text(&row, "id").to_owned();
        match kind {
            Kind::Network => {
                let subnets: Vec<&str> = self
                    .network
                    .table(Kind::Subnet)
                    .find("network_id", &id)
                    .map(|subnet| text(subnet, "id"))
                    .collect();
                row.insert("subnets".into(), json!(subnets));
            }
            Kind::SecurityGroup => {
                let rules: Vec<&Row> = self
                    .network
                    .table(Kind::SecurityGroupRule)
                    .find("security_group_id", &id)
                    .collect();
                row.insert("security_group_rules".into(), json!(rules));
            }
            Kind::FloatingIp => {
                let details = self.network.get(Kind::Port, text(&row, "port_id")).map_or(Value::Null, |port| {
                    json!({
                        "name": port.get("name"), "network_id": port.get("network_id"),
                        "mac_address": port.get("mac_address"), "admin_state_up": port.get("admin_state_up"),
                        "status": port.get("status"), "device_id": port.get("device_id"),
                        "device_owner": port.get("device_owner"),
                    })
                });
                row.insert("port_details".into(), details);
            }
            _ => {}
        }
        row
    }

    /// Fails if one more row of this kind would exceed the project's quota.
    pub(crate) fn network_quota(&self, kind: Kind, project: &str) -> Result<(), Reply> {
        let limit = self.network_limit(kind, project);
        if limit.is_none_or(|limit| self.network_used(kind, project) < limit) {
            return Ok(());
        }
        Err(neutron_error(
            409,
            "OverQuota",
            format!("Quota exceeded for resources: ['{}'].", kind.singular()),
        ))
    }

    /// The quotas with what is in use of them.
    pub(super) fn show_network_usage(&self, project: &str) -> Reply {
        self.network_quotas(project, |kind, limit| {
            let used = self.network_used(kind, project);
            json!({ "limit": limit, "used": used, "reserved": 0 })
        })
    }

    pub(super) fn show_network_quota(&self, project: &str) -> Reply {
        self.network_quotas(project, |_, limit| limit)
    }

    fn network_quotas(&self, project: &str, shown: impl Fn(Kind, Value) -> Value) -> Reply {
        let quota = Kind::ALL.into_iter().map(|kind| {
            let limit = self.network_limit(kind, project);
            let limit = limit.map_or(json!(-1), |limit| json!(limit));
            (kind.singular().to_owned(), shown(kind, limit))
        });
        Reply::json(200, json!({ "quota": quota.collect::<Row>() }))
    }

    fn network_limit(&self, kind: Kind, project: &str) -> Option<usize> {
        self.limits
            .quota(Service::Network, project, kind.singular())
    }

    fn network_used(&self, kind: Kind, project: &str) -> usize {
        self.network.table(kind).find("project_id", project).count()
    }
}

fn matches(row: &Row, query: &[(String, String)]) -> bool {
    let mut checked: Vec<&str> = Vec::new();
    for (key, value) in query {
        if AUXILIARY.contains(&key.as_str()) || checked.contains(&key.as_str()) {
            continue;
        }
        checked.push(key);
        if key == "fixed_ips" {
            // Repeated pairs narrow the result: address and subnet must be those of one allocation.
            let pairs: Vec<(&str, &str)> = query
                .iter()
                .filter(|(name, _)| name == "fixed_ips")
                .filter_map(|(_, value)| value.split_once('='))
                .collect();
            let fits = |ip: &Value| {
                pairs.iter().all(|(key, wanted)| match *key {
                    "ip_address_substr" => ip
                        .get("ip_address")
                        .and_then(Value::as_str)
                        .is_some_and(|ip| ip.contains(wanted)),
                    key => ip.get(key).is_some_and(|found| equals(found, wanted)),
                })
            };
            if !row
                .get("fixed_ips")
                .and_then(Value::as_array)
                .is_some_and(|ips| ips.iter().any(fits))
            {
                return false;
            }
            continue;
        }
        if let Some(fits) = tags_match(row, key, value) {
            if !fits {
                return false;
            }
            continue;
        }
        let any = query
            .iter()
            .filter(|(name, _)| name == key)
            .any(|(_, wanted)| {
                row.get(key.as_str())
                    .is_some_and(|found| equals(found, wanted))
            });
        if !any {
            return false;
        }
    }
    true
}

fn sort(rows: &mut [Row], query: &[(String, String)]) {
    let keys: Vec<&str> = values(query, "sort_key");
    let directions: Vec<&str> = values(query, "sort_dir");
    rows.sort_by(|left, right| {
        for (place, key) in keys.iter().enumerate() {
            let order = compare(left.get(*key), right.get(*key));
            let order = if directions.get(place) == Some(&"desc") {
                order.reverse()
            } else {
                order
            };
            if order.is_ne() {
                return order;
            }
        }
        compare(left.get("id"), right.get("id"))
    });
}

fn values<'a>(query: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    query
        .iter()
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
        .collect()
}

/// Selects the page and adds the links. Links exist only if a limit was given, and keep the filters.
fn page(
    request: &Request,
    kind: Kind,
    rows: &mut Vec<Row>,
    query: &[(String, String)],
) -> Result<Option<Value>, Reply> {
    let limit = request
        .param("limit")
        .and_then(|limit| limit.parse::<usize>().ok())
        .filter(|limit| *limit > 0);
    let backwards = request.param("page_reverse").is_some_and(truthy);
    let marker = request.param("marker");
    if let Some(marker) = marker {
        let Some(place) = rows.iter().position(|row| text(row, "id") == marker) else {
            return Err(kind.not_found(marker));
        };
        if backwards {
            rows.truncate(place);
        } else {
            rows.drain(..=place);
        }
    }
    let Some(limit) = limit else {
        return Ok(None);
    };
    let full = rows.len() >= limit;
    if backwards {
        rows.drain(..rows.len().saturating_sub(limit));
    } else {
        rows.truncate(limit);
    }
    let base = format!("{}/network/v2.0/{}", request.base, kind.collection());
    let kept: Vec<String> = query
        .iter()
        .filter(|(key, _)| key != "marker" && key != "page_reverse")
        .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
        .collect();
    let kept = kept.join("&");
    let mut links = Vec::new();
    if let Some(last) = rows.last().filter(|_| full || backwards) {
        links.push(
            json!({ "rel": "next", "href": format!("{base}?{kept}&marker={}", text(last, "id")) }),
        );
    }
    if let Some(first) = rows.first() {
        links.push(json!({ "rel": "previous", "href": format!("{base}?{kept}&marker={}&page_reverse=True", text(first, "id")) }));
    }
    Ok(Some(json!(links)))
}
