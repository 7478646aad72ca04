//! Before login, after logout, and what is shown when something is not possible. Pure.

use askama::Template;
use jiff::Timestamp;

use super::frame::Frame;
use super::{assets, plain, when};

/// The page of a login link: one button spends it. A preview of the link in a chat spends nothing.
#[derive(Debug, Clone, Template)]
#[template(path = "link.html")]
pub struct LinkPage {
    /// The clock's time: nobody is asked before the button.
    pub now: Timestamp,
    /// The link's own path, which the form posts to.
    pub action: String,
    /// The page that is wanted afterwards.
    pub to: String,
}

/// How to get a link; answers 401 to a browser.
#[derive(Debug, Clone, Template)]
#[template(path = "how_to.html")]
pub struct HowToPage {
    /// Database time; where the database is away, the clock's.
    pub now: Timestamp,
    /// The host's name, where the link is made.
    pub host: String,
    /// What happened before: a spent link, an ended session.
    pub because: Option<String>,
    /// Whether people log in through a proxy (`auth = "assertion"`), where a link is of no use.
    pub behind_proxy: bool,
}

/// After logout.
#[derive(Debug, Clone, Template)]
#[template(path = "logged_out.html")]
pub struct LoggedOutPage {
    /// Database time.
    pub now: Timestamp,
}

/// What could not be shown or done.
#[derive(Debug, Clone, Template)]
#[template(path = "problem.html")]
pub struct ProblemPage {
    /// Its surroundings; without a reader where nobody is known.
    pub frame: Frame,
    /// The answer's status.
    pub status: u16,
    /// What happened, in plain words; the page's heading.
    pub title: String,
    /// To what, and why.
    pub detail: String,
    /// What to do, a step each.
    pub steps: Vec<String>,
    /// A path of this desk to try again at.
    pub again: Option<String>,
    /// What was typed and not accepted, as a form that sends it again.
    pub unsent: Option<Unsent>,
}

/// A form that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// Where it is sent to.
    pub action: String,
    /// Fields that people typed: name and value; shown.
    pub typed: Vec<(String, String)>,
    /// The other fields, its idempotency key among them.
    pub hidden: Vec<(String, String)>,
}

impl LinkPage {
    fn title(&self) -> &'static str {
        "Log in"
    }

    fn forgets(&self) -> bool {
        false
    }
}

impl HowToPage {
    fn title(&self) -> &'static str {
        "Not logged in"
    }

    fn forgets(&self) -> bool {
        false
    }
}

impl LoggedOutPage {
    fn title(&self) -> &'static str {
        "Logged out"
    }

    /// Whether the browser forgets what was typed.
    fn forgets(&self) -> bool {
        true
    }
}

impl ProblemPage {
    fn title(&self) -> String {
        format!("Problem {}", self.status)
    }

    fn section(&self) -> &'static str {
        ""
    }
}
