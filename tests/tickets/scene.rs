//! A stage with a help desk, a router that may be killed, and eyes for what they leave behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::help_desk::{HelpDesk, HelpDeskOptions};
use devkit::postgres::CuttingProxy;
use devkit::smtp::SmtpOptions;
use devkit::stage::{Answer, Router, SHORT_TIMINGS, Source, Stage, StageOptions};
use devkit::submission::{Audited, Row};
use devkit::waiting;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(25);

/// A ticket that may exist is looked for over ten seconds.
const HAPPYFOX: &str = r#"
[happyfox]
contact_email_field = "email"
contact_name_field = "name"
fallback_contact_email = "forms@greenpeace.org"
doubt_window = "10s"
max_per_minute = 300
connect_timeout = "1s"
read_timeout = "2s"
timeout = "3s"
[smtp]
command_timeout = "2s"
delivery_deadline = "8500ms"
[routing]
drain_timeout = "11s"
[outbox]
lease = "10s"
[pubsub]
ack_deadline = "10s"
"#;

/// A relay that takes as large mails as Postfix does where its limit was raised.
pub(crate) fn relay() -> SmtpOptions {
    let mut options = SmtpOptions::default();
    for offer in options.extensions.iter_mut().filter(|offer| offer.starts_with("SIZE")) {
        *offer = "SIZE 40000000".to_owned();
    }
    options
}

pub(crate) struct Scene {
    // First: the routers go before what they work with.
    routers: Vec<Router>,
    pub(crate) stage: Stage,
    pub(crate) desk: HelpDesk,
    pub(crate) eyes: Client,
    backend: Client,
    extra: String,
}

impl Scene {
    /// A router with a help desk, and form `t`: a ticket in `General`, and a mail.
    pub(crate) async fn start(extra: &str) -> Self {
        let mut scene = Self::alone(extra, relay()).await;
        scene.one_more().await;
        scene
    }

    /// The same before another relay.
    pub(crate) async fn with_relay(extra: &str, smtp: SmtpOptions) -> Self {
        let mut scene = Self::alone(extra, smtp).await;
        scene.one_more().await;
        scene
    }

    /// The same, with the router's wire to the database in the test's hands.
    pub(crate) async fn wired() -> (Self, CuttingProxy) {
        let mut scene = Self::alone("", relay()).await;
        let wire = CuttingProxy::start(&scene.stage.database).await.expect("a wire");
        let own = format!("{}[database]\nurl = \"{}\"\n", scene.own(), wire.url_as("forms_app"));
        scene.router(&own).await;
        (scene, wire)
    }

    /// The same before any router runs.
    pub(crate) async fn alone(extra: &str, smtp: SmtpOptions) -> Self {
        let source = Source::Postgres;
        let options = StageOptions {
            sample_forms: false,
            ack_deadline: Duration::from_secs(10),
            smtp,
            ..StageOptions::of(source)
        };
        let stage = Stage::start(options).await.expect("a stage");
        let desk = HelpDesk::start(HelpDeskOptions::default()).await.expect("a help desk");
        let form = Form::new("t").ticket_in("General").mail_to("a@x.test");
        devkit::forms::load_into(&stage.database, &[form]).await.expect("the form");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { routers: Vec::new(), stage, desk, eyes, backend, extra: extra.to_owned() }
    }

    /// Starts one more router.
    pub(crate) async fn one_more(&mut self) {
        let own = self.own();
        self.router(&own).await;
    }

    /// Lays this over the configuration of the routers that start from now on.
    pub(crate) fn set(&mut self, extra: &str) {
        extra.clone_into(&mut self.extra);
    }

    /// Starts one that knows of no help desk.
    pub(crate) async fn one_without_help_desk(&mut self) {
        self.router("").await;
    }

    async fn router(&mut self, own: &str) {
        let name = format!("router{}", self.routers.len() + 1);
        let settings = self.settings(&name, own);
        let shipped = std::env::var_os("TICKETS_BINARY").map(PathBuf::from);
        let binary = shipped.unwrap_or_else(|| env!("CARGO_BIN_EXE_maple-router").into());
        let mut router = self.stage.router(&binary, &name, &settings).await.expect("a router");
        router.ready().await.expect("ready");
        self.routers.push(router);
    }

    fn settings(&self, name: &str, own: &str) -> String {
        format!("{SHORT_TIMINGS}{HAPPYFOX}{own}[routing]\nworker_name = \"{name}\"\n{}", self.extra)
    }

    /// Address and credentials of the help desk.
    fn own(&self) -> String {
        self.desk.settings(self.stage.dir()).expect("the credentials' files")
    }

    /// The configuration of an operator's verbs, with or without the help desk.
    pub(crate) fn verbs_config(&self, with_help_desk: bool) -> PathBuf {
        let own = if with_help_desk { self.own() } else { String::new() };
        let text = self.stage.config("verb", 0, &self.settings("verb", &own));
        self.stage.write_config("verb", &text).expect("written")
    }

    /// Submits to form `t`, with a contact.
    pub(crate) async fn submit(&self) -> Uuid {
        self.submit_to("t").await
    }

    pub(crate) async fn submit_to(&self, form: &str) -> Uuid {
        let seed = SubmissionSeed::of(form).field("email", "ada@example.org").field("name", "Ada");
        self.submit_seed(seed).await
    }

    pub(crate) async fn submit_seed(&self, seed: SubmissionSeed) -> Uuid {
        let id = seed.insert(&self.backend).await.expect("a row").id;
        self.stage.announce(id, "finalized").expect("announced");
        id
    }

    pub(crate) async fn form(&self, form: Form) {
        devkit::forms::load_into(&self.stage.database, &[form]).await.expect("the form");
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row {
        Row::read(&self.eyes, id).await.expect("the row")
    }

    pub(crate) async fn audit(&self, id: Uuid) -> Vec<Audited> {
        Audited::trail(&self.eyes, id).await.expect("audit")
    }

    pub(crate) async fn ticket_id(&self, id: Uuid) -> Option<String> {
        let sql = "SELECT happyfox_ticket_id FROM submissions WHERE id = $1";
        self.eyes.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    /// Waits until the row is as wanted.
    pub(crate) async fn await_row(&self, id: Uuid, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        let look = async || Some(self.row(id).await).filter(&wanted);
        match waiting::find(PATIENCE, STEP, look).await {
            Some(row) => row,
            None => panic!("{id}: no {what} after {PATIENCE:?}: {:?}\n{}", self.row(id).await, self.log()),
        }
    }

    pub(crate) async fn ended(&self, id: Uuid) -> Row {
        self.await_row(id, "end", Row::has_ended).await
    }

    pub(crate) async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        assert!(waiting::until(PATIENCE, STEP, so).await, "no {what} after {PATIENCE:?}:\n{}", self.log());
    }

    /// A verb of the program, by the first router's configuration.
    pub(crate) async fn ask(&self, words: &[&str]) -> Answer {
        let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
        self.stage.ask(binary, self.routers[0].config(), words).await.expect("it runs")
    }

    /// A series of a router's metrics, without the prefix.
    pub(crate) async fn metric(&self, router: usize, series: &str) -> Option<f64> {
        self.routers[router].metric(&format!("maple_router_{series}")).await.expect("metrics")
    }

    /// Replaces a part of the first router's configuration, and has it read again.
    pub(crate) async fn reload(&self, old: &str, new: &str) {
        let path = self.routers[0].config();
        let text = fs::read_to_string(path).expect("a configuration");
        assert!(text.contains(old), "{text}");
        fs::write(path, text.replace(old, new)).expect("written");
        self.routers[0].signal("HUP").await.expect("sent");
        self.until("the reload", async || self.log().contains("\"reloaded\"")).await;
    }

    /// Line `happyfox` of `check`: its level and its words.
    pub(crate) async fn check(&self) -> (String, String) {
        self.check_line("happyfox").await
    }

    /// Any line of `check`.
    pub(crate) async fn check_line(&self, name: &str) -> (String, String) {
        let answer = self.ask(&["check", "--json"]).await;
        let report: serde_json::Value = serde_json::from_str(&answer.out).expect("JSON");
        let lines = report["lines"].as_array().expect("lines");
        let line = lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{report:#}"));
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        (text("level"), format!("{} → {}", text("detail"), text("remedy")))
    }

    /// Most memory that the first router ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let pid = self.routers[0].pid().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Number of mails to this recipient.
    pub(crate) fn mails(&self, id: Uuid) -> u64 {
        let digests = self.stage.relay.digests();
        digests
            .iter()
            .filter(|(digest, _)| digest.submission_id == id.to_string())
            .map(|(_, count)| count)
            .sum()
    }

    /// The tag of the ticket of action 1.
    pub(crate) fn tag(id: Uuid) -> String {
        format!("maple-{}-1-0", id.simple())
    }

    pub(crate) fn log(&self) -> String {
        self.routers.iter().map(Router::log).collect()
    }

    /// SIGKILL to the last router.
    pub(crate) async fn kill(&mut self) {
        let router = self.routers.last_mut().expect("a router");
        router.signal("KILL").await.expect("sent");
        router.ended().await.expect("ends");
        self.routers.pop();
    }

    /// SIGTERM to the last router, which is gone then; what it logged.
    pub(crate) async fn end(&mut self) -> String {
        let mut router = self.routers.pop().expect("a router");
        let ended = router.stop().await.expect("stops");
        assert!(ended.success(), "{ended}\n{}", router.log());
        router.log()
    }

    /// SIGTERM; it must end well.
    pub(crate) async fn stop(mut self) {
        for router in &mut self.routers {
            let ended = router.stop().await.expect("stops");
            assert!(ended.success(), "{ended}\n{}", router.log());
        }
    }
}
