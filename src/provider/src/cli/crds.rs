//! The custom resource definitions, made from the types.

use clap::{Args, ValueEnum};

use crate::{manager::NAMESPACE, webhooks::conversion::Version};
use capo_api::{ConversionTarget, crds};

/// The options of `crds`.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Namespace of the manager, whose webhooks convert between versions
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
    /// Version in which objects are stored; v1beta1 leaves the way back to CAPO 0.14 open without a migration
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = StorageVersion::V1beta2)]
    storage_version: StorageVersion,
}

/// The versions in which objects can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StorageVersion {
    /// CAPO's up to 0.14
    V1beta1,
    /// Ours, and CAPO's from 0.15 on
    V1beta2,
}

impl From<StorageVersion> for Version {
    fn from(version: StorageVersion) -> Self {
        match version {
            StorageVersion::V1beta1 => Self::V1Beta1,
            StorageVersion::V1beta2 => Self::V1Beta2,
        }
    }
}

/// Why the definitions can't be printed. A test rules this out for the types of this crate.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionsError {
    /// The schema of a type is not one that Kubernetes accepts.
    #[error(transparent)]
    Schema(#[from] serde_json::Error),
    /// A definition can't be written as YAML.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::SerializeError),
}

/// All definitions as one YAML stream.
pub(super) fn yaml(choices: &Choices) -> Result<String, DefinitionsError> {
    let text = yaml_in(&choices.namespace, None, choices.storage_version)?;
    // The manifests may follow in the same stream.
    Ok(text + "---\n")
}

/// All definitions for a manager in `namespace`, with `authority` as the certificate authority of its webhooks. Without
/// one, cert-manager fills it in.
pub(super) fn yaml_in(
    namespace: &str,
    authority: Option<String>,
    stored: StorageVersion,
) -> Result<String, DefinitionsError> {
    let conversion = match ConversionTarget::default() {
        ConversionTarget::Service { name, .. } => ConversionTarget::Service {
            namespace: namespace.to_owned(),
            name,
            certificate_authority: authority,
        },
        other => other,
    };
    let stored = Version::from(stored).name();
    let mut texts = Vec::new();
    for mut definition in crds(&conversion)? {
        let versions = &mut definition.spec.versions;
        // A kind with one version stores that one.
        if versions.iter().any(|version| version.name == stored) {
            for version in versions {
                version.storage = version.name == stored;
            }
        }
        texts.push(serde_saphyr::to_string(&definition)?);
    }
    Ok(texts.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_stores_one_version_and_it_can_be_chosen() {
        let stored = |version| {
            let yaml = yaml_in(NAMESPACE, None, version).unwrap();
            let mut stored = Vec::new();
            for text in yaml.split("---\n") {
                let definition: serde_json::Value = serde_saphyr::from_str(text).unwrap();
                let versions = definition["spec"]["versions"].as_array().unwrap().clone();
                let names = versions.iter().filter(|version| version["storage"] == true);
                stored.push(
                    names
                        .map(|version| version["name"].as_str().unwrap().to_owned())
                        .collect::<Vec<_>>()
                        .join("+"),
                );
            }
            stored.sort();
            stored
        };
        let count =
            |stored: &[String], name: &str| stored.iter().filter(|one| *one == name).count();
        let (old, new) = (
            stored(StorageVersion::V1beta1),
            stored(StorageVersion::V1beta2),
        );
        assert_eq!((old.len(), new.len()), (7, 7));
        assert_eq!((count(&old, "v1beta1"), count(&old, "v1alpha1")), (4, 3));
        assert_eq!((count(&new, "v1beta2"), count(&new, "v1alpha1")), (4, 3));
    }
}
