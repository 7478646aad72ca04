//! Two searches beside stateright's: the shortest way to a broken law, with the worlds that were seen until then (stateright names the
//! last way of a block of 1,500), and the circles among a protocol's own steps (its `eventually` forgets ways that join).

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use stateright::Model;

/// A model that tells its own steps from faults and from what people do.
pub(super) trait Protocol: Model {
    /// Steps that nothing has to go wrong for, and that nobody has to ask for, with every answer that may come. All are of `actions`.
    fn goes_on(&self, world: &Self::State) -> Vec<Self::Action>;
}

/// A world, and the step that led there.
type Reached<M> = (<M as Model>::State, Option<(usize, <M as Model>::Action)>);

/// The worlds that were seen until one breaks the law, and the shortest way there.
pub(super) fn shortest<M: Model>(model: &M, law: &str) -> (usize, Option<Vec<M::Action>>)
where
    M::State: Clone + Eq + Hash,
    M::Action: Clone,
{
    let property = model.properties().into_iter().find(|property| property.name == law).expect("a law");
    let mut worlds: Vec<Reached<M>> = model.init_states().into_iter().map(|world| (world, None)).collect();
    let mut seen: HashSet<M::State> = worlds.iter().map(|(world, _)| world.clone()).collect();
    let mut actions = Vec::new();
    let mut place = 0;
    while let Some((world, _)) = worlds.get(place).cloned() {
        if !(property.condition)(model, &world) {
            let mut way = Vec::new();
            let mut at = place;
            while let Some((before, action)) = &worlds[at].1 {
                way.push(action.clone());
                at = *before;
            }
            way.reverse();
            return (place + 1, Some(way));
        }
        model.actions(&world, &mut actions);
        for action in actions.drain(..) {
            if let Some(next) = model.next_state(&world, action.clone())
                && seen.insert(next.clone())
            {
                worlds.push((next, Some((place, action))));
            }
        }
        place += 1;
    }
    (place, None)
}

/// What the protocol's own steps are, over every world.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) worlds: usize,
    pub(super) steps: usize,
    /// Worlds in a circle of its own steps, or behind one.
    pub(super) circling: usize,
}

pub(super) fn own_steps<M: Protocol>(model: &M) -> Steps
where
    M::State: Clone + Eq + Hash,
    M::Action: Clone + PartialEq,
{
    let mut numbers: HashMap<M::State, usize> = HashMap::new();
    let mut pending: VecDeque<M::State> = model.init_states().into();
    for (number, world) in pending.iter().enumerate() {
        numbers.insert(world.clone(), number);
    }
    let (mut from, mut actions, mut follow) = (0, Vec::new(), Vec::new());
    while let Some(world) = pending.pop_front() {
        let own = model.goes_on(&world);
        model.actions(&world, &mut actions);
        let mut next_own = Vec::new();
        for action in actions.drain(..) {
            let is_own = own.contains(&action);
            let Some(next) = model.next_state(&world, action) else {
                assert!(!is_own, "a step of the protocol's own comes to nothing");
                continue;
            };
            let fresh = numbers.len();
            let number = *numbers.entry(next.clone()).or_insert_with(|| {
                pending.push_back(next);
                fresh
            });
            if is_own {
                next_own.push(number);
            }
        }
        debug_assert_eq!(follow.len(), from);
        follow.push(next_own);
        from += 1;
    }
    let steps = follow.iter().map(Vec::len).sum();
    Steps { worlds: from, steps, circling: circling(&follow) }
}

/// What is left when every world without a predecessor is taken away.
fn circling(follow: &[Vec<usize>]) -> usize {
    let mut leading_to = vec![0_u32; follow.len()];
    for next in follow.iter().flatten() {
        leading_to[*next] += 1;
    }
    let mut free: Vec<usize> = (0..follow.len()).filter(|world| leading_to[*world] == 0).collect();
    let mut taken = 0;
    while let Some(world) = free.pop() {
        taken += 1;
        for next in &follow[world] {
            leading_to[*next] -= 1;
            if leading_to[*next] == 0 {
                free.push(*next);
            }
        }
    }
    follow.len() - taken
}

#[test]
fn a_circle_of_own_steps_is_found_and_a_join_is_none() {
    assert_eq!(circling(&[vec![1, 2], vec![3], vec![3], vec![]]), 0);
    assert_eq!(circling(&[vec![1], vec![2], vec![1, 3], vec![]]), 3);
    assert_eq!(circling(&[vec![0]]), 1);
}
