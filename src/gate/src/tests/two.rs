//! Two load balancers side by side: nothing that happens to one changes the other.

use std::time::{Duration, Instant};

use crate::tests::{
    acts::{Act, act, play},
    canonical::Canonical,
    world::World,
};

use proptest::prelude::*;

fn world(start: Instant) -> World {
    let mut world = World::since(start, &[6443], Duration::from_secs(1));
    world.noting = false;
    world.add_serving(1);
    world.run(Duration::from_secs(120));
    world
}

/// The state of a load balancer's worker, and what exists in OpenStack.
fn summary(world: &World) -> String {
    let mut text = Canonical::new(world.now);
    text.write(&(
        &world.state,
        &world.model.listeners,
        &world.model.pools,
        &world.tally,
    ));
    text.text
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn histories_of_two_load_balancers_are_those_of_each_alone(
        first in prop::collection::vec(act(), 1..20),
        second in prop::collection::vec(act(), 1..20),
    ) {
        let start = Instant::now();
        let histories: [Vec<Act>; 2] = [first, second];
        let mut together = [world(start), world(start)];
        for turn in 0..20 {
            for (world, acts) in together.iter_mut().zip(&histories) {
                if let Some(act) = acts.get(turn) {
                    play(world, act.clone());
                }
            }
        }
        for (together, acts) in together.iter().zip(histories) {
            let mut alone = world(start);
            for act in acts {
                play(&mut alone, act);
            }
            prop_assert_eq!(summary(&alone), summary(together));
        }
    }
}
