//! `migrate-storage`: the one-time job after the storage version changed.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::Args;

use super::crds::StorageVersion;
use crate::{
    kubernetes::{ConnectError, connect},
    storage_migration::{Migration, StoreError, migrate, plan::Phases, store_as},
};

/// The options of `migrate-storage`.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Kubeconfig file; without it the Pod's own ServiceAccount is used
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// First make this the version in which objects are stored; by default the definitions stay as they are
    #[arg(long, value_enum, value_name = "VERSION")]
    to: Option<StorageVersion>,
    /// Phases to skip: StorageVersionMigration, CleanupManagedFields
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    skip_crd_migration_phases: Vec<String>,
}

/// Why nothing was migrated.
#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Migrates the objects, and prints what was rewritten and what failed.
pub(super) fn run(choices: &Choices) -> ExitCode {
    let phases = match Phases::without(&choices.skip_crd_migration_phases) {
        Ok(phases) => phases,
        Err(error) => {
            super::complain(&format!("--skip-crd-migration-phases: {error}"));
            return ExitCode::from(2);
        }
    };
    let migrated = super::wait_for(async {
        let client = connect(choices.kubeconfig.as_deref()).await?;
        let migration = Migration {
            phases,
            ..Migration::default()
        };
        let changed = match choices.to {
            Some(version) => store_as(&client, version.into()).await?,
            None => Vec::new(),
        };
        Ok::<_, MigrateError>((changed, migrate(&client, migration).await))
    });
    let (changed, report) = match migrated {
        Ok(migrated) => migrated,
        Err(error) => {
            super::complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout().lock();
    for definition in &changed {
        let _ = writeln!(out, "stored version changed: {definition}");
    }
    let _ = writeln!(out, "objects rewritten: {}", report.rewritten);
    for definition in &report.cleaned {
        let _ = writeln!(out, "definition cleaned: {definition}");
    }
    for failure in &report.failed {
        super::complain(failure);
    }
    if report.is_complete() {
        let _ = match choices.to {
            Some(StorageVersion::V1beta1) => writeln!(
                out,
                "Everything is stored as v1beta1: the definitions of CAPO up to 0.14 can be installed"
            ),
            Some(StorageVersion::V1beta2) => writeln!(
                out,
                "Everything is stored as v1beta2: Kubernetes refuses the definitions of CAPO up to 0.14 until \
                 `capo-rs migrate-storage --to=v1beta1` was run"
            ),
            None if report.cleaned.is_empty() => Ok(()),
            None => writeln!(
                out,
                "From now on Kubernetes refuses other definitions of these kinds that do not have the stored version. CAPO up \
                 to 0.14 does not have v1beta2: run `capo-rs migrate-storage --to=v1beta1` before it comes back. CAPO 0.9 and \
                 older do not have v1beta1 and can't come back"
            ),
        };
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
