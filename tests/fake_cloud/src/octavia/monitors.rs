//! Health monitors.

use serde_json::{Value, json};

use super::{
    change::Change,
    change_head, integer, lists, missing,
    model::{LoadBalancer, Monitor},
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    wire::{Answer, Reply, Request, Row, text},
    world::World,
};

const COLUMNS: [&str; 14] = [
    "id",
    "name",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "type",
    "delay",
    "timeout",
    "project_id",
    "tenant_id",
    "pool_id",
    "max_retries",
    "created_at",
    "updated_at",
];

const ATTRIBUTES: [&str; 18] = [
    "name",
    "type",
    "delay",
    "timeout",
    "max_retries_down",
    "max_retries",
    "http_method",
    "url_path",
    "expected_codes",
    "admin_state_up",
    "project_id",
    "tenant_id",
    "pool_id",
    "tags",
    "http_version",
    "domain_name",
    "id",
    "pools",
];

const HTTP: [&str; 5] = [
    "http_method",
    "url_path",
    "expected_codes",
    "http_version",
    "domain_name",
];

impl World {
    pub(super) fn list_monitors(&self, request: &Request) -> Answer {
        let rows = self.listed_rows(
            request,
            |lb| {
                lb.pools
                    .iter()
                    .filter_map(|pool| Some((pool, pool.monitor.as_ref()?)))
                    .collect()
            },
            |(_, monitor)| &monitor.head.name,
            |lb, (pool, monitor)| monitor.shown(&lb.project, &pool.head.id),
        );
        lists::answer(request, "healthmonitors", "healthmonitors", rows, &COLUMNS)
    }

    /// Load balancer and pool of a monitor.
    fn place_of(&self, id: &str) -> Result<(String, String), Reply> {
        let parent = self.parent_of("Health Monitor", id)?;
        let pool = self
            .octavia
            .balancers
            .get(&parent)
            .and_then(|lb| {
                lb.pools.iter().find(|pool| {
                    pool.monitor
                        .as_ref()
                        .is_some_and(|monitor| monitor.head.id == id)
                })
            })
            .map(|pool| pool.head.id.clone());
        Ok((parent, pool.ok_or_else(|| missing("Health Monitor", id))?))
    }

    pub(super) fn show_monitor(&self, request: &Request, id: &str) -> Answer {
        let (parent, pool) = self.place_of(id)?;
        let lb = self.balancer_read(request, &parent)?;
        let monitor = lb.pool(&pool).and_then(|pool| pool.monitor.as_ref());
        let mut row = monitor
            .ok_or_else(|| missing("Health Monitor", id))?
            .shown(&lb.project, &pool);
        select(&mut row, &request.query);
        Ok(Reply::json(200, json!({ "healthmonitor": row })))
    }

    /// A monitor's row from a body.
    pub(super) fn new_monitor(&mut self, lb: &LoadBalancer, body: &Row) -> Result<Monitor, Reply> {
        Self::demand(body, &["type", "delay", "timeout", "max_retries"])?;
        let kind = text(body, "type").to_owned();
        let known = [
            "HTTP",
            "HTTPS",
            "PING",
            "SCTP",
            "TCP",
            "TLS-HELLO",
            "UDP-CONNECT",
        ];
        if !known.contains(&kind.as_str()) {
            return Err(octavia_error(
                400,
                format!(
                    "Invalid input for field/attribute type. Value: '{kind}'. Value should be one of: {}",
                    known.join(", ")
                ),
            ));
        }
        Self::ovn_refuses(
            lb,
            !["TCP", "UDP-CONNECT"].contains(&kind.as_str()),
            &format!(
                "OVN provider does not support {kind} health monitor type. Supported types: UDP-CONNECT, TCP"
            ),
        )?;
        let http = ["HTTP", "HTTPS"].contains(&kind.as_str());
        let mut rest = Row::new();
        for name in HTTP {
            let value = body.get(name).cloned().unwrap_or_default();
            if !http
                && !value.is_null()
                && ["http_method", "url_path", "expected_codes"].contains(&name)
            {
                return Err(octavia_error(
                    400,
                    format!("{name} is not a valid option for health monitors of type {kind}"),
                ));
            }
            let default = match name {
                "http_method" if http => json!("GET"),
                "url_path" if http => json!("/"),
                "expected_codes" if http => json!("200"),
                _ => Value::Null,
            };
            rest.insert(name.into(), if value.is_null() { default } else { value });
        }
        Ok(Monitor {
            head: self.head(body, Operating::Offline),
            kind,
            delay: integer(body, "delay", 0, u64::MAX)?.unwrap_or_default(),
            timeout: integer(body, "timeout", 0, u64::MAX)?.unwrap_or_default(),
            max_retries: integer(body, "max_retries", 1, 10)?.unwrap_or(3),
            max_retries_down: integer(body, "max_retries_down", 1, 10)?.unwrap_or(3),
            rest,
        })
    }

    pub(super) fn create_monitor(&mut self, request: &Request) -> Answer {
        let body = request.object("healthmonitor");
        only(&body, "healthmonitor", &ATTRIBUTES)?;
        Self::demand(
            &body,
            &["pool_id", "type", "delay", "timeout", "max_retries"],
        )?;
        let pool = text(&body, "pool_id").to_owned();
        let parent = self.parent_of("Pool", &pool)?;
        let lb = self.balancer(request, &parent)?.clone();
        self.octavia_quota_left(&lb.project, "health_monitor", "Health Monitor", 1)?;
        let monitor = self.new_monitor(&lb, &body)?;
        let row = lb.pool(&pool).ok_or_else(|| missing("Pool", &pool))?;
        let taken = row.monitor.is_some();
        if taken
            && row.head.provisioning == Provisioning::Active
            && lb.head.provisioning == Provisioning::Active
        {
            return Err(octavia_error(409, "This pool already has a health monitor"));
        }
        let before = self.lock_pool(&parent, &pool)?;
        let id = monitor.head.id.clone();
        let shown = monitor.shown(&before.project, &pool);
        self.octavia.parents.insert(id, parent.clone());
        if let Some(row) = self
            .octavia
            .balancers
            .get_mut(&parent)
            .and_then(|lb| lb.pool_mut(&pool))
        {
            row.monitor = Some(monitor);
        }
        self.start_change(&parent, &Change::MonitorCreate(pool), before);
        Ok(Reply::json(201, json!({ "healthmonitor": shown })))
    }

    pub(super) fn update_monitor(&mut self, request: &Request, id: &str) -> Answer {
        let (parent, pool) = self.place_of(id)?;
        self.balancer(request, &parent)?;
        let body = request.object("healthmonitor");
        let parameters = [
            integer(&body, "delay", 0, u64::MAX)?,
            integer(&body, "timeout", 0, u64::MAX)?,
            integer(&body, "max_retries", 1, 10)?,
            integer(&body, "max_retries_down", 1, 10)?,
        ];
        let before = self.lock_pool(&parent, &pool)?;
        let now = self.now;
        let mut shown = None;
        let project = before.project.clone();
        let row = self
            .octavia
            .balancers
            .get_mut(&parent)
            .and_then(|lb| lb.pool_mut(&pool));
        if let Some(monitor) = row.and_then(|pool| pool.monitor.as_mut()) {
            change_head(&mut monitor.head, &body);
            let [delay, timeout, rise, fall] = parameters;
            monitor.delay = delay.unwrap_or(monitor.delay);
            monitor.timeout = timeout.unwrap_or(monitor.timeout);
            monitor.max_retries = rise.unwrap_or(monitor.max_retries);
            monitor.max_retries_down = fall.unwrap_or(monitor.max_retries_down);
            for name in HTTP {
                if let Some(value) = body.get(name) {
                    monitor.rest.insert(name.into(), value.clone());
                }
            }
            monitor.head.set(Provisioning::PendingUpdate, now);
            shown = Some(monitor.shown(&project, &pool));
        }
        self.start_change(&parent, &Change::MonitorUpdate(pool), before);
        Ok(Reply::json(200, json!({ "healthmonitor": shown })))
    }

    pub(super) fn delete_monitor(&mut self, request: &Request, id: &str) -> Answer {
        let (parent, pool) = self.place_of(id)?;
        self.balancer(request, &parent)?;
        let before = self.lock_pool(&parent, &pool)?;
        let now = self.now;
        let row = self
            .octavia
            .balancers
            .get_mut(&parent)
            .and_then(|lb| lb.pool_mut(&pool));
        if let Some(monitor) = row.and_then(|pool| pool.monitor.as_mut()) {
            monitor.head.set(Provisioning::PendingDelete, now);
        }
        self.start_change(&parent, &Change::MonitorDelete(pool), before);
        Ok(Reply::empty(204))
    }
}
