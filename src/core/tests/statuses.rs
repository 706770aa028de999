//! The statuses of Octavia and Nova are enums. Their texts are written only in this crate and in the client's wire
//! types, because the compiler does not find a misspelt text.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use capo_core::{OperatingStatus, ProvisioningStatus};

/// Nova's statuses that a server of ours can have; the client's `ServerStatus` has the whole list.
const NOVA: [&str; 12] = [
    "BUILD",
    "SHUTOFF",
    "SOFT_DELETED",
    "REBOOT",
    "HARD_REBOOT",
    "PAUSED",
    "RESIZE",
    "VERIFY_RESIZE",
    "MIGRATING",
    "SUSPENDED",
    "SHELVED",
    "SHELVED_OFFLOADED",
];

/// The line numbers and lines of a source file, without tests and comments, that hold a status as text.
fn statuses_as_text(source: &str) -> Vec<(usize, &str)> {
    let words: Vec<String> = ProvisioningStatus::WORDS
        .iter()
        .chain(OperatingStatus::WORDS)
        .chain(&NOVA)
        .map(|word| format!("\"{word}\""))
        .collect();
    source
        .lines()
        .enumerate()
        // A module of unit tests with its body in the file is the last item there. Everything else that is for tests
        // only, such as `mod tests;`, may stand anywhere.
        .take_while(|(index, line)| {
            let next = source.lines().nth(index + 1).unwrap_or_default();
            line.trim() != "#[cfg(test)]" || !(next.contains("mod ") && next.contains('{'))
        })
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        .filter(|(_, line)| !is_definition(line))
        .map(|(index, line)| (index + 1, line))
        .collect()
}

/// `Active = "ACTIVE",`, as an enum of the wire defines its texts.
fn is_definition(line: &str) -> bool {
    let parts: Vec<&str> = line.split_whitespace().collect();
    matches!(parts.as_slice(), [name, "=", text]
        if name.chars().all(char::is_alphanumeric) && text.ends_with(','))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" && name != "target" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && !name.ends_with("tests.rs")
        {
            found.push(path);
        }
    }
}

#[test]
fn no_status_is_compared_as_text() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    sources(crates, &mut found);
    assert!(found.len() > 200, "only {} files were read", found.len());
    let own = crates.join("core");
    let places: Vec<String> = found
        .iter()
        .filter(|path| !path.starts_with(&own))
        .flat_map(|path| {
            let source = fs::read_to_string(path).unwrap();
            statuses_as_text(&source)
                .into_iter()
                .map(|(line, text)| format!("{}:{line}: {}", path.display(), text.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        places.is_empty(),
        "use the enum instead of the text:\n{}",
        places.join("\n")
    );
}

#[test]
fn the_search_sees_what_it_is_for() {
    for line in [
        r#"if status == "ACTIVE" {"#,
        r#"    "ERROR" | "PENDING_DELETE" => Bad,"#,
        r#"matches!(state, Some("SHUTOFF"))"#,
        r#"const WORDS: [&str; 1] = ["ONLINE"];"#,
        "#[cfg(test)]\nmod tests;\nconst S: &str = \"ACTIVE\";",
        "#[cfg(test)]\nuse std::fs;\nconst S: &str = \"ACTIVE\";",
    ] {
        assert_eq!(statuses_as_text(line).len(), 1, "{line}");
    }
    for line in [
        r#"        Active = "ACTIVE","#,
        r#"// "ACTIVE" is what Octavia sends."#,
        "#[cfg(test)]\nmod tests { const S: &str = \"ACTIVE\"; }",
    ] {
        assert_eq!(statuses_as_text(line).len(), 0, "{line}");
    }
}
