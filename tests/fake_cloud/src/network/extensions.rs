//! The extensions that Neutron lists.

use serde_json::{Value, json};

use crate::{
    wire::{Answer, Reply},
    world::World,
};

const EXTENSIONS: [(&str, &str); 17] = [
    ("allowed-address-pairs", "Allowed Address Pairs"),
    ("availability_zone", "Availability Zone"),
    ("binding", "Port Binding"),
    ("binding-extended", "Port Bindings Extended"),
    ("external-net", "Neutron external network"),
    (
        "ext-gw-mode",
        "Neutron L3 Configurable external gateway mode",
    ),
    ("extra_dhcp_opt", "Neutron Extra DHCP options"),
    ("net-mtu", "Network MTU"),
    ("net-mtu-writable", "Network MTU (writable)"),
    ("pagination", "Pagination support"),
    ("port-security", "Port Security"),
    ("quotas", "Quota management support"),
    ("router", "Neutron L3 Router"),
    ("security-group", "security-group"),
    ("sorting", "Sorting support"),
    (
        "standard-attr-tag",
        "Tag support for resources with standard attribute",
    ),
    ("trunk", "Trunk Extension"),
];

impl World {
    /// Whether an extension is listed and not hidden.
    pub(crate) fn has_extension(&self, alias: &str) -> bool {
        EXTENSIONS.iter().any(|(known, _)| *known == alias)
            && !self.hidden_extensions.iter().any(|hidden| hidden == alias)
    }

    fn shown_extension(alias: &str, name: &str) -> Value {
        json!({ "name": name, "alias": alias, "description": name, "updated": "2017-01-01T00:00:00-00:00", "links": [] })
    }

    pub(super) fn list_extensions(&self) -> Reply {
        let list: Vec<Value> = EXTENSIONS
            .iter()
            .filter(|(alias, _)| self.has_extension(alias))
            .map(|(alias, name)| Self::shown_extension(alias, name))
            .collect();
        Reply::json(200, json!({ "extensions": list }))
    }

    pub(super) fn get_extension(&self, alias: &str) -> Answer {
        match EXTENSIONS
            .iter()
            .find(|(known, _)| *known == alias && self.has_extension(alias))
        {
            Some((alias, name)) => Ok(Reply::json(
                200,
                json!({ "extension": Self::shown_extension(alias, name) }),
            )),
            None => Err(Reply::text(
                404,
                "text/html; charset=UTF-8",
                format!(
                    "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\nExtension with alias {alias} does not exist\n\n\n </body>\n</html>"
                ),
            )),
        }
    }
}
