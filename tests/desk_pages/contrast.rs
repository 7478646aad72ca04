//! The colours of the sheet against each other (WCAG 2.2: 1.4.3, 1.4.11), also where axe cannot see what is behind a word.

use std::collections::BTreeMap;

const SHEET: &str = include_str!("../../src/desk/pages/assets/desk.css");

/// The colours of the `at`-th `:root`: 0 is light, 1 is what dark changes.
fn colours(at: usize) -> BTreeMap<&'static str, [f64; 3]> {
    let block = SHEET.split(":root {").nth(at + 1).and_then(|rest| rest.split('}').next()).expect("a block");
    let colour = |line: &'static str| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
        let value = u32::from_str_radix(value.get(..6)?, 16).ok()?;
        Some((name, [16, 8, 0].map(|shift| f64::from(value >> shift & 255) / 255.0)))
    };
    block.lines().filter_map(colour).collect()
}

fn luminance(colour: [f64; 3]) -> f64 {
    let [red, green, blue] =
        colour.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn words_and_edges_stand_out_light_and_dark() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 0.01);
    let grounds = ["paper", "sheet", "wash", "mark", "bad-wash"];
    for scheme in [0, 1] {
        let colours = colours(scheme);
        assert!(colours.len() >= 17, "{colours:?}");
        let of = |one: &str, other: &str| contrast(colours[one], colours[other]);
        for ground in grounds {
            for word in ["ink", "soft", "green", "green-deep", "good", "bad", "hot", "mine", "moving"] {
                assert!(of(word, ground) >= 4.5, "{scheme}: {word} on {ground}: {:.2}", of(word, ground));
            }
            // Edges of fields, arrows of diagrams, the ring of the focus.
            for edge in ["edge", "focus"] {
                assert!(of(edge, ground) >= 3.0, "{scheme}: {edge} on {ground}: {:.2}", of(edge, ground));
            }
        }
        for button in ["green", "green-deep"] {
            assert!(of("on-green", button) >= 4.5, "{scheme}: on-green on {button}");
        }
    }
}
