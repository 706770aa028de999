//! The canonical text of a world and its hash. In the text every moment is an age.

use std::{
    fmt::{self, Write},
    hash::{DefaultHasher, Hash, Hasher},
    time::Instant,
};

use crate::tests::world::World;

/// Writes values as `Debug` does, with every [`Instant`] replaced by how far it is from now.
pub(crate) struct Canonical {
    pub(crate) text: String,
    now: i64,
    position: Position,
}

/// Where in the text of an [`Instant`] the writer is.
enum Position {
    Elsewhere,
    BeforeSeconds,
    BeforeNanoseconds(i64),
}

/// Moments that are further away are treated alike, because no decision depends on how far away they are: older reads
/// are stale, and longer holds are over.
const FAR: i64 = 16 * 60 * 1_000;

impl Canonical {
    pub(crate) fn new(now: Instant) -> Self {
        let mut writer = Self {
            text: String::with_capacity(8_192),
            now: 0,
            position: Position::Elsewhere,
        };
        // The text of the present moment shows what the clock shows.
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
        match self.position {
            Position::Elsewhere if piece == "tv_sec" => self.position = Position::BeforeSeconds,
            Position::Elsewhere => self.text.push_str(piece),
            Position::BeforeSeconds => {
                if let Some(seconds) = number() {
                    self.position = Position::BeforeNanoseconds(seconds);
                }
            }
            Position::BeforeNanoseconds(seconds) => {
                if let Some(nanoseconds) = number() {
                    self.position = Position::Elsewhere;
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

/// A hash of everything on which the world's next steps depend. Of worlds with the same hash, only one is explored.
pub(crate) fn key(world: &World, budget: impl std::fmt::Debug) -> u128 {
    let mut text = Canonical::new(world.now);
    let model = &world.model;
    let running = model.running.as_ref();
    text.write(&(
        budget,
        &world.state,
        &world.snapshot,
        &world.taken,
        &model.provisioning,
        &model.listeners,
        &model.pools,
        model
            .frozen
            .iter()
            .flatten()
            .map(|member| member.address)
            .collect::<Vec<_>>(),
        running.map(|running| (&running.target, running.delete)),
        &model.up,
        (world.elsewhere, &world.strangers, world.endpoint),
        world.wall,
    ));
    for (name, node) in &world.nodes {
        text.write(&(name, &node.want, node.known, node.gone));
    }
    let mut queue: Vec<String> = Vec::new();
    for (_, _, todo) in &world.queue {
        let mut item = Canonical::new(world.now);
        item.text.clear();
        item.write(todo);
        queue.push(item.text);
    }
    queue.sort_unstable();
    text.write(&queue);
    let text = renumbered(&text.text);
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, &text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    hash(1) << 64 | hash(2)
}

/// Replaces the ids of members by numbers, in the order of their first appearance.
fn renumbered(text: &str) -> String {
    const ID: &str = "\"member-";
    let mut known: Vec<&str> = Vec::new();
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(ID) {
        let end = after.find('"').unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        let index = known.iter().position(|id| *id == number);
        let index = index.unwrap_or_else(|| {
            known.push(number);
            known.len() - 1
        });
        new.push_str(before);
        new.push_str(ID);
        new.push_str(&index.to_string());
        rest = after;
    }
    new.push_str(rest);
    new
}
