//! What a deployment takes: the files of `deploy/`, with namespace and image filled in.

use clap::Args;

use crate::manager::NAMESPACE;

/// The image that `deploy/` names.
const IMAGE: &str = "ghcr.io/capo-rs/capo-rs:dev";

/// The files in the order in which they must be applied.
const FILES: &[&str] = &[
    include_str!("../../deploy/namespace.yaml"),
    include_str!("../../deploy/rbac.yaml"),
    include_str!("../../deploy/certificate.yaml"),
    include_str!("../../deploy/webhooks.yaml"),
    include_str!("../../deploy/deployment.yaml"),
];

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub struct Choices {
    /// Namespace of the manager
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
    /// Image of the manager
    #[arg(long, default_value = IMAGE)]
    image: String,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
        }
    }
}

/// All documents, as one YAML stream.
pub fn yaml(choices: &Choices) -> String {
    FILES
        .join("---\n")
        .replace(NAMESPACE, &choices.namespace)
        .replace(IMAGE, &choices.image)
}
