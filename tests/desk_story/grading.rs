//! A grade that a person has the last word on, in a real Chromium before the real daemon and the real grader: three samples differ, sure to 72 of
//! 100, an instructor logs in, sees question, rubric, work and the grader's result, and gives a grade; the mail that waited goes with the final
//! one. A second tab that shows the page of before is told who was first, and the learner sees no score until then.
//!
//! The grader's models are scripted: what is shown is how their answers are dealt with. `PICTURES=DIR` keeps what was seen.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use devkit::browser::Browser;
use devkit::forms::{Form, SubmissionSeed};
use devkit::grader::{MODELS, ScriptedGrader};
use devkit::port::free_port;
use devkit::postgres::Variant;
use devkit::stage::{Router, Source, Stage, StageOptions};
use maple_router::grading::core::skill::Skill;
use maple_router::grading::grader::texts::version;
use reqwest::Method;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{PATIENCE, binary};

/// What is asked.
const PROMPT: &str = "Should a town have more museums? Discuss, with examples of your own.";
/// What somebody wrote: two paragraphs where an essay has three, too few words, and samples that differ by three points.
const WORK: &str = "\
Many people say that cities should have more parks. I grew up in a small town where children could play outside every afternoon, and I still \
remember how green the hills were. When my family moved to the capital, we missed the trees and the quiet evenings. In my opinion, a mayor who \
plants a garden does more for his neighbours than one who builds another road. My younger sister had asthma for years, and her doctor told us \
that she should walk among trees as often as possible.

After a new park was opened near our flat, she slept better and missed fewer lessons. A green place brings strangers together as well. On \
Sundays you can see old men who play chess, students who read, and parents who watch their babies. Nobody has to pay, and nobody asks where you \
are from. Shade is cheaper than machines. Trade is important, but so are health and quiet for everybody. [[score 6]] [[confidence low]]";
const CRITERIA: [&str; 4] =
    ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"];
/// The mail says the grade.
const FORM: &str = r#"
id: essay
name: Essay
templates:
  - id: essay-mail
    subject: "{% if grading %}graded {{ grading.overallScore }} {{ grading.band }}{% else %}not graded{% endif %}"
    body_text: "{% if grading %}{% for one in grading.criteriaScores %}{{ one.feedback }} {% endfor %}{% endif %}"
    body_html: ""
actions:
  - {type: email_template, template: essay-mail, destination: learner@x.test}
"#;

/// A daemon with a desk, a grader beside it, an instructor and a browser.
struct Exam {
    browser: Browser,
    router: Router,
    _grader: Child,
    _scripted: ScriptedGrader,
    stage: Stage,
    eyes: Client,
    origin: String,
    port: u16,
}

impl Exam {
    async fn start() -> Self {
        let variant = Variant { router: true, grading: true, audit_readable: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::of(Source::Postgres) };
        let stage = Stage::start(options).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::from_yaml(FORM).expect("a form")])
            .await
            .expect("a form");
        let eyes = stage.database.superuser().await.expect("superuser");
        let set = format!(
            "INSERT INTO assessment.questions (id, skill, prompt, rubric, set_by) VALUES ('museums', 'writing', '{PROMPT}', '3', 'test');
             INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, gate, sla, since, set_by) VALUES
               ('essay', 'writing', 'museums', 'answer', 'essay', true, '1 hour', now() - interval '1 day', 'test');
             INSERT INTO grading.calibrations (skill, models, prompt, rubric, items, answered, qwk, mae, ece, suffices, actor) VALUES
               ('writing', '{}', '{}', '3', 40, 40, 0.8, 0.5, 0.1, true, 'test')",
            MODELS.join(","),
            version(Skill::Writing)
        );
        eyes.batch_execute(&set).await.expect("a graded form");
        let scripted = ScriptedGrader::start().await.expect("a grader");
        let port = free_port().expect("a port");
        let secret = closed(&stage, "desk-secret", &"ab".repeat(32));
        let key = closed(&stage, "grader-key", scripted.key().expect("it wants one"));
        let origin = format!("http://desk.localhost:{port}");
        let extra = format!(
            "[mail]\nbody = \"template\"\n\
             [grading]\nmode = \"on\"\ngrader_url = \"{}\"\nspot_check = 0\n\
             [grading.judge]\nbase_url = \"{}\"\nmodels = {MODELS:?}\nkey_file = \"{key}\"\nsend = \"full\"\nallow_scripted = true\n\
             [desk]\nlisten = \"127.0.0.1:{port}\"\norigin = \"{origin}\"\nsecret_file = \"{secret}\"\ndatabase_url = \"{}\"\n\
             [desk.users.ines]\nemail = \"ines@x.test\"\nrole = \"instructor\"\n",
            stage.database.url_as("maple_grader"),
            scripted.base_url(),
            stage.database.url_as("maple_desk"),
        );
        let mut router = stage.router(binary(), "router", &extra).await.expect("a router");
        router.ready().await.expect("ready");
        let grader = Command::new(binary())
            .env_clear()
            .arg("--config")
            .arg(router.config())
            .arg("grade")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a grader");
        let browser = Browser::start().await.expect("a browser; scripts/install-missing browser");
        Self { browser, router, _grader: grader, _scripted: scripted, stage, eyes, origin, port }
    }

    /// Hands a work in, and returns it once its attempt is in `state`.
    async fn handed_in(&self) -> Uuid {
        let backend = self.stage.database.client_as("forms_app").await.expect("forms_app");
        let seed = SubmissionSeed::of("essay").field("answer", WORK);
        seed.insert(&backend).await.expect("submitted").id
    }

    /// Waits until this holds.
    async fn until(&self, what: &str, sql: &str, id: Uuid) {
        let holds = async {
            while !self.eyes.query_one(sql, &[&id]).await.expect(sql).get::<_, bool>(0) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, holds).await;
        assert!(in_time.is_ok(), "{what}\n{}", self.router.log());
    }

    async fn verb(&self, arguments: &[&str]) -> String {
        let answer = self.stage.ask(binary(), self.router.config(), arguments).await.expect("it runs");
        assert_eq!(answer.code, Some(0), "{arguments:?}: {}{}", answer.out, answer.err);
        answer.out
    }

    /// Logs the instructor in by a link of the command line.
    async fn log_in(&self) {
        let out = self.verb(&["desk", "login", "ines"]).await;
        let link = out.split_whitespace().find(|word| word.starts_with(&self.origin)).expect("a link");
        self.browser.open(link).await.expect("the link's page");
        self.browser.click("form[action] button[type=submit]").await.expect("logged in");
        self.browser.wait_for("#rows").await.expect("the queue");
    }

    fn asked(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let client =
            reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build();
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        client.expect("a client").request(method, url).header("host", format!("desk.localhost:{}", self.port))
    }

    /// The cookie of a learner, whose backend has got a ticket.
    async fn learner(&self, id: Uuid) -> String {
        let issued = self
            .verb(&[
                "desk",
                "token",
                "ines",
                "--role-cap",
                "instructor",
                "--days",
                "1",
                "--label",
                "backend",
                "--json",
            ])
            .await;
        let issued: Value = serde_json::from_str(&issued).expect("JSON");
        let token = issued["token"].as_str().expect("a token");
        let made = self.asked(Method::POST, &format!("/api/assessments/{id}/ticket")).bearer_auth(token);
        let made: Value = made.send().await.expect("an answer").json().await.expect("JSON");
        let led =
            self.asked(Method::GET, made["url"].as_str().expect("a path")).send().await.expect("an answer");
        assert_eq!(led.status(), 303);
        let set = led.headers()["set-cookie"].to_str().expect("text");
        set.split(';').next().expect("a pair").to_owned()
    }

    /// What the learner is told.
    async fn told(&self, id: Uuid, cookie: &str) -> Value {
        let answer = self.asked(Method::GET, &format!("/api/assessments/{id}")).header("cookie", cookie);
        answer.send().await.expect("an answer").json().await.expect("JSON")
    }

    /// Looks at the page as it is, light and dark, wide and narrow.
    async fn looked_at(&self, name: &str) {
        for (dark, width) in [(false, 1280), (true, 1280), (false, 360), (true, 360)] {
            self.browser.dark(dark).await.expect("a scheme");
            self.browser.width(width).await.expect("a width");
            if let Some(dir) = std::env::var_os("PICTURES") {
                let scheme = if dark { "dark" } else { "light" };
                let path = Path::new(&dir).join(format!("{name}-{scheme}-{width}.png"));
                self.browser.screenshot(&path).await.expect("a picture");
            }
            let judged = self.browser.axe().await.expect("judged");
            assert!(
                judged.violations.is_empty(),
                "{name}, dark: {dark}, {width} wide: {:?}",
                judged.violations
            );
            let wider = "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(
                self.browser.run(wider, Vec::new()).await.expect("asked"),
                false,
                "{name} fits {width}"
            );
        }
        self.browser.dark(false).await.expect("a scheme");
        self.browser.width(1280).await.expect("a width");
    }

    /// Fills the form in: this score by each criterion.
    async fn fill(&self, score: &str) {
        for criterion in CRITERIA {
            self.browser.choose(&format!("#review-{criterion}"), score).await.expect("a score");
        }
        self.browser.fill("#review-task_achievement-said", "It answers the question.").await.expect("typed");
        self.browser.fill("#review-reason", "I have read it").await.expect("typed");
    }
}

/// A file of the stage that nobody else may read.
fn closed(stage: &Stage, name: &str, text: &str) -> String {
    let path = stage.dir().join(name);
    std::fs::write(&path, format!("{text}\n")).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("closed");
    path.display().to_string()
}

const WAITS: &str =
    "SELECT EXISTS (SELECT FROM assessment.submissions a JOIN router.grey_queue g ON g.subject_id = a.id
    WHERE a.subject = $1 AND a.state = 'REVIEW_PENDING' AND g.state = 'Pending')";
const ROUTED: &str = "SELECT s.status::text = 'routed' FROM submissions s WHERE s.id = $1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grade_that_a_person_gives_goes_out_and_a_second_tab_is_told_who_was_first() {
    let exam = Exam::start().await;
    let id = exam.handed_in().await;
    exam.until("it waits for a person", WAITS, id).await;
    let row = "SELECT a.id, a.confidence, a.priority, g.id, g.queue FROM assessment.submissions a JOIN router.grey_queue g ON g.subject_id = a.id
        WHERE a.subject = $1";
    let row = exam.eyes.query_one(row, &[&id]).await.expect("a row");
    let (attempt, entry): (Uuid, Uuid) = (row.get(0), row.get(3));
    let found: (i32, &str, &str) = (row.get(1), row.get(2), row.get(4));
    assert_eq!(found, (72, "Medium", "grading"));
    // Before: the mail waits, and the learner is told that somebody looks.
    let cookie = exam.learner(id).await;
    let told = exam.told(id, &cookie).await;
    assert_eq!((&told["state"], &told["result"]), (&Value::from("waiting"), &Value::Null), "{told}");
    assert!(!told.to_string().contains("score") && !told.to_string().contains("6.0"), "{told}");
    assert!(exam.stage.relay.mails().is_empty(), "the mail waits");
    let browser = &exam.browser;
    exam.log_in().await;
    exam.looked_at("queue").await;
    browser.click(&format!("#open-{entry}")).await.expect("the entry");
    browser.wait_for("#review").await.expect("its form");
    let page = browser.text("main").await.expect("the page");
    for words in [
        PROMPT,
        "rubric 3",
        "On Sundays you can see old men",
        "The grader's result",
        "6.0",
        "sure to 72 of 100",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    exam.looked_at("entry").await;
    let first = browser.tab().await.expect("this tab");
    let second = browser.new_tab().await.expect("another tab");
    browser.switch_tab(&second).await.expect("there");
    browser.open(&format!("{}/entries/{entry}", exam.origin)).await.expect("the same entry");
    browser.wait_for("#review").await.expect("its form");
    browser.switch_tab(&first).await.expect("back");
    exam.fill("6.5").await;
    browser.click("#review button[type=submit]").await.expect("sent");
    browser.wait_for(".flash").await.expect("recorded");
    browser.wait_for_text("main", "The final result").await.expect("what came of it");
    exam.looked_at("graded").await;
    let state = "SELECT a.state || ' ' || r.score || ' ' || r.band FROM assessment.submissions a JOIN assessment.results r ON r.request_id = a.id
        WHERE a.id = $1 AND r.kind = 'final'";
    let state: String = exam.eyes.query_one(state, &[&attempt]).await.expect("a final result").get(0);
    assert_eq!(state, "COMPLETED 6.5 B2", "four parts of 6.0 and six of 6.5, to the half");
    exam.until("it is mailed", ROUTED, id).await;
    let mails = exam.stage.relay.mails();
    let [mail] = mails.as_slice() else { panic!("one mail: {mails:?}") };
    let text = String::from_utf8_lossy(&mail.raw);
    assert!(text.contains("Subject: graded 6.5 B2") && text.contains("It answers the question."), "{text}");
    // The tab of before.
    browser.switch_tab(&second).await.expect("the stale tab");
    exam.fill("3.0").await;
    browser.click("#review button[type=submit]").await.expect("sent");
    browser.wait_for(".conflict").await.expect("somebody was first");
    let status = "return performance.getEntriesByType('navigation')[0].responseStatus";
    assert_eq!(browser.run(status, Vec::new()).await.expect("asked"), 409);
    let page = browser.text("main").await.expect("the page");
    for words in [
        "Somebody was first",
        "instructor:ines",
        "What you typed, to copy",
        "core of coherence and cohesion",
        "I have read it",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    exam.looked_at("conflict").await;
    let kept = "SELECT count(*) FROM assessment.results WHERE request_id = $1";
    assert_eq!(
        exam.eyes.query_one(kept, &[&attempt]).await.expect("counted").get::<_, i64>(0),
        3,
        "nothing of it"
    );
    let told = exam.told(id, &cookie).await;
    assert_eq!(
        (&told["state"], told["result"]["overallScore"].as_f64()),
        (&Value::from("graded"), Some(6.5)),
        "{told}"
    );
    assert_eq!(exam.stage.relay.mails().len(), 1, "and no further mail");
    let foreign = browser.foreign_requests(&exam.origin).await.expect("the log");
    assert!(foreign.is_empty(), "{foreign:?}");
}
