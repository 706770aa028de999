//! Flags in Go's notation, rewritten into that of clap before they are parsed.

use std::ffi::OsString;

/// Rewrites the arguments of a Go program: one dash before a long name, underscores instead of dashes. Arguments after
/// `--` and values after `=` stay as they are.
pub fn normalise(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut only_values = false;
    arguments
        .into_iter()
        .map(|argument| {
            let Some(text) = argument.to_str() else {
                return argument;
            };
            if only_values || text == "-h" {
                return argument;
            }
            if text == "--" {
                only_values = true;
                return argument;
            }
            let Some(body) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
                return argument;
            };
            if !body.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return argument;
            }
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (body, None),
            };
            // -n and -o are flags of capo-rs. Of Go's flags only v has one letter.
            if name.len() == 1 && name != "v" {
                return argument;
            }
            let mut rewritten = format!("--{}", name.replace('_', "-"));
            if let Some(value) = value {
                rewritten.push('=');
                rewritten.push_str(value);
            }
            rewritten.into()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn go_notation_is_accepted() {
        for (given, expected) in [
            ("-v=4", "--v=4"),
            ("--leader_elect=true", "--leader-elect=true"),
            ("-leader-elect", "--leader-elect"),
            ("--ca-certs=/etc/a_b", "--ca-certs=/etc/a_b"),
            ("-h", "-h"),
            ("crds", "crds"),
            ("-1", "-1"),
            ("-n", "-n"),
            ("-o=yaml", "-o=yaml"),
        ] {
            assert_eq!(normalise([given.into()]), [expected], "{given}");
        }
    }

    #[test]
    fn arguments_after_two_dashes_are_unchanged() {
        assert_eq!(normalise(["--".into(), "-v=4".into()]), ["--", "-v=4"]);
    }
}
