//! Decides which events are written: a repeated one increases a count, and an object has a number of writes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Content;

/// Events with the same text about the same object are one event with a count, until the text has not been repeated for
/// this time.
const SERIES: Duration = Duration::from_mins(30);
/// The count of an event is written this often at most.
const COUNT_AFTER: Duration = Duration::from_mins(1);
/// An object may have this many writes of events at once, and one more for every [`REFILL`]. A cluster that is created
/// and deleted at once has 26 changes in OpenStack, and 3 more for each additional port.
const BURST: u32 = 40;
/// At most 120 writes an hour, even of an object whose events have a new text each time.
const REFILL: Duration = Duration::from_secs(30);
/// The number of objects that are remembered. Where more have events within [`SERIES`], those whose events are the
/// longest ago are forgotten: their next event begins a new series, and they have all of [`BURST`] again.
const REMEMBERED: usize = 10_000;

/// The events of each object, and the number of writes that the object may still cause, as client-go's event correlator
/// has them.
#[derive(Debug, Default)]
pub(super) struct Correlator(HashMap<String, Allowance>);

#[derive(Debug)]
struct Allowance {
    content: Vec<Series>,
    left: u32,
    /// The time of the object's last event, to within [`REFILL`].
    refilled: Instant,
}

/// One event and its repetitions.
#[derive(Debug)]
struct Series {
    content: Content,
    name: String,
    count: i32,
    last: Instant,
    written: Instant,
}

impl Correlator {
    /// The name of the event to write and its count; `None` if nothing is to be written. A new event gets `name`.
    pub(super) fn admit(
        &mut self,
        object: String,
        event: &Content,
        name: String,
        now: Instant,
    ) -> Option<(String, i32)> {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&object) {
            self.0
                .retain(|_, known| now.saturating_duration_since(known.refilled) < SERIES);
            if self.0.len() >= REMEMBERED {
                self.forget_oldest();
            }
        }
        let known = self.0.entry(object).or_insert_with(|| Allowance {
            content: Vec::new(),
            left: BURST,
            refilled: now,
        });
        known
            .content
            .retain(|series| now.saturating_duration_since(series.last) < SERIES);
        let rounds = now.saturating_duration_since(known.refilled).as_secs() / REFILL.as_secs();
        if let Ok(rounds) = u32::try_from(rounds)
            && rounds > 0
        {
            known.left = known.left.saturating_add(rounds).min(BURST);
            known.refilled = now;
        }
        if let Some(series) = known
            .content
            .iter_mut()
            .find(|series| series.content == *event)
        {
            series.count = series.count.saturating_add(1);
            series.last = now;
            let early = now.saturating_duration_since(series.written) < COUNT_AFTER;
            if early || known.left == 0 {
                return None;
            }
            known.left -= 1;
            series.written = now;
            return Some((series.name.clone(), series.count));
        }
        if known.left == 0 {
            return None;
        }
        known.left -= 1;
        known.content.push(Series {
            content: event.clone(),
            name: name.clone(),
            count: 1,
            last: now,
            written: now,
        });
        Some((name, 1))
    }

    fn forget_oldest(&mut self) {
        let oldest = self.0.iter().min_by_key(|(_, known)| known.refilled);
        if let Some(oldest) = oldest.map(|(object, _)| object.clone()) {
            self.0.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_core::Reason;

    fn content(note: &str) -> Content {
        Content {
            warning: true,
            reason: Reason::InvalidSpec,
            event_reason: Reason::InvalidSpec.as_str().into(),
            action: "Reconcile",
            note: note.to_owned(),
        }
    }

    #[test]
    fn the_same_text_is_one_event_with_a_count() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let mut admit = |object: &str, name: &str, at: Duration| {
            let admitted = correlator.admit(
                object.to_owned(),
                &content("x"),
                name.to_owned(),
                start + at,
            );
            admitted.map(|(name, count)| format!("{name}{count}"))
        };
        let seconds = Duration::from_secs;
        assert_eq!(admit("a", "e", seconds(0)).as_deref(), Some("e1"));
        assert_eq!(admit("b", "f", seconds(0)).as_deref(), Some("f1"));
        assert_eq!(admit("a", "g", seconds(30)), None);
        assert_eq!(admit("a", "g", seconds(60)).as_deref(), Some("e3"));
        assert_eq!(admit("a", "g", seconds(90)), None);
        assert_eq!(admit("a", "h", seconds(90) + SERIES).as_deref(), Some("h1"));
    }

    #[test]
    fn events_of_an_object_are_limited_and_allowed_again_later() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let admitted = |correlator: &mut Correlator, at| {
            (0..100)
                .filter(|n| {
                    let content = content(&format!("{at:?}{n}"));
                    correlator
                        .admit("a".to_owned(), &content, "e".to_owned(), at)
                        .is_some()
                })
                .count()
        };
        assert_eq!(admitted(&mut correlator, start), 40);
        assert_eq!(admitted(&mut correlator, start + REFILL), 1);
        assert_eq!(admitted(&mut correlator, start + REFILL * 200), 40);
    }

    #[test]
    fn one_more_object_than_are_remembered_has_events_too() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let mut admit = |object: usize, at: Duration| {
            let name = object.to_string();
            correlator
                .admit(name.clone(), &content("x"), name, start + at)
                .map(|(_, count)| count)
        };
        for object in 0..REMEMBERED {
            let at = Duration::from_millis(u64::try_from(object).unwrap());
            assert_eq!(admit(object, at), Some(1));
        }
        let later = Duration::from_secs(90);
        // All of them are active, so the one that had no event for the longest time is forgotten.
        assert_eq!(admit(REMEMBERED, later), Some(1));
        assert_eq!(admit(1, later), Some(2));
        assert_eq!(admit(0, later), Some(1));
        assert_eq!(correlator.0.len(), REMEMBERED);
    }

    /// An object whose text changes every 20 s for ten minutes and never repeats.
    #[test]
    fn a_cloud_that_fails_repeatedly_causes_a_bounded_number_of_events() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let mut written = 0;
        for second in 0..600_u64 {
            let now = start + Duration::from_secs(second);
            let notes = [
                format!("request {second}: 503"),
                "held: OpenStack does not answer".to_owned(),
                "open again".to_owned(),
            ];
            for note in notes.iter().filter(|_| second % 20 < 2) {
                let name = format!("e{second}");
                written += i32::from(
                    correlator
                        .admit("a".to_owned(), &content(note), name, now)
                        .is_some(),
                );
            }
        }
        // The number of writes that are allowed at once, and one for every half minute.
        assert!((40..=60).contains(&written), "{written}");
        assert_eq!(correlator.0.len(), 1);
        let remembered = correlator
            .0
            .values()
            .map(|known| known.content.len())
            .sum::<usize>();
        assert!(remembered <= 50, "{remembered}");
    }
}
