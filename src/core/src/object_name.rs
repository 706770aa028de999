//! Names of Kubernetes objects.

use std::fmt;

/// Namespace and name of a Kubernetes object. The kind is clear from where it is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The object's namespace; empty for kinds that have none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectName {
    /// The name `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
