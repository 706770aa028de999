//! Conversion between v1beta1 and v1beta2, for the four kinds that have both.
//!
//! It rewrites the JSON text ([`lazy_json`]): a field that has the same name and form in both versions is not parsed.
//! Such a field can't be lost and costs next to nothing, and a field that the schemas gain later needs no change here.
//! Speed is not the only reason for not using the typed structs: the API server fails the LIST of a kind if the
//! conversion of one of its objects fails. Every object that any schema has ever allowed into storage must therefore
//! convert, including numbers out of range, empty lists and unknown enum values. Typed structs refuse or lose some of
//! these.
//!
//! `docs/conversion.md` lists what each version can't hold, and where it is kept.

mod cluster;
mod conditions;
mod kept_fields;
mod lazy_json;
mod machine;
mod review;
#[cfg(test)]
mod tests;

pub use kept_fields::{V1BETA1_FIELDS, V1BETA2_FIELDS};
pub use review::review;

use serde_json::Value;

use super::json::{Path, WrongType, type_name};
use capo_api::GROUP;
use kept_fields::{KeptFields, top};
use lazy_json::{Node, Object};

/// The two served versions of the kinds that are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The version that every released CAPO stores.
    V1Beta1,
    /// The storage version.
    V1Beta2,
}

impl Version {
    /// The version that an `apiVersion` of this API group names.
    pub fn of(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            Some((GROUP, "v1beta1")) => Some(Self::V1Beta1),
            Some((GROUP, "v1beta2")) => Some(Self::V1Beta2),
            _ => None,
        }
    }

    /// The version without its group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// Group and version, as in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1Beta1 => "infrastructure.cluster.x-k8s.io/v1beta1",
            Self::V1Beta2 => "infrastructure.cluster.x-k8s.io/v1beta2",
        }
    }
}

/// The kinds with two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cluster,
    ClusterTemplate,
    Machine,
    MachineTemplate,
}

impl Kind {
    fn of(kind: &str) -> Option<Self> {
        match kind {
            "OpenStackCluster" => Some(Self::Cluster),
            "OpenStackClusterTemplate" => Some(Self::ClusterTemplate),
            "OpenStackMachine" => Some(Self::Machine),
            "OpenStackMachineTemplate" => Some(Self::MachineTemplate),
            _ => None,
        }
    }
}

/// Why an object could not be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Malformed(String),
    /// A part that the conversion reads has another type than its schema defines.
    #[error(transparent)]
    WrongType(#[from] WrongType),
    /// There is no conversion of this kind between these versions.
    #[error(
        "no conversion of kind {kind:?} from {from:?} to {to:?}; OpenStackCluster, OpenStackClusterTemplate, \
         OpenStackMachine and OpenStackMachineTemplate are converted between \
         infrastructure.cluster.x-k8s.io/v1beta1 and infrastructure.cluster.x-k8s.io/v1beta2"
    )]
    Unknown {
        /// The kind, as found.
        kind: String,
        /// The object's apiVersion, as found.
        from: String,
        /// The requested apiVersion.
        to: String,
    },
}

impl From<serde_json::Error> for ConversionError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Converts `object` to `desired`, an `apiVersion`. An object that has this version already is returned unchanged.
pub fn convert(object: Value, desired: &str) -> Result<Value, ConversionError> {
    let Some(fields) = object.as_object() else {
        return Err(WrongType {
            path: "the object".to_owned(),
            expected: "an object",
            found: type_name(&object),
        }
        .into());
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let (_, from, to) = known(text("kind"), text("apiVersion"), desired)?;
    if from == to {
        return Ok(object);
    }
    let written = object.to_string();
    // A tree takes many times the memory of its text, so there is only one tree at a time.
    drop(object);
    let mut converted = Vec::new();
    convert_text(&written, desired, &mut converted)?;
    Ok(serde_json::from_slice(&converted)?)
}

/// Converts the JSON text of an object to `desired`, an `apiVersion`, and appends it to `out`. On an error
/// nothing is appended.
pub fn convert_text(text: &str, desired: &str, out: &mut Vec<u8>) -> Result<(), ConversionError> {
    let mut object = if text.trim_start().starts_with('{') {
        serde_json::from_str::<Object<'_>>(text)?
    } else {
        // The error names the type of the text, or reports that it is not JSON.
        let other: Value = serde_json::from_str(text)?;
        return Err(Node::Made(other)
            .wrong(&Path::root("the object"), "an object")
            .into());
    };
    let (kind, from, to) = {
        let kind = object.text("kind").unwrap_or_default();
        let from = object.text("apiVersion").unwrap_or_default();
        known(&kind, &from, desired)?
    };
    if from != to {
        object.insert("apiVersion", Node::string(to.api_version()));
        convert_parts(kind, from, &mut object)?;
    }
    object.write(out);
    Ok(())
}

fn known(
    kind: &str,
    from: &str,
    desired: &str,
) -> Result<(Kind, Version, Version), ConversionError> {
    match (Kind::of(kind), Version::of(from), Version::of(desired)) {
        (Some(kind), Some(from), Some(to)) => Ok((kind, from, to)),
        _ => Err(ConversionError::Unknown {
            kind: kind.chars().take(64).collect(),
            from: from.chars().take(64).collect(),
            to: desired.chars().take(64).collect(),
        }),
    }
}

/// Converts the parts of an object that differ between the versions.
fn convert_parts(kind: Kind, from: Version, object: &mut Object<'_>) -> Result<(), WrongType> {
    let mut kept = KeptFields::take(object, from)?;
    let root = Path::root("spec");
    match kind {
        Kind::Cluster | Kind::Machine => {
            if let Some(spec) = top(object, "spec")? {
                convert_spec(kind, from, spec, &root, &mut kept)?;
            }
        }
        Kind::ClusterTemplate | Kind::MachineTemplate => {
            let path = root.field("template");
            if let Some(template) = template_of(object, &root)? {
                if kind == Kind::ClusterTemplate
                    && from == Version::V1Beta1
                    && let Some(metadata) = kept.template_metadata_of_capo()
                {
                    template.insert_if_absent("metadata", Node::Made(metadata));
                }
                if let Some(spec) = template.object("spec", &path)? {
                    convert_spec(kind, from, spec, &path.field("spec"), &mut kept)?;
                }
            }
        }
    }
    // An OpenStackClusterTemplate has no status.
    if kind != Kind::ClusterTemplate
        && let Some(status) = top(object, "status")?
    {
        convert_status(kind, from, status)?;
    }
    kept.write(object)
}

fn convert_spec<'a>(
    kind: Kind,
    from: Version,
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    let convert = match (kind, from) {
        (Kind::Cluster | Kind::ClusterTemplate, Version::V1Beta1) => cluster::spec_to_v1beta2,
        (Kind::Cluster | Kind::ClusterTemplate, Version::V1Beta2) => cluster::spec_to_v1beta1,
        (Kind::Machine | Kind::MachineTemplate, Version::V1Beta1) => machine::spec_to_v1beta2,
        (Kind::Machine | Kind::MachineTemplate, Version::V1Beta2) => machine::spec_to_v1beta1,
    };
    convert(spec, path, kept)
}

fn convert_status(kind: Kind, from: Version, status: &mut Object<'_>) -> Result<(), WrongType> {
    match (kind, from) {
        (Kind::Cluster, Version::V1Beta1) => cluster::status_to_v1beta2(status),
        (Kind::Cluster, Version::V1Beta2) => cluster::status_to_v1beta1(status),
        (Kind::Machine, Version::V1Beta1) => machine::status_to_v1beta2(status),
        (Kind::Machine, Version::V1Beta2) => machine::status_to_v1beta1(status),
        (Kind::ClusterTemplate | Kind::MachineTemplate, Version::V1Beta1) => {
            conditions::to_v1beta2(status, &Path::root("status"))
        }
        (Kind::ClusterTemplate | Kind::MachineTemplate, Version::V1Beta2) => {
            conditions::to_v1beta1(status, &Path::root("status"))
        }
    }
}

fn template_of<'o, 'a>(
    object: &'o mut Object<'a>,
    root: &Path<'_>,
) -> Result<Option<&'o mut Object<'a>>, WrongType> {
    match top(object, "spec")? {
        Some(spec) => spec.object("template", root),
        None => Ok(None),
    }
}
