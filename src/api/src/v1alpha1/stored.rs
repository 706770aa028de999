//! Ports as CAPO up to 0.14 stores them: with `disablePortSecurity` where later ones have
//! `enablePortSecurity`. They are read as if they had been written today.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::v1beta2::{PortOpts, ResolvedPortSpec};

/// A port in either form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredPort {
    #[serde(flatten)]
    port: PortOpts,
    /// Whether the port is left unguarded by security groups. Written by CAPO up to 0.14; not used where
    /// enablePortSecurity is set.
    #[schemars(skip_serializing_if = "Option::is_none")]
    disable_port_security: Option<bool>,
}

/// A resolved port in either form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredResolvedPort {
    #[serde(flatten)]
    port: ResolvedPortSpec,
    /// Whether it is left unguarded by security groups. Written by CAPO up to 0.14; not used where
    /// enablePortSecurity is set.
    #[schemars(skip_serializing_if = "Option::is_none")]
    disable_port_security: Option<bool>,
}

/// Reads ports in either form.
pub(super) fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PortOpts>, D::Error> {
    let stored = Vec::<StoredPort>::deserialize(deserializer)?;
    Ok(stored
        .into_iter()
        .map(|stored| PortOpts {
            enable_port_security: enabled(
                stored.port.enable_port_security,
                stored.disable_port_security,
            ),
            ..stored.port
        })
        .collect())
}

/// Reads resolved ports in either form.
pub(super) fn resolved_ports<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ResolvedPortSpec>, D::Error> {
    let stored = Vec::<StoredResolvedPort>::deserialize(deserializer)?;
    Ok(stored
        .into_iter()
        .map(|stored| ResolvedPortSpec {
            enable_port_security: enabled(
                stored.port.enable_port_security,
                stored.disable_port_security,
            ),
            ..stored.port
        })
        .collect())
}

fn enabled(enable: Option<bool>, disable: Option<bool>) -> Option<bool> {
    enable.or(disable.map(|disable| !disable))
}
