//! Octavia's lists: strict filters, tag filters, order, pages, and links without the filters.

use serde_json::{Value, json};

use super::{octavia_error, routing_error};
use crate::{
    listing::{AUXILIARY, TAG_FILTERS, compare, equals, select, tags_match},
    wire::{Answer, Reply, Request, Row, text},
    world::World,
};

const PAGE: usize = 1000;

/// Answers a list request over rows that are all visible to the caller.
pub(super) fn answer(
    request: &Request,
    name: &str,
    path: &str,
    mut rows: Vec<Row>,
    columns: &[&str],
) -> Answer {
    let mut seen: Vec<&str> = Vec::new();
    for (key, _) in &request.query {
        if AUXILIARY.contains(&key.as_str()) || TAG_FILTERS.contains(&key.as_str()) {
            continue;
        }
        if seen.contains(&key.as_str()) {
            return Err(octavia_error(
                500,
                "type object 'list' has no attribute 'lower'",
            ));
        }
        seen.push(key);
        if !columns.contains(&key.as_str()) {
            return Err(octavia_error(
                400,
                "One or more arguments are either duplicate or invalid",
            ));
        }
    }
    rows.retain(|row| {
        request.query.iter().all(|(key, wanted)| {
            if AUXILIARY.contains(&key.as_str()) {
                return true;
            }
            if let Some(fits) = tags_match(row, key, wanted) {
                return fits;
            }
            match key.as_str() {
                "loadbalancer_id" => points_to(row, "loadbalancers", wanted),
                "listener_id" => points_to(row, "listeners", wanted),
                "pool_id" => points_to(row, "pools", wanted),
                key => row.get(key).is_some_and(|found| equals(found, wanted)),
            }
        })
    });
    sort(request, &mut rows)?;
    let backwards = request.param("page_reverse") == Some("True");
    if let Some(marker) = request.param("marker") {
        let Some(place) = rows.iter().position(|row| text(row, "id") == marker) else {
            return Err(octavia_error(
                400,
                format!("Supplied pagination marker '{marker}' is not valid."),
            ));
        };
        if backwards {
            rows.truncate(place);
        } else {
            rows.drain(..=place);
        }
    }
    let limit = limit(request)?;
    if let Some(limit) = limit {
        if backwards {
            rows.drain(..rows.len().saturating_sub(limit));
        } else {
            rows.truncate(limit);
        }
    }
    let links = links(request, path, &rows, limit);
    for row in &mut rows {
        select(row, &request.query);
    }
    Ok(Reply::json(
        200,
        json!({ name: rows, format!("{name}_links"): links }),
    ))
}

fn points_to(row: &Row, list: &str, wanted: &str) -> bool {
    row.get(list).and_then(Value::as_array).is_some_and(|list| {
        list.iter()
            .any(|entry| entry.get("id").and_then(Value::as_str) == Some(wanted))
    })
}

fn limit(request: &Request) -> Result<Option<usize>, Reply> {
    match request.param("limit") {
        None => Ok(Some(PAGE)),
        Some("infinite") => Ok(None),
        Some(given) => match given.parse::<i64>() {
            Ok(limit) if limit < 1 => Ok(None),
            Ok(limit) => Ok(Some(usize::try_from(limit).unwrap_or(PAGE).min(PAGE))),
            Err(_) => Err(routing_error(
                400,
                "Bad Request",
                &format!("Supplied pagination limit '{given}' is not valid."),
            )),
        },
    }
}

fn sort(request: &Request, rows: &mut [Row]) -> Result<(), Reply> {
    let direction = request.param("sort_dir").unwrap_or("asc");
    let mut keys: Vec<(String, String)> = match (request.param("sort"), request.param("sort_key")) {
        (Some(sort), _) => sort
            .split(',')
            .map(|part| match part.split_once(':') {
                Some((key, direction)) => (key.to_owned(), direction.to_ascii_lowercase()),
                None => (part.to_owned(), "asc".to_owned()),
            })
            .collect(),
        (None, Some(keys)) => keys
            .split(',')
            .map(|key| (key.to_owned(), direction.to_owned()))
            .collect(),
        (None, None) => Vec::new(),
    };
    for (key, direction) in &keys {
        if !["asc", "desc"].contains(&direction.as_str()) {
            return Err(octavia_error(
                400,
                format!("Supplied sort direction '{direction}' is not valid."),
            ));
        }
        if rows.first().is_some_and(|row| !row.contains_key(key)) {
            return Err(octavia_error(
                400,
                format!("Supplied sort key '{key}' is not valid."),
            ));
        }
    }
    for key in ["created_at", "id"] {
        if !keys.iter().any(|(have, _)| have == key) {
            keys.push((key.to_owned(), "asc".to_owned()));
        }
    }
    rows.sort_by(|left, right| {
        keys.iter()
            .map(|(key, direction)| {
                let order = compare(left.get(key), right.get(key));
                if direction == "desc" {
                    order.reverse()
                } else {
                    order
                }
            })
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(())
}

/// The links. There is a next link whenever the page is full, with limit and order but without filters or fields.
fn links(request: &Request, path: &str, rows: &[Row], limit: Option<usize>) -> Vec<Value> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    let base = format!("{}/load-balancer/v2/lbaas/{path}", request.base);
    let mut kept = format!(
        "limit={}",
        limit.map_or_else(|| "None".to_owned(), |limit| limit.to_string())
    );
    for key in ["sort", "sort_key"] {
        if let Some(value) = request.param(key) {
            kept = format!("{kept}&{key}={value}");
        }
    }
    let mut links = Vec::new();
    if request.param("marker").is_some() {
        let href = format!(
            "{base}?{kept}&marker={}&page_reverse=True",
            text(first, "id")
        );
        links.push(json!({ "rel": "previous", "href": href }));
    }
    if limit.is_none_or(|limit| rows.len() >= limit) {
        links.push(
            json!({ "rel": "next", "href": format!("{base}?{kept}&marker={}", text(last, "id")) }),
        );
    }
    links
}

impl World {
    /// Ids of the load balancers that a list may contain, narrowed by the query.
    pub(super) fn listed_balancers(&self, request: &Request) -> Vec<String> {
        let visible = |id: &String| {
            self.octavia
                .balancers
                .get(id)
                .is_some_and(|lb| request.caller.is_admin() || lb.project == request.caller.project)
        };
        let parent = |key: &str| {
            request
                .param(key)
                .map(|id| self.octavia.parents.get(id).cloned())
        };
        let only = match request.param("loadbalancer_id") {
            Some(id) => Some(Some(id.to_owned())),
            None => parent("listener_id")
                .or_else(|| parent("pool_id"))
                .or_else(|| parent("id")),
        };
        match only {
            Some(Some(id)) => Some(id).into_iter().filter(visible).collect(),
            Some(None) => Vec::new(),
            None => self
                .octavia
                .balancers
                .keys()
                .filter(|id| visible(id))
                .cloned()
                .collect(),
        }
    }

    /// The rows of one kind below these load balancers. Names are compared before rows are rendered.
    pub(super) fn listed_rows<'a, T>(
        &'a self,
        request: &Request,
        children: impl Fn(&'a super::model::LoadBalancer) -> Vec<T>,
        name: impl Fn(&T) -> &str,
        shown: impl Fn(&'a super::model::LoadBalancer, T) -> Row,
    ) -> Vec<Row> {
        let wanted = request.param("name");
        let mut rows = Vec::new();
        for id in self.listed_balancers(request) {
            let Ok(lb) = self.balancer_read(request, &id) else {
                continue;
            };
            for child in children(lb) {
                if wanted.is_none_or(|wanted| wanted == name(&child)) {
                    rows.push(shown(lb, child));
                }
            }
        }
        rows
    }
}
