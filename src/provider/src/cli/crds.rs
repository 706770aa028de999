//! The custom resource definitions, made from the types.

use clap::Args;

use crate::manager::NAMESPACE;
use capo_api::{ConversionTarget, manifests};

/// The options of `crds`.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Namespace of the manager, whose webhooks convert between versions
    #[arg(long, default_value = NAMESPACE)]
    namespace: String,
}

/// All of them, as one YAML stream.
///
/// # Errors
/// Never with the types as they are.
pub(super) fn yaml(choices: &Choices) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    yaml_in(&choices.namespace, None)
}

/// The same for a manager in `namespace`, whose webhook certificate `authority` signed; cert-manager fills it in if none is
/// given.
pub(super) fn yaml_in(
    namespace: &str,
    authority: Option<String>,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let conversion = match ConversionTarget::default() {
        ConversionTarget::Service { name, .. } => ConversionTarget::Service {
            namespace: namespace.to_owned(),
            name,
            certificate_authority: authority,
        },
        other => other,
    };
    let files = manifests(&conversion)?;
    let texts: Vec<String> = files.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join("---\n"))
}
