//! Ports as CAPO up to 0.14 stores them: with `disablePortSecurity` where later versions have `enablePortSecurity`.
//! They are read as if a later version had written them.

use schemars::Schema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Map, Value, json};

const DISABLE: &str = "disablePortSecurity";
const ENABLE: &str = "enablePortSecurity";

/// Adds the older field to the schema of a list of ports.
pub(super) fn with_disable_port_security(list: &mut Schema) {
    let properties = list
        .get_mut("items")
        .and_then(|port| port.get_mut("properties"));
    if let Some(Value::Object(properties)) = properties {
        let field = json!({
            "description": "Whether security groups are turned off for the port. CAPO up to 0.14 writes this field; it \
                            is not used where enablePortSecurity is set.",
            "type": ["boolean", "null"],
        });
        properties.insert(DISABLE.to_owned(), field);
    }
}

/// Reads ports with either field, `PortOpts` and `ResolvedPortSpec` alike.
pub(super) fn ports<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let stored = Vec::<Map<String, Value>>::deserialize(deserializer)?;
    let ports = stored.into_iter().map(|mut port| {
        let disable = port.remove(DISABLE).unwrap_or_default();
        let disable = Option::<bool>::deserialize(disable)?;
        let is_set = port.get(ENABLE).is_some_and(|enable| !enable.is_null());
        if let Some(disable) = disable.filter(|_| !is_set) {
            port.insert(ENABLE.to_owned(), Value::Bool(!disable));
        }
        T::deserialize(Value::Object(port))
    });
    ports.collect::<Result<_, _>>().map_err(Error::custom)
}
