//! The lifecycle of a server: it is built, stopped, started, fails or is deleted.

use super::{Server, ServerRule};
use crate::{
    events::Event,
    settings::seconds,
    world::{Effect, World},
};

impl World {
    /// The first rule for a name. Its count is reduced by one.
    pub(super) fn take_server_rule(&mut self, name: &str) -> ServerRule {
        let Some(place) = self
            .compute
            .rules
            .iter()
            .position(|rule| rule.count != Some(0) && name.contains(&rule.name))
        else {
            return ServerRule::default();
        };
        let Some(rule) = self.compute.rules.get_mut(place) else {
            return ServerRule::default();
        };
        if let Some(count) = &mut rule.count {
            *count -= 1;
        }
        rule.clone()
    }

    /// Ends the building of a server.
    pub(crate) fn server_built(&mut self, id: &str, fail: Option<&str>) {
        match fail {
            Some(fault) => {
                let fault = fault.to_owned();
                self.set_server(id, "ERROR", Some(fault));
            }
            None => self.set_server(id, "ACTIVE", None),
        }
    }

    /// Sets the status of a server, as an operator, a user or the hypervisor does. Unknown ids are ignored.
    pub(crate) fn set_server(&mut self, id: &str, status: &str, fault: Option<String>) {
        let now = self.now;
        let Some(server) = self.compute.servers.get_mut(id) else {
            return;
        };
        if server.task.as_deref() == Some("deleting") {
            return;
        }
        let before = std::mem::replace(&mut server.status, status.to_owned());
        server.task = None;
        server.updated = now.zulu();
        server.fault = fault;
        if status == "ACTIVE" && server.launched.is_none() {
            server.launched = Some(format!("{}.000000", now.without_zone()));
        }
        let (ports, name) = (server.ports.clone(), server.name.clone());
        for port in &ports {
            self.bind_port(port, id, status == "ACTIVE");
        }
        if before == status {
            return;
        }
        let addresses: Vec<String> = ports
            .iter()
            .filter_map(|port| self.port_address(port))
            .collect();
        let user_data = self
            .compute
            .servers
            .get(id)
            .and_then(|server| server.user_data.clone());
        let event = match status {
            "ACTIVE" => Event::ServerUp {
                id: id.to_owned(),
                name,
                addresses,
                user_data,
            },
            _ => Event::ServerDown {
                id: id.to_owned(),
                name,
                addresses,
            },
        };
        self.emit(event);
    }

    /// Starts the deletion of a server.
    pub(super) fn start_server_deletion(&mut self, id: &str) {
        let Some(server) = self.compute.servers.get_mut(id) else {
            return;
        };
        if server.task.as_deref() == Some("deleting") {
            return;
        }
        server.task = Some("deleting".into());
        let name = server.name.clone();
        let addresses: Vec<String> = {
            let ports = server.ports.clone();
            ports
                .iter()
                .filter_map(|port| self.port_address(port))
                .collect()
        };
        self.emit(Event::ServerDown {
            id: id.to_owned(),
            name: name.clone(),
            addresses,
        });
        let rule = self
            .compute
            .rules
            .iter()
            .find(|rule| rule.delete.is_some() && name.contains(&rule.name));
        let delete = rule
            .and_then(|rule| rule.delete)
            .unwrap_or(self.durations.server_delete);
        self.after_duration(seconds(delete), Effect::ServerGone(id.to_owned()));
    }

    /// Ends a deletion: the server's ports and volumes are released.
    pub(crate) fn server_gone(&mut self, id: &str) {
        let Some(Server {
            ports,
            own_ports,
            volumes,
            group,
            name,
            ..
        }) = self.compute.servers.remove(id)
        else {
            return;
        };
        for port in ports {
            if own_ports.contains(&port) {
                self.remove_port(&port);
            } else {
                self.bind_port(&port, "", false);
            }
        }
        for (volume, goes) in volumes {
            self.set_volume(&volume, "available", None);
            if goes {
                self.delete_volume(&volume);
            }
        }
        let members = group.and_then(|group| {
            self.compute
                .groups
                .get_mut(&group)?
                .get_mut("members")?
                .as_array_mut()
        });
        if let Some(members) = members {
            members.retain(|member| member != id);
        }
        self.emit(Event::ServerGone {
            id: id.to_owned(),
            name,
        });
    }
}
