//! Security groups and their rules.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    Kind, copy, neutron_error,
    security_rules::{ATTRIBUTES, canonical, key},
    standard,
};
use crate::{
    wire::{Reply, Row, given, strings, text},
    world::World,
};

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

    /// The project's `default` group, which is created with the first request that needs it.
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
            match text(body, "remote_ip_prefix").parse::<IpNet>() {
                Ok(range) => json!(range.trunc()),
                Err(_) => Value::Null,
            },
        );
        row.insert("belongs_to_default_sg".into(), json!(false));
        row.insert("revision_number".into(), json!(0));
        for name in ATTRIBUTES {
            row.insert(name.into(), Value::Null);
        }
        copy(body, &mut row, &ATTRIBUTES);
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
        let mut rule = canonical(body)?;
        let group = text(body, "security_group_id").to_owned();
        if self.network.get(Kind::SecurityGroup, &group).is_none() {
            return Err(Kind::SecurityGroup.not_found(&group));
        }
        if let Some(remote) = given(&rule, "remote_group_id")
            && self.network.get(Kind::SecurityGroup, remote).is_none()
        {
            return Err(Kind::SecurityGroup.not_found(remote));
        }
        let wanted = key(&rule);
        let twin = self
            .network
            .table(Kind::SecurityGroupRule)
            .find("security_group_id", &group)
            .find(|row| key(row) == wanted);
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
        rule.insert(
            "description".into(),
            json!(given(body, "description").unwrap_or_default()),
        );
        Ok(self.put_rule(&group, &rule, project))
    }

    /// The reason to refuse a request for several rules as a whole.
    pub(super) fn check_security_group_rules(rules: &[Value]) -> Result<(), Reply> {
        let rows: Vec<Row> = rules.iter().filter_map(Value::as_object).cloned().collect();
        let groups: BTreeSet<&str> = rows
            .iter()
            .map(|row| text(row, "security_group_id"))
            .collect();
        if groups.len() > 1 {
            return Err(neutron_error(
                400,
                "SecurityGroupNotSingleGroupRules",
                "Only allowed to update rules for one security profile at a time",
            ));
        }
        let mut keys = BTreeSet::new();
        for row in &rows {
            if !keys.insert(key(&canonical(row)?)) {
                return Err(neutron_error(
                    409,
                    "DuplicateSecurityGroupRuleInPost",
                    "Duplicate Security Group Rule in POST.",
                ));
            }
        }
        Ok(())
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
        // Rules of other groups that name this group are deleted with it.
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
