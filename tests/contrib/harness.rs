//! A Python client that obeys (`driver.py`), and eyes for what it did.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, Seeded, SubmissionSeed};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const STEP: Duration = Duration::from_millis(20);

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documented statement.
pub(crate) fn statement() -> String {
    let file = root().join("contrib/sql/evaluate_routing_readiness.sql");
    std::fs::read_to_string(file).expect("the statement")
}

/// A database with one form, `f`.
pub(crate) async fn database(variant: Variant) -> TestDatabase {
    let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
    devkit::forms::load_into(&db, &[Form::new("f").mail_to("a@x.test")]).await.expect("forms");
    db
}

/// A submission of form `f` with attachments of these statuses.
pub(crate) async fn submission(db: &TestDatabase, statuses: &[&str]) -> Seeded {
    let backend = db.client_as("forms_app").await.expect("forms_app");
    let named = statuses.iter().fold(SubmissionSeed::of("f"), |seed, status| seed.attachment("a", status));
    named.insert(&backend).await.expect("a row")
}

/// The documented statement's answer to this client.
pub(crate) async fn readiness(client: &Client, id: Uuid) -> Option<(String, i32)> {
    let row = client.query_opt(&statement(), &[&id]).await.expect("an answer")?;
    Some((row.get("state"), row.get("pending")))
}

/// One Python process with one connection. Dropping the value kills it (SIGKILL).
pub(crate) struct Python {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Python {
    /// Connects as `role`; `broker` is where it publishes.
    pub(crate) async fn connect(db: &TestDatabase, role: &str, broker: Option<String>) -> Self {
        let python: PathBuf = root().join(".venv/bin/python");
        assert!(python.exists(), "{} is missing: run `make python`", python.display());
        let mut command = Command::new(python);
        command
            .arg("-B")
            .arg(root().join("tests/contrib/driver.py"))
            .arg(db.url_as(role))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        // Neither a proxy nor somebody's real credentials have a part in this.
        for variable in
            ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "GOOGLE_APPLICATION_CREDENTIALS"]
        {
            command.env_remove(variable);
        }
        command.envs(broker.map(|host_port| ("PUBSUB_EMULATOR_HOST", host_port)));
        let mut child = command.spawn().expect("Python");
        let stdin = child.stdin.take().expect("its input");
        let stdout = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut python = Self { child, stdin, stdout };
        let said = python
            .answer()
            .await
            .expect("a driver that starts: run `make python` again if a package is missing");
        assert_eq!(said, "connected");
        python
    }

    /// Gives an order, and does not wait.
    pub(crate) async fn tell(&mut self, order: Value) {
        let line = format!("{order}\n");
        self.stdin.write_all(line.as_bytes()).await.expect("the driver lives");
    }

    /// Waits for the next answer: what came of it, or the exception.
    pub(crate) async fn answer(&mut self) -> Result<Value, String> {
        let line = timeout(PATIENCE, self.stdout.next_line()).await.expect("an answer in time");
        let line = line.expect("its output").expect("the driver has not ended");
        let mut reply: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        match reply.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(reply["ok"].take()),
        }
    }

    /// Gives an order that must succeed.
    pub(crate) async fn ask(&mut self, order: Value) -> Value {
        self.tell(order.clone()).await;
        self.answer().await.unwrap_or_else(|error| panic!("{order}: {error}"))
    }

    /// Gives an order that must be refused; returns the exception.
    pub(crate) async fn refused(&mut self, order: Value) -> String {
        self.tell(order.clone()).await;
        self.answer().await.expect_err("refused")
    }

    pub(crate) async fn sql(&mut self, text: &str) {
        self.ask(json!({"do": "sql", "text": text})).await;
    }

    /// Waits, without an answer, until its connection waits for a lock that `holder` has.
    pub(crate) async fn waits_for(&mut self, waiter: &Value, holder: &Value, eyes: &Client) {
        let pids = [waiter, holder].map(|pid| i32::try_from(pid.as_i64().expect("a pid")).expect("a pid"));
        let sql = "SELECT $2 = ANY (pg_blocking_pids($1))";
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if eyes.query_one(sql, &[&pids[0], &pids[1]]).await.expect("an answer").get(0) {
                return;
            }
            if let Ok(answer) = timeout(STEP, self.stdout.next_line()).await {
                panic!("it did not wait: {answer:?}");
            }
        }
        panic!("it neither waits for the lock nor answers");
    }

    /// SIGKILL, and its end.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }
}
