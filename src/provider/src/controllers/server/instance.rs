//! The Nova server. It is looked up by its name, and created with its user data.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use secrecy::SecretSlice;
use serde_json::Value;

use super::{CONDITION, Creations, StepResult, block_devices::Attached, failed, failure, wait};
use crate::kubernetes::events::CloudObject;
use capo_api::{
    v1alpha1::{OpenStackServerSpec, ResolvedServerSpec},
    v1beta2::SchedulerHintValue,
};
use capo_core::Reason;
use capo_core::{
    FailureClass, Priority,
    ids::{PortId, ServerId},
};
use capo_openstack::{Cloud, compute::NewServer};

/// The maximum length of user data in Nova, in bytes of base64.
const LONGEST_USER_DATA: usize = 65_535;
/// The key in the Secret that contains the user data, as Cluster API's contract defines it.
const USER_DATA_KEY: &str = "value";

/// The ids of the servers with exactly this name in the credentials' project, from a lookup that was sent at `oldest`
/// or later.
pub(super) async fn named(cloud: &Cloud, name: &str, oldest: Instant) -> StepResult<Vec<ServerId>> {
    cloud
        .shared_reads()
        .server_ids(name, oldest, Priority::Settling)
        .await
        .map_err(|error| failed(&error, Reason::OpenStackError))
}

/// Creates the server and returns its id.
pub(super) async fn create(
    cloud: &Cloud,
    new: &NewServer,
    creations: &Creations,
) -> StepResult<ServerId> {
    creations
        .begin(CONDITION, CloudObject::Server, &new.name)
        .await?;
    let answer = cloud.create_server(new, Priority::Gate).await;
    let refused = Reason::InstanceCreateFailed;
    creations
        .end(CloudObject::Server, &new.name, answer, ServerId::as_str)
        .map_err(|error| failed(&error, refused))
}

/// Reads the user data from the Secret that the spec names.
pub(super) async fn user_data(
    client: &kube::Client,
    namespace: &str,
    spec: &OpenStackServerSpec,
) -> StepResult<Option<SecretSlice<u8>>> {
    let Some(name) = spec
        .user_data_ref
        .as_ref()
        .map(|reference| reference.name.as_str())
        .filter(|name| !name.is_empty())
    else {
        return Ok(None);
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match api.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return Err(wait(
                Reason::DependencyNotFound,
                format!("spec.userDataRef: there is no Secret {name} in the namespace {namespace}"),
                Duration::from_secs(10),
            ));
        }
        Err(error) => {
            tracing::debug!(%error, "Reading the Secret with the user data failed");
            return Err(failure(
                FailureClass::Transient,
                Reason::DependencyFailed,
                format!("spec.userDataRef: the Secret {name} could not be read"),
            ));
        }
    };
    read_user_data(name, secret).map(Some)
}

fn read_user_data(name: &str, secret: Secret) -> StepResult<SecretSlice<u8>> {
    let invalid = |message: String| {
        failure(
            FailureClass::Invalid,
            Reason::InvalidSpec,
            format!("spec.userDataRef: {message}"),
        )
    };
    let data = secret
        .data
        .and_then(|mut data| data.remove(USER_DATA_KEY))
        .ok_or_else(|| invalid(format!("the Secret {name} has no key {USER_DATA_KEY}")))?;
    let encoded = data.0.len().div_ceil(3) * 4;
    if encoded > LONGEST_USER_DATA {
        return Err(invalid(format!(
            "the Secret {name} has {} bytes of user data, Nova takes {} at most",
            data.0.len(),
            LONGEST_USER_DATA / 4 * 3
        )));
    }
    Ok(data.0.into())
}

/// Builds the request that creates the server.
pub(super) fn request(
    name: &str,
    spec: &OpenStackServerSpec,
    resolved: &ResolvedServerSpec,
    port_ids: &[PortId],
    attached: Attached,
    user_data: Option<SecretSlice<u8>>,
) -> NewServer {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    NewServer {
        name: name.to_owned(),
        // If there are block devices, they determine what the server boots from.
        image_id: resolved
            .image_id
            .clone()
            .filter(|_| spec.root_volume.is_none())
            .map(Into::into),
        flavor_id: resolved.flavor_id.clone().unwrap_or_default().into(),
        key_name: filled(&spec.ssh_key_name),
        port_ids: port_ids.to_vec(),
        availability_zone: spec.availability_zone.as_deref().and_then(filled),
        user_data,
        metadata: spec
            .server_metadata
            .iter()
            .map(|entry| (entry.key.clone(), entry.value.clone()))
            .collect(),
        config_drive: spec.config_drive,
        tags: spec.tags.clone(),
        block_devices: attached.devices,
        multiattach: attached.multiattach,
        server_group_id: resolved.server_group_id.clone().map(Into::into),
        scheduler_hints: hints(spec),
    }
}

fn hints(spec: &OpenStackServerSpec) -> BTreeMap<String, Value> {
    spec.scheduler_hint_additional_properties
        .iter()
        .filter_map(|hint| Some((hint.name.clone(), hint_value(&hint.value)?)))
        .collect()
}

/// The member of the union that is set. The API server ensures that it is the only one and the one that `type` names.
fn hint_value(value: &SchedulerHintValue) -> Option<Value> {
    let SchedulerHintValue {
        type_: _,
        bool: flag,
        number,
        string,
    } = value;
    flag.map(Value::Bool)
        .or_else(|| number.map(Value::from))
        .or_else(|| string.clone().map(Value::String))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    fn secret(key: &str, value: &[u8]) -> Secret {
        Secret {
            data: Some(BTreeMap::from([(
                key.to_owned(),
                ByteString(value.to_vec()),
            )])),
            ..Secret::default()
        }
    }

    #[test]
    fn user_data_is_checked_before_nova_sees_it() {
        let read = |secret| read_user_data("boot", secret);
        let good = read(secret("value", b"#cloud-config")).unwrap();
        assert_eq!(good.expose_secret(), b"#cloud-config");
        for (secret, words) in [
            (Secret::default(), "no key value"),
            (secret("userdata", b"x"), "no key value"),
            (
                secret("value", "x".repeat(50_000).as_bytes()),
                "50000 bytes",
            ),
        ] {
            let message = read(secret).unwrap_err().state.message;
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn everything_a_server_can_have() {
        let spec: OpenStackServerSpec = serde_json::from_value(json!({
            "identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "flavorID": "f", "ports": [],
            "sshKeyName": "key", "availabilityZone": "az1", "configDrive": true, "tags": ["t"],
            "serverMetadata": [{"key": "k", "value": "v"}],
            "schedulerHintAdditionalProperties": [
                {"name": "a", "value": {"type": "Bool", "bool": true}},
                {"name": "b", "value": {"type": "Number", "number": 7}},
                {"name": "c", "value": {"type": "String", "string": "s"}}],
        }))
        .unwrap();
        let resolved: ResolvedServerSpec = serde_json::from_value(
            json!({"imageID": "image", "flavorID": "flavor", "serverGroupID": "group"}),
        )
        .unwrap();
        let ports = ["p1", "p2"].map(PortId::from);
        let new = request("m1", &spec, &resolved, &ports, Attached::default(), None);
        assert_eq!(new.image_id, Some("image".into()));
        assert_eq!(new.flavor_id, "flavor");
        assert_eq!(new.server_group_id, Some("group".into()));
        assert_eq!(new.key_name.as_deref(), Some("key"));
        assert_eq!(new.port_ids, ports);
        assert_eq!(
            new.metadata,
            BTreeMap::from([("k".to_owned(), "v".to_owned())])
        );
        assert_eq!(
            new.scheduler_hints,
            BTreeMap::from([
                ("a".to_owned(), json!(true)),
                ("b".to_owned(), json!(7)),
                ("c".to_owned(), json!("s")),
            ])
        );
        let from_volume = OpenStackServerSpec {
            root_volume: Some(serde_json::from_value(json!({"sizeGiB": 1})).unwrap()),
            ..spec
        };
        let new = request(
            "m1",
            &from_volume,
            &resolved,
            &ports,
            Attached::default(),
            None,
        );
        assert_eq!(new.image_id, None);
    }
}
