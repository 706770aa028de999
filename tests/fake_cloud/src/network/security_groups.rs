//! Security groups and their rules.

use serde_json::{Value, json};

use super::{Kind, copy, invalid_input, neutron_error, standard};
use crate::{
    wire::{Reply, Row, strings, text},
    world::World,
};

const RULE: [&str; 8] = [
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
];

impl World {
    pub(super) fn create_security_group(
        &mut self,
        body: &Row,
        project: &str,
    ) -> Result<Row, Reply> {
        if text(body, "name") == "default" {
            self.default_group(project);
            return Err(neutron_error(
                409,
                "SecurityGroupDefaultAlreadyExists",
                "Default security group already exists.",
            ));
        }
        Ok(self.put_security_group(body, project))
    }

    fn put_security_group(&mut self, body: &Row, project: &str) -> Row {
        let id = self.new_id();
        let mut row = standard(self.now, &id, project, text(body, "name"));
        row.insert(
            "stateful".into(),
            body.get("stateful").cloned().unwrap_or(json!(true)),
        );
        row.insert("shared".into(), json!(false));
        copy(body, &mut row, &["description"]);
        self.network.table_mut(Kind::SecurityGroup).put(row.clone());
        for ethertype in ["IPv4", "IPv6"] {
            let rule = json!({ "direction": "egress", "ethertype": ethertype });
            self.put_rule(&id, &rule.as_object().cloned().unwrap_or_default(), project);
        }
        row
    }

    /// The project's `default` group, made when first asked for.
    pub(crate) fn default_group(&mut self, project: &str) -> String {
        let found = self
            .network
            .table(Kind::SecurityGroup)
            .find("project_id", project)
            .find(|row| text(row, "name") == "default")
            .map(|row| text(row, "id").to_owned());
        if let Some(id) = found {
            return id;
        }
        let body = json!({ "name": "default", "description": "Default security group" });
        let row = self.put_security_group(&body.as_object().cloned().unwrap_or_default(), project);
        let id = text(&row, "id").to_owned();
        for ethertype in ["IPv4", "IPv6"] {
            let rule =
                json!({ "direction": "ingress", "ethertype": ethertype, "remote_group_id": id });
            self.put_rule(&id, &rule.as_object().cloned().unwrap_or_default(), project);
        }
        id
    }

    fn put_rule(&mut self, group: &str, body: &Row, project: &str) -> Row {
        let mut row = standard(self.now, &self.new_id(), project, "");
        row.remove("name");
        row.insert("security_group_id".into(), json!(group));
        row.insert(
            "normalized_cidr".into(),
            body.get("remote_ip_prefix").cloned().unwrap_or_default(),
        );
        row.insert("belongs_to_default_sg".into(), json!(false));
        row.insert("revision_number".into(), json!(0));
        for name in RULE {
            row.insert(name.into(), Value::Null);
        }
        row.insert("ethertype".into(), json!("IPv4"));
        copy(body, &mut row, &RULE);
        copy(body, &mut row, &["description"]);
        self.network
            .table_mut(Kind::SecurityGroupRule)
            .put(row.clone());
        row
    }

    pub(super) fn create_security_group_rule(
        &mut self,
        body: &Row,
        project: &str,
    ) -> Result<Row, Reply> {
        let mut body = body.clone();
        if let Some(Value::String(protocol)) = body.get("protocol") {
            let known = [
                "tcp",
                "udp",
                "icmp",
                "icmpv6",
                "ipv6-icmp",
                "sctp",
                "vrrp",
                "esp",
                "ah",
                "gre",
                "ipip",
                "any",
            ];
            if !known.contains(&protocol.to_ascii_lowercase().as_str())
                && protocol.parse::<u8>().is_err()
            {
                return Err(neutron_error(
                    400,
                    "SecurityGroupRuleInvalidProtocol",
                    format!("Security group rule protocol {protocol} not supported."),
                ));
            }
            if protocol == "any" {
                body.insert("protocol".into(), Value::Null);
            }
        }
        let group = text(&body, "security_group_id").to_owned();
        if self.network.get(Kind::SecurityGroup, &group).is_none() {
            return Err(Kind::SecurityGroup.not_found(&group));
        }
        if !["ingress", "egress"].contains(&text(&body, "direction")) {
            return Err(invalid_input(format!(
                "Invalid input for direction. Reason: '{}' is not in ['ingress', 'egress']",
                text(&body, "direction")
            )));
        }
        if let Some(Value::String(remote)) = body.get("remote_group_id")
            && self.network.get(Kind::SecurityGroup, remote).is_none()
        {
            return Err(Kind::SecurityGroup.not_found(remote));
        }
        if let Some(Value::String(prefix)) = body.get("remote_ip_prefix")
            && prefix.parse::<ipnet::IpNet>().is_err()
            && prefix.parse::<std::net::IpAddr>().is_err()
        {
            return Err(neutron_error(
                400,
                "InvalidCIDR",
                format!("Invalid CIDR {prefix} given as IP prefix."),
            ));
        }
        let (low, high) = (
            body.get("port_range_min").and_then(Value::as_u64),
            body.get("port_range_max").and_then(Value::as_u64),
        );
        if let (Some(low), Some(high)) = (low, high) {
            let tcp_like = ["tcp", "udp", "sctp"].contains(&text(&body, "protocol"));
            if tcp_like && low > high {
                return Err(neutron_error(
                    400,
                    "SecurityGroupInvalidPortRange",
                    "For TCP/UDP protocols, port_range_min must be <= port_range_max",
                ));
            }
        }
        let like = |row: &Row| {
            RULE.iter().all(|name| {
                let default = if *name == "ethertype" {
                    json!("IPv4")
                } else {
                    Value::Null
                };
                row.get(*name).unwrap_or(&Value::Null) == body.get(*name).unwrap_or(&default)
            })
        };
        let twin = self
            .network
            .table(Kind::SecurityGroupRule)
            .find("security_group_id", &group)
            .find(|row| like(row));
        if let Some(twin) = twin {
            return Err(neutron_error(
                409,
                "SecurityGroupRuleExists",
                format!(
                    "Security group rule already exists. Rule id is {}.",
                    text(twin, "id")
                ),
            ));
        }
        if !body.contains_key("description") {
            body.insert("description".into(), json!(""));
        }
        Ok(self.put_rule(&group, &body, project))
    }

    pub(super) fn delete_security_group(&mut self, row: &Row) -> Result<(), Reply> {
        let id = text(row, "id");
        let in_use = self
            .network
            .table(Kind::Port)
            .find("project_id", text(row, "project_id"))
            .any(|port| {
                strings(port, "security_groups")
                    .iter()
                    .any(|group| group == id)
            });
        if in_use {
            return Err(neutron_error(
                409,
                "SecurityGroupInUse",
                format!("Security Group {id} in use."),
            ));
        }
        if text(row, "name") == "default" {
            return Err(neutron_error(
                409,
                "SecurityGroupCannotRemoveDefault",
                "Insufficient rights for removing default security group.",
            ));
        }
        let rules: Vec<String> = self
            .network
            .table(Kind::SecurityGroupRule)
            .find("security_group_id", id)
            .map(|rule| text(rule, "id").to_owned())
            .collect();
        // Rules of other groups that name this one go with it.
        let pointing: Vec<String> = self
            .network
            .table(Kind::SecurityGroupRule)
            .find("project_id", text(row, "project_id"))
            .filter(|rule| text(rule, "remote_group_id") == id)
            .map(|rule| text(rule, "id").to_owned())
            .collect();
        for rule in rules.into_iter().chain(pointing) {
            self.network
                .table_mut(Kind::SecurityGroupRule)
                .remove(&rule);
        }
        self.network.table_mut(Kind::SecurityGroup).remove(id);
        Ok(())
    }
}
