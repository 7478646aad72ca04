//! What a page is shown on and to whom: a dark or a narrow screen, a browser without JavaScript, paper. Each holds for every
//! tab until it is taken back; what it changes in a page that is open already is seen after the next [`Browser::open`].

use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fantoccini::wd::PrintConfigurationBuilder;
use serde_json::json;

use super::{Browser, WINDOW, locked};

/// What differs from a desktop's browser.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Emulated {
    dark: bool,
    width: Option<u32>,
    without_script: bool,
}

impl Browser {
    /// Whether the reader prefers a dark ground; light is preferred until then.
    ///
    /// # Errors
    /// The browser refuses.
    pub async fn dark(&self, dark: bool) -> Result<()> {
        locked(&self.emulated).dark = dark;
        self.emulate().await
    }

    /// Makes the screen this wide, in CSS pixels.
    ///
    /// # Errors
    /// The browser refuses.
    pub async fn width(&self, pixels: u32) -> Result<()> {
        locked(&self.emulated).width = Some(pixels);
        self.emulate().await
    }

    /// Whether the page's own JavaScript is off, in every frame. What the test runs itself ([`Browser::run`]) still runs.
    ///
    /// # Errors
    /// The browser refuses.
    pub async fn without_script(&self, off: bool) -> Result<()> {
        locked(&self.emulated).without_script = off;
        self.emulate().await
    }

    pub(super) fn is_without_script(&self) -> bool {
        locked(&self.emulated).without_script
    }

    /// Says all of it to the current tab: a new one knows nothing yet.
    pub(super) async fn emulate(&self) -> Result<()> {
        let Emulated { dark, width, without_script } = *locked(&self.emulated);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"media": "", "features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media).await?;
        if let Some(width) = width {
            let screen = json!({"width": width, "height": WINDOW.1, "deviceScaleFactor": 1, "mobile": false});
            self.devtools("Emulation.setDeviceMetricsOverride", screen).await?;
        }
        self.set_script_off(without_script).await
    }

    pub(super) async fn set_script_off(&self, off: bool) -> Result<()> {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": off})).await.map(drop)
    }

    /// Writes a PNG of the whole page, below the window's edge as well.
    ///
    /// # Errors
    /// The page cannot be drawn, or the file not be written.
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        let metrics = self.devtools("Page.getLayoutMetrics", json!({})).await?;
        let size = metrics.get("cssContentSize").context("the page's size")?;
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let drawn = self.devtools("Page.captureScreenshot", wanted).await?;
        let png = STANDARD.decode(drawn["data"].as_str().context("a picture")?)?;
        std::fs::write(path, png).with_context(|| format!("writing {}", path.display()))
    }

    /// The page on paper (A4, with its backgrounds), as PDF.
    ///
    /// # Errors
    /// The page cannot be printed.
    pub async fn pdf(&self) -> Result<Vec<u8>> {
        let paper = PrintConfigurationBuilder::default().background(true).build();
        let paper = paper.map_err(|refused| anyhow::anyhow!("paper: {refused:?}"))?;
        self.client.print(paper).await.context("printing the page")
    }
}
