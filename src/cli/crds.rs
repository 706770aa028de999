//! The custom resource definitions, as committed in `crds/`.

/// All of them, as one YAML stream.
pub(super) fn yaml() -> String {
    String::new()
}
