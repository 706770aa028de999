//! Nova: flavors, servers, zones, server groups, key pairs, limits, under microversions.

mod create;
mod flavors;
mod lifecycle;
mod representation;
mod servers;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    wire::{Answer, Reply, Request, Row, Service},
    world::World,
};

/// A server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// `BUILD`, `ACTIVE`, `SHUTOFF`, `ERROR`, ...
    pub status: String,
    /// The task that it carries out: `spawning`, `deleting`, ...
    pub task: Option<String>,
    /// Project id.
    pub project: String,
    /// User id.
    pub user: String,
    /// Creation time as shown.
    pub created: String,
    /// Time of the last change as shown.
    pub updated: String,
    /// Time it first became ACTIVE, as shown.
    pub launched: Option<String>,
    /// Flavor id.
    pub flavor: String,
    /// Image id; empty when booted from a volume.
    pub image: String,
    /// Port ids, in order.
    pub ports: Vec<String>,
    /// Ports that Nova created itself and deletes with the server.
    pub own_ports: Vec<String>,
    /// Metadata.
    pub metadata: Map<String, Value>,
    /// Tags.
    pub tags: Vec<String>,
    /// Zone.
    pub zone: String,
    /// Key pair name.
    pub key_name: Option<String>,
    /// Whether a config drive was requested.
    pub config_drive: bool,
    /// Description.
    pub description: Option<String>,
    /// User data as sent, base64.
    pub user_data: Option<String>,
    /// Attached volumes: the id, and whether the volume is deleted with the server.
    pub volumes: Vec<(String, bool)>,
    /// Server group from the scheduler hints.
    pub group: Option<String>,
    /// The reason why it is in ERROR.
    pub fault: Option<String>,
}

/// A rule for coming servers: the time of their build, and whether they fail.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRule {
    /// Part of the server's name; empty matches every server.
    #[serde(default)]
    pub name: String,
    /// The number of servers that the rule applies to; without it, all.
    pub count: Option<u32>,
    /// Seconds from BUILD to the end of building.
    pub build: Option<f64>,
    /// The fault text with which the server ends in ERROR.
    pub fail: Option<String>,
    /// Seconds a deletion takes.
    pub delete: Option<f64>,
}

/// The state of Nova.
#[derive(Debug, Default)]
pub struct Compute {
    /// Servers by id.
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) flavors: BTreeMap<String, Row>,
    pub(crate) groups: BTreeMap<String, Row>,
    pub(crate) keypairs: BTreeMap<String, Row>,
    pub(crate) zones: Vec<String>,
    pub(crate) rules: Vec<ServerRule>,
}

/// An error of Nova, under its usual name for the status.
pub(crate) fn nova_error(status: u16, message: impl Into<String>) -> Reply {
    let name = match status {
        400 => "badRequest",
        403 => "forbidden",
        404 => "itemNotFound",
        409 => "conflictingRequest",
        _ => "computeFault",
    };
    Reply::fault(status, name, message)
}

impl World {
    /// One call to Nova below `/compute`.
    pub(crate) fn compute_call(&mut self, request: &Request) -> Answer {
        let minor = self.microversion(request)?;
        let marked = |reply: Reply| {
            reply
                .with("OpenStack-API-Version", format!("compute 2.{minor}"))
                .with("X-OpenStack-Nova-API-Version", format!("2.{minor}"))
                .with(
                    "Vary",
                    "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
                )
        };
        self.compute_route(request, minor)
            .map(marked)
            .map_err(marked)
    }

    fn microversion(&self, request: &Request) -> Result<u32, Reply> {
        let asked = request
            .header("openstack-api-version")
            .and_then(|value| value.strip_prefix("compute "))
            .or_else(|| request.header("x-openstack-nova-api-version"));
        let Some(asked) = asked else { return Ok(1) };
        if asked == "latest" {
            return Ok(self.nova_minor);
        }
        let parsed = asked.split_once('.').and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        match parsed {
            None => Err(nova_error(
                400,
                format!(
                    "API Version String {asked} is of invalid format. Must be of format MajorNum.MinorNum."
                ),
            )),
            Some((2, minor)) if (1..=self.nova_minor).contains(&minor) => Ok(minor),
            Some(_) => Err(nova_error(
                406,
                format!(
                    "Version {asked} is not supported by the API. Minimum is 2.1 and maximum is 2.{}.",
                    self.nova_minor
                ),
            )),
        }
    }

    fn compute_version(&self, request: &Request) -> Value {
        json!({
            "id": "v2.1", "status": "CURRENT", "version": format!("2.{}", self.nova_minor), "min_version": "2.1",
            "updated": "2013-07-23T11:33:21Z",
            "links": [{ "rel": "self", "href": format!("{}/compute/v2.1/", request.base) },
                { "rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/" }],
            "media-types": [{ "base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1" }],
        })
    }

    fn compute_route(&mut self, request: &Request, minor: u32) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let rest = match segments.split_first() {
            None => {
                return Ok(Reply::json(
                    200,
                    json!({ "versions": [self.compute_version(request)] }),
                ));
            }
            Some((&"v2.1", rest)) => rest,
            Some(_) => return Err(nova_error(404, "The resource could not be found.")),
        };
        match (request.method.as_str(), rest) {
            ("GET", []) => Ok(Reply::json(
                200,
                json!({ "version": self.compute_version(request) }),
            )),
            ("GET", ["flavors", tail @ ..]) => self.flavors(request, minor, tail),
            ("GET", ["os-availability-zone", ..]) => {
                let zones: Vec<Value> = self
                    .compute
                    .zones
                    .iter()
                    .map(|zone| json!({ "zoneName": zone, "zoneState": { "available": true }, "hosts": null }))
                    .collect();
                Ok(Reply::json(200, json!({ "availabilityZoneInfo": zones })))
            }
            (method, ["os-server-groups", tail @ ..]) => {
                self.server_groups(request, minor, method, tail)
            }
            (method, ["os-keypairs", tail @ ..]) => self.keypairs(request, method, tail),
            ("GET", ["limits"]) => {
                let project = &request.caller.project;
                let limit = self.limits.quota(Service::Compute, project, "instances");
                let servers = self.compute.servers.values();
                let used = servers.filter(|server| server.project == *project).count();
                Ok(Reply::json(
                    200,
                    json!({ "limits": { "rate": [], "absolute": {
                    "maxTotalInstances": limit.map_or(json!(-1), |limit| json!(limit)),
                    "maxTotalCores": 10000, "totalInstancesUsed": used } } }),
                ))
            }
            ("GET", ["os-quota-sets", project, ..]) => Ok(Reply::json(
                200,
                json!({ "quota_set": {
                "id": project, "instances": -1, "cores": -1, "ram": -1 } }),
            )),
            ("GET", ["os-services"]) => Ok(Reply::json(200, json!({ "services": [] }))),
            ("GET", ["servers"]) => self.list_servers(request, minor, false),
            ("GET", ["servers", "detail"]) => self.list_servers(request, minor, true),
            ("POST", ["servers"]) => self.create_server(request, minor),
            (method, ["servers", id, tail @ ..]) => {
                self.server_call(request, minor, method, id, tail)
            }
            _ => Err(nova_error(404, "The resource could not be found.")),
        }
    }
}
