//! The layers of a diagram: which row a state stands in, and which place in its row. Pure.
//!
//! The usual way (Sugiyama): edges that lead back are turned round, each state stands below all that lead to it, an edge
//! over several rows has a joint in each, and rows are ordered so that few edges cross. Rows alternate: states stand in
//! even ones, the label of an edge has a place of its own in an odd one; so nothing is ever written over a box.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// What has a place in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// A state, by its index.
    State(usize),
    /// The label of an edge, by the edge's index.
    Label(usize),
    /// An edge that passes.
    Joint,
}

/// A graph in rows.
#[derive(Debug)]
pub(super) struct Layers {
    /// All that has a place.
    pub(super) cells: Vec<Cell>,
    /// Indices of cells, row by row, in their order.
    pub(super) rows: Vec<Vec<usize>>,
    /// Cells of each edge, from where it begins to where it ends; upwards where it leads back. Empty for one that leads
    /// to where it comes from.
    pub(super) chains: Vec<Vec<usize>>,
}

/// Rounds of ordering; the best of them counts.
const ROUNDS: usize = 12;

/// Ways back whose side is tried out.
const SIDES: usize = 6;

/// The layers of `count` states under these edges; the first state is the topmost.
pub(super) fn layers(count: usize, edges: &[(usize, usize)]) -> Layers {
    let back = leading_back(count, edges);
    let forward = |at: usize| {
        let (from, to) = edges[at];
        if back[at] { (to, from) } else { (from, to) }
    };
    let forward: Vec<(usize, usize)> = (0..edges.len()).map(forward).collect();
    let ranks = ranks(count, &forward);
    let mut cells: Vec<Cell> = (0..count).map(Cell::State).collect();
    let depth = ranks.iter().max().map_or(0, |last| 2 * last + 1);
    let mut rows = vec![Vec::new(); depth];
    for (state, rank) in ranks.iter().enumerate() {
        rows[2 * rank].push(state);
    }
    let mut chains = Vec::new();
    for (at, (from, to)) in forward.into_iter().enumerate() {
        let mut chain = Vec::new();
        if from != to {
            let between = 2 * ranks[from] + 1..2 * ranks[to];
            // The label's row: an odd one near the middle.
            let middle = ranks[from] + ranks[to];
            let labelled = if middle % 2 == 1 { middle } else { middle - 1 };
            chain.push(from);
            for (row, place) in rows.iter_mut().enumerate().take(between.end).skip(between.start) {
                place.push(cells.len());
                chain.push(cells.len());
                cells.push(if row == labelled { Cell::Label(at) } else { Cell::Joint });
            }
            chain.push(to);
            if back[at] {
                chain.reverse();
            }
        }
        chains.push(chain);
    }
    let mut layers = Layers { cells, rows, chains };
    let back: Vec<usize> = (0..edges.len()).filter(|at| back[*at]).collect();
    layers.order(&back);
    layers
}

/// Which edges lead back to a state that the way came from, walking from the first state on.
fn leading_back(count: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    fn walk(state: usize, edges: &[(usize, usize)], seen: &mut [u8], back: &mut [bool]) {
        seen[state] = 1;
        for (at, (_, to)) in edges.iter().enumerate().filter(|(_, (from, _))| *from == state) {
            match seen[*to] {
                0 => walk(*to, edges, seen, back),
                1 => back[at] = true,
                _ => {}
            }
        }
        seen[state] = 2;
    }
    let (mut seen, mut back) = (vec![0; count], vec![false; edges.len()]);
    for state in 0..count {
        if seen[state] == 0 {
            walk(state, edges, &mut seen, &mut back);
        }
    }
    back
}

/// Each state one below the lowest that leads to it. The edges have no circle but from a state to itself.
fn ranks(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut ranks = vec![0; count];
    // A way has no more steps than there are states.
    for _ in 0..count {
        for (from, to) in edges.iter().filter(|(from, to)| from != to) {
            ranks[*to] = ranks[*to].max(ranks[*from] + 1);
        }
    }
    ranks
}

impl Layers {
    /// Neighbours of each cell, in the row above and in the row below.
    pub(super) fn neighbours(&self) -> [Vec<Vec<usize>>; 2] {
        let row_of = self.row_of();
        let mut all = [vec![Vec::new(); self.cells.len()], vec![Vec::new(); self.cells.len()]];
        for pair in self.chains.iter().flat_map(|chain| chain.windows(2)) {
            let (above, below) =
                if row_of[pair[0]] < row_of[pair[1]] { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
            all[0][below].push(above);
            all[1][above].push(below);
        }
        all
    }

    /// How many edges end at the busier side of a state.
    pub(super) fn ends(&self, state: usize) -> usize {
        self.neighbours().iter().map(|side| side[state].len()).max().unwrap_or_default()
    }

    /// Whether an edge passes here, rather than begin or end.
    pub(super) fn is_passing(&self, cell: usize) -> bool {
        matches!(self.cells[cell], Cell::Label(_) | Cell::Joint)
    }

    fn row_of(&self) -> Vec<usize> {
        let mut rows = vec![0; self.cells.len()];
        for (row, cells) in self.rows.iter().enumerate() {
            for cell in cells {
                rows[*cell] = row;
            }
        }
        rows
    }

    /// Orders the rows so that few edges cross. Which side a way back takes decides much and is not found step by step;
    /// so several beginnings are tried.
    fn order(&mut self, back: &[usize]) {
        let neighbours = self.neighbours();
        let begun = self.rows.clone();
        let mut best = (usize::MAX, begun.clone());
        for sides in 0..1_usize << back.len().min(SIDES) {
            self.rows.clone_from(&begun);
            self.begin(back, sides);
            let found = self.ordered(&neighbours);
            if found < best.0 {
                best = (found, self.rows.clone());
            }
            if found == 0 {
                break;
            }
        }
        self.rows = best.1;
    }

    /// Puts the ways back whose bit is set before all others of their rows.
    fn begin(&mut self, back: &[usize], sides: usize) {
        let first: BTreeSet<usize> = back
            .iter()
            .enumerate()
            .filter(|(bit, _)| sides >> bit & 1 == 1)
            .flat_map(|(_, edge)| &self.chains[*edge])
            .copied()
            .filter(|cell| self.is_passing(*cell))
            .collect();
        for row in &mut self.rows {
            row.sort_by_key(|cell| !first.contains(cell));
        }
    }

    /// Orders each row by where its neighbours stand, down and up in turn; then swaps neighbours where that helps. Keeps
    /// the best order, and answers its crossings.
    fn ordered(&mut self, neighbours: &[Vec<Vec<usize>>; 2]) -> usize {
        let mut best = (self.crossings(&neighbours[1]), self.rows.clone());
        for round in 0..ROUNDS {
            let down = round % 2 == 0;
            let near = &neighbours[usize::from(!down)];
            let mut rows: Vec<usize> = (0..self.rows.len()).collect();
            if !down {
                rows.reverse();
            }
            let mut places = self.places();
            for row in rows {
                let wished = |cell: &usize| {
                    let near = &near[*cell];
                    let sum: usize = near.iter().map(|other| places[*other]).sum();
                    // Thousandths of a place; a cell without neighbours stays where it is.
                    if near.is_empty() { 1000 * places[*cell] } else { 1000 * sum / near.len() }
                };
                self.rows[row].sort_by_cached_key(wished);
                for (place, cell) in self.rows[row].iter().enumerate() {
                    places[*cell] = place;
                }
            }
            let crossings = self.crossings(&neighbours[1]);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
        while self.swapped(&neighbours[1]) {}
        self.crossings(&neighbours[1])
    }

    /// Swaps neighbours in a row where that takes crossings away; whether any did.
    fn swapped(&mut self, below: &[Vec<usize>]) -> bool {
        let mut any = false;
        for row in 0..self.rows.len() {
            // Only the lines above and below the row change.
            let around = row.saturating_sub(1)..=row;
            let mut crossings = self.crossings_at(around.clone(), below);
            for place in 1..self.rows[row].len() {
                self.rows[row].swap(place - 1, place);
                let now = self.crossings_at(around.clone(), below);
                if now < crossings {
                    crossings = now;
                    any = true;
                } else {
                    self.rows[row].swap(place - 1, place);
                }
            }
        }
        any
    }

    fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.cells.len()];
        for row in &self.rows {
            for (place, cell) in row.iter().enumerate() {
                places[*cell] = place;
            }
        }
        places
    }

    fn crossings(&self, below: &[Vec<usize>]) -> usize {
        self.crossings_at(0..=self.rows.len().saturating_sub(1), below)
    }

    /// Crossings between these rows and the next ones.
    fn crossings_at(&self, rows: RangeInclusive<usize>, below: &[Vec<usize>]) -> usize {
        let places = self.places();
        let of_row = |row: &Vec<usize>| {
            let lines: Vec<(usize, usize)> = row
                .iter()
                .flat_map(|cell| below[*cell].iter().map(|to| (places[*cell], places[*to])))
                .collect();
            let crossed = |(at, one): (usize, &(usize, usize))| {
                let cross = |other: &&(usize, usize)| {
                    (one.0 < other.0 && one.1 > other.1) || (one.0 > other.0 && one.1 < other.1)
                };
                lines[at + 1..].iter().filter(cross).count()
            };
            lines.iter().enumerate().map(crossed).sum::<usize>()
        };
        self.rows[rows].iter().map(of_row).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_stands_below_all_that_lead_to_it_and_a_way_back_is_turned() {
        // 0 → 1 → 2 → 0, 0 → 2.
        let edges = [(0, 1), (1, 2), (2, 0), (0, 2)];
        assert_eq!(leading_back(3, &edges), [false, false, true, false]);
        assert_eq!(ranks(3, &[(0, 1), (1, 2), (0, 2), (0, 2)]), [0, 1, 2]);
        let layers = layers(3, &edges);
        assert_eq!(layers.rows.len(), 5);
        // The way back goes from the lowest to the highest, through a joint or label in each row.
        assert_eq!((layers.chains[2].first(), layers.chains[2].last()), (Some(&2), Some(&0)));
        assert_eq!(layers.chains[2].len(), 5);
    }

    #[test]
    fn each_edge_has_one_label_in_a_row_without_states() {
        let edges = [(0, 1), (1, 2), (2, 0), (0, 2), (1, 1), (2, 3), (3, 1)];
        let layers = layers(4, &edges);
        for (row, cells) in layers.rows.iter().enumerate() {
            for cell in cells {
                match layers.cells[*cell] {
                    Cell::State(_) => assert_eq!(row % 2, 0),
                    Cell::Label(_) => assert_eq!(row % 2, 1),
                    Cell::Joint => {}
                }
            }
        }
        let mut labels: Vec<usize> = layers
            .cells
            .iter()
            .filter_map(|cell| if let Cell::Label(edge) = cell { Some(*edge) } else { None })
            .collect();
        labels.sort_unstable();
        assert_eq!(labels, [0, 1, 2, 3, 5, 6], "all but the one that leads to where it comes from");
    }

    #[test]
    fn rows_are_ordered_so_that_edges_need_not_cross() {
        // Two ways down that cross as declared: 0 → 1, 0 → 2, 1 → 4, 2 → 3.
        let layers = layers(5, &[(0, 1), (0, 2), (1, 4), (2, 3)]);
        assert_eq!(layers.crossings(&layers.neighbours()[1]), 0);
    }
}
