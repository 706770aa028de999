//! Rewrites stored objects in the storage version, at a slow pace: `capo-rs migrate-storage`, and a task of the leader.
//!
//! Which objects to rewrite is decided in [`webhooks::storage_migration`](crate::webhooks::storage_migration).
//! Rights: get on our CRDs and patch on their status; list, get and patch on the kinds.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch, PatchParams,
    },
};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use crate::webhooks::{
    GROUP,
    storage_migration::{Definition, Phases, Rewrite, rewrite, without_stash},
};

/// The field manager of the rewrites. They change no field, so it owns none.
const FIELD_MANAGER: &str = "capo-rs-storage-migration";

/// Objects listed at a time.
const PAGE: u32 = 200;

/// The plurals of the kinds with two versions. The other kinds have always had one.
const PLURALS: [&str; 4] = [
    "openstackclusters",
    "openstackclustertemplates",
    "openstackmachines",
    "openstackmachinetemplates",
];

/// Conversion must be served before objects stored as v1beta1 can be read, and this process may be the one to serve it.
const FIRST_AFTER: Duration = Duration::from_secs(30);

/// The longest pause before failed objects are tried again.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// How a migration is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The parts that are done.
    pub phases: Phases,
    /// The shortest time between two rewrites.
    pub pace: Duration,
}

impl Default for Migration {
    /// Everything, ten objects a second.
    fn default() -> Self {
        Self {
            phases: Phases::ALL,
            pace: Duration::from_millis(100),
        }
    }
}

/// What a migration did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects that were patched.
    pub rewritten: usize,
    /// CRDs whose `storedVersions` were cleaned.
    pub cleaned: Vec<String>,
    /// Objects and CRDs that could not be migrated, and why.
    pub failed: Vec<String>,
}

impl Report {
    /// Whether nothing failed: then nothing is stored in an old version.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    fn fail(&mut self, what: &str, error: &dyn std::fmt::Display) {
        /// A longer list would not help the reader.
        const SHOWN: usize = 20;
        tracing::warn!(what, %error, "Migrating stored objects failed");
        match self.failed.len() {
            0..SHOWN => self.failed.push(format!("{what}: {error}")),
            SHOWN => self
                .failed
                .push("and more; the log names all of them".to_owned()),
            _ => {}
        }
    }
}

/// Migrates in the background, again and again with growing pauses until nothing has failed.
pub(super) async fn until_done(client: Client, phases: Phases) {
    let migration = Migration {
        phases,
        ..Migration::default()
    };
    let mut pause = FIRST_AFTER;
    loop {
        tokio::time::sleep(pause).await;
        if migrate(&client, migration).await.is_complete() {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Migrates every kind. It never fails as a whole: an object or a kind that could not be migrated is reported, and the
/// next one is tried. The future may be dropped at any await.
pub async fn migrate(client: &Client, migration: Migration) -> Report {
    let mut report = Report::default();
    if migration.phases.is_none() {
        return report;
    }
    for plural in PLURALS {
        let name = format!("{plural}.{GROUP}");
        if let Err(error) = kind(client, &name, migration, &mut report).await {
            report.fail(&name, &error);
        }
    }
    if report.rewritten > 0 || !report.cleaned.is_empty() {
        tracing::info!(
            rewritten = report.rewritten,
            cleaned = ?report.cleaned,
            "Migrated stored objects"
        );
    }
    report
}

async fn kind(
    client: &Client,
    name: &str,
    migration: Migration,
    report: &mut Report,
) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let Some(crd) = definitions.get_opt(name).await? else {
        return Ok(());
    };
    let Some(definition) = Definition::of(&crd) else {
        return Ok(());
    };
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, &definition.storage, &definition.kind),
        &definition.plural,
    );
    let failures = report.failed.len();
    let mut ticks = interval(migration.pace.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let listed = all.list_metadata(&parameters).await?;
        for object in listed.items {
            let what = rewrite(&definition, &object.metadata, migration.phases);
            if what == Rewrite::None {
                continue;
            }
            ticks.tick().await;
            let api = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            match apply(&api, &object.metadata, what).await {
                Ok(done) => report.rewritten += usize::from(done),
                Err(error) => {
                    let name = object.name_any();
                    let namespace = object.namespace().unwrap_or_default();
                    report.fail(&format!("{} {namespace}/{name}", definition.kind), &error);
                }
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    let complete = report.failed.len() == failures;
    if complete && migration.phases.storage_version && definition.has_old_objects() {
        definitions
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(definition.forget_old_versions()),
            )
            .await?;
        report.cleaned.push(name.to_owned());
    }
    Ok(())
}

/// Whether the object was patched; a deleted one needs nothing. A conflict means that another client wrote the object,
/// and so in the storage version; the rest is done the next time.
async fn apply(
    api: &Api<DynamicObject>,
    metadata: &ObjectMeta,
    what: Rewrite,
) -> Result<bool, MigrationError> {
    let name = metadata.name.as_deref().unwrap_or_default();
    let patch = match what {
        Rewrite::None => return Ok(false),
        Rewrite::Patch(patch) => patch,
        Rewrite::DropStash => {
            let Some(object) = api.get_opt(name).await? else {
                return Ok(false);
            };
            let object: Value = serde_json::to_value(object)?;
            without_stash(&object)?
        }
    };
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api
        .patch_metadata(name, &parameters, &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, thiserror::Error)]
enum MigrationError {
    #[error(transparent)]
    Kubernetes(#[from] kube::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Conversion(#[from] crate::webhooks::conversion::ConversionError),
}
