//! The diagram of a lifecycle says what its table says.

use std::collections::{BTreeMap, BTreeSet};

use maple_router::desk::pages::frame::Frame;
use maple_router::desk::pages::lifecycles::LifecyclePage;
use maple_router::kernel::describe::Described;

use crate::dom::{Element, parse};
use crate::samples::{lifecycles, now};

fn drawn(lifecycle: &Described) -> Vec<Element> {
    let page = LifecyclePage { frame: Frame::new(now(), None), lifecycle: lifecycle.clone() };
    parse(&page.to_string())
        .0
        .into_iter()
        .filter(|element| element.within.contains(&"svg".to_owned()))
        .collect()
}

fn number(element: &Element, name: &str) -> f64 {
    element.get(name).expect(name).parse().expect("a number")
}

/// Left, top, right, bottom.
fn sides(rect: &Element) -> [f64; 4] {
    let (x, y) = (number(rect, "x"), number(rect, "y"));
    [x, y, x + number(rect, "width"), y + number(rect, "height")]
}

fn with_class<'a>(elements: &'a [Element], class: &str) -> Vec<&'a Element> {
    elements.iter().filter(|element| element.has_class(class)).collect()
}

#[test]
fn every_state_every_edge_and_every_command_is_drawn() {
    for lifecycle in lifecycles() {
        let elements = drawn(&lifecycle);
        let names: BTreeSet<&str> =
            with_class(&elements, "name").iter().map(|name| name.text.as_str()).collect();
        assert_eq!(names, lifecycle.states.iter().map(String::as_str).collect());
        assert_eq!(with_class(&elements, "state").len(), lifecycle.states.len());
        assert_eq!(with_class(&elements, "final").len(), lifecycle.finals.len());

        let mut commands: BTreeMap<&str, usize> = BTreeMap::new();
        for command in with_class(&elements, "command") {
            *commands.entry(&command.text).or_default() += 1;
        }
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ways = BTreeSet::new();
        for transition in &lifecycle.transitions {
            *expected.entry(&transition.command).or_default() += 1;
            ways.insert((&transition.from, &transition.to));
        }
        assert_eq!(commands, expected, "{}", lifecycle.name);
        let born = lifecycle.transitions.iter().any(|transition| transition.from == "[*]");
        assert_eq!(
            with_class(&elements, "edge").len(),
            ways.len() + usize::from(!born),
            "{}",
            lifecycle.name
        );
        assert_eq!(with_class(&elements, "birth").len(), 1);
        assert!(
            with_class(&elements, "edge").iter().all(|edge| edge.get("marker-end") == Some("url(#head)"))
        );
    }
}

/// Where an arrow begins and ends is where its states are: each path is told back to its two boxes.
#[test]
fn arrows_begin_and_end_at_their_states() {
    for lifecycle in lifecycles() {
        let elements = drawn(&lifecycle);
        let boxes: Vec<(&str, [f64; 4])> = with_class(&elements, "state")
            .into_iter()
            .zip(with_class(&elements, "name"))
            .map(|(rect, name)| (name.text.as_str(), sides(rect)))
            .collect();
        let at = |x: f64, y: f64| {
            let touches = |(_, [left, top, right, bottom]): &&(&str, [f64; 4])| {
                x >= *left && x <= *right && ((y - top).abs() <= 1.0 || (y - bottom).abs() <= 1.0)
            };
            boxes.iter().find(touches).map_or("[*]", |(name, _)| name)
        };
        let ends = |edge: &&Element| {
            let path = edge.get("d").expect("a path");
            let numbers: Vec<f64> = path
                .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
                .filter(|part| !part.is_empty())
                .map(|part| part.parse().expect("a number"))
                .collect();
            let [x, y, .., to_x, to_y] = numbers.as_slice() else { panic!("{path}") };
            (at(*x, *y).to_owned(), at(*to_x, *to_y).to_owned())
        };
        let drawn: BTreeSet<(String, String)> = with_class(&elements, "edge").iter().map(ends).collect();
        let mut expected: BTreeSet<(String, String)> = lifecycle
            .transitions
            .iter()
            .map(|transition| (transition.from.clone(), transition.to.clone()))
            .collect();
        if expected.iter().all(|(from, _)| from != "[*]") {
            expected.insert(("[*]".to_owned(), lifecycle.states[0].clone()));
        }
        assert_eq!(drawn, expected, "{}", lifecycle.name);
    }
}

#[test]
fn no_word_is_written_over_another_or_over_a_box() {
    for lifecycle in lifecycles() {
        let elements = drawn(&lifecycle);
        let mut rects: Vec<[f64; 4]> = with_class(&elements, "state").into_iter().map(sides).collect();
        rects.extend(with_class(&elements, "under").into_iter().map(sides));
        for (at, one) in rects.iter().enumerate() {
            for other in &rects[at + 1..] {
                let apart =
                    one[2] <= other[0] || other[2] <= one[0] || one[3] <= other[1] || other[3] <= one[1];
                assert!(apart, "{}: {one:?} {other:?}", lifecycle.name);
            }
        }
    }
}

#[test]
fn who_does_not_see_the_diagram_is_told_all_of_it() {
    for lifecycle in lifecycles() {
        let elements = drawn(&lifecycle);
        let told = &elements.iter().find(|element| element.tag == "desc").expect("a description").text;
        for transition in &lifecycle.transitions {
            assert!(told.contains(&format!("{} to {}", transition.command, transition.to)), "{told}");
        }
        for last in &lifecycle.finals {
            assert!(told.contains(&format!("{last} is final.")), "{told}");
        }
        assert!(elements.iter().any(|element| element.tag == "title" && !element.text.is_empty()));
    }
}
