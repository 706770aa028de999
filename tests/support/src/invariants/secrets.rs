//! I5: a unique text in the credentials that no output may contain.

use std::time::Duration;

use fake_cloud::{Command, CommandError, FakeCloud};

use super::{Rule, Violation};

/// A password that occurs nowhere else.
pub const CANARY: &str = "canary-7f3d1e9b50c2";

/// A clouds.yaml with the canary for the cloud's first user.
pub fn clouds_yaml(cloud: &FakeCloud) -> Result<String, CommandError> {
    cloud.control().command(Command::User {
        name: "demo".to_owned(),
        password: CANARY.to_owned(),
        project: "demo".to_owned(),
        roles: vec!["member".to_owned(), "reader".to_owned()],
    })?;
    let usual = "password: secret";
    Ok(cloud
        .clouds_yaml()
        .replacen(usual, &format!("password: {CANARY}"), 1))
}

/// The names of the outputs that contain the text: logs, metrics, objects, events, records of calls.
pub fn check<'a>(outputs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Violation> {
    // The other forms of the text, in Kubernetes and in HTTP Basic.
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(CANARY)
    };
    let mut found = Vec::new();
    for (name, text) in outputs {
        let line = text
            .lines()
            .find(|line| line.contains(CANARY) || line.contains(encoded.trim_end_matches('=')));
        if let Some(line) = line {
            let shown: String = line.chars().take(120).collect();
            found.push(Violation {
                rule: Rule::Secrets,
                at: Duration::ZERO,
                how: format!("{name} holds the password: {shown}"),
            });
        }
    }
    found
}
