//! `migrate-storage`: the one-time job after the storage version changed.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{
    kubernetes::{ConnectError, connect},
    manager::storage_migration::{Migration, migrate},
    webhooks::storage_migration::Phases,
};

/// What can be chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct Choices {
    /// Kubeconfig file; without it the Pod's own ServiceAccount is used
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Phases to skip: StorageVersionMigration, CleanupManagedFields
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    skip_crd_migration_phases: Vec<String>,
}

/// Migrates, and prints what was migrated and what was not.
pub(super) fn run(choices: &Choices) -> ExitCode {
    let phases = match Phases::without(&choices.skip_crd_migration_phases) {
        Ok(phases) => phases,
        Err(error) => {
            super::complain(&format!("--skip-crd-migration-phases: {error}"));
            return ExitCode::from(2);
        }
    };
    let report = super::wait_for(async {
        let client = connect(choices.kubeconfig.as_deref()).await?;
        let migration = Migration {
            phases,
            ..Migration::default()
        };
        Ok::<_, ConnectError>(migrate(&client, migration).await)
    });
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            super::complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "objects rewritten: {}", report.rewritten);
    for definition in &report.cleaned {
        let _ = writeln!(out, "definition cleaned: {definition}");
    }
    for failure in &report.failed {
        super::complain(failure);
    }
    if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
