//! The demo itself: plays backend and scan worker, story after story, and waits until every submission has ended.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use super::bringing::{Bringer, bring};
use super::evidence::Witness;
use super::narration::{Narrator, Tone, now};
use super::scenarios::{
    Deed, GIBBERISH, GIBBERISH_ROW, SCENARIOS, Scenario, UNPARSEABLE, UNPARSEABLE_AFTER, unparseable,
};
use super::verdict::Evidence;
use super::watch::Labels;
use crate::forms::{self, Seeded, SubmissionSeed};
use crate::stage::{BUCKET, Router, Source, Stage, TOPIC};

/// Time that shows a reader that nothing happens.
const A_WHILE: Duration = Duration::from_millis(1_000);
/// Pause between two looks at the rows.
const LOOK: Duration = Duration::from_millis(100);

/// A story that has been started.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) scenario: &'static Scenario,
    pub(super) id: Uuid,
    /// Faults found on the way.
    pub(super) faults: Vec<String>,
    pub(super) evidence: Evidence,
}

/// The player of the scenarios.
pub(super) struct Player<'a> {
    stage: &'a Stage,
    bringer: Bringer<'a>,
    narrator: Arc<Narrator>,
    labels: Labels,
    witness: &'a Witness<'a>,
    backend: Client,
    scanner: Client,
    pace: Duration,
}

impl<'a> Player<'a> {
    /// # Errors
    /// The database is gone.
    pub(super) async fn new(
        bringer: Bringer<'a>,
        witness: &'a Witness<'a>,
        narrator: Arc<Narrator>,
        labels: Labels,
        pace: Duration,
    ) -> Result<Self> {
        let stage = bringer.stage;
        let backend = stage.database.client_as("forms_app").await?;
        let scanner = stage.database.client_as("forms_scanner").await?;
        Ok(Self { stage, bringer, narrator, labels, witness, backend, scanner, pace })
    }

    /// Plays all stories.
    ///
    /// # Errors
    /// A part of the stage is gone.
    pub(super) async fn all(&self, played: &mut Vec<Played>) -> Result<()> {
        let mut number = 0;
        for scenario in SCENARIOS {
            number += 1;
            self.narrator.headline(format!(
                "{number}. {}: {}",
                scenario.label,
                scenario.announcement(self.stage.source())
            ));
            self.one(scenario, played).await?;
            tokio::time::sleep(self.pace).await;
            if scenario.label == UNPARSEABLE_AFTER {
                number += 1;
                let story = unparseable(self.stage.source());
                self.narrator.headline(format!("{number}. {UNPARSEABLE}: {story}"));
                let said = self.garble().await?;
                self.narrator.say("backend", UNPARSEABLE, Tone::Plain, said);
                tokio::time::sleep(self.pace).await;
            }
        }
        Ok(())
    }

    async fn one(&self, scenario: &'static Scenario, played: &mut Vec<Played>) -> Result<()> {
        let upload = self.brought(scenario).await?;
        let Seeded { id, attachments } = self.finalize(scenario, upload).await?;
        played.push(Played { scenario, id, faults: Vec::new(), evidence: Evidence::default() });
        let say = |teller, text: String| self.narrator.say(teller, scenario.label, Tone::Plain, text);
        let mut announced = Vec::new();
        for deed in scenario.deeds {
            match *deed {
                Deed::Publish(reason) => {
                    let (teller, text) = self.announce(id, reason, announced.contains(&reason)).await?;
                    announced.push(reason);
                    say(teller, text);
                }
                Deed::Scan(number, status) => {
                    forms::scan(&self.scanner, attachments[number], status).await?;
                    say("scanner", format!("{} is {status}", scenario.files[number].name));
                }
                Deed::Untouched => {
                    tokio::time::sleep(A_WHILE).await;
                    let found = self.witness.look(&[id]).await?;
                    for evidence in found.iter().filter(|evidence| !evidence.is_untouched()) {
                        let fault = format!("touched before its attachments were clean: {evidence:?}");
                        played.iter_mut().filter(|p| p.id == id).for_each(|p| p.faults.push(fault.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Shows the event that the database wrote for it, or has the backend make one more; `again`: there is one like it.
    async fn announce(&self, id: Uuid, reason: &str, again: bool) -> Result<(&'static str, String)> {
        if again {
            self.stage.publish(id, reason)?;
            let verb = if self.stage.source() == Source::Pubsub { "publishes" } else { "writes" };
            return Ok(("backend", format!("{verb} one more event for it ({reason})")));
        }
        let events = self.witness.events(id).await?;
        let text = match events.last() {
            Some(reason) => format!("its event ({reason}), written in the same transaction"),
            None => "no event yet: nothing is ready".to_owned(),
        };
        Ok(("outbox", text))
    }

    /// An event that nobody can read.
    async fn garble(&self) -> Result<String> {
        if self.stage.source() == Source::Pubsub {
            let attributes = [("type", "routing.ready"), ("v", "1")];
            self.stage.broker.publish(TOPIC, GIBBERISH.as_bytes(), attributes)?;
            return Ok(format!("publishes `{GIBBERISH}`"));
        }
        let sql = "INSERT INTO router.outbox (kind, payload) VALUES ('routing.ready', $1::text::jsonb)";
        self.backend.execute(sql, &[&GIBBERISH_ROW]).await?;
        Ok(format!("writes an event `{GIBBERISH_ROW}`"))
    }

    /// The file that is brought before its submission is finalized, if there is one.
    async fn brought(&self, scenario: &'static Scenario) -> Result<Option<Uuid>> {
        let Some(file) = scenario.brought else { return Ok(None) };
        let say = |teller, text: String| self.narrator.say(teller, scenario.label, Tone::Plain, text);
        Ok(Some(bring(&self.bringer, scenario, file, say).await?))
    }

    /// Row, fields, attachments and their objects, as the backend's finalize makes them; a file that was brought becomes an
    /// attachment in the same transaction.
    async fn finalize(&self, scenario: &'static Scenario, upload: Option<Uuid>) -> Result<Seeded> {
        let Scenario { label, form, fields, files, .. } = *scenario;
        let mut seed = SubmissionSeed::of(form).bucket(BUCKET);
        for (key, value) in fields {
            seed = seed.field(key, value);
        }
        for file in files {
            seed = seed.attachment(file.name, file.scan);
        }
        self.backend.batch_execute("BEGIN").await?;
        let seeded = seed.insert(&self.backend).await?;
        if let Some(upload) = upload {
            self.backend.execute("SELECT content.attach($1, $2)", &[&upload, &seeded.id]).await?;
        }
        self.backend.batch_execute("COMMIT").await?;
        for (number, file) in (1..).zip(files) {
            let object = format!("submissions/{}/{number}-{}", seeded.id, file.name);
            self.stage.google.put_object(BUCKET, &object, "text/plain", file.content);
        }
        self.labels.lock().unwrap_or_else(PoisonError::into_inner).insert(seeded.id.to_string(), label);
        let with = match files.len() {
            0 if upload.is_some() => ", and attaches the file".to_owned(),
            0 => String::new(),
            count => format!(", {count} attachments"),
        };
        let text = format!("finalizes {} of form `{form}`{with}", &seeded.id.to_string()[..8]);
        self.narrator.say("backend", label, Tone::Plain, text);
        Ok(seeded)
    }
}

/// Waits until every submission has ended, what is dead-lettered has arrived and no event is left; at most until `deadline`.
/// Fills in the evidence either way.
///
/// # Errors
/// The router or the database is gone.
pub(super) async fn until_over(
    stage: &Stage,
    witness: &Witness<'_>,
    router: &mut Router,
    played: &mut [Played],
    deadline: Timestamp,
) -> Result<Vec<String>> {
    let ids: Vec<Uuid> = played.iter().map(|played| played.id).collect();
    let expected = |played: &Played| played.scenario.expected(stage.source());
    let of_submissions: usize = played.iter().map(|played| expected(played).dead_letters).sum();
    let letters_expected = of_submissions + 1;
    loop {
        let found = witness.look(&ids).await?;
        let open = found.iter().filter(|evidence| !evidence.is_over()).count();
        for (played, evidence) in played.iter_mut().zip(found) {
            played.evidence = evidence;
        }
        if let Some(status) = router.end()? {
            bail!("the router ended with {status} in the middle of the demo");
        }
        let (events, letters) = (stage.events().await?, witness.letters_there().await?);
        let unsettled = events.backlog + events.outstanding;
        if open == 0 && unsettled == 0 && letters >= letters_expected {
            return Ok(Vec::new());
        }
        if now() > deadline {
            let mut faults = vec![format!("time is up: {open} submissions have not ended")];
            if unsettled > 0 {
                faults.push(format!("{unsettled} events are not settled"));
            }
            if letters < letters_expected {
                faults.push(format!("{letters} dead letters, expected {letters_expected}"));
            }
            return Ok(faults);
        }
        tokio::time::sleep(LOOK).await;
    }
}
