//! Several tabs of one browser, and the cookies that they share.

use anyhow::{Context as _, Result};
use fantoccini::wd::WindowHandle;
use serde::Deserialize;

use super::{Browser, Command};

/// A tab of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab(WindowHandle);

/// A cookie that the browser would send to the page's address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Name, with its prefix (`__Host-`).
    pub name: String,
    /// Content.
    pub value: String,
    /// Host it belongs to; a dot in front where it goes to the hosts below as well.
    pub domain: String,
    /// Path it is sent to.
    pub path: String,
    /// Hidden from scripts.
    #[serde(default)]
    pub http_only: bool,
    /// Sent only to an origin that is trustworthy: TLS or loopback.
    #[serde(default)]
    pub secure: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: Option<String>,
    /// Seconds since 1970 at which it ends; with the session, where there is none.
    pub expiry: Option<u64>,
}

impl Browser {
    /// Tab in which everything happens now.
    ///
    /// # Errors
    /// It is closed.
    pub async fn tab(&self) -> Result<Tab> {
        Ok(Tab(self.client.window().await.context("asking for the tab")?))
    }

    /// Opens a tab and goes on there.
    ///
    /// # Errors
    /// The browser refuses.
    pub async fn new_tab(&self) -> Result<Tab> {
        let opened = self.client.new_window(true).await.context("opening a tab")?;
        let tab = Tab(opened.handle);
        self.switch_tab(&tab).await?;
        Ok(tab)
    }

    /// Goes on in another tab.
    ///
    /// # Errors
    /// It is closed.
    pub async fn switch_tab(&self, tab: &Tab) -> Result<()> {
        self.client.switch_to_window(tab.0.clone()).await.context("switching to another tab")?;
        self.emulate().await
    }

    /// Cookies for the page's address, hidden ones as well.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn cookies(&self) -> Result<Vec<Cookie>> {
        let told =
            self.client.issue_cmd(Command::get("cookie".to_owned())).await.context("reading cookies")?;
        serde_json::from_value(told).context("what the driver tells of a cookie")
    }

    /// Forgets all cookies of the page's address.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn forget_cookies(&self) -> Result<()> {
        self.client.delete_all_cookies().await.context("forgetting cookies")
    }
}
