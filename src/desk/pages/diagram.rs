//! The diagram of a lifecycle: boxes, arrows and words with coordinates, for a template to write as SVG. Pure.

mod layers;
mod place;

use std::collections::BTreeMap;
use std::fmt::Write;

use layers::Cell;

use crate::kernel::describe::{BIRTH, Described};

/// A diagram, in pixels.
pub(super) struct Drawing {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) radius: u32,
    pub(super) nodes: Vec<Node>,
    pub(super) births: Vec<(u32, u32)>,
    pub(super) edges: Vec<Arrow>,
    pub(super) labels: Vec<Label>,
    /// The same for people who do not see it.
    pub(super) description: String,
}

/// A state.
pub(super) struct Node {
    pub(super) label: String,
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_final: bool,
    pub(super) is_initial: bool,
}

impl Node {
    pub(super) const fn center(&self) -> u32 {
        self.x + self.width / 2
    }

    pub(super) const fn baseline(&self) -> u32 {
        self.y + self.height / 2 + 5
    }
}

/// An arrow from state to state.
pub(super) struct Arrow {
    /// Path data.
    pub(super) path: String,
}

/// Commands on an arrow, a line each, and the ground under them.
pub(super) struct Label {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) lines: Vec<Line>,
}

/// One line of text, centred at `x`.
pub(super) struct Line {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) text: String,
}

const MARGIN: f64 = 14.0;
const BOX_HEIGHT: f64 = 40.0;
const BIRTH_SIZE: f64 = 12.0;
const LINE_HEIGHT: f64 = 17.0;
const ROW_GAP: f64 = 34.0;
/// Widths of a letter, rather wide: the browser's font is not known here.
const NAME_LETTER: f64 = 9.0;
const COMMAND_LETTER: f64 = 7.9;
/// Space between the ends of arrows at one side of a box.
const PORT_GAP: f64 = 20.0;
/// Width of a loop beside its box.
const LOOP: f64 = 26.0;

/// An arrow's ends and its commands.
struct Edge<'a> {
    from: usize,
    to: usize,
    commands: Vec<&'a str>,
}

impl Edge<'_> {
    fn width(&self) -> f64 {
        let longest = self.commands.iter().map(|command| command.chars().count()).max().unwrap_or_default();
        if longest == 0 { 2.0 } else { longest as f64 * COMMAND_LETTER + 10.0 }
    }

    fn height(&self) -> f64 {
        self.commands.len() as f64 * LINE_HEIGHT
    }

    fn is_loop(&self) -> bool {
        self.from == self.to
    }
}

/// Draws a lifecycle.
pub(super) fn draw(lifecycle: &Described) -> Drawing {
    // The birth is a state of its own, the first.
    let names: Vec<&str> = [BIRTH].into_iter().chain(lifecycle.states.iter().map(String::as_str)).collect();
    let edges = edges(lifecycle, &names);
    let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layers = layers::layers(names.len(), &ends);

    let loops = |state: usize| edges.iter().filter(move |edge| edge.is_loop() && edge.from == state);
    let beside = |state: usize| loops(state).map(|edge| LOOP + edge.width()).fold(0.0, f64::max);
    // A box is as wide as its name, and as its busier side needs.
    let box_width = |state: usize| {
        let ends = layers.ends(state).max(1) as f64;
        let name = names[state].chars().count() as f64 * NAME_LETTER + 30.0;
        if state == 0 { BIRTH_SIZE } else { name.max(ends * PORT_GAP).max(96.0) }
    };
    let size = |cell: &Cell| match cell {
        // The loop has the same room on both sides, so that the box stays in the middle.
        Cell::State(state) => {
            (box_width(*state) + 2.0 * beside(*state), if *state == 0 { BIRTH_SIZE } else { BOX_HEIGHT })
        }
        Cell::Label(edge) => (edges[*edge].width(), edges[*edge].height()),
        Cell::Joint => (2.0, 0.0),
    };
    let sizes: Vec<(f64, f64)> = layers.cells.iter().map(size).collect();
    // A row has room for the label of a loop beside its box.
    let room = |cell: usize| match layers.cells[cell] {
        Cell::State(state) => loops(state).map(Edge::height).fold(sizes[cell].1, f64::max),
        Cell::Label(_) | Cell::Joint => sizes[cell].1,
    };
    let widths: Vec<f64> = sizes.iter().map(|(width, _)| *width).collect();
    let centres: Vec<f64> =
        place::centres(&layers, &widths).into_iter().map(|centre| centre + MARGIN).collect();

    let mut tops = vec![0.0; layers.cells.len()];
    let mut bottoms = vec![0.0; layers.cells.len()];
    let mut y = MARGIN;
    for row in &layers.rows {
        let height = row.iter().map(|cell| room(*cell)).fold(0.0, f64::max);
        for cell in row {
            // A joint is as high as its row: an arrow goes straight between boxes and labels.
            let own = if layers.cells[*cell] == Cell::Joint { height } else { sizes[*cell].1 };
            tops[*cell] = y + (height - own) / 2.0;
            bottoms[*cell] = tops[*cell] + own;
        }
        y += height + ROW_GAP;
    }
    let right = centres.iter().zip(&widths).map(|(centre, width)| centre + width / 2.0).fold(0.0, f64::max);

    let ports = ports(&layers.chains, &centres, &tops, box_width);
    let mut arrows = Vec::new();
    let mut labels = Vec::new();
    for (at, edge) in edges.iter().enumerate() {
        let chain = &layers.chains[at];
        if edge.is_loop() {
            let (x, y) = (
                centres[edge.from] + box_width(edge.from) / 2.0,
                f64::midpoint(tops[edge.from], bottoms[edge.from]),
            );
            let path = format!("M{x:.0} {:.0}c{LOOP} -14 {LOOP} 26 1 14", y - 6.0);
            arrows.push(Arrow { path });
            labels.push(label(edge, x + LOOP + edge.width() / 2.0 - 2.0, y));
            continue;
        }
        arrows.push(Arrow { path: path(chain, &centres, &tops, &bottoms, ports[at]) });
        let place = chain.iter().find(|cell| layers.cells[**cell] == Cell::Label(at));
        if let Some(cell) = place.filter(|_| !edge.commands.is_empty()) {
            labels.push(label(edge, centres[*cell], f64::midpoint(tops[*cell], bottoms[*cell])));
        }
    }
    let node = |(state, name): (usize, &&str)| Node {
        label: (*name).to_owned(),
        x: whole(centres[state] - box_width(state) / 2.0),
        y: whole(tops[state]),
        width: whole(box_width(state)),
        height: whole(BOX_HEIGHT),
        is_final: lifecycle.finals.iter().any(|last| last == name),
        is_initial: ends.contains(&(0, state)),
    };
    Drawing {
        width: whole(right + MARGIN),
        height: whole(y - ROW_GAP + MARGIN),
        radius: 10,
        nodes: names.iter().enumerate().skip(1).map(node).collect(),
        births: vec![(whole(centres[0]), whole(f64::midpoint(tops[0], bottoms[0])))],
        edges: arrows,
        labels,
        description: description(lifecycle),
    }
}

/// The arrows: commands that lead the same way share one. Without a birth in the table, one without a command leads to
/// the first state.
fn edges<'a>(lifecycle: &'a Described, names: &[&str]) -> Vec<Edge<'a>> {
    let index: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut edges: Vec<Edge<'a>> = Vec::new();
    if lifecycle.transitions.iter().all(|edge| edge.from != BIRTH) {
        edges.push(Edge { from: 0, to: 1, commands: Vec::new() });
    }
    for transition in &lifecycle.transitions {
        let ends = (index.get(transition.from.as_str()), index.get(transition.to.as_str()));
        let (Some(&from), Some(&to)) = ends else { continue };
        match edges.iter_mut().find(|edge| edge.from == from && edge.to == to) {
            Some(edge) => edge.commands.push(&transition.command),
            None => edges.push(Edge { from, to, commands: vec![&transition.command] }),
        }
    }
    edges
}

/// The end of an arrow at one side (above or below) of a box.
struct End {
    /// Where the arrow comes from or goes to.
    towards: f64,
    arrow: usize,
    is_last: bool,
}

/// Where each arrow leaves its first box and meets its last one, from left to right in the order of where it goes.
fn ports(
    chains: &[Vec<usize>],
    centres: &[f64],
    tops: &[f64],
    width: impl Fn(usize) -> f64,
) -> Vec<(f64, f64)> {
    let mut sides: BTreeMap<(usize, bool), Vec<End>> = BTreeMap::new();
    for (arrow, chain) in chains.iter().enumerate() {
        let [first, second, ..] = chain.as_slice() else { continue };
        let [.., before, last] = chain.as_slice() else { continue };
        for (state, next, is_last) in [(*first, *second, false), (*last, *before, true)] {
            let side = (state, tops[next] > tops[state]);
            sides.entry(side).or_default().push(End { towards: centres[next], arrow, is_last });
        }
    }
    let mut ports = vec![(0.0, 0.0); chains.len()];
    for ((state, _), mut ends) in sides {
        ends.sort_by(|one, other| one.towards.total_cmp(&other.towards));
        let step = width(state) / (ends.len() + 1) as f64;
        for (place, End { arrow, is_last, .. }) in ends.into_iter().enumerate() {
            let x = centres[state] - width(state) / 2.0 + step * (place + 1) as f64;
            if is_last { ports[arrow].1 = x } else { ports[arrow].0 = x }
        }
    }
    ports
}

/// Path data of an arrow: upright at each box, label and joint, curved between.
fn path(
    chain: &[usize],
    centres: &[f64],
    tops: &[f64],
    bottoms: &[f64],
    (leaves, meets): (f64, f64),
) -> String {
    let down = chain.first().zip(chain.last()).is_some_and(|(first, last)| tops[*first] < tops[*last]);
    let (near, far) = if down { (tops, bottoms) } else { (bottoms, tops) };
    let mut path = String::new();
    let mut at = (0.0, 0.0);
    for (step, cell) in chain.iter().enumerate() {
        let x = match step {
            0 => leaves,
            _ if step + 1 == chain.len() => meets,
            _ => centres[*cell],
        };
        if step == 0 {
            at = (x, far[*cell]);
            // Writing into a String does not fail.
            write!(path, "M{:.1} {:.1}", at.0, at.1).unwrap_or_default();
            continue;
        }
        let middle = f64::midpoint(at.1, near[*cell]);
        write!(path, "C{:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {:.1}", at.0, near[*cell])
            .unwrap_or_default();
        if step + 1 < chain.len() && (near[*cell] - far[*cell]).abs() > 0.5 {
            write!(path, "V{:.1}", far[*cell]).unwrap_or_default();
        }
        at = (x, far[*cell]);
    }
    path
}

fn label(edge: &Edge<'_>, x: f64, y: f64) -> Label {
    let top = y - edge.height() / 2.0;
    let line = |(at, command): (usize, &&str)| Line {
        x: whole(x),
        y: whole(top + (at as f64 + 0.75) * LINE_HEIGHT),
        text: (*command).to_owned(),
    };
    Label {
        x: whole(x - edge.width() / 2.0),
        y: whole(top),
        width: whole(edge.width()),
        height: whole(edge.height()),
        lines: edge.commands.iter().enumerate().map(line).collect(),
    }
}

/// `From Pending: start to Processing, assign to UnderReview. …`
fn description(lifecycle: &Described) -> String {
    let of = |from: &str| {
        let out = lifecycle.transitions.iter().filter(|edge| edge.from == from);
        let out: Vec<String> = out.map(|edge| format!("{} to {}", edge.command, edge.to)).collect();
        match (from, out.is_empty()) {
            (BIRTH, true) => String::new(),
            (BIRTH, false) => format!("At birth: {}. ", out.join(", ")),
            (state, true) => format!("{state} is final. "),
            (state, false) => format!("From {state}: {}. ", out.join(", ")),
        }
    };
    let all = [BIRTH].into_iter().chain(lifecycle.states.iter().map(String::as_str));
    all.map(of).collect::<String>().trim_end().to_owned()
}

/// Pixels. Never below zero: everything stands right of the margin.
fn whole(pixels: f64) -> u32 {
    pixels.round().max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::describe::Transition;

    /// Any lifecycle of up to ten states: circles, loops, states nothing leads to, several births.
    fn lifecycle() -> impl Strategy<Value = Described> {
        let edge = (0..11_usize, 1..11_usize, "[a-z_]{1,14}");
        (1..=10_usize, prop::collection::vec(edge, 0..24)).prop_map(|(count, edges)| {
            let states: Vec<String> = (0..count).map(|at| format!("State{}", "x".repeat(at % 7))).collect();
            let states: Vec<String> =
                states.iter().enumerate().map(|(at, name)| format!("{name}{at}")).collect();
            let name = |at: usize| if at == 0 { BIRTH.to_owned() } else { states[(at - 1) % count].clone() };
            let transitions = edges
                .into_iter()
                .map(|(from, to, command)| Transition {
                    from: name(from),
                    command,
                    to: name(to),
                    who: vec!["system"],
                    guard: "",
                    with: "",
                })
                .collect();
            Described { name: "any", about: "any", finals: Vec::new(), states, transitions }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_is_drawn_over_anything_and_all_of_it_is_inside(lifecycle in lifecycle()) {
            let drawing = draw(&lifecycle);
            prop_assert_eq!(drawing.nodes.len(), lifecycle.states.len());
            let mut sides: Vec<[u32; 4]> =
                drawing.nodes.iter().map(|node| [node.x, node.y, node.x + node.width, node.y + node.height]).collect();
            let label = |label: &Label| [label.x, label.y, label.x + label.width, label.y + label.height];
            sides.extend(drawing.labels.iter().map(label));
            for (at, one) in sides.iter().enumerate() {
                prop_assert!(one[2] <= drawing.width && one[3] <= drawing.height, "{:?}", one);
                for other in &sides[at + 1..] {
                    let apart =
                        one[2] <= other[0] || other[2] <= one[0] || one[3] <= other[1] || other[3] <= one[1];
                    prop_assert!(apart, "{:?} {:?}", one, other);
                }
            }
            let lines: usize = drawing.labels.iter().map(|label| label.lines.len()).sum();
            prop_assert_eq!(lines, lifecycle.transitions.len());
        }
    }
}
