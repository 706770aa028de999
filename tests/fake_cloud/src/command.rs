//! The commands of the cloud beyond its APIs. A script, HTTP and the library use the same ones.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    compute::ServerRule,
    events::Event,
    faults::Fault,
    limits::{Quota, RateLimit},
    octavia::{
        Hold, OperationRule,
        model::Object,
        status::{Operating, Provisioning},
    },
    settings::{AssumedHealth, Durations},
    world::World,
};

/// One command. On the wire: an object with the command's name as its only key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A fault of single calls.
    Fault(Box<Fault>),
    /// Removes a fault by its id.
    RemoveFault(u64),
    /// Sets the result of coming Octavia operations.
    Operation(OperationRule),
    /// Holds members in a status under an ACTIVE load balancer.
    Hold(Hold),
    /// Releases the holds that name this text and lets their members turn ACTIVE; all holds with an empty text.
    Release(String),
    /// Resumes changes whose worker was killed. The text is part of the load balancer's name, or its id.
    Resume(String),
    /// Writes statuses, as an operator does in the database.
    SetStatus(SetStatus),
    /// Sets the lifecycle of coming servers.
    ServerRule(ServerRule),
    /// Puts a server into a status.
    SetServer(SetServer),
    /// Sets or lifts a quota.
    Quota(Quota),
    /// Adds a rate limit.
    RateLimit(RateLimit),
    /// Replaces the durations. Those that are left out get their defaults.
    Durations(Durations),
    /// Closes established connections of load balancers whose name or id contains this text.
    CutConnections(String),
    /// Sets the status of members that no data path checks.
    AssumedHealth(AssumedHealth),
    /// Adds a project.
    Project {
        /// The project's id.
        id: String,
        /// The project's name.
        name: String,
    },
    /// Adds a user, or changes its password and roles.
    User {
        /// Name.
        name: String,
        /// Password.
        password: String,
        /// Project id or name.
        project: String,
        /// Role names.
        roles: Vec<String>,
    },
    /// The lifetime of new tokens in seconds.
    TokenLife(f64),
    /// Revokes all tokens of a credential, or all tokens with an empty text.
    RevokeTokens(String),
    /// Adds a flavor.
    Flavor {
        /// Name.
        name: String,
        /// The number of virtual CPUs.
        vcpus: u64,
        /// The memory in MiB.
        ram: u64,
        /// The disk in GiB.
        disk: u64,
    },
    /// Adds an image: Glance's attributes.
    Image(Value),
    /// Replaces Nova's zones.
    Zones(Vec<String>),
    /// Removes `faults`, `operations`, `holds`, `server_rules`, `quotas`, `rates`, or `all` of these.
    Clear(String),
}

/// Statuses to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetStatus {
    /// Id or name of the load balancer, listener, pool, monitor or member.
    pub object: String,
    /// `loadbalancer`, `listener`, `pool`, `healthmonitor` or `member`, where a name means several.
    #[serde(default)]
    pub kind: Option<String>,
    /// Provisioning status to write.
    #[serde(default)]
    pub provisioning: Option<Provisioning>,
    /// Operating status to write. A member keeps it, whatever heartbeats report, until `free` is set.
    #[serde(default)]
    pub operating: Option<Operating>,
    /// Lets heartbeats set the member's operating status again.
    #[serde(default)]
    pub free: bool,
}

/// A server's status to set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetServer {
    /// Id or name.
    pub server: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR`, ...; `GONE` removes the server at once.
    pub status: String,
    /// Fault text.
    #[serde(default)]
    pub fault: Option<String>,
}

/// Why a command can't be read or carried out.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CommandError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("line {line}: {error}")]
    Line {
        line: usize,
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("there is no fault {0}")]
    NoFault(u64),
    #[error("there is no server {0}")]
    NoServer(String),
    #[error("there is no such project")]
    NoProject,
    #[error("an image is an object")]
    ImageWithoutFields,
    #[error("can't clear {what:?}; it is one of {known}")]
    NotCleared { what: String, known: String },
    #[error("nothing in Octavia is called {0}")]
    NoOctaviaObject(String),
}

impl World {
    /// Carries out a command and returns its result.
    pub fn command(&mut self, command: Command) -> Result<Value, CommandError> {
        let elapsed = self.now.elapsed;
        match command {
            Command::Fault(fault) => return Ok(json!({ "id": self.faults.add(*fault, elapsed) })),
            Command::RemoveFault(id) => {
                if !self.faults.remove(id) {
                    return Err(CommandError::NoFault(id));
                }
            }
            Command::Operation(rule) => self.octavia.rules.push(rule),
            Command::Hold(hold) => return Ok(self.hold(hold)),
            Command::Release(text) => return Ok(self.release(&text)),
            Command::Resume(text) => return Ok(json!({ "resumed": self.resume_changes(&text) })),
            Command::SetStatus(set) => return self.set_status(&set),
            Command::ServerRule(rule) => self.compute.rules.push(rule),
            Command::SetServer(set) => {
                let found = self
                    .compute
                    .servers
                    .values()
                    .find(|server| server.id == set.server || server.name == set.server)
                    .map(|server| server.id.clone());
                let id = found.ok_or(CommandError::NoServer(set.server))?;
                if set.status == "GONE" {
                    self.server_gone(&id);
                } else {
                    self.set_server(&id, &set.status, set.fault);
                }
            }
            Command::Quota(quota) => self.limits.set_quota(quota),
            Command::RateLimit(rule) => self.limits.add_rate(rule, elapsed),
            Command::Durations(durations) => self.durations = durations,
            Command::CutConnections(text) => {
                for id in self.balancers_named(&text) {
                    self.emit(Event::Cut {
                        load_balancer: id,
                        member: None,
                    });
                }
            }
            Command::AssumedHealth(health) => self.assumed_health = health,
            Command::Project { id, name } => self.identity.add_project(&id, &name),
            Command::User {
                name,
                password,
                project,
                roles,
            } => {
                let project = self
                    .identity
                    .project(&project)
                    .map(|project| project.id.clone());
                let project = project.ok_or(CommandError::NoProject)?;
                let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                let id = self.new_id().replace('-', "");
                self.identity
                    .add_user(&id, &name, &password, &project, &roles);
            }
            Command::TokenLife(life) => self.token_life = life,
            Command::RevokeTokens(credential) => {
                self.identity
                    .revoke(Some(credential.as_str()).filter(|credential| !credential.is_empty()));
            }
            Command::Flavor {
                name,
                vcpus,
                ram,
                disk,
            } => self.put_flavor(&name, vcpus, ram, disk),
            Command::Image(body) => {
                let body = body.as_object().cloned();
                let mut body = body.ok_or(CommandError::ImageWithoutFields)?;
                body.entry("status").or_insert(json!("active"));
                body.entry("visibility").or_insert(json!("public"));
                let row = self.put_image(&body, crate::world::ADMIN_PROJECT);
                return Ok(json!({ "id": row.get("id") }));
            }
            Command::Zones(zones) => self.compute.zones = zones,
            Command::Clear(what) => self.clear(&what)?,
        }
        Ok(json!({}))
    }

    fn clear(&mut self, what: &str) -> Result<(), CommandError> {
        let all = what == "all";
        let known = [
            "faults",
            "operations",
            "holds",
            "server_rules",
            "quotas",
            "rates",
            "all",
        ];
        if !known.contains(&what) {
            return Err(CommandError::NotCleared {
                what: what.to_owned(),
                known: known.join(", "),
            });
        }
        if all || what == "faults" {
            self.faults.clear();
        }
        if all || what == "operations" {
            self.octavia.rules.clear();
        }
        if all || what == "holds" {
            self.release("");
        }
        if all || what == "server_rules" {
            self.compute.rules.clear();
        }
        if all || what == "quotas" {
            self.limits.clear_quotas();
        }
        if all || what == "rates" {
            self.limits.clear_rates();
        }
        Ok(())
    }

    /// Load balancers whose name contains a text, or that have it as id.
    pub(crate) fn balancers_named(&self, text: &str) -> Vec<String> {
        self.octavia
            .balancers
            .values()
            .filter(|lb| lb.head.id == text || lb.head.name.contains(text))
            .map(|lb| lb.head.id.clone())
            .collect()
    }

    fn hold(&mut self, rule: Hold) -> Value {
        let status = rule.status;
        let mut held = Vec::new();
        if rule.now {
            let now = self.now;
            for lb in self.octavia.balancers.values_mut() {
                for member in lb.pools.iter_mut().flat_map(|pool| &mut pool.members) {
                    if rule.matches(&member.head.id, &member.head.name)
                        && member.head.provisioning == Provisioning::Active
                    {
                        member.head.set(status, now);
                        held.push(member.head.id.clone());
                    }
                }
            }
            for id in &held {
                self.octavia.held.insert(id.clone(), status);
                if let Some(after) = rule.release_after {
                    self.after(after, crate::world::Effect::ReleaseMember(id.clone()));
                }
            }
        }
        self.octavia.holds.push(rule);
        json!({ "held": held })
    }

    fn release(&mut self, text: &str) -> Value {
        let names: Vec<(String, String)> = self
            .octavia
            .balancers
            .values()
            .flat_map(|lb| &lb.pools)
            .flat_map(|pool| &pool.members)
            .map(|member| (member.head.id.clone(), member.head.name.clone()))
            .filter(|(id, name)| {
                self.octavia.held.contains_key(id) && (id == text || name.contains(text))
            })
            .collect();
        self.octavia.holds.retain(|hold| {
            !(text.is_empty()
                || hold.member == text
                || names.iter().any(|(id, name)| hold.matches(id, name)))
        });
        for (id, _) in &names {
            self.release_member(id);
        }
        json!({ "released": names.into_iter().map(|(id, _)| id).collect::<Vec<_>>() })
    }

    fn set_status(&mut self, set: &SetStatus) -> Result<Value, CommandError> {
        let now = self.now;
        let mut written = Vec::new();
        let mut freed = Vec::new();
        for lb in self.octavia.balancers.values_mut() {
            let balancer = lb.head.id.clone();
            let mut objects = vec![Object::LoadBalancer];
            objects.extend(
                lb.listeners
                    .iter()
                    .map(|listener| Object::Listener(listener.head.id.clone())),
            );
            for pool in &lb.pools {
                objects.push(Object::Pool(pool.head.id.clone()));
                objects.push(Object::Monitor(pool.head.id.clone()));
                objects.extend(
                    pool.members
                        .iter()
                        .map(|member| Object::Member(pool.head.id.clone(), member.head.id.clone())),
                );
            }
            for object in objects {
                let Some(head) = lb.head_mut(&object) else {
                    continue;
                };
                let named = head.id == set.object || head.name == set.object;
                if !named
                    || set
                        .kind
                        .as_deref()
                        .is_some_and(|kind| kind != object.kind())
                {
                    continue;
                }
                if let Some(status) = set.provisioning {
                    head.set(status, now);
                }
                if let Some(status) = set.operating {
                    head.operating = status;
                }
                written.push(head.id.clone());
                if let Object::Member(pool, id) = &object
                    && let Some(member) = lb.pool_mut(pool).and_then(|pool| pool.member_mut(id))
                {
                    member.forced = if set.free {
                        freed.push(balancer.clone());
                        None
                    } else {
                        set.operating.or(member.forced)
                    };
                }
            }
        }
        // Heartbeats report the actual statuses again.
        for balancer in freed {
            self.heartbeat_soon(&balancer);
        }
        if written.is_empty() {
            return Err(CommandError::NoOctaviaObject(set.object.clone()));
        }
        Ok(json!({ "written": written }))
    }
}
