//! The client's side: no request fails, none is slow because of a member, and requests were sent all the time.

use std::time::Duration;

use super::{Rule, Violation};
use crate::timeline::{Entry, Sender, What};

/// A pause between requests that is longer than a busy machine causes.
const GAP: Duration = Duration::from_secs(10);
/// Slow requests that begin no further apart than this have one cause.
const TOGETHER: Duration = Duration::from_secs(5);

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
                let how = format!("no request for {:.1} s", gap.as_secs_f64());
                found.push(Violation {
                    rule: Rule::RequestsSent,
                    at,
                    how,
                });
            }
            asked = Some(at);
        }
    }
    if asked.is_none() {
        found.push(Violation {
            rule: Rule::RequestsSent,
            at: Duration::ZERO,
            how: "there was no request at all".to_owned(),
        });
    }
    found.extend(failures.into_iter().map(|(at, why, count)| Violation {
        rule: Rule::Requests,
        at,
        how: format!("{count} failed: {why}"),
    }));
    found
}

/// Slow requests of the client at whose time the API servers themselves answered the control quickly. The control was
/// slow too if one of its requests took at least half as long as the client's, and the two overlap.
pub(super) fn prompt(entries: &[Entry]) -> Vec<Violation> {
    let of = |wanted: Sender| {
        let slow = entries.iter().filter_map(|entry| match &entry.what {
            What::Slow(slow) if slow.sender == wanted => Some((entry.at, slow.took)),
            _ => None,
        });
        slow.collect::<Vec<_>>()
    };
    let control = of(Sender::Control);
    let excused = |at: Duration, took: Duration| {
        let mut slow = control.iter();
        slow.any(|(sent, lasted)| {
            *lasted * 2 >= took && *sent <= at + took && at <= *sent + *lasted
        })
    };
    // For the requests that have one cause: the first and the last beginning, the number, and the duration of the
    // slowest.
    let mut causes: Vec<(Duration, Duration, usize, Duration)> = Vec::new();
    for (at, took) in of(Sender::Client) {
        if excused(at, took) {
            continue;
        }
        match causes.last_mut() {
            Some((_, last, count, slowest)) if at.saturating_sub(*last) <= TOGETHER => {
                *last = at;
                *count += 1;
                *slowest = took.max(*slowest);
            }
            _ => causes.push((at, at, 1, took)),
        }
    }
    causes
        .into_iter()
        .map(|(at, _, count, slowest)| Violation {
            rule: Rule::Prompt,
            at,
            how: format!(
                "{count} took up to {:.1} s while the API servers themselves answered in time",
                slowest.as_secs_f64()
            ),
        })
        .collect()
}
