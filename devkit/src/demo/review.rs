//! The last act: what failed waits in the review queue, and one entry is resolved by its remedy, once there is evidence.
//!
//! Like the stories it is judged by rows and mails alone; what the verbs print is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio_postgres::Client;
use uuid::Uuid;

use super::evidence::Witness;
use super::narration::{Narrator, Tone};
use super::play::Played;
use super::report::Report;
use super::scenarios::EXPLAINED;
use super::theatre::Theatre;

/// Announcement to the reader.
pub(super) const STORY: &str = "the refused mailbox exists now: a reviewer begins the remedy `replay`, and the entry is \
                                resolved when the mail was accepted, not because anybody says so";
/// Time for the remedy: a mail, and the looks at what became of it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at the row.
const LOOK: Duration = Duration::from_millis(100);

/// An entry as its row has it.
#[derive(Debug)]
struct Entry {
    id: Uuid,
    cause: String,
    state: String,
    resolution: Option<String>,
}

impl Entry {
    fn is_open(&self) -> bool {
        !["Resolved", "Rejected", "Failed", "Expired", "Dismissed"].contains(&self.state.as_str())
    }
}

/// Plays it, after everything else has ended, and adds to the report what it showed and found wrong.
///
/// # Errors
/// A part of the stage is gone.
pub(super) async fn play(
    theatre: &Theatre,
    witness: &Witness<'_>,
    played: &[Played],
    narrator: &Narrator,
    report: &mut Report,
) -> Result<()> {
    let rows = theatre.stage.database.superuser().await?;
    for story in played {
        let entry = entry_of(&rows, story.id).await?;
        let (cause, expected) = (entry.as_ref().map(|entry| entry.cause.as_str()), story.scenario.cause());
        if cause != expected {
            let label = story.scenario.label;
            report.fault(format!("{label}: cause {cause:?} in the review queue, expected {expected:?}"));
        }
    }
    report.show(theatre, &["review", "list"], "what waits for a person").await?;
    let story = played.iter().find(|story| story.scenario.label == EXPLAINED).context("the story")?;
    let Some(entry) = entry_of(&rows, story.id).await? else { return Ok(()) };
    let (id, label) = (entry.id.to_string(), story.scenario.label);
    let refused = story.scenario.relay.context("a refused recipient")?.recipient;
    theatre.relay_accepts(refused);
    narrator.say(
        "reviewer",
        label,
        Tone::Plain,
        "begins the remedy `replay` of its entry in the review queue",
    );
    let start = ["review", "start", &id, "--remedy", "replay", "--reason", "the mailbox exists now"];
    report.show(theatre, &start, label).await?;
    let seen = closed(&rows, story.id).await?;
    let is_resolved = seen
        .as_ref()
        .is_some_and(|entry| entry.state == "Resolved" && entry.resolution.as_deref() == Some("routed"));
    if is_resolved {
        narrator.say("router", label, Tone::Good, "its entry is RESOLVED: routed");
    } else {
        report.fault(format!("{label}: its entry is {seen:?}, expected Resolved because it was routed"));
    }
    let after = witness.look(&[story.id]).await?.pop().context("the story's evidence")?;
    let everybody = story.scenario.expect.mailed.iter().copied().chain([refused]);
    let once: BTreeMap<String, usize> = everybody.map(|to| (to.to_owned(), 1)).collect();
    if after.status == "routed" && after.mailed == once {
        report.add(label, &format!("; its review: routed, {} mailed", once.len()));
    } else {
        report.fault(format!(
            "{label}: {after:?} after its remedy, expected routed and one mail each: {once:?}"
        ));
    }
    report.show(theatre, &["review", "history", &id], label).await
}

/// The latest entry about a submission.
async fn entry_of(rows: &Client, submission: Uuid) -> Result<Option<Entry>> {
    let sql = "SELECT id, cause, state, resolution FROM router.grey_queue WHERE subject_id = $1
               ORDER BY opened_at DESC LIMIT 1";
    let row = rows.query_opt(sql, &[&submission]).await?;
    Ok(row.map(|row| Entry { id: row.get(0), cause: row.get(1), state: row.get(2), resolution: row.get(3) }))
}

/// The same once it is closed, or as it is when time is up.
async fn closed(rows: &Client, submission: Uuid) -> Result<Option<Entry>> {
    let closing = async {
        while entry_of(rows, submission).await?.is_some_and(|entry| entry.is_open()) {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    // The caller judges the entry as it is when time is up.
    if let Ok(ended) = tokio::time::timeout(PATIENCE, closing).await {
        ended?;
    }
    entry_of(rows, submission).await
}
