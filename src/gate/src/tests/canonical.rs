//! One text for all that can't be told apart: moments become ages.

use std::{
    fmt::{self, Write},
    time::Instant,
};

/// Writes values as `Debug` does, with every [`Instant`] replaced by how far it is from now.
pub(crate) struct Canonical {
    pub(crate) text: String,
    now: i64,
    place: Place,
}

/// Where in the text of an [`Instant`] the writer is.
enum Place {
    Elsewhere,
    BeforeSeconds,
    BeforeNanoseconds(i64),
}

/// Nothing that is decided asks whether a moment is further away: older reads are stale, longer holds are over.
const FAR: i64 = 16 * 60 * 1_000;

impl Canonical {
    pub(crate) fn new(now: Instant) -> Self {
        let mut writer = Self {
            text: String::with_capacity(8_192),
            now: 0,
            place: Place::Elsewhere,
        };
        // Its own text tells what the clock shows.
        writer.now = i64::MIN;
        writer.write(&now);
        writer
    }

    pub(crate) fn write(&mut self, value: &impl fmt::Debug) {
        let _ = write!(self, "{value:?};");
    }

    fn moment(&mut self, milliseconds: i64) -> fmt::Result {
        if self.now == i64::MIN {
            self.now = milliseconds;
            return Ok(());
        }
        write!(self.text, "{}", (milliseconds - self.now).clamp(-FAR, FAR))
    }
}

impl Write for Canonical {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let number = || piece.parse::<i64>().ok();
        match self.place {
            Place::Elsewhere if piece == "tv_sec" => self.place = Place::BeforeSeconds,
            Place::Elsewhere => self.text.push_str(piece),
            Place::BeforeSeconds => {
                if let Some(seconds) = number() {
                    self.place = Place::BeforeNanoseconds(seconds);
                }
            }
            Place::BeforeNanoseconds(seconds) => {
                if let Some(nanoseconds) = number() {
                    self.place = Place::Elsewhere;
                    return self.moment(seconds * 1_000 + nanoseconds / 1_000_000);
                }
            }
        }
        Ok(())
    }
}

#[test]
fn moments_are_written_as_ages() {
    use std::time::Duration;
    let now = Instant::now();
    let mut writer = Canonical::new(now);
    writer.text.clear();
    writer.write(&(
        now.checked_sub(Duration::from_millis(1_500)).unwrap(),
        Some(now + Duration::from_hours(2)),
        "tv",
    ));
    assert_eq!(
        writer.text,
        "(Instant { -1500 }, Some(Instant { 960000 }), \"tv\");"
    );
}
