//! The client's side: no request fails, and requests were sent all the time.

use std::time::Duration;

use super::{Rule, Violation};
use crate::timeline::{Entry, What};

/// A longer pause between requests than a busy machine causes.
const GAP: Duration = Duration::from_secs(10);

pub(super) fn check(entries: &[Entry]) -> Vec<Violation> {
    let mut found: Vec<Violation> = Vec::new();
    let mut asked: Option<Duration> = None;
    let mut failures: Vec<(Duration, &str, usize)> = Vec::new();
    for entry in entries {
        let at = entry.at;
        match &entry.what {
            What::RequestFailed(why) => match failures.last_mut() {
                Some((_, last, count)) if last == why => *count += 1,
                _ => failures.push((at, why, 1)),
            },
            What::WatchFailed(why) => found.push(Violation {
                rule: Rule::Watches,
                at,
                how: why.clone(),
            }),
            _ => {}
        }
        if matches!(&entry.what, What::RequestFailed(_) | What::Answered(_)) {
            let gap = asked.map_or(Duration::ZERO, |last| at.saturating_sub(last));
            if gap > GAP {
                let how = format!("nobody asked for {:.1} s", gap.as_secs_f64());
                found.push(Violation {
                    rule: Rule::Asked,
                    at,
                    how,
                });
            }
            asked = Some(at);
        }
    }
    if asked.is_none() {
        found.push(Violation {
            rule: Rule::Asked,
            at: Duration::ZERO,
            how: "nobody ever asked".to_owned(),
        });
    }
    found.extend(failures.into_iter().map(|(at, why, count)| Violation {
        rule: Rule::Requests,
        at,
        how: format!("{count} failed: {why}"),
    }));
    found
}
