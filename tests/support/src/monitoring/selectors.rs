//! The selectors of a PromQL expression: as much of the language as tests of boards and rules need.

/// A selector, and the function that gets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector {
    /// The metric.
    pub name: String,
    /// The matchers of its labels, as written.
    pub matchers: Vec<String>,
    /// The range between the square brackets after it.
    pub range: Option<String>,
    /// The function whose argument it is; empty if there is none.
    pub function: String,
}

/// Words that may be in the place of a metric.
const WORDS: &[&str] = &[
    "and",
    "or",
    "unless",
    "on",
    "ignoring",
    "by",
    "without",
    "group_left",
    "group_right",
    "offset",
    "bool",
    "inf",
    "nan",
];

/// Every selector in `expression`, from the left to the right.
pub fn selectors(expression: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expression;
    let mut function = String::new();
    // Lists of labels after by, on and the like are not expressions.
    let mut labels_follow = false;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            rest = after_string(rest);
        } else if first.is_ascii_alphabetic() || first == '_' || first == ':' {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            let next = after.trim_start();
            // An aggregation may name its labels first.
            let aggregates = ["by ", "without "]
                .iter()
                .any(|word| next.starts_with(word));
            let opens = aggregates || next.starts_with('(');
            if WORDS.contains(&word) {
                labels_follow = opens;
            } else if opens {
                word.clone_into(&mut function);
            } else {
                let (matchers, after) = braces(rest);
                let (range, after) = brackets(after);
                rest = after;
                found.push(Selector {
                    name: word.to_owned(),
                    matchers,
                    range,
                    function: function.clone(),
                });
            }
        } else if first == '(' && labels_follow {
            labels_follow = false;
            rest = rest.split_once(')').map_or("", |(_, after)| after);
        } else if first.is_ascii_digit() {
            // This is a number or a duration, whose unit is not a word.
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                .unwrap_or(rest.len());
            rest = rest.get(end..).unwrap_or_default();
        } else {
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    found
}

fn after_string(text: &str) -> &str {
    text.get(1..)
        .and_then(|inner| inner.split_once('"'))
        .map_or("", |(_, after)| after)
}

fn braces(text: &str) -> (Vec<String>, &str) {
    let Some(inner) = text.strip_prefix('{') else {
        return (Vec::new(), text);
    };
    let (mut quoted, mut end) = (false, inner.len());
    for (index, c) in inner.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '}' if !quoted => {
                end = index;
                break;
            }
            _ => {}
        }
    }
    let (inside, after) = inner.split_at(end);
    let matchers = inside
        .split(',')
        .filter(|one| !one.is_empty())
        .map(|one| one.trim().to_owned())
        .collect();
    (matchers, after.get(1..).unwrap_or_default())
}

fn brackets(text: &str) -> (Option<String>, &str) {
    match text
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
    {
        Some((range, after)) => (Some(range.to_owned()), after),
        None => (None, text),
    }
}

#[test]
fn selectors_are_found_with_what_belongs_to_them() {
    let names = |text: &str| -> Vec<(String, String)> {
        selectors(text)
            .into_iter()
            .map(|one| (one.name, one.function))
            .collect()
    };
    assert_eq!(
        names(
            r#"sum by (le, kind) (rate(a_total{x="}",y=~"b|c"}[$__rate_interval])) / clamp_min(max(b), 1) and on (z) c offset 1m"#
        ),
        [("a_total", "rate"), ("b", "max"), ("c", "max")]
            .map(|(name, function)| (name.to_owned(), function.to_owned()))
    );
    let found = selectors(r#"increase(a_total{job=~"$job", code=~"5..|x"}[5m])"#);
    assert_eq!(found[0].matchers, [r#"job=~"$job""#, r#"code=~"5..|x""#]);
    assert_eq!(found[0].range.as_deref(), Some("5m"));
}
