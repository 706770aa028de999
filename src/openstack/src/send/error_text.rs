//! The text of an error answer, in a form that is the same every time.

use serde_json::Value;

/// The longest text that is returned, in characters.
const LONGEST: usize = 300;

/// The human-readable part of an error answer in any of the shapes that OpenStack services, Keystone's middleware and
/// the proxies before them send. It is empty if there is none. Every occurrence of a secret is replaced before the text
/// is cut, so that not even the beginning of a secret is shown.
pub(crate) fn extract(body: &[u8], secrets: &[&str]) -> String {
    let body = String::from_utf8_lossy(body);
    let body = body.trim();
    let text = match serde_json::from_str::<Value>(body) {
        Ok(value) => in_json(&value, 0).unwrap_or_default(),
        Err(_) if body.starts_with('<') => in_html(body),
        // The text of a truncated JSON body is not used, because the place of the cut may vary.
        Err(_) if body.starts_with(['{', '[']) => String::new(),
        Err(_) => body.to_owned(),
    };
    let redacted = secrets
        .iter()
        .filter(|secret| !secret.is_empty())
        .fold(text, |text, secret| text.replace(secret, "***"));
    stable(&redacted)
}

/// The text in a JSON answer. Octavia sends `faultstring`, `description` or `errors[].detail`, Nova and Cinder
/// `<kind>.message`, Neutron `NeutronError.message` or the text itself, Keystone `error.message`, and Glance `message`.
fn in_json(value: &Value, depth: u8) -> Option<String> {
    const KEYS: [&str; 6] = [
        "faultstring",
        "message",
        "description",
        "detail",
        "title",
        "error",
    ];
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => items.first().and_then(|item| in_json(item, depth + 1)),
        Value::Object(fields) if depth < 4 => KEYS
            .iter()
            .filter_map(|key| fields.get(*key))
            .find_map(|found| in_json(found, depth + 1))
            .or_else(|| {
                fields
                    .values()
                    .filter(|inner| inner.is_object() || inner.is_array())
                    .find_map(|inner| in_json(inner, depth + 1))
            })
            .or_else(|| match fields.get("NeutronError") {
                Some(Value::String(text)) => Some(text.clone()),
                _ => None,
            }),
        _ => None,
    }
}

/// The title of an HTML page if there is one, or else the text without its tags.
fn in_html(body: &str) -> String {
    let lower = body.to_ascii_lowercase();
    if let Some(start) = lower.find("<title>").map(|at| at + "<title>".len())
        && let Some(length) = lower.get(start..).and_then(|rest| rest.find("</title>"))
        && let Some(title) = body.get(start..start + length)
    {
        return title.to_owned();
    }
    let mut text = String::new();
    let mut inside = false;
    for character in body.chars().take(4096) {
        match character {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(character),
            _ => {}
        }
    }
    text
}

/// `text` without the parts that vary: request ids, times, connection ports and memory addresses. The result is one
/// line of bounded length.
pub(crate) fn stable(text: &str) -> String {
    let mut result = String::new();
    let mut words = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let bare = word.trim_matches(|character: char| !character.is_alphanumeric());
        // This matches texts such as "(HTTP 500) (Request-ID: req-…)".
        let label = bare.to_ascii_lowercase();
        if matches!(label.as_str(), "request-id" | "request_id")
            && words.peek().is_some_and(|next| next.contains("req-"))
        {
            words.next();
            continue;
        }
        if label.contains("req-") || bare.starts_with("0x") || is_time(bare) {
            continue;
        }
        if !result.is_empty() {
            result.push(' ');
        }
        result.push_str(&without_port(word));
        if result.len() > LONGEST {
            let mut end = LONGEST;
            while !result.is_char_boundary(end) {
                end -= 1;
            }
            result.truncate(end);
            result.push('…');
            break;
        }
    }
    result
}

/// Whether the text starts with a time such as `2026-11-21T12:00:00` or `12:00:00`.
fn is_time(word: &str) -> bool {
    let time = word.rsplit_once('T').map_or(word, |(_, time)| time);
    let mut parts = time.split(':');
    let digits = |part: Option<&str>| {
        part.is_some_and(|part| {
            part.len() >= 2 && part.chars().take(2).all(|digit| digit.is_ascii_digit())
        })
    };
    digits(parts.next()) && digits(parts.next()) && digits(parts.next())
}

/// `host:54321` and `http://host:9696/path` without the port.
fn without_port(word: &str) -> String {
    let colons = word.replace("://", "").matches(':').count();
    if colons > 1 && !word.contains(']') && !word.contains("://") {
        // This is an IPv6 or MAC address without a port.
        return word.to_owned();
    }
    let mut result = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(':') {
        let (before, after) = rest.split_at(at);
        let after = after.strip_prefix(':').unwrap_or_default();
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let behind_host = before.ends_with(|c: char| c.is_alphanumeric() || c == ']');
        let ends = !after
            .get(digits..)
            .is_some_and(|tail| tail.starts_with(|c: char| c.is_alphanumeric() || c == ':'));
        result.push_str(before);
        if (4..=5).contains(&digits) && behind_host && ends {
            rest = after.get(digits..).unwrap_or_default();
        } else {
            result.push(':');
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_read() {
        let table = [
            (
                r#"{"faultcode":"Client","faultstring":"Pool p is immutable and cannot be updated.","debuginfo":null}"#,
                "Pool p is immutable and cannot be updated.",
            ),
            (
                r#"{"code":404,"title":"Not Found","description":"Pool p not found"}"#,
                "Pool p not found",
            ),
            (
                r#"{"errors":[{"status":409,"title":"Conflict","detail":"is immutable"}]}"#,
                "is immutable",
            ),
            (
                r#"{"forbidden":{"code":403,"message":"Quota exceeded for instances"}}"#,
                "Quota exceeded for instances",
            ),
            (
                r#"{"NeutronError":{"type":"OverQuota","message":"Quota exceeded for resources: ['port'].","detail":""}}"#,
                "Quota exceeded for resources: ['port'].",
            ),
            (r#"{"NeutronError":"plain"}"#, "plain"),
            (
                r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#,
                "The request you have made requires authentication.",
            ),
            (
                "<html><head><title>504 Gateway Time-out</title></head><body>x</body></html>",
                "504 Gateway Time-out",
            ),
            ("<b>Service</b> <i>Unavailable</i>", "Service Unavailable"),
            ("Authentication required", "Authentication required"),
            (r#"{"faultstring": "cut of"#, ""),
            ("", ""),
            ("null", ""),
            ("[]", ""),
        ];
        for (body, expected) in table {
            assert_eq!(extract(body.as_bytes(), &[]), expected, "{body}");
        }
    }

    #[test]
    fn no_part_of_a_secret_at_the_cut_is_shown() {
        let secret = "s3cret-canary-s3cret-canary";
        for filler in LONGEST - 30..LONGEST {
            let body = format!("{} {secret} is wrong", "x".repeat(filler));
            let shown = extract(body.as_bytes(), &[secret]);
            assert!(!shown.contains("s3c"), "{shown}");
        }
        assert_eq!(extract(b"no secret", &[""]), "no secret");
    }

    #[test]
    fn the_parts_that_vary_are_left_out() {
        let table = [
            (
                "No such thing (HTTP 404) (Request-ID: req-0b8c7bf5-2b1a-4b56-9e0c-0d5b5d3a1f00)",
                "No such thing (HTTP 404)",
            ),
            (
                "at http://10.0.0.1:9696/v2.0/ports",
                "at http://10.0.0.1/v2.0/ports",
            ),
            (
                "connect 127.0.0.1:54321 refused",
                "connect 127.0.0.1 refused",
            ),
            ("connect [::1]:54321 refused", "connect [::1] refused"),
            (
                "address fe80::1234:5678 used",
                "address fe80::1234:5678 used",
            ),
            ("2026-11-21T12:00:00Z boom at 12:00:01.5", "boom at"),
            ("object at 0x7f00 dead", "object at dead"),
            ("a\n  b\tc", "a b c"),
            (
                "Pool 9d1c7a1e-0000-4444-8888-123456789012 is immutable",
                "Pool 9d1c7a1e-0000-4444-8888-123456789012 is immutable",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(stable(text), expected, "{text}");
        }
        assert!(stable(&"ä ".repeat(1000)).len() < LONGEST + 10);
        assert!(stable(&"ä".repeat(1000)).len() < LONGEST + 10);
    }
}
