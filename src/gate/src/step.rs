//! One step: applies one event to the state, decides, and returns the effects.

use crate::{
    apply::apply,
    decide::evaluate,
    model::{clock::Now, effect::Effect, event::Event, state::State},
    plan,
};

/// Applies `event` to `state` and appends what is to be done to `effects`. The function is pure: the clocks and the
/// random number are in `now`, and it keeps nothing outside `state`.
pub fn step(state: &mut State, event: Event, now: &Now, effects: &mut Vec<Effect>) {
    state.last_step = Some(*now);
    apply(state, event, now, effects);
    evaluate(state, now, effects);
    plan::start_calls(state, now, effects);
}
