//! A page as a person uses it. Whatever names an element waits until it is there; an error shows what was there instead.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use fantoccini::Locator;
use fantoccini::elements::Element;
use serde_json::json;

use super::{Browser, STEP};
use crate::waiting;

/// Longest part of a page's text in an error, in characters.
const EXCERPT: usize = 800;

impl Browser {
    /// Goes to an address and waits until the page is loaded.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.client.goto(url).await.with_context(|| format!("opening {url}"))
    }

    /// Where the browser is.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn url(&self) -> Result<String> {
        Ok(self.client.current_url().await?.into())
    }

    /// The page's title.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn title(&self) -> Result<String> {
        Ok(self.client.title().await?)
    }

    /// Address, title and text of the page, for the message of a failed test.
    pub async fn page(&self) -> String {
        let url = self.url().await.unwrap_or_default();
        let title = self.title().await.unwrap_or_default();
        let body = self.client.find(Locator::Css("body")).await;
        let text = match body {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        let text = text.chars().take(EXCERPT).collect::<String>();
        format!("The page is {url}, titled {title:?}, and says: {text:?}")
    }

    /// The text of an element as it is shown: what CSS hides is not in it.
    ///
    /// # Errors
    /// There is none in time.
    pub async fn text(&self, css: &str) -> Result<String> {
        self.find(css).await?.text().await.with_context(|| format!("reading {css}"))
    }

    /// The same of each such element now; none is no error.
    ///
    /// # Errors
    /// No such selector.
    pub async fn texts(&self, css: &str) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for element in self.client.find_all(Locator::Css(css)).await? {
            texts.push(element.text().await.with_context(|| format!("reading {css}"))?);
        }
        Ok(texts)
    }

    /// How many such elements are there now.
    ///
    /// # Errors
    /// No such selector.
    pub async fn count(&self, css: &str) -> Result<usize> {
        Ok(self.client.find_all(Locator::Css(css)).await?.len())
    }

    /// An attribute of an element.
    ///
    /// # Errors
    /// There is no such element in time.
    pub async fn attribute(&self, css: &str, name: &str) -> Result<Option<String>> {
        self.find(css).await?.attr(name).await.with_context(|| format!("reading {name} of {css}"))
    }

    /// What a field has in it now.
    ///
    /// # Errors
    /// There is no such field in time.
    pub async fn value(&self, css: &str) -> Result<String> {
        let value = self.find(css).await?.prop("value").await;
        Ok(value.with_context(|| format!("reading the field {css}"))?.unwrap_or_default())
    }

    /// Clicks an element where a mouse can: what covers it takes the click, and that is an error.
    ///
    /// # Errors
    /// There is none in time, or it cannot be clicked.
    pub async fn click(&self, css: &str) -> Result<()> {
        match self.find(css).await?.click().await {
            Ok(()) => Ok(()),
            Err(error) => Err(anyhow!("clicking {css}: {error}. {}", self.page().await)),
        }
    }

    /// Replaces what is in a field.
    ///
    /// # Errors
    /// There is no such field in time, or it takes no text.
    pub async fn fill(&self, css: &str, text: &str) -> Result<()> {
        let field = self.find(css).await?;
        field.clear().await.with_context(|| format!("clearing {css}"))?;
        // WebDriver has keys for the letters of its own private area, and none beyond the first plane.
        if text.chars().all(|letter| letter < '\u{e000}' && !letter.is_control()) {
            return field.send_keys(text).await.with_context(|| format!("filling {css}"));
        }
        self.client.execute("arguments[0].focus()", vec![serde_json::to_value(&field)?]).await?;
        self.devtools("Input.insertText", json!({"text": text})).await.map(drop)
    }

    /// Chooses from a list by the label that a person reads.
    ///
    /// # Errors
    /// There is no such list in time, or it has no such label.
    pub async fn choose(&self, css: &str, label: &str) -> Result<()> {
        let chosen = self.find(css).await?.select_by_label(label).await;
        chosen.with_context(|| format!("choosing {label:?} in {css}"))
    }

    /// Gives a field for files one of them, as the system's own dialog does, which no driver can reach.
    ///
    /// # Errors
    /// There is no such field in time, or no such file.
    pub async fn choose_file(&self, css: &str, file: &Path) -> Result<()> {
        let named = file.to_str().context("the file's name")?;
        let field = self.find(css).await?;
        field.send_keys(named).await.with_context(|| format!("choosing {named} in {css}"))
    }

    /// Loads the page anew, as a person does who presses F5; what the page would ask before is answered with yes.
    ///
    /// # Errors
    /// Nobody answers any more.
    pub async fn reload(&self) -> Result<()> {
        self.client.refresh().await.context("loading the page anew")
    }

    /// Waits until there is such an element.
    ///
    /// # Errors
    /// There is none in time; says what the page is instead.
    pub async fn wait_for(&self, css: &str) -> Result<()> {
        self.find(css).await.map(drop)
    }

    /// Waits until it is so; `what` says what, for the error. An error of the look itself (a page that changes meanwhile)
    /// counts as not yet.
    ///
    /// # Errors
    /// It is not so in time; says what the page is instead, and the last error.
    pub async fn wait_until(&self, what: &str, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let mut last = None;
        let seen = waiting::find(self.patience, STEP, async || match so().await {
            Ok(true) => Some(()),
            Ok(false) => None,
            Err(error) => {
                last = Some(error);
                None
            }
        });
        if seen.await.is_some() {
            return Ok(());
        }
        let last = last.map(|error| format!(" (last error: {error:#})")).unwrap_or_default();
        bail!("not within {:?}: {what}{last}. {}", self.patience, self.page().await)
    }

    /// Waits until this text is shown in the first such element.
    ///
    /// # Errors
    /// It is not there in time; says what the page is instead.
    pub async fn wait_for_text(&self, css: &str, text: &str) -> Result<()> {
        let what = format!("{text:?} in {css}");
        self.wait_until(&what, async || Ok(self.texts(css).await?.iter().any(|shown| shown.contains(text))))
            .await
    }

    async fn find(&self, css: &str) -> Result<Element> {
        match self.client.wait().at_most(self.patience).every(STEP).for_element(Locator::Css(css)).await {
            Ok(element) => Ok(element),
            Err(error) => Err(anyhow!("there is no {css}: {error}. {}", self.page().await)),
        }
    }
}
