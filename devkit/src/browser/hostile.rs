//! Text that strangers put into a form in the hope that whoever reads it runs it or loads something: each is harmless where
//! text is shown as text, and seen where it is not.

use anyhow::{Context as _, Result};

use super::Browser;

/// What a hostile text wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Its script runs: [`Browser::script_ran`].
    Run,
    /// Something is requested whose address has the marker in it: [`Browser::requests`].
    Load,
    /// The page looks other than it is: an element `#MARKER` is in it.
    Spoof,
}

/// A text of a stranger's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hostile {
    /// What it is, in a few words.
    pub name: &'static str,
    /// What it wants.
    pub intent: Intent,
    /// What the stranger typed.
    pub text: String,
}

impl Hostile {
    /// One of each known kind. The `marker` (letters and digits) tells whose it is; `elsewhere` is an origin that no page
    /// may ask (`http://elsewhere.example`).
    #[must_use]
    pub fn all(marker: &str, elsewhere: &str) -> Vec<Self> {
        // The console of a browser shows refused scripts as well: what it shows of these is not what they would say.
        let run = format!("console.log(['ran','{marker}'].join('-'))");
        let load = format!("{elsewhere}/{marker}");
        let entries = [
            ("script element", Intent::Run, format!("<script>{run}</script>")),
            ("script after a closed title", Intent::Run, format!("</title><script>{run}</script>")),
            ("script after a closed textarea", Intent::Run, format!("</textarea><script>{run}</script>")),
            ("script after a closed script", Intent::Run, format!("</script><script>{run}</script>")),
            ("script after a closed comment", Intent::Run, format!("--><script>{run}</script>")),
            ("handler of a broken image", Intent::Run, format!("<img src=\"data:,\" onerror=\"{run}\">")),
            ("handler of an svg", Intent::Run, format!("<svg onload=\"{run}\"></svg>")),
            ("handler after a quote", Intent::Run, format!("\"><img src=\"data:,\" onerror=\"{run}\">")),
            ("handler after an apostrophe", Intent::Run, format!("'><img src=\"data:,\" onerror=\"{run}\">")),
            (
                "open details",
                Intent::Run,
                format!("<details open ontoggle=\"{run}\"><summary>x</summary></details>"),
            ),
            (
                "frame with a document",
                Intent::Run,
                format!("<iframe srcdoc=\"<script>{run}</script>\"></iframe>"),
            ),
            ("frame of a script", Intent::Run, format!("<iframe src=\"javascript:{run}\"></iframe>")),
            ("image from elsewhere", Intent::Load, format!("<img src=\"{load}/img\">")),
            (
                "stylesheet from elsewhere",
                Intent::Load,
                format!("<link rel=\"stylesheet\" href=\"{load}/css\">"),
            ),
            (
                "background from elsewhere",
                Intent::Load,
                format!("<style>body {{ background-image: url({load}/background) }}</style>"),
            ),
            ("script from elsewhere", Intent::Load, format!("<script src=\"{load}/script\"></script>")),
            ("frame from elsewhere", Intent::Load, format!("<iframe src=\"{load}/frame\"></iframe>")),
            ("object from elsewhere", Intent::Load, format!("<object data=\"{load}/object\"></object>")),
            (
                "video poster from elsewhere",
                Intent::Load,
                format!("<video poster=\"{load}/poster\"></video>"),
            ),
            ("heading of the page", Intent::Spoof, format!("<h1 id=\"{marker}\">Session expired</h1>")),
        ];
        entries.into_iter().map(|(name, intent, text)| Self { name, intent, text }).collect()
    }
}

impl Browser {
    /// Whether a script of a [`Hostile`] text with this marker ran, in whichever tab or frame.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn script_ran(&self, marker: &str) -> Result<bool> {
        self.settle().await?;
        let said = format!("ran-{marker}");
        Ok(self.console().await?.iter().any(|line| line.text.contains(&said)))
    }

    /// Waits until what the page had begun has had its turn: handlers come a moment after the load that they are about.
    async fn settle(&self) -> Result<()> {
        if self.is_without_script() {
            return Ok(());
        }
        let turn = "const [done] = arguments; setTimeout(() => setTimeout(done, 0), 0);";
        self.client.execute_async(turn, Vec::new()).await.context("waiting for the page's turn").map(drop)
    }

    /// Addresses that a [`Hostile`] text with this marker made the browser ask for; what a rule kept it from asking is not
    /// among them.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn loaded(&self, marker: &str) -> Result<Vec<String>> {
        self.settle().await?;
        let mut requests = self.requests().await?;
        requests.retain(|request| request.blocked.is_none() && is_about(&request.url, marker));
        Ok(requests.into_iter().map(|request| request.url).collect())
    }
}

/// The marker as a part of the path: it also stands in the query of a page that was asked to show a hostile text.
fn is_about(url: &str, marker: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| url.path().split('/').any(|part| part == marker))
}
