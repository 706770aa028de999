//! The object that the work of the current task is for. A dry run groups the writes that it records by this object.

use serde::Serialize;

use capo_core::ObjectName;

/// An object with its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Subject {
    /// The kind, such as `OpenStackCluster`.
    pub kind: String,
    /// The object's namespace; empty for kinds that have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

tokio::task_local! {
    static CURRENT: Subject;
}

impl Subject {
    /// The object `name` of this kind.
    pub(crate) fn new(kind: impl Into<String>, name: &ObjectName) -> Self {
        Self {
            kind: kind.into(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        }
    }

    /// The object that the current task works for.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs `work` for this object.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.kind, self.name);
        }
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
