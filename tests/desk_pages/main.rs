//! The review desk's pages: what they say to people, to a parser, and to a judge of accessibility.

mod accessible;
mod browser;
mod contrast;
mod diagrams;
mod dom;
mod forms;
mod hostile;
mod samples;
mod script;
mod templates;

use std::fs;
use std::path::Path;

use maple_router::desk::pages::assets;

/// For looking: `cargo nextest run --run-ignored only render_samples` writes every page into `target/tmp/desk`, with paths
/// that work from a folder.
#[test]
#[ignore = "for looking"]
fn render_samples() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("desk");
    fs::create_dir_all(folder.join("assets")).expect("a folder");
    for path in [assets::css(), assets::script(), assets::icon()] {
        let (_, content) = assets::find(path).expect("it is there");
        fs::write(folder.join(path.trim_start_matches('/')), content).expect("a file");
    }
    for page in samples::all(&str::to_owned) {
        let html = page.html.replace("\"/assets/", "\"assets/");
        fs::write(folder.join(page.name).with_extension("html"), html).expect("a page");
    }
    println!("{}", folder.display());
}
