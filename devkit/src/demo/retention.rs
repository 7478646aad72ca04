//! The act of retention: a person's data is listed, then erased, while a legal hold keeps somebody else's; the collector deletes the file,
//! and a receipt proves it.
//!
//! Like the stories it is judged by rows and objects; what the verbs print is shown.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::narration::{Narrator, Tone};
use super::report::Report;
use super::theatre::Theatre;
use crate::forms::SubmissionSeed;
use crate::stage::BUCKET;

/// The story's name.
const LABEL: &str = "retention";
/// Announcement to the reader.
pub(super) const STORY: &str = "a person's data is listed first and erased as it was listed, a legal hold keeps somebody else's, the \
                                collector deletes the file under an account of its own, and a receipt proves it";
const FORM: &str = "rooms";
const FILE: &str = "passport.pdf";
/// Time within which a submission is routed, and every event of it is delivered.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(100);

/// The act.
struct Act<'a> {
    theatre: &'a Theatre,
    narrator: &'a Narrator,
    backend: Client,
}

/// Plays it, after everything else has ended, and adds to the report what it showed and found wrong.
///
/// # Errors
/// A part of the stage is gone.
pub(super) async fn play(theatre: &Theatre, narrator: &Narrator, report: &mut Report) -> Result<()> {
    let backend = theatre.stage.database.client_as("forms_app").await?;
    let act = Act { theatre, narrator, backend };
    let (hers, held) = (act.routed("zoe@example.org").await?, act.routed("max@example.org").await?);
    act.say("lawyer", &format!("places a hold on {}", short(held)));
    act.verb(&["hold", "place", "--submission", &held.to_string(), "--reason", "case 7 of 2026"]).await?;
    report.show(theatre, &["hold", "list"], LABEL).await?;
    let kept = theatre.verb(&["erase", &held.to_string(), "--dry-run"]).await?;
    if kept.code != Some(1) || !kept.out.contains("would be kept: a hold names it") {
        report.fault(format!("{LABEL}: the held one would be erased: {kept:?}"));
    }
    let id = hers.to_string();
    report.show(theatre, &["erase", &id, "--dry-run"], LABEL).await?;
    let listed = act.verb(&["erase", &id, "--dry-run"]).await?;
    let token = listed["expect"].as_str().context("a token")?;
    act.verb(&["erase", &id, "--expect", token, "--reason", "she asked for it"]).await?;
    act.say("operator", &format!("erases {}", short(hers)));
    let ran = act.verb(&["gc", "run"]).await?;
    let said = format!("deletes {} objects", ran["counts"]["deleted"]);
    narrator.say("collector", LABEL, Tone::Good, said);
    report.show(theatre, &["receipts", "show", &id], LABEL).await?;
    let is_there = |id: Uuid| theatre.stage.google.object(BUCKET, &object(id)).is_some();
    if is_there(hers) || !is_there(held) {
        report.fault(format!("{LABEL}: the erased file is there, or the held one is gone"));
    }
    act.verb(&["receipts", "verify"]).await?;
    report.act([LABEL, FORM, "purged", "1", "1 erased with its file and a receipt, 1 kept by a legal hold"]);
    Ok(())
}

fn object(id: Uuid) -> String {
    format!("submissions/{id}/1-{FILE}")
}

fn short(id: Uuid) -> String {
    id.to_string().chars().take(8).collect()
}

impl Act<'_> {
    fn say(&self, teller: &'static str, text: &str) {
        self.narrator.say(teller, LABEL, Tone::Plain, text);
    }

    async fn verb(&self, arguments: &[&str]) -> Result<Value> {
        let answer = self.theatre.verb(&[arguments, &["--json"]].concat()).await?;
        ensure!(answer.code == Some(0), "maple-router {}: {answer:?}", arguments.join(" "));
        serde_json::from_str(&answer.out).context("a verb's answer")
    }

    /// A submission with a file, which is routed, and about which nothing is under way any more.
    async fn routed(&self, address: &str) -> Result<Uuid> {
        let bytes = b"%PDF-1.4\nof the demo\n";
        let seed = SubmissionSeed::of(FORM).field("name", "Zoe").field("room", "any").field("email", address);
        let seed = seed.bucket(BUCKET).file(FILE, "application/pdf", bytes);
        let id = seed.insert(&self.backend).await?.id;
        self.theatre.stage.google.put_object(BUCKET, &object(id), "application/pdf", *bytes);
        self.say("backend", &format!("finalizes {} of form `{FORM}`, with a file", short(id)));
        let waiting = async {
            loop {
                let kept = self.theatre.verb(&["explain", &id.to_string(), "--json"]).await?;
                let said: Value = serde_json::from_str(&kept.out).unwrap_or_default();
                if said["status"] == "routed"
                    && matches!(said["kept"]["why"].as_str(), Some("no_end" | "not_yet"))
                {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.with_context(|| format!("submission {id} is not routed"))??;
        Ok(id)
    }
}
