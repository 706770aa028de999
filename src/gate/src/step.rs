//! The heart: takes one event, decides, and says what to do.

use super::{
    absorb::absorb,
    effect::Effect,
    event::Event,
    judge::judge,
    plan,
    state::{Now, State},
};

/// Takes `event` into `state` and appends what is to be done to `effects`. Pure: clocks and chance come in
/// `now`, and the only memory is `state`.
pub fn step(state: &mut State, event: Event, now: &Now, effects: &mut Vec<Effect>) {
    state.last_step = Some(*now);
    absorb(state, event, now, effects);
    judge(state, now, effects);
    plan::act(state, now, effects);
    if state.dirty {
        state.dirty = false;
        effects.push(Effect::Publish);
    }
}
