//! The rules with shorter times, so that a run of two minutes shows what they do in hours.
//!
//! A tenth of every `for` and of every range, and 40 s for the half hour of a held gate. The threshold of
//! pending members is the manager's own, which a flag sets. Everything else is as shipped.

use std::fmt::Write as _;

use serde_json::Value;

/// `dashboards/rules.yaml` with shorter times.
pub(super) fn rules() -> String {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../dashboards/rules.yaml"
    ));
    let mut rules: Value = serde_saphyr::from_str(text).unwrap();
    let groups = rules["groups"].as_array_mut().unwrap();
    for rule in groups
        .iter_mut()
        .flat_map(|group| group["rules"].as_array_mut().unwrap())
    {
        for field in ["for", "keep_firing_for"] {
            if let Some(time) = rule[field].as_str() {
                rule[field] = shorter(time, 10).into();
            }
        }
        rule["expr"] = quick(rule["expr"].as_str().unwrap()).into();
    }
    rules.to_string()
}

fn quick(expression: &str) -> String {
    let mut quick = String::new();
    for (index, part) in expression.split('[').enumerate() {
        match part.split_once(']') {
            Some((range, rest)) if index > 0 => {
                let _ = write!(quick, "[{}]{rest}", shorter(range, 10));
            }
            _ => quick += part,
        }
    }
    quick.replace("> 1800", "> 40")
}

fn shorter(time: &str, times: u64) -> String {
    let (number, unit) = time.split_at(time.len() - 1);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        other => panic!("{other} in {time}"),
    };
    format!(
        "{}ms",
        number.parse::<u64>().unwrap() * seconds * 1_000 / times
    )
}

#[test]
fn times_are_shortened_and_nothing_else() {
    assert_eq!(quick("rate(a[5m]) > 0.1"), "rate(a[30000ms]) > 0.1");
    assert_eq!(quick("time() - a > 1800"), "time() - a > 40");
    assert_eq!(shorter("10m", 10), "60000ms");
}
