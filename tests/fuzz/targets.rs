//! Everything that reads what others write. A target panics when it finds something, and answers in a few
//! words what became of the input, so that its caller can tell new from known.

use std::collections::BTreeMap;

use capo_api::{v1alpha1, v1beta1, v1beta2};
use capo_core::gate_override;
use capo_openstack::CloudProfile;
use capo_rs::{
    controllers::capi,
    storage_migration::plan::without_stash,
    webhooks::{conversion, validation},
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

const V1BETA1: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// A function of bytes.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]) -> String,
}

/// Every target; each has a folder of its name in `corpus`.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "conversion",
        run: conversion,
    },
    Target {
        name: "conversion_review",
        run: conversion_review,
    },
    Target {
        name: "admission_review",
        run: admission_review,
    },
    Target {
        name: "stored_objects",
        run: stored_objects,
    },
    Target {
        name: "credentials",
        run: credentials,
    },
    Target {
        name: "gate_annotation",
        run: gate_annotation,
    },
];

/// An object goes to the other version; what comes out is an object of that version, and goes back.
fn conversion(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else {
        return "no text".to_owned();
    };
    let mut answers = String::new();
    for (there, back) in [(V1BETA1, V1BETA2), (V1BETA2, V1BETA1)] {
        let mut converted = Vec::new();
        if let Err(error) = conversion::convert_text(text, there, &mut converted) {
            assert!(converted.is_empty(), "half an object");
            answers.push_str(&error.to_string());
            continue;
        }
        let converted = String::from_utf8(converted).expect("text");
        let raw: BTreeMap<String, &RawValue> = serde_json::from_str(&converted).expect("an object");
        assert!(raw.contains_key("apiVersion"));
        let mut again = Vec::new();
        match conversion::convert_text(&converted, back, &mut again) {
            Ok(()) => answers.push_str("there and back"),
            Err(error) => answers += format!("one way: {error}").as_str(),
        }
        if let Ok(object) = serde_json::from_str::<Value>(&converted) {
            let _ = without_stash(&object);
        }
    }
    answers
}

fn conversion_review(input: &[u8]) -> String {
    /// Objects stay unread: a part that no reader looks at may be deeper than any reader goes, or half a surrogate.
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        response: Response<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Response<'a> {
        #[serde(borrow)]
        converted_objects: Vec<&'a RawValue>,
        result: Value,
    }
    match conversion::review(input) {
        Ok(answer) => {
            let answer: Answer<'_> = serde_json::from_slice(&answer).expect("JSON");
            let Response {
                converted_objects,
                result,
            } = answer.response;
            assert!(result["status"] == "Success" || converted_objects.is_empty());
            format!("{}{}", result["status"], result["message"])
        }
        Err(error) => error.to_string(),
    }
}

fn admission_review(input: &[u8]) -> String {
    let now = Timestamp::UNIX_EPOCH;
    validation::Kind::ALL
        .into_iter()
        .map(|kind| match validation::review(kind, input, now) {
            Ok(answer) => {
                let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
                assert_eq!(body["response"]["allowed"], answer.allowed);
                body["response"]["status"]["message"].to_string()
            }
            Err(error) => error.to_string(),
        })
        .collect()
}

/// What a watch brings in: nothing that is stored may be unreadable because of one odd field, and what is
/// read can be written.
fn stored_objects(input: &[u8]) -> String {
    fn read<K: DeserializeOwned + serde::Serialize>(input: &[u8]) -> String {
        match serde_json::from_slice::<K>(input) {
            Ok(object) => {
                serde_json::to_vec(&object).expect("an object that was read can be written");
                "read ".to_owned()
            }
            Err(error) => error.to_string(),
        }
    }
    let foreign = |known: bool| if known { "read " } else { "not read " };
    [
        read::<v1beta2::OpenStackCluster>(input),
        read::<v1beta2::OpenStackMachine>(input),
        read::<v1beta2::OpenStackMachineTemplate>(input),
        read::<v1beta1::OpenStackCluster>(input),
        read::<v1alpha1::OpenStackServer>(input),
        foreign(serde_json::from_slice::<capi::Cluster>(input).is_ok()).to_owned(),
        foreign(serde_json::from_slice::<capi::Machine>(input).is_ok()).to_owned(),
    ]
    .concat()
}

/// A Secret with this content, as a user writes it.
fn credentials(input: &[u8]) -> String {
    let data = BTreeMap::from([
        ("clouds.yaml".to_owned(), ByteString(input.to_vec())),
        ("cacert".to_owned(), ByteString(input.to_vec())),
    ]);
    let only = BTreeMap::from([("clouds.yaml".to_owned(), ByteString(input.to_vec()))]);
    let text_of = |result: Result<(), capo_openstack::ProfileError>| match result {
        Ok(()) => "taken".to_owned(),
        Err(error) => error.to_string(),
    };
    [
        text_of(CloudProfile::check_secret(&only)),
        text_of(CloudProfile::from_secret(&data, "demo", None).map(|_| ())),
        text_of(CloudProfile::from_secret(&only, "demo", Some("R1")).map(|_| ())),
    ]
    .concat()
}

fn gate_annotation(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    format!("{:?}", gate_override::parse(&text, Timestamp::UNIX_EPOCH))
}
