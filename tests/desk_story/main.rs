//! The desk's whole story in a real Chromium before the real daemon: what fails has its entry, somebody takes it, the cause is
//! mended, a remedy sends the mail, and evidence resolves the entry. By mouse, by keyboard alone, and without JavaScript; and
//! a second tab that comes too late.
//!
//! Needs Chromium and its driver (`scripts/install-missing browser`).

mod grading;

use std::path::Path;
use std::time::Duration;

use devkit::browser::{Browser, Key};
use devkit::forms::{Form, SubmissionSeed};
use devkit::port::free_port;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Router, Source, Stage, StageOptions};
use tokio_postgres::Client;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A daemon with a desk, a form whose only recipient is refused, and a browser.
struct Scene {
    browser: Browser,
    router: Router,
    stage: Stage,
    eyes: Client,
    origin: String,
}

impl Scene {
    async fn start() -> Self {
        let stage = Stage::start(StageOptions { sample_forms: false, ..StageOptions::of(Source::Postgres) });
        let stage = stage.await.expect("a stage");
        let wrong = Form { name: "Contact".to_owned(), ..Form::new("contact").mail_to("wrong@x.test") };
        devkit::forms::load_into(&stage.database, &[wrong]).await.expect("a form");
        stage.relay.rule(Rule::at(At::Rcpt).to("wrong@x.test").reply("550 5.1.1 no such user"));
        let (port, secret) = (free_port().expect("a port"), stage.dir().join("desk-secret"));
        std::fs::write(&secret, format!("{}\n", "ab".repeat(32))).expect("a secret");
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("closed");
        let origin = format!("http://desk.localhost:{port}");
        let extra = format!(
            "[desk]\nlisten = \"127.0.0.1:{port}\"\norigin = \"{origin}\"\nsecret_file = \"{}\"\n\
             [desk.users.anna]\nemail = \"anna@x.test\"\nrole = \"reviewer\"\n\
             [desk.users.ben]\nemail = \"ben@x.test\"\nrole = \"reviewer\"\n",
            secret.display()
        );
        let mut router = stage.router(binary(), "router", &extra).await.expect("a router");
        router.ready().await.expect("ready");
        let eyes = stage.database.superuser().await.expect("superuser");
        let browser = Browser::start().await.expect("a browser; scripts/install-missing browser");
        Self { browser, router, stage, eyes, origin }
    }

    /// Submits, and returns the entry once the failure has opened it.
    async fn failed(&self) -> Uuid {
        let backend = self.stage.database.client_as("forms_app").await.expect("forms_app");
        let seeded = SubmissionSeed::of("contact").insert(&backend).await.expect("submitted");
        let sql = "SELECT id FROM router.grey_queue WHERE subject_id = $1";
        let opened = async {
            loop {
                if let Some(row) = self.eyes.query_opt(sql, &[&seeded.id]).await.expect("asked") {
                    return row.get::<_, Uuid>(0);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, opened).await.expect("an entry")
    }

    /// The form's owner corrects the address.
    async fn mend(&self) {
        let right = Form { name: "Contact".to_owned(), ..Form::new("contact").mail_to("right@x.test") };
        devkit::forms::load_into(&self.stage.database, &[right]).await.expect("mended");
    }

    async fn link(&self, name: &str) -> String {
        let answer =
            self.stage.ask(binary(), self.router.config(), &["desk", "login", name]).await.expect("a link");
        assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
        let link =
            answer.out.split_whitespace().find(|word| word.starts_with(&self.origin)).map(str::to_owned);
        link.unwrap_or_else(|| panic!("no link: {}", answer.out))
    }

    async fn state(&self, entry: Uuid) -> String {
        let sql = "SELECT state FROM router.grey_queue WHERE id = $1";
        self.eyes.query_one(sql, &[&entry]).await.expect("asked").get(0)
    }

    /// Waits until the entry is in `state`.
    async fn becomes(&self, entry: Uuid, state: &str) {
        let becoming = async {
            while self.state(entry).await != state {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, becoming).await;
        assert!(in_time.is_ok(), "{} instead of {state}\n{}", self.state(entry).await, self.router.log());
    }

    /// What is left to be seen when the story is over.
    async fn is_told(&self, entry: Uuid) {
        self.becomes(entry, "Resolved").await;
        let mails = self.stage.relay.mails();
        let right: Vec<_> = mails
            .iter()
            .filter(|mail| mail.recipients.iter().any(|to| to.contains("right@x.test")))
            .collect();
        assert_eq!(right.len(), 1, "one mail, to the corrected address");
        let sql = "SELECT string_agg(command, ' ' ORDER BY version) FROM router.grey_queue_state_transitions WHERE entry_id = $1";
        let history: String = self.eyes.query_one(sql, &[&entry]).await.expect("asked").get(0);
        assert_eq!(history, "open assign unassign start succeed");
        let foreign = self.browser.foreign_requests(&self.origin).await.expect("the log");
        assert!(foreign.is_empty(), "{foreign:?}");
    }
}

/// Clicks through everything; a second tab that saw the entry before it was assigned is told so, and keeps what was typed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_mouse_and_a_second_tab_is_told_what_happened() {
    let scene = Scene::start().await;
    let (entry, browser) = (scene.failed().await, &scene.browser);
    browser.open(&scene.link("anna").await).await.expect("the link's page");
    browser.click("form[action] button[type=submit]").await.expect("logged in");
    browser.wait_for("#rows").await.expect("the queue");
    browser.click(&format!("#open-{entry}")).await.expect("the entry");
    browser.wait_for("#assign-me").await.expect("what can be done");
    let first = browser.tab().await.expect("this tab");
    let second = browser.new_tab().await.expect("another tab");
    browser.switch_tab(&second).await.expect("there");
    browser.open(&format!("{}/entries/{entry}", scene.origin)).await.expect("the same entry");
    browser.wait_for("#dismiss").await.expect("what can be done");
    browser.switch_tab(&first).await.expect("back");
    browser.click("#assign-me button").await.expect("taken");
    browser.wait_for("#unassign").await.expect("it is anna's");
    assert_eq!(scene.state(entry).await, "UnderReview");
    browser.switch_tab(&second).await.expect("the stale tab");
    browser
        .run("document.querySelector('#dismiss').closest('details').open = true", Vec::new())
        .await
        .expect("opened");
    browser.fill("#dismiss-reason", "nobody needs it").await.expect("typed");
    browser.click("#dismiss button").await.expect("sent");
    browser.wait_for("#conflict").await.expect("somebody was first");
    let page = browser.text("main").await.expect("the page");
    assert!(
        page.contains("assign") && page.contains("nobody needs it"),
        "who, what, and what was typed: {page}"
    );
    assert_eq!(scene.state(entry).await, "UnderReview", "nothing of it was done");
    browser.switch_tab(&first).await.expect("back");
    scene.mend().await;
    browser
        .run("document.querySelector('#resolve').closest('details').open = true", Vec::new())
        .await
        .expect("opened");
    browser.click("#resolve input[value=replan]").await.expect("chosen");
    browser.fill("#resolve-reason", "the address is corrected").await.expect("typed");
    browser.click("#resolve button").await.expect("sent");
    browser.wait_for(".flash").await.expect("it is under way");
    scene.is_told(entry).await;
    browser.open(&format!("{}/entries/{entry}", scene.origin)).await.expect("the entry");
    browser.wait_for_text(".standing", "Resolved").await.expect("the page says so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_keyboard_alone() {
    let scene = Scene::start().await;
    let (entry, browser) = (scene.failed().await, &scene.browser);
    browser.open(&scene.link("anna").await).await.expect("the link's page");
    browser.press(&[Key::Enter]).await.expect("the button has the focus");
    browser.wait_for("#rows").await.expect("the queue");
    browser.tab_to("Mail was refused for good").await.expect("the entry's link");
    browser.press(&[Key::Enter]).await.expect("followed");
    browser.wait_for("#assign-me").await.expect("what can be done");
    browser.tab_to("Assign to me").await.expect("the button");
    browser.press(&[Key::Enter]).await.expect("pressed");
    browser.wait_for("#unassign").await.expect("it is anna's");
    scene.mend().await;
    browser.tab_to("Resolve").await.expect("its summary");
    browser.press(&[Key::Enter]).await.expect("opened");
    browser.press(&[Key::Tab]).await.expect("to the choices");
    let chosen = "document.activeElement.name === 'remedy' && document.activeElement.value === 'replan'";
    for _ in 0..10 {
        if browser.run(&format!("return {chosen}"), Vec::new()).await.expect("asked") == true {
            break;
        }
        browser.press(&[Key::Down]).await.expect("the next choice");
    }
    browser.press(&[Key::Space, Key::Tab]).await.expect("chosen");
    browser.type_text("the address is corrected").await.expect("typed");
    browser.press(&[Key::Tab, Key::Enter]).await.expect("sent");
    browser.wait_for(".flash").await.expect("it is under way");
    scene.is_told(entry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_javascript() {
    let scene = Scene::start().await;
    let (entry, browser) = (scene.failed().await, &scene.browser);
    browser.without_script(true).await.expect("switched off");
    browser.open(&scene.link("anna").await).await.expect("the link's page");
    browser.click("form[action] button[type=submit]").await.expect("logged in");
    browser.wait_for("#rows").await.expect("the queue");
    browser.click(&format!("#open-{entry}")).await.expect("the entry");
    browser.click("#assign-me button").await.expect("taken");
    browser.wait_for("#unassign").await.expect("it is anna's");
    scene.mend().await;
    browser.click("details:has(#resolve) > summary").await.expect("opened");
    browser.click("#resolve input[value=replan]").await.expect("chosen");
    browser.fill("#resolve-reason", "the address is corrected").await.expect("typed");
    browser.click("#resolve button").await.expect("sent");
    browser.wait_for(".flash").await.expect("it is under way");
    scene.is_told(entry).await;
}

/// The judge looks at the pages as they are served, with what is really in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_nothing_on_any_page() {
    let scene = Scene::start().await;
    let (entry, browser) = (scene.failed().await, &scene.browser);
    let subject: Uuid = scene
        .eyes
        .query_one("SELECT subject_id FROM router.grey_queue WHERE id = $1", &[&entry])
        .await
        .expect("asked")
        .get(0);
    browser.open(&scene.link("anna").await).await.expect("the link's page");
    let mut pages = vec![String::new()];
    let judged = browser.axe().await.expect("judged");
    assert!(judged.violations.is_empty(), "the link's page: {:?}", judged.violations);
    browser.click("form[action] button[type=submit]").await.expect("logged in");
    browser.wait_for("#rows").await.expect("the queue");
    pages.extend(
        [
            "/queue",
            "/queue?state=all",
            "/submissions",
            "/status",
            "/lifecycles",
            "/lifecycles/grey_queue",
            "/api",
            "/nowhere",
        ]
        .map(str::to_owned),
    );
    pages.extend([format!("/entries/{entry}"), format!("/submissions/{subject}")]);
    for path in pages {
        browser.open(&format!("{}{path}", scene.origin)).await.expect("a page");
        for (dark, width) in [(false, 1280), (true, 320)] {
            browser.dark(dark).await.expect("a scheme");
            browser.width(width).await.expect("a width");
            let judged = browser.axe().await.expect("judged");
            assert!(
                judged.violations.is_empty(),
                "{path}, dark: {dark}, {width} wide: {:?}",
                judged.violations
            );
        }
    }
    let console = browser.console().await.expect("the console");
    assert!(console.iter().all(|line| line.text.contains("404")), "{console:?}");
}
