//! `.ci/sources` and `.ci/figures`, in a git repository of a few files.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use test_support::repository;

/// What a command printed in this folder, which is a repository of its own whatever the tests run in.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let program = if program.contains('/') {
        folder.join(program)
    } else {
        program.into()
    };
    let mut command = Command::new(&program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{} {arguments:?}: {output:?}",
        program.display()
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn sources(folder: &Path) -> String {
    run(folder, ".ci/sources", &[])
}

fn commit(folder: &Path) {
    run(folder, "git", &["add", "--all"]);
    let who = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    let what = ["commit", "--quiet", "--no-gpg-sign", "--message=test"];
    run(folder, "git", &[&who[..], &what].concat());
}

/// A repository with the two programs and one source.
fn small_repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [".ci", "src", "docs"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for program in [".ci/sources", ".ci/figures"] {
        fs::copy(repository(program), folder.path().join(program)).unwrap();
    }
    fs::write(folder.path().join("src/one.rs"), "1").unwrap();
    run(folder.path(), "git", &["init", "--quiet"]);
    commit(folder.path());
    folder
}

#[test]
fn the_id_of_changed_sources_is_the_one_they_have_once_they_are_committed() {
    let repository = small_repository();
    let folder = repository.path();
    let committed = || run(folder, "git", &["rev-parse", "--short=12", "HEAD:src"]);
    let first = sources(folder);
    assert_eq!(first, committed());
    fs::write(folder.join("src/one.rs"), "2").unwrap();
    fs::write(folder.join("src/two.rs"), "2").unwrap();
    let second = sources(folder);
    assert_ne!(second, first);
    assert_eq!(committed(), first);
    // Nothing is prepared for a commit by it.
    assert_eq!(run(folder, "git", &["diff", "--cached", "--name-only"]), "");
    commit(folder);
    assert_eq!(committed(), second);
    // What is not a source does not count.
    fs::write(folder.join("docs/page.md"), "").unwrap();
    assert_eq!(sources(folder), second);
}

#[test]
fn figures_and_scenarios_that_are_older_than_the_sources_are_named_with_their_commit() {
    let repository = small_repository();
    let folder = repository.path();
    let old = sources(folder);
    let commit_of_old = run(folder, "git", &["log", "-1", "--format=%h of %cs"]);
    fs::write(folder.join("src/one.rs"), "2").unwrap();
    commit(folder);
    let today = sources(folder);
    let unknown = "0123456789ab";
    let figures = format!(
        "| figure | measured | promised, at most | command | sources |\n|---|---:|---:|---|---|\n\
         | size | 1 MB | 2 MB | `make size` | {old} |\n| time | 1 s | 2 s | `make time` | {today} |\n"
    );
    fs::write(folder.join("docs/figures.md"), figures).unwrap();
    let row = |name: &str, sources: &str| {
        format!("| {name} | what | 1 | - | 1 | 0 | 1 | 1 | {sources} |\n")
    };
    let rollouts = [
        "|---|---|---:|---|---:|---:|---:|---:|---|\n".to_owned(),
        row("new", &today),
        row("earlier", &format!("{old} or before")),
        row("lost", unknown),
        "\nA line with | is no row.\n".to_owned(),
    ];
    fs::write(folder.join("docs/rollouts.md"), rollouts.concat()).unwrap();

    let printed = run(folder, ".ci/figures", &[]);
    let mut lines: Vec<&str> = printed.lines().collect();
    // The scenarios come in no order.
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "figures: 1 of 2 were measured with the sources of today".to_owned(),
            format!("figures: size: 1 MB, of commit {commit_of_old}; measure again with `make size`"),
            "rollouts: 1 of 3 were measured with the sources of today".to_owned(),
            format!(
                "rollouts: earlier: of commit {commit_of_old} or before; measure again with `make rollout`"
            ),
            "rollouts: lost: of sources that this clone does not have; measure again with `make rollout`"
                .to_owned(),
        ]
    );
}
