//! Follows what happens on the stage and shows it: the router's log, mails at the relay, messages in Slack.
//!
//! Display only. Lines of the log that are not JSON (a panic, say) are shown as they are.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::journal;
use super::narration::{Narrator, Tone};
use super::scenarios::UNPARSEABLE;
use crate::stage::Stage;

/// Which submission, or upload, is which story.
pub(super) type Labels = Arc<Mutex<HashMap<String, &'static str>>>;

/// Progress of the display.
pub(super) struct Watch<'a> {
    stage: &'a Stage,
    narrator: Arc<Narrator>,
    labels: Labels,
    log: PathBuf,
    /// Bytes of the log already read, and the piece of a line at their end.
    read: u64,
    rest: String,
    seen: HashSet<String>,
    mails: usize,
    alerts: usize,
}

impl<'a> Watch<'a> {
    pub(super) fn new(stage: &'a Stage, narrator: Arc<Narrator>, labels: Labels, log: PathBuf) -> Self {
        let (rest, seen) = (String::new(), HashSet::new());
        Self { stage, narrator, labels, log, read: 0, rest, seen, mails: 0, alerts: 0 }
    }

    /// Shows events until dropped.
    pub(super) async fn go_on(&mut self) {
        loop {
            self.look();
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// Shows what is new.
    pub(super) fn look(&mut self) {
        for line in self.new_lines() {
            self.tell_entry(&line);
        }
        for mail in self.stage.relay.mails().into_iter().skip(self.mails) {
            self.mails += 1;
            let label = self.label(mail.submission_id.as_deref().unwrap_or_default());
            let at = Timestamp::try_from(mail.at).unwrap_or(Timestamp::MIN);
            let text = format!("mail {} stored for {}", mail.queue_id, mail.recipients.join(", "));
            self.narrator.say_at(at, "relay", label, Tone::Plain, text);
        }
        for message in self.stage.slack.messages().into_iter().skip(self.alerts) {
            self.alerts += 1;
            self.narrator.say("slack", "", Tone::Warn, message.visible_text());
        }
    }

    fn tell_entry(&mut self, line: &str) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else {
            self.narrator.say("router", "", Tone::Bad, line);
            return;
        };
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let at: Timestamp = text("time").parse().unwrap_or(Timestamp::MIN);
        let (id, event) = (text("submission_id"), text("event"));
        let again = event == "received" && !self.seen.insert(id.to_owned());
        let about = if id.is_empty() { text("upload") } else { id };
        let label = if event == "poison" { UNPARSEABLE } else { self.label(about) };
        if let Some((tone, words)) = journal::in_words(&entry, again) {
            self.narrator.say_at(at, "router", label, tone, words);
        }
    }

    fn label(&self, id: &str) -> &'static str {
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        labels.get(id).copied().unwrap_or_default()
    }

    /// Whole lines written since the last look.
    fn new_lines(&mut self) -> Vec<String> {
        let mut fresh = Vec::new();
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(self.read))?;
            log.read_to_end(&mut fresh)
        });
        // A log that cannot be read leaves the story incomplete, not the demo undone.
        self.read += read.unwrap_or_default() as u64;
        self.rest += &String::from_utf8_lossy(&fresh);
        let Some(end) = self.rest.rfind('\n') else { return Vec::new() };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        whole.lines().map(str::to_owned).collect()
    }
}
