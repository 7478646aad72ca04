//! P2: with finitely many faults every submission ends, whatever the order of things.
//!
//! Stateright's `eventually` forgets paths that join, so this is judged on the whole graph. Every fault takes one from a
//! bounded store; so if the protocol's own steps make no circle, every run ends; and where from every world that has not
//! ended one of these steps leads on (a law of its own), it ends nowhere else than in `routed` or `failed`.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::world::World;

/// The protocol's own steps between the worlds that were seen; faults are left out.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    steps: Vec<(u64, u64)>,
    last: Option<(World, u64)>,
}

impl Graph {
    /// Takes down that `next` follows `last`.
    pub(crate) fn step(&mut self, last: &World, next: &World) {
        let from = match self.last {
            Some((known, digest)) if known == *last => digest,
            Some(_) | None => digest(last),
        };
        self.last = Some((*last, from));
        self.steps.push((from, digest(next)));
    }

    /// Number of steps seen.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Worlds in a circle of steps, or behind one: those that remain when every world without a predecessor is taken away.
    pub(crate) fn circling(mut self) -> usize {
        self.steps.sort_unstable();
        self.steps.dedup();
        let mut worlds: Vec<u64> = self.steps.iter().flat_map(|(from, to)| [*from, *to]).collect();
        worlds.sort_unstable();
        worlds.dedup();
        let place = |world: u64| worlds.binary_search(&world).expect("every world of a step is listed");
        let mut follow = vec![Vec::new(); worlds.len()];
        let mut leading_to = vec![0_u32; worlds.len()];
        for (from, to) in &self.steps {
            let to = place(*to);
            follow[place(*from)].push(to);
            leading_to[to] += 1;
        }
        let mut free: Vec<usize> = (0..worlds.len()).filter(|world| leading_to[*world] == 0).collect();
        let mut taken = 0;
        while let Some(world) = free.pop() {
            taken += 1;
            for next in std::mem::take(&mut follow[world]) {
                leading_to[next] -= 1;
                if leading_to[next] == 0 {
                    free.push(next);
                }
            }
        }
        worlds.len() - taken
    }
}

fn digest(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_circle_is_found_and_a_join_is_none() {
    let join = Graph { steps: vec![(1, 2), (1, 3), (2, 4), (3, 4)], last: None };
    assert_eq!(join.circling(), 0);
    let circle = Graph { steps: vec![(1, 2), (2, 3), (3, 2), (3, 4)], last: None };
    assert_eq!(circle.circling(), 3);
}
