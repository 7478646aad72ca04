//! The act of versions: a form is published and followed, its second version is promoted while a submission waits for its retry, a third
//! is refused by the policy, and a rollback ends it.
//!
//! Like the stories it is judged by rows and mails; what the verbs print is shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::narration::{Narrator, Tone};
use super::report::Report;
use super::theatre::Theatre;
use crate::forms::SubmissionSeed;
use crate::smtp::{Rule, Stage as SmtpStage};
use crate::stage::Answer;

/// The story's name.
const LABEL: &str = "versions";
/// Announcement to the reader.
pub(super) const STORY: &str = "a form's second version is promoted while a submission waits for its retry: that keeps the first, the \
                                next one has the second; a third is refused by the policy, and a rollback takes one command";
/// The form, and where its versions send.
const FORM: &str = "rooms";
const FIRST: &str = "old-desk@example.org";
const SECOND: &str = "new-desk@example.org";
const WRONG: &str = "desk@examp1e.test";
/// Time for what is tried again.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(100);
/// The act.
struct Act<'a> {
    theatre: &'a Theatre,
    narrator: &'a Narrator,
    backend: Client,
    eyes: Client,
}

/// Plays it, after everything else has ended, and adds to the report what it showed and found wrong.
///
/// # Errors
/// A part of the stage is gone.
pub(super) async fn play(theatre: &Theatre, narrator: &Narrator, report: &mut Report) -> Result<()> {
    let backend = theatre.stage.database.client_as("forms_app").await?;
    let eyes = theatre.stage.database.superuser().await?;
    let act = Act { theatre, narrator, backend, eyes };
    act.follow(1, FIRST).await?;
    let once = Rule::at(SmtpStage::Rcpt).to(FIRST).reply("451 4.3.0 try again later");
    theatre.stage.relay.rule(once.times(1));
    let early = act.submission().await?;
    act.wait(early, "routing_result ? 'next_attempt_at'").await?;
    act.say("router", "its mail was deferred, and waits for the next attempt");
    let file = act.file(SECOND)?;
    act.load(&file).await?;
    report.show(theatre, &["forms", "diff", FORM], LABEL).await?;
    act.published().await?;
    act.promoted(1).await?;
    act.say("owner", "promotes version 2 meanwhile");
    let late = act.submission().await?;
    for id in [early, late] {
        act.wait(id, "status = 'routed'").await?;
    }
    act.judge(report, (early, FIRST, 1), (late, SECOND, 2)).await?;
    let refused = act.refused().await?;
    let said =
        refused.out.lines().map(str::trim).find(|line| line.contains("examp1e.test")).unwrap_or_default();
    if refused.code != Some(1) || said.is_empty() {
        report.fault(format!("{LABEL}: a wrong domain was published: {refused:?}"));
    }
    narrator.say("policy", LABEL, Tone::Good, format!("refuses version 3: {said}"));
    report.show(theatre, &["forms", "rollback", FORM], LABEL).await?;
    let rows = act.one("SELECT string_agg(destination, ',') FROM actions WHERE form_id = 'rooms'").await?;
    if rows != FIRST {
        report.fault(format!("{LABEL}: after the rollback the form sends to {rows:?}"));
    }
    report.show(theatre, &["forms", "list", FORM], LABEL).await?;
    report.act([
        LABEL,
        FORM,
        "routed",
        "2",
        "1 mailed by version 1, 1 by version 2; 3 refused; rolled back to 1",
    ]);
    Ok(())
}

impl Act<'_> {
    fn say(&self, teller: &'static str, text: &str) {
        self.narrator.say(teller, LABEL, Tone::Plain, text);
    }

    /// The form's file.
    fn file(&self, destination: &str) -> Result<PathBuf> {
        let path = self.theatre.router.config().with_file_name("rooms.yaml");
        let text = format!(
            "id: {FORM}\nname: Book a room\ntemplates:\n  - id: {FORM}-mail\n    subject: \"A room for {{{{ fields.name }}}}\"\n    \
             body_text: \"{{{{ fields.name }}}} wants {{{{ fields.room }}}}.\"\n    \
             body_html: \"<p>{{{{ fields.name }}}} wants {{{{ fields.room }}}}.</p>\"\nactions:\n  - type: email_template\n    \
             template: {FORM}-mail\n    destination: {destination}\nsamples:\n  - name: usual\n    \
             fields: {{name: Ada, room: the blue one}}\n"
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    async fn verb(&self, arguments: &[&str]) -> Result<Value> {
        let answer = self.theatre.verb(&[arguments, &["--json"]].concat()).await?;
        ensure!(answer.code == Some(0), "maple-router {}: {answer:?}", arguments.join(" "));
        serde_json::from_str(&answer.out).context("a verb's answer")
    }

    async fn load(&self, file: &Path) -> Result<Value> {
        self.verb(&["forms", "load", &file.display().to_string()]).await
    }

    /// Publishes the newest version by the digest that it has.
    async fn published(&self) -> Result<()> {
        let shown = self.verb(&["forms", "show", FORM]).await?;
        let digest = shown["digest"].as_str().context("a digest")?;
        self.verb(&["forms", "publish", FORM, "--expect", digest]).await.map(drop)
    }

    async fn promoted(&self, seen: u32) -> Result<()> {
        self.verb(&["forms", "promote", FORM, "--expect", &seen.to_string()]).await.map(drop)
    }

    /// Loads, publishes and promotes the first version.
    async fn follow(&self, number: u32, destination: &str) -> Result<()> {
        let file = self.file(destination)?;
        self.load(&file).await?;
        self.published().await?;
        self.promoted(number - 1).await?;
        self.say("owner", "loads, publishes and promotes version 1 of form `rooms`");
        Ok(())
    }

    /// Tries to publish a version with a slip in an address.
    async fn refused(&self) -> Result<Answer> {
        let file = self.file(WRONG)?;
        let loaded = self.load(&file).await?;
        let digest = loaded["digest"].as_str().context("a digest")?;
        self.theatre.verb(&["forms", "publish", FORM, "--expect", digest]).await
    }

    async fn submission(&self) -> Result<Uuid> {
        let seed = SubmissionSeed::of(FORM).field("name", "Ada").field("room", "the blue one");
        let id = seed.insert(&self.backend).await?.id;
        self.say("backend", &format!("finalizes {} of form `{FORM}`", &id.to_string()[..8]));
        Ok(id)
    }

    /// Waits until a submission's row is as it should be.
    async fn wait(&self, id: Uuid, condition: &str) -> Result<()> {
        let sql = format!("SELECT {condition} FROM submissions WHERE id = $1");
        let waiting = async {
            while !self.eyes.query_one(&sql, &[&id]).await?.get::<_, bool>(0) {
                tokio::time::sleep(LOOK).await;
            }
            anyhow::Ok(())
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.with_context(|| format!("submission {id} does not come to {condition}"))?
    }

    async fn one(&self, sql: &str) -> Result<String> {
        Ok(self.eyes.query_one(sql, &[]).await?.get::<_, Option<String>>(0).unwrap_or_default())
    }

    /// Each submission has one mail, to the address of the version that its ledger names.
    async fn judge(
        &self,
        report: &mut Report,
        early: (Uuid, &str, u32),
        late: (Uuid, &str, u32),
    ) -> Result<()> {
        let mails = self.theatre.stage.relay.mails();
        for (id, to, number) in [early, late] {
            let mailed: Vec<&str> = mails
                .iter()
                .filter(|mail| mail.submission_id.as_ref() == Some(&id.to_string()))
                .flat_map(|mail| mail.recipients.iter().map(String::as_str))
                .collect();
            let sql = "SELECT routing_result #>> '{version,number}' FROM submissions WHERE id = $1";
            let named: Option<String> = self.eyes.query_one(sql, &[&id]).await?.get(0);
            if mailed != [to] || named.as_deref() != Some(&number.to_string()) {
                report.fault(format!(
                    "{LABEL}: version {named:?} mailed {mailed:?}, expected version {number} and {to}"
                ));
            }
            self.narrator.say("router", LABEL, Tone::Good, format!("version {number}: ROUTED to {to}"));
        }
        Ok(())
    }
}
