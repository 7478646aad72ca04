//! A person with a file and a browser, and the page before them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devkit::browser::{Browser, Rules};
use devkit::google::{Bucket, Cors};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::DropGuard;

use crate::harness::{STAGING, Scene, Session};

pub(crate) struct Person {
    pub(crate) scene: Scene,
    pub(crate) browser: Browser,
    dir: TempDir,
    _committing: DropGuard,
}

impl Person {
    /// A browser before a scene whose store lets in pages of the API's origin, and no others.
    pub(crate) async fn new() -> Self {
        let scene = Scene::new().await;
        let cors = vec![Cors::uploads_from(&scene.base)];
        scene
            .google
            .declare_bucket(STAGING, Bucket { soft_delete: Duration::ZERO, cors, ..Bucket::default() });
        let browser = Browser::start().await.expect("a browser; scripts/install-missing browser");
        let committing = scene.committing();
        let dir = tempfile::tempdir().expect("a directory");
        Self { scene, browser, dir, _committing: committing }
    }

    /// A file on the person's disk.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Opens the page of a new session for this content.
    pub(crate) async fn invited(&self, content: &[u8], more: Value) -> Session {
        let session = self.scene.session(content, more).await;
        self.open(&session.token).await;
        self.sees("#what", "notes.txt").await;
        session
    }

    pub(crate) async fn open(&self, token: &str) {
        // A page that is there already would only be told of another fragment.
        self.browser.open("about:blank").await.expect("an empty page");
        self.browser.open(&format!("{}/u#{token}", self.scene.base)).await.expect("the page");
    }

    pub(crate) async fn chooses(&self, file: &Path) {
        self.browser.choose_file("#file", file).await.expect("chosen");
    }

    pub(crate) async fn sees(&self, css: &str, words: &str) {
        self.browser.wait_for_text(css, words).await.expect(words);
    }

    /// The state of a session, and the parts that have arrived.
    pub(crate) async fn state(&self, session: &Session) -> (String, Value) {
        let shown = self.scene.of(session, reqwest::Method::GET, "", None).await.body;
        (shown["state"].as_str().unwrap_or_default().to_owned(), shown["received"].clone())
    }

    /// Waits until the store has these parts.
    pub(crate) async fn has_arrived(&self, session: &Session, parts: Value) {
        let arriving = async {
            while self.state(session).await.1 != parts {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::harness::PATIENCE, arriving).await.expect("they arrive");
    }

    /// Axe looks at what is shown, on a light desktop's screen and on a dark phone's; pictures are kept where somebody wants them.
    pub(crate) async fn is_accessible(&self, name: &str) {
        for (dark, width, kind) in
            [(false, 1280, "light"), (true, 1280, "dark"), (false, 375, "phone"), (true, 320, "small")]
        {
            self.browser.dark(dark).await.expect("a scheme");
            self.browser.width(width).await.expect("a width");
            let judged = self.browser.axe_by(Rules::All).await.expect("judged");
            assert!(judged.violations.is_empty(), "{name}, {kind}: {:?}", judged.violations);
            let wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(
                self.browser.run(wide, Vec::new()).await.expect("asked"),
                json!(false),
                "{name}, {kind}: it is too wide"
            );
            if let Some(dir) = std::env::var_os("PICTURES") {
                let path = Path::new(&dir).join(format!("{name}-{kind}.png"));
                self.browser.screenshot(&path).await.expect("a picture");
            }
        }
        self.browser.dark(false).await.expect("a scheme");
        self.browser.width(1280).await.expect("a width");
    }

    /// Nothing was asked but the API and the store, and nothing that the page needs was kept from it. `told` are words of lines that the
    /// console may have.
    pub(crate) async fn kept_to_itself(&self, told: &[&str]) {
        let store = self.scene.google.storage_endpoint();
        let requests = self.browser.requests().await.expect("the log");
        let foreign = requests
            .iter()
            .filter(|request| request.is_foreign_to(&self.scene.base) && request.is_foreign_to(&store));
        assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&devkit::browser::Request>::new());
        let blocked: Vec<_> = requests.iter().filter(|request| request.blocked.is_some()).collect();
        assert!(blocked.is_empty(), "{blocked:?}");
        // The token is in the fragment alone.
        assert!(
            requests.iter().all(|request| !request
                .url
                .split('#')
                .next()
                .unwrap_or_default()
                .contains("mrup_")),
            "{requests:?}"
        );
        let console = self.browser.console().await.expect("the console");
        let odd: Vec<_> =
            console.iter().filter(|line| !told.iter().any(|words| line.text.contains(words))).collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}
