//! A real Chromium under a test's control: what a person sees, clicks and types, and what the browser did behind it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use devkit::browser::{Browser, Key};
//! let browser = Browser::start().await?; // its own chromedriver, its own empty profile
//! browser.open("http://127.0.0.1:9465/").await?;
//! browser.fill("#reason", "wrong address").await?; // finding waits until the element is there
//! browser.tab_to("Reject").await?; // a keyboard's way: by the name that a screen reader says
//! browser.press(&[Key::Enter]).await?;
//! browser.wait_for(".rejected").await?;
//! assert!(browser.axe().await?.violations.is_empty());
//! assert!(browser.foreign_requests("http://127.0.0.1:9465").await?.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Any number run side by side. Names lead nowhere but to loopback ([`Options::loopback`]), so no test asks the network.
//! However a test ends (a panic, a kill), its browser ends, and its files go: `driver.rs` says how. Scripts that a test runs
//! by [`Browser::run`], axe among them, are not bound by the page's CSP: only what the page itself does says whether its
//! CSP holds ([`Browser::script_ran`], [`Browser::requests`]).

mod axe;
mod driver;
mod emulation;
mod hostile;
mod keyboard;
mod log;
mod page;
mod tabs;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

pub use self::axe::{AXE_VERSION, Finding, Judgement, Rules, axe_source};
pub use self::driver::Processes;
pub use self::hostile::{Hostile, Intent};
pub use self::keyboard::Key;
pub use self::log::{Line, Request};
pub use self::tabs::{Cookie, Tab};

use self::driver::Driver;

const STEP: Duration = Duration::from_millis(25);
/// Window of a desktop's browser, in pixels.
const WINDOW: (u32, u32) = (1280, 900);

/// Programs to start, and names to believe in.
#[derive(Debug, Clone)]
pub struct Options {
    /// The driver; found along the search path unless it has a slash.
    pub driver: PathBuf,
    /// The browser, as an absolute path or a name on the search path.
    pub browser: PathBuf,
    /// Host names that lead to 127.0.0.1, beside `localhost` and what ends in `.localhost`. Any other name and address leads
    /// nowhere: a request for it fails, and is among [`Browser::requests`].
    pub loopback: Vec<String>,
    /// Longest wait for what a page is about to show; long by default, for however busy a machine.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: "chromedriver".into(),
            browser: "chromium".into(),
            loopback: Vec::new(),
            patience: Duration::from_secs(30),
        }
    }
}

impl Options {
    fn capabilities(&self, driver: &Driver) -> Result<Capabilities> {
        let mapped = self.loopback.iter().map(|name| format!("MAP {name} 127.0.0.1, ")).collect::<String>();
        let args = [
            "--headless=new".to_owned(),
            // Root's browser starts only without.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            // Containers have 64 MiB of it.
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--lang=en-US".to_owned(),
            "--force-color-profile=srgb".to_owned(),
            "--hide-scrollbars".to_owned(),
            // A frame of another site, or a sandboxed one, would be a target of its own, whose requests and console lines the
            // driver does not tell.
            "--disable-site-isolation-trials".to_owned(),
            format!("--window-size={},{}", WINDOW.0, WINDOW.1),
            format!("--user-data-dir={}", driver.profile().display()),
            format!(
                "--host-resolver-rules={mapped}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, \
                 EXCLUDE *.localhost"
            ),
        ];
        let wanted = json!({
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {
                "binary": driver::found(&self.browser)?,
                "args": args,
                // Its own start page would load a hundred things first.
                "prefs": {"session.restore_on_startup": 4, "session.startup_urls": ["about:blank"]},
                "perfLoggingPrefs": {"enableNetwork": true, "enablePage": false},
            },
            "timeouts": {"script": 60_000, "pageLoad": 60_000, "implicit": 0},
        });
        Ok(serde_json::from_value(wanted)?)
    }
}

/// A browser with an empty profile, in no language but English. Dropping it ends every process and removes every file of
/// it.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    emulated: Mutex<emulation::Emulated>,
    log: Mutex<log::Log>,
    patience: Duration,
    driver: Driver,
}

impl Browser {
    /// Starts the system's Chromium.
    ///
    /// # Errors
    /// Chromium or its driver is missing, or the two do not fit each other; says what to install.
    pub async fn start() -> Result<Self> {
        Self::start_with(&Options::default()).await
    }

    /// The same with programs or host names of the test's own.
    ///
    /// # Errors
    /// As [`Browser::start`].
    pub async fn start_with(options: &Options) -> Result<Self> {
        let driver = Driver::start(&options.driver).await?;
        let capabilities = options.capabilities(&driver)?;
        let connected = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", driver.port()))
            .await;
        match connected {
            Ok(client) => Ok(Self {
                client,
                emulated: Mutex::default(),
                log: Mutex::default(),
                patience: options.patience,
                driver,
            }),
            Err(refused) => {
                Err(anyhow!(driver.why_not(&options.driver, &options.browser, &refused.to_string())))
            }
        }
    }

    /// Processes of this browser, to be counted also when it is gone.
    #[must_use]
    pub fn processes(&self) -> Processes {
        self.driver.processes()
    }

    /// Ends the session as a person closes a browser; dropping it without is as well, but asks nothing.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn close(self) -> Result<()> {
        self.client.clone().close().await.context("closing the browser")
    }

    /// What a script returns that runs in the page, with `args` as its `arguments`. The page's CSP does not bind it.
    ///
    /// # Errors
    /// The script throws.
    pub async fn run(&self, script: &str, args: Vec<Value>) -> Result<Value> {
        let ran = self.client.execute(script, args).await;
        ran.with_context(|| format!("running a script in the page: {}", first_line(script)))
    }

    /// A command of the DevTools protocol, for the current tab.
    async fn devtools(&self, name: &str, params: Value) -> Result<Value> {
        let body = json!({"cmd": name, "params": params});
        let issued = self.client.issue_cmd(Command::post("goog/cdp/execute", body)).await;
        issued.with_context(|| format!("asking the browser for {name}"))
    }
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(120).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that WebDriver's crate does not know, below the session's address.
#[derive(Debug)]
struct Command {
    path: String,
    body: Option<Value>,
}

impl Command {
    fn get(path: String) -> Self {
        Self { path, body: None }
    }

    fn post(path: &str, body: Value) -> Self {
        Self { path: path.to_owned(), body: Some(body) }
    }
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        match &self.body {
            Some(body) => (http::Method::POST, Some(body.to_string())),
            None => (http::Method::GET, None),
        }
    }
}
