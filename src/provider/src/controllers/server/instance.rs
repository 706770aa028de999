//! The server itself: found by id or by name, made when it is missing, never made twice.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use secrecy::SecretSlice;
use serde_json::Value;

use super::{Claims, Step, failed, memory::Doubts, ports::ambiguous, volumes::Attached};
use crate::controllers::Outcome;
use capo_api::{
    v1alpha1::{OpenStackServerSpec, ResolvedServerSpec},
    v1beta2::SchedulerHintValue,
};
use capo_core::{FailureClass, Priority};
use capo_core::{ObjectName, Reason};
use capo_openstack::{
    Cloud,
    compute::{NewServer, Server, ServerFilter},
};

/// Nova takes no more user data than this, base64 included.
const LONGEST_USER_DATA: usize = 65_535;
/// The key of the Secret that holds the user data, by Cluster API's contract.
const USER_DATA_KEY: &str = "value";

/// The server of exactly this name in our project, if there is one. One that another object holds is an error.
pub(super) async fn find(cloud: &Cloud, name: &str, claims: &Claims) -> Step<Option<Server>> {
    let found = named(cloud, name).await?;
    let claimed = found
        .iter()
        .find_map(|server| claims.server(&server.id).map(|by| (server, by)));
    if let Some((server, by)) = claimed {
        return Err(ambiguous(format!(
            "the server {} named {name} belongs to the OpenStackServer {by}; two objects of one name can't share a project",
            server.id
        )));
    }
    unclaimed(found, name, claims, true)
}

/// The servers of exactly this name in our project.
pub(super) async fn named(cloud: &Cloud, name: &str) -> Step<Vec<Server>> {
    let filter = ServerFilter {
        name: Some(name.to_owned()),
        tags: Vec::new(),
    };
    cloud
        .servers(&filter, Priority::Settling)
        .await
        .map_err(|error| failed(&error, Reason::OpenStackError))
}

/// The server of those `found` that no other object holds. Several are an error, unless nothing was ever
/// made for the object: then none of them is its own.
pub(super) fn unclaimed(
    mut found: Vec<Server>,
    name: &str,
    claims: &Claims,
    was_begun: bool,
) -> Step<Option<Server>> {
    found.retain(|server| claims.server(&server.id).is_none());
    match (found.pop(), found.is_empty()) {
        (one, true) => Ok(one),
        (_, false) if !was_begun => Ok(None),
        (_, false) => Err(ambiguous(format!(
            "more than one server is named {name}; delete the ones that are not used"
        ))),
    }
}

/// Asks Nova for the server and answers its id.
pub(super) async fn create(
    cloud: &Cloud,
    owner: &ObjectName,
    new: &NewServer,
    doubts: &Doubts,
) -> Step<String> {
    let what = format!("server {}", new.name);
    doubts.check(owner, &what)?;
    cloud
        .create_server(new, Priority::Gate)
        .await
        .map(Into::into)
        .map_err(|error| doubts.note(owner, &what, &error, Reason::InstanceCreateFailed))
}

/// The user data, from the Secret that the spec names.
pub(super) async fn user_data(
    client: &kube::Client,
    namespace: &str,
    spec: &OpenStackServerSpec,
) -> Step<Option<SecretSlice<u8>>> {
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
            return Err(Outcome::wait(
                Reason::DependencyNotFound,
                format!("spec.userDataRef: there is no Secret {name} in the namespace {namespace}"),
                Duration::from_secs(10),
            ));
        }
        Err(error) => {
            tracing::debug!(%error, "Reading the Secret with the user data failed");
            return Err(Outcome::failed(
                FailureClass::Transient,
                Reason::DependencyFailed,
                format!("spec.userDataRef: the Secret {name} could not be read"),
            ));
        }
    };
    read_user_data(name, secret).map(Some)
}

fn read_user_data(name: &str, secret: Secret) -> Step<SecretSlice<u8>> {
    let invalid = |message: String| {
        Outcome::failed(
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

/// The request for the server.
pub(super) fn request(
    name: &str,
    spec: &OpenStackServerSpec,
    resolved: &ResolvedServerSpec,
    port_ids: &[String],
    attached: Attached,
    user_data: Option<SecretSlice<u8>>,
) -> NewServer {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    NewServer {
        name: name.to_owned(),
        // The block devices say what to boot from where there are any.
        image_id: resolved
            .image_id
            .clone()
            .filter(|_| spec.root_volume.is_none())
            .map(Into::into),
        flavor_id: resolved.flavor_id.clone().unwrap_or_default().into(),
        key_name: filled(&spec.ssh_key_name),
        port_ids: port_ids.iter().map(|id| id.as_str().into()).collect(),
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

/// The one member of the union that is set; the API server sees to it that it is the one named by type.
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
    fn a_copy_finds_no_server_that_another_object_holds() {
        let server = |id: &str| -> Server {
            serde_json::from_value(json!({"id": id, "name": "m1", "status": "ACTIVE"})).unwrap()
        };
        let mut claims = Claims::default();
        let holder = ObjectName::new("first", "m1");
        claims.servers.insert("1".to_owned(), holder);
        let found = |ids: &[&str], was_begun| {
            let servers = ids.iter().map(|id| server(id)).collect();
            unclaimed(servers, "m1", &claims, was_begun)
                .map(|found| found.map(|server| server.id.to_string()))
        };
        assert_eq!(found(&[], true), Ok(None));
        assert_eq!(found(&["1"], true), Ok(None));
        assert_eq!(found(&["1", "2"], true), Ok(Some("2".to_owned())));
        assert!(found(&["2", "3"], true).is_err());
        assert_eq!(found(&["2", "3"], false), Ok(None));
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
            let Err(Outcome::Failed { message, .. }) = read(secret) else {
                panic!("{words}")
            };
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
        let ports = ["p1".to_owned(), "p2".to_owned()];
        let new = request("m1", &spec, &resolved, &ports, Attached::default(), None);
        assert_eq!(new.image_id.as_deref(), Some("image"));
        assert_eq!(new.flavor_id, "flavor");
        assert_eq!(new.server_group_id.as_deref(), Some("group"));
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
