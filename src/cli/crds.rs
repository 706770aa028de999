//! The custom resource definitions, made from the types.

use crate::api::{ConversionTarget, manifests};

/// All of them, as one YAML stream.
///
/// # Errors
/// Never with the types as they are.
pub(super) fn yaml() -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let files = manifests(&ConversionTarget::default())?;
    let texts: Vec<String> = files.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join("---\n"))
}
