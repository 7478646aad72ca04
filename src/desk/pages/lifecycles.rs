//! The lifecycles: a list, and each as a diagram and as the whole table; and how programs speak to the desk. Pure.

use askama::Template;

use super::diagram::{self, Drawing};
use super::frame::Frame;
use super::{assets, plain, when};
use crate::kernel::describe::Described;

/// The page at `/lifecycles`.
#[derive(Debug, Clone, Template)]
#[template(path = "lifecycles.html")]
pub struct LifecyclesPage {
    /// Its surroundings.
    pub frame: Frame,
    /// All lifecycles.
    pub lifecycles: Vec<Described>,
}

/// The page at `/lifecycles/NAME`.
#[derive(Debug, Clone, Template)]
#[template(path = "lifecycle.html")]
pub struct LifecyclePage {
    /// Its surroundings.
    pub frame: Frame,
    /// The lifecycle.
    pub lifecycle: Described,
}

/// The page at `/api`.
#[derive(Debug, Clone, Template)]
#[template(path = "api.html")]
pub struct ApiPage {
    /// Its surroundings.
    pub frame: Frame,
    /// Scheme, host and port of this desk: `http://desk.localhost:9465`.
    pub origin: String,
}

impl LifecyclesPage {
    fn title(&self) -> &'static str {
        "Lifecycles"
    }

    fn section(&self) -> &'static str {
        "lifecycles"
    }

    fn sentence(&self, lifecycle: &Described) -> String {
        sentence(lifecycle.about)
    }
}

impl LifecyclePage {
    fn title(&self) -> String {
        format!("{}, a lifecycle", self.heading())
    }

    fn section(&self) -> &'static str {
        "lifecycles"
    }

    fn heading(&self) -> String {
        capital(&plain::words(self.lifecycle.name))
    }

    fn sentence(&self) -> String {
        sentence(self.lifecycle.about)
    }

    fn drawing(&self) -> Drawing {
        diagram::draw(&self.lifecycle)
    }
}

impl ApiPage {
    fn title(&self) -> &'static str {
        "API"
    }

    fn section(&self) -> &'static str {
        "api"
    }
}

/// The words with a capital and a full stop.
fn sentence(about: &str) -> String {
    capital(about) + "."
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect()
}
