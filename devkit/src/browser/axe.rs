//! A judge of accessibility: axe-core, as it lies in `tests/axe`, run in the page. It finds about half of what can be wrong,
//! and nothing that it finds is right.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Browser;

/// Version of axe-core in `tests/axe`.
pub const AXE_VERSION: &str = "4.14.1";

const AXE: &str = include_str!("../../../tests/axe/axe.min.js");
/// WCAG 2.2, levels A and AA, by axe's names.
const WCAG: [&str; 5] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/// Runs after axe: the argument is its options, and the driver waits for the last argument to be called.
const RUN: &str = "
const [options, done] = arguments;
const shown = found => found.map(one => ({
    rule: one.id, impact: one.impact, help: one.help, nodes: one.nodes.map(node => node.html),
}));
axe.run(document, options).then(
    told => done({
        version: axe.version, passed: told.passes.map(one => one.id),
        violations: shown(told.violations), incomplete: shown(told.incomplete),
    }),
    error => done(String(error)));
";

/// What a page is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// WCAG 2.2, levels A and AA.
    Wcag22Aa,
    /// The same and good practice.
    All,
}

impl Rules {
    fn options(self) -> Value {
        // WCAG 2.2's rule stays off unless it is named.
        let rules = json!({"target-size": {"enabled": true}});
        match self {
            Self::Wcag22Aa => json!({"runOnly": {"type": "tag", "values": WCAG}, "rules": rules}),
            Self::All => json!({"rules": rules}),
        }
    }
}

/// A rule that a page breaks, or may break.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// Its id, as `color-contrast`.
    pub rule: String,
    /// `minor`, `moderate`, `serious` or `critical`; nothing where axe cannot say.
    pub impact: Option<String>,
    /// The rule in a sentence.
    pub help: String,
    /// HTML of the elements that it is about.
    pub nodes: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.rule, self.help, self.nodes.join(" · "))
    }
}

/// What axe says of a page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Judgement {
    version: String,
    /// Rules that were looked at and are kept: none would mean that nothing was judged.
    pub passed: Vec<String>,
    /// Rules that are broken.
    pub violations: Vec<Finding>,
    /// Rules that a person has to judge.
    pub incomplete: Vec<Finding>,
}

impl Browser {
    /// Judges the page by WCAG 2.2 AA.
    ///
    /// # Errors
    /// axe cannot run there.
    pub async fn axe(&self) -> Result<Judgement> {
        self.axe_by(Rules::Wcag22Aa).await
    }

    /// Judges the page by other rules. Where the page's scripts are off ([`Browser::without_script`]), they stay off: what
    /// is judged is the page as it was loaded.
    ///
    /// # Errors
    /// axe cannot run there.
    pub async fn axe_by(&self, rules: Rules) -> Result<Judgement> {
        let without_script = self.is_without_script();
        if without_script {
            self.set_script_off(false).await?;
        }
        let told = self.client.execute_async(&format!("{AXE}\n;{RUN}"), vec![rules.options()]).await;
        if without_script {
            self.set_script_off(true).await?;
        }
        let told = told.context("running axe in the page")?;
        if let Some(error) = told.as_str() {
            bail!("axe failed: {error}. {}", self.page().await);
        }
        let judgement: Judgement = serde_json::from_value(told).context("what axe says")?;
        if judgement.version != AXE_VERSION || judgement.passed.is_empty() {
            bail!("axe {} judged nothing, or is not {AXE_VERSION}: {judgement:?}", judgement.version);
        }
        Ok(judgement)
    }
}

/// axe-core, as it lies in `tests/axe`.
#[must_use]
pub fn axe_source() -> &'static str {
    AXE
}
