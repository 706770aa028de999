//! Finds out whether the project of a server's credentials is the one that contains the OpenStack objects of its
//! cluster.

use std::sync::Arc;

use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{
    Context,
    capi::{
        Cluster, DELETE_FOR_MOVE_ANNOTATION, MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION,
        has_annotation,
    },
};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use capo_api::v1beta2::{IdentityRef, OpenStackCluster};
use capo_core::{ObjectName, Reason, ids::ProjectId};

/// The annotation of an `OpenStackCluster` with the id of the project that contains the cluster's OpenStack objects.
pub(crate) const PROJECT_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/openstack-project";

/// Whether `project` was found to be that of the cluster's objects. In another project the absence of a server says
/// nothing about the server. Before the first pass over the cluster, no project is known to be the cluster's.
pub(super) fn is_verified(context: &Context, cluster: &Cluster, project: &ProjectId) -> bool {
    own_project(context, cluster).is_some_and(|(_, own)| own.as_ref() == Some(project))
}

/// Whether a project is the one that contains a cluster's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectMatch {
    /// The project is the cluster's, or nothing shows that it is another one.
    Own,
    /// The project is not known to be the cluster's, and the server has credentials of its own, so the objects that
    /// were created for it are in their project. The absence of a server there does not open a gate.
    OwnCredentials,
    /// The project is not the cluster's. Nothing is deleted there, and the absence of a server there does not open a
    /// gate.
    Elsewhere,
    /// This process does not know yet whether the project is the cluster's. What exists there may be deleted; what is
    /// absent there counts as unknown.
    Unknown,
}

/// Decides whether `project`, the project of a server's credentials `identity`, is that of the cluster's objects. The
/// annotation of the `OpenStackCluster` or the last pass over it says which project that is. If there is neither, a
/// failed verification is still known after a restart, because the status shows it. A successful one is not, because
/// the credentials may have changed since.
pub(super) fn project_match(
    context: &Context,
    cluster: &Cluster,
    identity: &IdentityRef,
    project: &ProjectId,
) -> ProjectMatch {
    let Some((object, own)) = own_project(context, cluster) else {
        return ProjectMatch::Own;
    };
    let has_failed = || {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| {
            condition.type_ == OPENSTACK_AUTHENTICATION_SUCCEEDED
                && condition.reason == Reason::OpenStackAuthenticationFailed.as_str()
        })
    };
    match own {
        Some(own) if own == *project => ProjectMatch::Own,
        _ if !are_same_credentials(identity, &object.spec.identity_ref) => {
            ProjectMatch::OwnCredentials
        }
        Some(_) => ProjectMatch::Elsewhere,
        None if has_failed() => ProjectMatch::Elsewhere,
        None if has_no_passes(&object) => ProjectMatch::Own,
        None => ProjectMatch::Unknown,
    }
}

/// Whether both references lead to the same project. The region is not compared, because the regions of a cloud share
/// their projects.
fn are_same_credentials(one: &IdentityRef, other: &IdentityRef) -> bool {
    (&one.type_, &one.name, &one.cloud_name) == (&other.type_, &other.name, &other.cloud_name)
}

/// Whether passes over the object change nothing, so that none of them verifies its project.
fn has_no_passes(object: &OpenStackCluster) -> bool {
    [
        MANAGED_BY_ANNOTATION,
        PAUSED_ANNOTATION,
        DELETE_FOR_MOVE_ANNOTATION,
    ]
    .iter()
    .any(|annotation| has_annotation(&object.metadata, annotation))
}

/// The `OpenStackCluster` of a Cluster, if it exists, and the project that is known to be that of the cluster's
/// objects.
fn own_project(
    context: &Context,
    cluster: &Cluster,
) -> Option<(Arc<OpenStackCluster>, Option<ProjectId>)> {
    let infrastructure = cluster.spec.infrastructure_ref.as_ref()?;
    let namespace = cluster.namespace().unwrap_or_default();
    let key = ObjectRef::new(&infrastructure.name).within(&namespace);
    let object = context.stores.openstack_clusters.get(&key)?;
    let name = ObjectName::new(namespace, &infrastructure.name);
    let cached = context.clusters.get(&name, object.uid().as_deref());
    let own = recorded(&object).or_else(|| cached.and_then(|cached| cached.project));
    Some((object, own))
}

/// The project id in the annotation of the `OpenStackCluster`.
pub(super) fn recorded(object: &OpenStackCluster) -> Option<ProjectId> {
    let id = object.annotations().get(PROJECT_ANNOTATION)?;
    Some(id.as_str().into())
}

#[cfg(test)]
mod tests {
    use kube::runtime::{
        reflector::{self, store::Writer},
        watcher::Event,
    };
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        controllers::{
            UncachedMachines, capi::ClusterSpec, cluster::cache::CachedCluster, context::Queues,
            machine, server,
        },
        kubernetes::{
            conflict_once::ConflictOnce, events::Events, replaced_versions::ReplacedVersions,
        },
        reconcile::{
            ObjectCache, Settings, SharedContext, Stores, creations::UncertainCreations,
            identity::SecretVersions, related_objects::ContractKinds,
        },
        tracker::Tracker,
    };
    use capo_gate::Unobserved;
    use capo_openstack::{ClientSettings, Clouds, LeaseToken, NoObserver};

    const UID: &str = "u";
    /// The project of the credentials that are judged.
    const PROJECT: &str = "p";

    /// A context whose caches are empty, and the writer of its `OpenStackCluster`s.
    fn context() -> (Context, Writer<OpenStackCluster>) {
        let client = ConflictOnce::new(Value::Null, Value::Null).client();
        let (openstack_clusters, writer) = reflector::store();
        let shutdown = CancellationToken::new();
        let (events, _) = Events::new(client.clone(), String::new(), |_, _| {}, shutdown);
        let tracker = Tracker::new(
            capo_gate::Settings::default(),
            Arc::new(UncachedMachines::new(client.clone())),
            Arc::new(Unobserved),
        );
        let lease = LeaseToken::not_held();
        let shared = SharedContext {
            client,
            clouds: Clouds::new(ClientSettings::default(), lease, Arc::new(NoObserver)),
            secret_versions: SecretVersions::default(),
            tracker,
            settings: Settings::default(),
            events,
            stores: Stores {
                clusters: reflector::store().0,
                machines: reflector::store().0,
                health_checks: reflector::store().0,
                openstack_clusters,
                openstack_machines: reflector::store().0,
                openstack_servers: reflector::store().0,
            },
            replaced: ReplacedVersions::default(),
            observer: Arc::new(()),
        };
        let context = Context {
            shared,
            clusters: ObjectCache::default(),
            cluster_creations: UncertainCreations::default(),
            pool_creations: UncertainCreations::default(),
            contract_kinds: ContractKinds::default(),
            machines: ObjectCache::default(),
            servers: server::ServerCaches::default(),
            machine_templates: ObjectCache::default(),
            ensure_server_may_be_deleted: machine::ensure_server_may_be_deleted,
            queues: Queues::default(),
        };
        (context, writer)
    }

    fn parsed<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// A Cluster whose infrastructure is the `OpenStackCluster` `c`.
    fn cluster() -> Cluster {
        let reference = json!({"kind": "OpenStackCluster", "name": "c"});
        parsed(json!({
            "metadata": {"name": "c", "namespace": "n"}, "spec": {"infrastructureRef": reference},
        }))
    }

    /// The identity of the cluster, changed by `change`.
    fn identity(change: &Value) -> IdentityRef {
        let mut identity = json!({"type": "Secret", "name": "s", "cloudName": "c", "region": "R1"});
        json_patch::merge(&mut identity, change);
        parsed(identity)
    }

    /// What is known of a cluster and its project.
    #[derive(Default)]
    struct Known {
        annotations: Vec<(&'static str, &'static str)>,
        /// The reason of its condition `OpenStackAuthenticationSucceeded`.
        reason: Option<&'static str>,
        /// The uid and the project of the object that a pass has seen last.
        seen: Option<(&'static str, &'static str)>,
    }

    impl Known {
        fn annotated(key: &'static str, value: &'static str) -> Self {
            Self {
                annotations: vec![(key, value)],
                ..Self::default()
            }
        }

        fn seen(uid: &'static str, project: &'static str) -> Self {
            Self {
                seen: Some((uid, project)),
                ..Self::default()
            }
        }

        fn failed(reason: &'static str) -> Self {
            Self {
                reason: Some(reason),
                ..Self::default()
            }
        }

        /// Whether [`PROJECT`] is verified, and what it is for credentials that differ from the cluster's by `change`.
        fn judge(self, change: &Value) -> (bool, ProjectMatch) {
            let (context, mut writer) = context();
            let annotations: serde_json::Map<String, Value> = self
                .annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            let condition = |reason| {
                json!({"type": OPENSTACK_AUTHENTICATION_SUCCEEDED, "status": "False", "reason": reason, "message": "",
                    "lastTransitionTime": "2026-11-21T10:00:00Z"})
            };
            let object = parsed(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
                "metadata": {"name": "c", "namespace": "n", "uid": UID, "annotations": annotations},
                "spec": {"identityRef": identity(&json!({}))},
                "status": {"conditions": self.reason.map(condition).into_iter().collect::<Vec<_>>()},
            }));
            writer.apply_watcher_event(&Event::Apply(object));
            if let Some((uid, project)) = self.seen {
                let cached = CachedCluster {
                    project: Some(project.into()),
                    ..CachedCluster::default()
                };
                let name = ObjectName::new("n", "c");
                context.clusters.put(&name, Some(uid), cached);
            }
            judged(&context, &cluster(), change)
        }
    }

    fn judged(context: &Context, cluster: &Cluster, change: &Value) -> (bool, ProjectMatch) {
        let project = PROJECT.into();
        (
            is_verified(context, cluster, &project),
            project_match(context, cluster, &identity(change), &project),
        )
    }

    #[tokio::test]
    async fn a_project_is_the_clusters_if_the_annotation_or_a_pass_over_the_cluster_says_so() {
        use ProjectMatch::{Elsewhere, Own, Unknown};
        let annotated = |project| Known::annotated(PROJECT_ANNOTATION, project);
        let both = |annotation, seen| Known {
            seen: Some((UID, seen)),
            ..annotated(annotation)
        };
        for (case, known, expected) in [
            ("annotated", annotated(PROJECT), (true, Own)),
            ("annotated: another", annotated("q"), (false, Elsewhere)),
            ("seen", Known::seen(UID, PROJECT), (true, Own)),
            ("seen: another", Known::seen(UID, "q"), (false, Elsewhere)),
            (
                "seen for an earlier object of the name",
                Known::seen("v", PROJECT),
                (false, Unknown),
            ),
            ("the annotation wins", both(PROJECT, "q"), (true, Own)),
            (
                "the annotation wins: another",
                both("q", PROJECT),
                (false, Elsewhere),
            ),
            ("nothing is known", Known::default(), (false, Unknown)),
            (
                "a verification failed",
                Known::failed("OpenStackAuthenticationFailed"),
                (false, Elsewhere),
            ),
            (
                "no verification failed",
                Known::failed("Ready"),
                (false, Unknown),
            ),
            (
                "seen after a verification failed",
                Known {
                    reason: Some("OpenStackAuthenticationFailed"),
                    ..Known::seen(UID, PROJECT)
                },
                (true, Own),
            ),
        ] {
            assert_eq!(known.judge(&json!({})), expected, "{case}");
        }
    }

    /// The absence of a server opens no gate unless the project is verified, whatever else may be done in it.
    #[tokio::test]
    async fn without_a_pass_over_the_cluster_its_project_is_never_verified() {
        for annotation in [
            MANAGED_BY_ANNOTATION,
            PAUSED_ANNOTATION,
            DELETE_FOR_MOVE_ANNOTATION,
        ] {
            let found = Known::annotated(annotation, "").judge(&json!({}));
            assert_eq!(found, (false, ProjectMatch::Own), "{annotation}");
        }
        let (context, _writer) = context();
        let absent = judged(&context, &cluster(), &json!({}));
        assert_eq!(absent, (false, ProjectMatch::Own), "no OpenStackCluster");
        let bare = Cluster {
            spec: ClusterSpec::default(),
            ..cluster()
        };
        let without = judged(&context, &bare, &json!({}));
        assert_eq!(without, (false, ProjectMatch::Own), "no infrastructure");
    }

    #[tokio::test]
    async fn credentials_of_a_servers_own_lead_to_a_project_of_its_own() {
        use ProjectMatch::{Elsewhere, Own, OwnCredentials};
        let elsewhere = || Known::annotated(PROJECT_ANNOTATION, "q");
        for (change, expected) in [
            (json!({}), Elsewhere),
            // The regions of a cloud share their projects.
            (json!({"region": "R2"}), Elsewhere),
            (json!({"region": null}), Elsewhere),
            (json!({"name": "t"}), OwnCredentials),
            (json!({"cloudName": "d"}), OwnCredentials),
            (json!({"type": "ClusterIdentity"}), OwnCredentials),
        ] {
            let found = elsewhere().judge(&change);
            assert_eq!(found, (false, expected), "{change}");
        }
        let own = json!({"name": "t"});
        for (known, expected) in [
            // They lead to the project of the cluster.
            (Known::annotated(PROJECT_ANNOTATION, PROJECT), (true, Own)),
            (Known::default(), (false, OwnCredentials)),
            (
                Known::failed("OpenStackAuthenticationFailed"),
                (false, OwnCredentials),
            ),
            (
                Known::annotated(PAUSED_ANNOTATION, ""),
                (false, OwnCredentials),
            ),
        ] {
            assert_eq!(known.judge(&own), expected);
        }
    }
}
