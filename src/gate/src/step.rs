//! One step: takes one event into the state, decides, and returns the effects.

use crate::{
    apply::apply,
    decide::evaluate,
    model::{clock::Now, effect::Effect, event::Event, state::State},
    plan,
};

/// Takes `event` into `state` and appends what is to be done to `effects`. Pure: clocks and chance come in
/// `now`, and the only memory is `state`.
pub fn step(state: &mut State, event: Event, now: &Now, effects: &mut Vec<Effect>) {
    state.last_step = Some(*now);
    apply(state, event, now, effects);
    evaluate(state, now, effects);
    plan::start_calls(state, now, effects);
}
