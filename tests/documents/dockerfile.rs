//! The Dockerfile has the properties on which the deployment relies.

use test_support::repository;

/// Instructions with continued lines joined.
fn instructions() -> Vec<String> {
    let text = std::fs::read_to_string(repository("Dockerfile")).unwrap();
    let joined = text.replace("\\\n", " ");
    joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

fn last_stage() -> Vec<String> {
    let all = instructions();
    let from = all
        .iter()
        .rposition(|line| line.starts_with("FROM "))
        .unwrap();
    all[from..].to_vec()
}

#[test]
fn the_image_holds_nothing_but_what_was_built() {
    let stage = last_stage();
    assert_eq!(stage[0], "FROM scratch");
    for line in &stage {
        let instruction = line.split(' ').next().unwrap();
        assert!(
            ["FROM", "COPY", "USER", "ENTRYPOINT", "LABEL"].contains(&instruction),
            "{line}"
        );
        if instruction == "COPY" {
            assert!(line.starts_with("COPY --from=build "), "{line}");
        }
    }
}

#[test]
fn it_runs_as_a_number_that_is_not_root() {
    // Kubernetes can't check whether a user name is root, so that runAsNonRoot requires a number.
    assert!(last_stage().contains(&"USER 65532:65532".to_owned()));
}

#[test]
fn the_entry_point_gets_signals_itself() {
    assert!(last_stage().contains(&r#"ENTRYPOINT ["/capo-rs"]"#.to_owned()));
}

#[test]
fn base_images_and_the_build_are_pinned() {
    let toolchain = std::fs::read_to_string(repository("rust-toolchain.toml")).unwrap();
    let channel = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap()
        .trim_matches('"');
    let minor = channel.rsplit_once('.').unwrap().0;
    let all = instructions();
    assert!(
        all[0].starts_with(&format!("ARG BUILDER=rust:{minor}-alpine")),
        "{} is not the pinned tool chain {channel}",
        all[0]
    );
    assert!(
        all.iter()
            .any(|line| line.contains("cargo build --locked --release"))
    );
    assert!(
        !all.iter()
            .any(|line| line.starts_with("ADD ") || line.contains(":latest"))
    );
}
