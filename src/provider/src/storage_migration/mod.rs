//! Rewrites stored objects in the storage version, at a slow pace. `capo-rs migrate-storage` does this, and so does a
//! task of the leader.
//!
//! [`plan`] decides which objects are rewritten. Rights: get on our CRDs and patch on their status; list, get and patch
//! on the kinds.

pub mod plan;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    },
};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use capo_api::GROUP;
use capo_core::backoff::ExponentialBackoff;

use crate::webhooks::conversion::Version;
use plan::{
    Definition, NotServed, Phases, Rewrite, rewrite, store_as as set_stored, without_stash,
    without_unserved_managers,
};

/// The field manager of the rewrites. A rewrite changes no field, so the manager owns none.
const FIELD_MANAGER: &str = "capo-rs-storage-migration";

/// Objects listed at a time.
const PAGE: u32 = 200;

/// The plurals of the kinds with two versions. The other kinds have had one version only.
const PLURALS: [&str; 4] = [
    "openstackclusters",
    "openstackclustertemplates",
    "openstackmachines",
    "openstackmachinetemplates",
];

/// The pause before the first attempt. Objects stored as v1beta1 can be read only when conversion is served, and this
/// process may be the one that serves it.
const FIRST_AFTER: Duration = Duration::from_secs(30);

/// The pauses before the attempts. An hour is the longest pause before failed objects are tried again.
const PAUSES: ExponentialBackoff =
    ExponentialBackoff::doubling(FIRST_AFTER, Duration::from_hours(1));

/// The longest time for which an API server may store in the old version after a definition has changed. Each API
/// server follows the definitions by a watch.
const TAKEN_UP: Duration = Duration::from_secs(10);
/// The longest wait for the status of a changed definition. The API server writes it within seconds, unless it can't.
const LONGEST_TAKING_UP: Duration = Duration::from_mins(1);

/// How a migration is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The phases to run.
    pub phases: Phases,
    /// The shortest time between two rewrites.
    pub pace: Duration,
}

impl Default for Migration {
    /// All phases, at ten objects a second.
    fn default() -> Self {
        Self {
            phases: Phases::ALL,
            pace: Duration::from_millis(100),
        }
    }
}

/// The result of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Objects that were patched.
    pub rewritten: usize,
    /// CRDs whose `storedVersions` were cleaned.
    pub cleaned: Vec<String>,
    /// The errors of objects and CRDs that could not be migrated.
    pub failed: Vec<String>,
}

impl MigrationReport {
    /// Whether nothing failed. No object is stored in an old version then.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    fn fail(&mut self, what: &str, error: &dyn std::fmt::Display) {
        /// The number of errors in the report, so that it stays readable.
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

/// Migrates in the background, and repeats that with growing pauses until nothing fails.
pub(crate) async fn until_done(client: Client, phases: Phases) {
    let migration = Migration {
        phases,
        ..Migration::default()
    };
    for attempt in 0.. {
        tokio::time::sleep(PAUSES.pause(attempt)).await;
        if migrate(&client, migration).await.is_complete() {
            return;
        }
    }
}

/// Migrates every kind. An object or a kind that could not be migrated is reported, and the migration continues with
/// the next one. The future may be dropped at any await.
pub async fn migrate(client: &Client, migration: Migration) -> MigrationReport {
    let mut report = MigrationReport::default();
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
            "Migrated stored objects; Kubernetes refuses definitions that do not have the stored version until migrate-storage --to changes it"
        );
    }
    report
}

/// Makes `wanted` the version in which every kind with two versions is stored, and waits until the API server stores in
/// it. Objects that exist keep the version in which they are stored until [`migrate`] rewrites them.
///
/// # Errors
/// When a definition is missing, does not serve the version, or can't be written.
pub async fn store_as(client: &Client, wanted: Version) -> Result<Vec<String>, StoreError> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut changed = Vec::new();
    // Every definition is checked before the first one is written.
    for plural in PLURALS {
        let name = format!("{plural}.{GROUP}");
        let mut definition = serde_json::to_value(definitions.get(&name).await?)?;
        if set_stored(&mut definition, wanted)? {
            changed.push((name, definition));
        }
    }
    let mut names = Vec::new();
    for (name, definition) in changed {
        let definition: DynamicObject = serde_json::from_value(definition)?;
        definitions
            .replace(&name, &PostParams::default(), &definition)
            .await?;
        names.push(name);
    }
    for name in &names {
        until_named_as_stored(&definitions, name, wanted).await?;
    }
    if !names.is_empty() {
        tokio::time::sleep(TAKEN_UP).await;
    }
    Ok(names)
}

/// Waits until the status of a definition names the version. The API server adds it when it begins to store in the
/// version.
async fn until_named_as_stored(
    definitions: &Api<DynamicObject>,
    name: &str,
    wanted: Version,
) -> Result<(), StoreError> {
    let begun = tokio::time::Instant::now();
    loop {
        let definition = definitions.get(name).await?;
        let stored = definition.data["status"]["storedVersions"].as_array();
        if stored.is_some_and(|stored| stored.iter().any(|one| one == wanted.name())) {
            return Ok(());
        }
        if begun.elapsed() > LONGEST_TAKING_UP {
            return Err(StoreError::NotTakenUp(name.to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Why the stored version was not changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A definition can't be read or written.
    #[error("the definitions: {0}")]
    Kubernetes(#[from] kube::Error),
    /// A definition does not have the expected form.
    #[error("the definitions: {0}")]
    Json(#[from] serde_json::Error),
    /// A definition does not serve the version.
    #[error(transparent)]
    NotServed(#[from] NotServed),
    /// The API server did not change the definition's status.
    #[error(
        "{0}: the API server has not begun to store in the version after {LONGEST_TAKING_UP:?}"
    )]
    NotTakenUp(String),
}

async fn kind(
    client: &Client,
    name: &str,
    migration: Migration,
    report: &mut MigrationReport,
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
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let waiting = waiting_objects(&all, &definition, migration.phases).await?;
    // The report does not tell, because it does not name every error.
    let mut complete = true;
    let mut ticks = interval(migration.pace.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for object in waiting {
        ticks.tick().await;
        let api = match &object.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => all.clone(),
        };
        match apply(&api, &definition, &object).await {
            Ok(done) => report.rewritten += usize::from(done),
            Err(error) => {
                complete = false;
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let what = format!("{} {namespace}/{}", definition.kind, object.name);
                report.fail(&what, &error);
            }
        }
    }
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

/// An object that needs a rewrite.
struct WaitingObject {
    namespace: Option<String>,
    name: String,
    what: Rewrite,
}

/// The objects of a kind that need a rewrite.
///
/// Every page is read before the first rewrite, because all pages belong to the revision of the first one. The API
/// server compacts a revision after five to ten minutes, and at the default pace the rewrites of three thousand objects
/// take five minutes. An object that is created after the list needs no rewrite, because it is stored in the storage
/// version.
async fn waiting_objects(
    all: &Api<DynamicObject>,
    definition: &Definition,
    phases: Phases,
) -> Result<Vec<WaitingObject>, kube::Error> {
    let mut waiting = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let listed = all.list_metadata(&parameters).await?;
        for object in listed.items {
            let what = rewrite(definition, &object.metadata, phases);
            if what != Rewrite::None {
                waiting.push(WaitingObject {
                    namespace: object.metadata.namespace,
                    name: object.metadata.name.unwrap_or_default(),
                    what,
                });
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(waiting),
        }
    }
}

/// Returns whether the object was patched. A deleted object needs no patch. A conflict means that another client has
/// written the object and therefore stored it in the storage version. The next migration cleans its managed fields.
async fn apply(
    api: &Api<DynamicObject>,
    definition: &Definition,
    object: &WaitingObject,
) -> Result<bool, MigrationError> {
    let name = &object.name;
    let patch = match object.what {
        Rewrite::None => return Ok(false),
        Rewrite::Store => json!({}),
        // The object may have waited for a long time, so the patch is made of what it has now.
        Rewrite::CleanManagedFields => {
            let Some(object) = api.get_metadata_opt(name).await? else {
                return Ok(false);
            };
            match without_unserved_managers(definition, &object.metadata) {
                Some(patch) => patch,
                // Another client has removed the fields, and has therefore stored the object in the storage version.
                None => return Ok(false),
            }
        }
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

#[cfg(test)]
mod tests;
