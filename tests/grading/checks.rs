//! Lines of `check` about the grader's side: its role, the endpoints, and whether the models may grade alone; each well, to be looked at, and failed.
//! Neither a key nor a password is ever shown.

use std::process::Stdio;

use devkit::grader::{MODELS, ScriptedGrader, TRANSCRIBER};
use devkit::postgres::Variant;
use devkit::stage::{Stage, StageOptions};
use maple_router::grading::core::skill::Skill;
use maple_router::grading::grader::texts::version;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::harness::PATIENCE;

/// A key that nobody knows.
const WRONG_KEY: &str = "planted-wrong-key";
/// A password that the database does not ask for.
const PASSWORD: &str = "planted-password";

struct Host {
    stage: Stage,
    scripted: ScriptedGrader,
    eyes: tokio_postgres::Client,
    variables: Vec<(&'static str, String)>,
}

impl Host {
    async fn new() -> Self {
        let variant = Variant { router: true, grading: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        let scripted = ScriptedGrader::start().await.expect("a grader");
        std::fs::write(stage.dir().join("key"), scripted.key().expect("it wants one")).expect("written");
        std::fs::write(stage.dir().join("wrong-key"), WRONG_KEY).expect("written");
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { stage, scripted, eyes, variables: Vec::new() }
    }

    fn key(&self, name: &str) -> String {
        format!("key_file = \"{}\"", self.stage.dir().join(name).display())
    }

    /// `[grading.judge]` before the stand-in, with these lines.
    fn judge(&self, lines: &[&str]) -> String {
        format!("[grading.judge]\nbase_url = \"{}\"\n{}\n", self.scripted.base_url(), lines.join("\n"))
    }

    /// `[grading.stt]` before the stand-in, with these lines.
    fn stt(&self, lines: &[&str]) -> String {
        format!("[grading.stt]\nbase_url = \"{}\"\n{}\n", self.scripted.base_url(), lines.join("\n"))
    }

    /// `[grading]` with the connection string of this role.
    fn url(&self, role: &str) -> String {
        format!("[grading]\ngrader_url = \"{}\"\n", self.stage.database.url_as(role))
    }

    async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    /// Level, detail and remedy of a line.
    async fn line(&self, name: &str, extra: &str) -> (String, String, String) {
        let config = self.stage.config("special", 0, extra);
        let config = self.stage.write_config("special", &config).expect("a configuration");
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_maple-router"))
            .env_clear()
            .env("GCE_METADATA_HOST", self.stage.google.metadata_host())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .arg("--config")
            .arg(config)
            .args(["check", "--json"])
            .stdin(Stdio::null())
            .output();
        let output = tokio::time::timeout(PATIENCE, output).await.expect("in time").expect("the verb runs");
        let out = String::from_utf8(output.stdout).expect("text");
        for hidden in [WRONG_KEY, PASSWORD, self.scripted.key().expect("one")] {
            assert!(!out.contains(hidden), "{out}");
        }
        let report: Value = serde_json::from_str(&out).expect(&out);
        let lines = report["lines"].as_array().expect("lines").iter();
        let found: Vec<&Value> = lines.filter(|line| line["name"] == name).collect();
        let [line] = found.as_slice() else { panic!("one line {name}: {report:#}") };
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("remedy").is_empty(), text("level") == "ok", "a remedy where one is needed: {line}");
        (text("level"), text("detail"), text("remedy"))
    }

    /// Asserts a line's level, and words of its detail and of its remedy.
    async fn says(&self, name: &str, extra: &str, level: &str, (detail, remedy): (&str, &str)) {
        let said = self.line(name, extra).await;
        assert_eq!(said.0, level, "{extra}: {said:?}");
        assert!(said.1.contains(detail), "{detail}: {said:?}");
        assert!(said.2.contains(remedy), "{remedy}: {said:?}");
    }
}

/// An endpoint that answers each request so, once it was read.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let Ok(byte @ 0..) = stream.read_u8().await else { break };
                asked.push(byte);
            }
            assert!(stream.write_all(answer.as_bytes()).await.is_ok(), "it is read");
        }
    });
    format!("http://{address}/v1")
}

#[tokio::test]
async fn the_endpoint_that_grades_answers_and_knows_its_models() {
    let mut host = Host::new().await;
    let (key, full, models) = (host.key("key"), "send = \"full\"", format!("models = {MODELS:?}"));
    let line = "grading_judge";
    host.says(line, "", "ok", ("none on this host ([grading.judge] base_url)", "")).await;
    let whole = host.judge(&[&key, full, &models]);
    host.says(line, &whole, "ok", ("127.0.0.1 answers, and has devkit-scripted-grader-1", "")).await;
    assert_eq!(host.scripted.calls(devkit::grader::Kind::Chat), 0, "nothing that costs is asked");
    assert_eq!(host.scripted.calls(devkit::grader::Kind::Grading), 0, "nor a work");
    let unknown = host.judge(&[&key, full, "models = [\"devkit-scripted-grader-1\", \"other\"]"]);
    host.says(line, &unknown, "warn", ("does not list other", "[grading.judge]")).await;
    host.says(line, &host.judge(&[&key, &models]), "warn", ("not_sent", "grading.judge.send = \"full\""))
        .await;
    let scripted = host.judge(&[&key, full, &models, "allow_scripted = true"]);
    host.says(line, &scripted, "warn", ("a scripted stand-in", "allow_scripted = false")).await;
    let keyless = host.judge(&[full, &models]);
    host.says(line, &keyless, "warn", ("wants a key (401)", "MAPLE_ROUTER__GRADING__JUDGE__KEY_FILE=")).await;
    let wrong = host.judge(&[&host.key("wrong-key"), full, &models]);
    host.says(line, &wrong, "fail", ("refuses the key (401)", "rb-015")).await;
    let unread = host.judge(&[&host.key("nowhere"), full, &models]);
    host.says(line, &unread, "fail", ("cannot read the grader-key", "rb-015")).await;
    for (answer, level, words) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "ok", "does not list its models"),
        ("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", "warn", "(429)"),
        ("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", "fail", "does not answer (trouble)"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
            "fail",
            "(content_type)",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
            "fail",
            "refuses us (302)",
        ),
    ] {
        let extra =
            format!("[grading.judge]\nbase_url = \"{}\"\n{full}\n{models}\n", answering(answer).await);
        host.says(line, &extra, level, (words, "")).await;
    }
    host.scripted.away().await;
    host.says(line, &whole, "fail", ("does not answer (connect)", "rb-015")).await;
}

#[tokio::test]
async fn the_endpoint_that_transcribes_answers_and_knows_its_model() {
    let mut host = Host::new().await;
    let (key, model, line) = (host.key("key"), format!("model = \"{TRANSCRIBER}\""), "grading_stt");
    host.says(line, "", "ok", ("none on this host ([grading.stt] base_url)", "")).await;
    let whole = host.stt(&[&key, &model]);
    host.says(line, &whole, "ok", ("answers, and has devkit-scripted-transcriber-1", "")).await;
    let unknown = host.stt(&[&key, "model = \"other\""]);
    host.says(line, &unknown, "warn", ("does not list other", "[grading.stt]")).await;
    host.says(line, &host.stt(&[&model]), "warn", ("wants a key", "MAPLE_ROUTER__GRADING__STT__KEY_FILE="))
        .await;
    let wrong = host.stt(&[&host.key("wrong-key"), &model]);
    host.says(line, &wrong, "fail", ("refuses the key", "rb-015")).await;
    host.scripted.away().await;
    host.says(line, &whole, "fail", ("does not answer", "rb-015")).await;
}

#[tokio::test]
async fn the_graders_role_may_do_its_work_and_nothing_else() {
    let mut host = Host::new().await;
    let (line, url) = ("grader", host.url("maple_grader"));
    host.says(line, "", "ok", ("not on this host", "")).await;
    host.says(line, &url, "ok", ("maple_grader may grade, and sees no submission; 0 requests wait", ""))
        .await;
    host.sql("INSERT INTO mq.grading_request (message_id, payload) VALUES (gen_random_uuid(), '{}')").await;
    host.says(line, &url, "ok", ("1 requests wait", "")).await;
    host.sql("UPDATE mq.grading_request SET at = now() - interval '3 minutes'").await;
    host.says(line, &url, "warn", ("nobody takes them", "maple-router-grader.service")).await;
    // A right too many, and one too few.
    host.sql("GRANT SELECT ON public.submissions TO maple_grader").await;
    host.says(line, &url, "fail", ("this role has SELECT on public.submissions, and should not", "rb-015"))
        .await;
    host.sql("REVOKE SELECT ON public.submissions FROM maple_grader; GRANT USAGE ON SCHEMA assessment TO maple_grader").await;
    host.says(line, &url, "fail", ("may use schema assessment, and should not", "revoke")).await;
    host.sql("REVOKE USAGE ON SCHEMA assessment FROM maple_grader; REVOKE INSERT (message_id, payload) ON mq.grading_callback FROM maple_grader").await;
    host.says(line, &url, "fail", ("no INSERT on mq.grading_callback", "migrate --grading")).await;
    host.says(line, &host.url("forms_app"), "fail", ("as forms_app: it may not use schemas", "maple_grader"))
        .await;
    let nowhere =
        format!("[grading]\ngrader_url = \"postgres://maple_grader:{PASSWORD}@127.0.0.1:1/forms\"\n");
    host.says(line, &nowhere, "fail", ("", "The grader's identity")).await;
    // The unit's variable goes before the file.
    host.variables = vec![("MAPLE_ROUTER_GRADER_URL", host.stage.database.url_as("maple_grader"))];
    host.says(line, &nowhere, "fail", ("as maple_grader: this role has no INSERT", "rb-015")).await;
}

#[tokio::test]
async fn models_grade_alone_where_they_were_tried() {
    let host = Host::new().await;
    let line = "grading_calibration";
    let with = |models: &str| format!("{}{}", host.url("maple_grader"), host.judge(&[models]));
    let extra = with("models = [\"m1\", \"m2\"]");
    host.says(line, "", "ok", ("not tried", "")).await;
    host.says(line, &extra, "ok", ("no form of writing or speaking is graded", "")).await;
    host.sql(
        "INSERT INTO forms (id, name) SELECT f, f FROM unnest(ARRAY['essay', 'speak', 'listen']) AS f;
         INSERT INTO assessment.questions (id, skill, prompt, answer_key, rubric, set_by) VALUES
           ('q1', 'writing', 'Parks?', NULL, '2', 'test'), ('q2', 'speaking', 'A journey.', NULL, '1', 'test'),
           ('q3', 'listening', '', '{\"1\": \"a\"}', '1', 'test');
         INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, part, sla, set_by) VALUES
           ('essay', 'writing', 'q1', 'answer', 'essay', NULL, '20 minutes', 'test'),
           ('speak', 'speaking', 'q2', NULL, NULL, 1, '1 hour', 'test'),
           ('listen', 'listening', 'q3', NULL, NULL, NULL, '1 minute', 'test')",
    )
    .await;
    let said = host.line(line, &extra).await;
    assert_eq!(said.0, "warn", "{said:?}");
    for words in
        ["m1,m2", "with writing", "rubric 2 they were never tried", "with speaking", "a person reviews"]
    {
        assert!(said.1.contains(words), "{words}: {said:?}");
    }
    assert!(!said.1.contains("listening"), "a key needs no trial: {said:?}");
    for command in
        ["grading calibrate --skill writing --rubric 2", "grading calibrate --skill speaking --rubric 1"]
    {
        assert!(said.2.contains(command), "{command}: {said:?}");
    }
    let tried = async |skill: Skill, rubric: &str, suffices: bool| {
        let prompt = version(skill);
        host.sql(&format!(
            "INSERT INTO grading.calibrations (skill, models, prompt, rubric, items, answered, qwk, mae, ece, suffices, actor)
             VALUES ('{skill}', 'm1,m2', '{prompt}', '{rubric}', 40, 40, 0.8, 0.5, 0.1, {suffices}, 'test')"
        ))
        .await;
    };
    tried(Skill::Speaking, "1", true).await;
    tried(Skill::Writing, "1", true).await;
    tried(Skill::Writing, "2", false).await;
    let said = host.line(line, &extra).await;
    assert_eq!(said.0, "warn", "{said:?}");
    assert!(said.1.contains("did not suffice") && !said.1.contains("speaking"), "{said:?}");
    tried(Skill::Writing, "2", true).await;
    host.says(line, &extra, "ok", ("m1,m2 may grade alone in all that is graded", "")).await;
    host.says(line, &with("models = [\"m1\"]"), "warn", ("m1: with speaking", "calibrate")).await;
    host.says(line, &host.url("maple_grader"), "warn", ("no models are named", "[grading.judge]")).await;
    let nowhere = extra
        .replace(&host.stage.database.url_as("maple_grader"), "postgres://maple_grader@127.0.0.1:1/forms");
    host.says(line, &nowhere, "warn", ("not tried: grader failed", "see line grader")).await;
}
