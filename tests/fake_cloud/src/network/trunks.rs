//! Trunks and their subports.

use serde_json::{Value, json};

use super::{Kind, Network, neutron_error, standard};
use crate::{
    wire::{Answer, Reply, Request, Row, text},
    world::World,
};

impl World {
    pub(super) fn create_trunk(&mut self, body: &Row, project: &str) -> Result<Row, Reply> {
        let port = text(body, "port_id").to_owned();
        if self.network.get(Kind::Port, &port).is_none() {
            return Err(Kind::Port.not_found(&port));
        }
        if let Some(other) = self
            .network
            .table(Kind::Trunk)
            .find("port_id", &port)
            .next()
        {
            return Err(neutron_error(
                409,
                "PortInUseAsTrunkParent",
                format!(
                    "Port {port} is currently a parent port for trunk {}.",
                    text(other, "id")
                ),
            ));
        }
        let id = self.new_id();
        let mut row = standard(self.now, &id, project, text(body, "name"));
        let subports: Vec<Value> = body
            .get("sub_ports")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        row.insert("description".into(), json!(text(body, "description")));
        row.insert("port_id".into(), json!(port));
        row.insert(
            "admin_state_up".into(),
            body.get("admin_state_up").cloned().unwrap_or(json!(true)),
        );
        row.insert("status".into(), json!("DOWN"));
        row.insert("sub_ports".into(), json!([]));
        row.insert("revision_number".into(), json!(0));
        self.network.table_mut(Kind::Trunk).put(row);
        self.attach_subports(&id, &subports)?;
        self.network
            .get(Kind::Trunk, &id)
            .cloned()
            .ok_or_else(|| Kind::Trunk.not_found(&id))
    }

    fn attach_subports(&mut self, trunk: &str, subports: &[Value]) -> Result<(), Reply> {
        for subport in subports {
            let port = subport
                .get("port_id")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let known = self.network.table_mut(Kind::Port).change(&port, |row| {
                row.insert("device_id".into(), json!(trunk));
                row.insert("device_owner".into(), json!("trunk:subport"));
            });
            if !known {
                return Err(Kind::Port.not_found(&port));
            }
            self.network.table_mut(Kind::Trunk).change(trunk, |row| {
                if let Some(list) = row.get_mut("sub_ports").and_then(Value::as_array_mut) {
                    list.push(subport.clone());
                }
            });
        }
        Ok(())
    }

    pub(super) fn add_subports(&mut self, request: &Request, id: &str) -> Answer {
        let subports: Vec<Value> = request
            .body
            .get("sub_ports")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        self.attach_subports(id, &subports)?;
        let row = self
            .network
            .get(Kind::Trunk, id)
            .cloned()
            .unwrap_or_default();
        Ok(Reply::json(200, Value::Object(row)))
    }

    pub(super) fn remove_subports(&mut self, request: &Request, id: &str) -> Reply {
        let leaving: Vec<String> = request
            .body
            .get("sub_ports")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|subport| subport.get("port_id")?.as_str().map(str::to_owned))
            .collect();
        self.detach_subports(id, |port| leaving.iter().any(|leaving| leaving == port));
        let row = self
            .network
            .get(Kind::Trunk, id)
            .cloned()
            .unwrap_or_default();
        Reply::json(200, Value::Object(row))
    }

    fn detach_subports(&mut self, id: &str, leaves: impl Fn(&str) -> bool) {
        let now = self.now;
        let mut freed = Vec::new();
        self.network.table_mut(Kind::Trunk).change(id, |row| {
            if let Some(list) = row.get_mut("sub_ports").and_then(Value::as_array_mut) {
                list.retain(|subport| {
                    let port = subport
                        .get("port_id")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let goes = leaves(port);
                    if goes {
                        freed.push(port.to_owned());
                    }
                    !goes
                });
            }
            Network::touch(row, now);
        });
        for port in freed {
            self.network.table_mut(Kind::Port).change(&port, |row| {
                row.insert("device_id".into(), json!(""));
                row.insert("device_owner".into(), json!(""));
            });
        }
    }

    pub(super) fn delete_trunk(&mut self, row: &Row) -> Result<(), Reply> {
        let id = text(row, "id").to_owned();
        let bound = self
            .network
            .get(Kind::Port, text(row, "port_id"))
            .is_some_and(|port| text(port, "device_owner").starts_with("compute:"));
        if bound {
            return Err(neutron_error(
                409,
                "TrunkInUse",
                format!("Trunk {id} is currently in use."),
            ));
        }
        self.detach_subports(&id, |_| true);
        self.network.table_mut(Kind::Trunk).remove(&id);
        Ok(())
    }
}
