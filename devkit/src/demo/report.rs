//! The demo's last words: one explanation, one link followed, the table, and the faults.

use anyhow::Result;

use super::Options;
use super::bringing::{content, sha256};
use super::evidence::{DeadLetter, Witness};
use super::link::{fetch, signed_links, unsigned};
use super::narration::{Narrator, Tone};
use super::play::Played;
use super::scenarios::{
    BROUGHT, EXPLAINED, GIBBERISH, GIBBERISH_ROW, LINKED, UNPARSEABLE, UNPARSEABLE_AFTER,
};
use super::table::aligned;
use super::theatre::{REVIEWER, Theatre, mail_dir, slack_dir, wrapper};
use crate::stage::{PROJECT, SUBSCRIPTION, Source};

/// Status of a row that is as expected.
const GOOD: &str = "ok";
/// Columns of a URL that are shown.
const URL_SHOWN: usize = 76;

/// All output at the end.
pub(super) struct Report {
    /// Printed before the table, a block each.
    blocks: Vec<(String, Vec<String>)>,
    rows: Vec<[String; 6]>,
    faults: Vec<String>,
}

impl Report {
    /// Explains, follows the link, and judges.
    ///
    /// # Errors
    /// A part of the stage is gone.
    pub(super) async fn gather(
        theatre: &Theatre,
        witness: &Witness<'_>,
        played: &mut [Played],
        faults: Vec<String>,
    ) -> Result<Self> {
        let mut report = Self { blocks: Vec::new(), rows: Vec::new(), faults };
        let source = theatre.stage.source();
        let letters = witness.dead_letters().await?;
        for played in &mut *played {
            played.evidence.dead_letters = letters.iter().filter(|letter| letter.is_about(played.id)).count();
            if source == Source::Postgres {
                let (events, expected) = (witness.events(played.id).await?.len(), played.scenario.events());
                if events != expected {
                    played.faults.push(format!("{events} events in the outbox, expected {expected}"));
                }
            }
            report.judge(played, source);
            if played.scenario.label == UNPARSEABLE_AFTER {
                report.judge_unparseable(&letters, source);
            }
        }
        let played = &*played;
        let ours: usize = played.iter().flat_map(|played| played.evidence.mailed.values()).sum();
        let all: usize = theatre.stage.relay.mails().iter().map(|mail| mail.recipients.len()).sum();
        if all != ours {
            report.faults.push(format!("{} mails belong to no submission of the demo", all - ours));
        }
        if source == Source::Postgres {
            report.show(theatre, &["dlq", "list"], UNPARSEABLE).await?;
        }
        for story in played.iter().filter(|played| played.scenario.label == EXPLAINED) {
            report.show(theatre, &["explain", &story.id.to_string()], story.scenario.label).await?;
        }
        for story in played.iter().filter(|played| played.scenario.label == LINKED) {
            report.follow_link(theatre, story).await?;
        }
        for story in played.iter().filter(|played| played.scenario.label == BROUGHT) {
            report.read_back(theatre, story).await?;
        }
        Ok(report)
    }

    /// Adds what became of a story after it was judged.
    pub(super) fn add(&mut self, label: &str, further: &str) {
        for [.., outcome] in self.rows.iter_mut().filter(|[_, of, ..]| of == label) {
            outcome.push_str(further);
        }
    }

    /// Adds the row of an act that has submissions of its own, judged by the faults that it added.
    pub(super) fn act(&mut self, cells: [&str; 5]) {
        let is_of_it = |fault: &String| fault.starts_with(&format!("{}: ", cells[0]));
        let verdict = if self.faults.iter().any(is_of_it) { "NO" } else { GOOD };
        let [label, form, status, attempts, outcome] = cells.map(str::to_owned);
        self.rows.push([verdict.to_owned(), label, form, status, attempts, outcome]);
    }

    /// Whether no fault was found.
    pub(super) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    fn judge(&mut self, played: &Played, source: Source) {
        let Played { scenario, evidence, faults, .. } = played;
        let expected = scenario.expected(source);
        let faults: Vec<String> = faults.iter().cloned().chain(evidence.faults(&expected)).collect();
        let attempts = evidence.attempts.to_string();
        self.row([scenario.label, scenario.form, &evidence.status, &attempts, &evidence.outcome()], &faults);
    }

    fn judge_unparseable(&mut self, letters: &[DeadLetter], source: Source) {
        let (gibberish, place) = match source {
            Source::Pubsub => (GIBBERISH, "on the dead-letter topic"),
            Source::Postgres => (GIBBERISH_ROW, "among the dead letters"),
        };
        let kept: Vec<&DeadLetter> =
            letters.iter().filter(|letter| letter.data == gibberish.as_bytes()).collect();
        let deliveries = kept.first().and_then(|letter| letter.deliveries).unwrap_or_default();
        let mut faults = Vec::new();
        if kept.len() != 1 {
            faults.push(format!("{} times {place}, expected once", kept.len()));
        }
        if deliveries != 5 {
            faults.push(format!("given up after {deliveries} deliveries, expected 5"));
        }
        let (status, outcome) =
            if kept.is_empty() { ("lost", "-") } else { ("dead letter", "kept, byte for byte") };
        self.row([UNPARSEABLE, "-", status, &deliveries.to_string(), outcome], &faults);
    }

    fn row(&mut self, cells: [&str; 5], faults: &[String]) {
        let [label, form, status, attempts, outcome] = cells.map(str::to_owned);
        let verdict = if faults.is_empty() { GOOD } else { "NO" };
        self.faults.extend(faults.iter().map(|fault| format!("{label}: {fault}")));
        self.rows.push([verdict.to_owned(), label, form, status, attempts, outcome]);
    }

    /// Adds a fault.
    pub(super) fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Shows a verb's output; any end but a good one is a fault.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) async fn show(&mut self, theatre: &Theatre, arguments: &[&str], label: &str) -> Result<()> {
        self.show_ended(theatre, arguments, label, &[0]).await
    }

    /// Shows a verb's output, which may find this machine too slow (exit code 1): that is shown, and no fault of the demo.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) async fn show_times(
        &mut self,
        theatre: &Theatre,
        arguments: &[&str],
        label: &str,
    ) -> Result<()> {
        self.show_ended(theatre, arguments, label, &[0, 1]).await
    }

    async fn show_ended(
        &mut self,
        theatre: &Theatre,
        arguments: &[&str],
        label: &str,
        good: &[i32],
    ) -> Result<()> {
        let (answer, line) = (theatre.verb(arguments).await?, arguments.join(" "));
        let mut lines: Vec<String> =
            answer.out.lines().chain(answer.err.lines()).map(str::to_owned).collect();
        if answer.code != Some(0) {
            let code = answer.code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            lines.push(format!("(ended with {code})"));
            // An error has exit code 1 as well, and says what it is.
            if !answer.code.is_some_and(|code| good.contains(&code)) || !answer.err.trim().is_empty() {
                self.faults.push(format!("`maple-router {line}` ended with {code}: {}", answer.err.trim()));
            }
        }
        self.blocks.push((format!("$ maple-router {line}    ({label})"), lines));
        Ok(())
    }

    /// Id and first signed link of the mail of a story.
    fn first_link(&mut self, theatre: &Theatre, played: &Played) -> Option<(String, String)> {
        let id = played.id.to_string();
        let mails = theatre.stage.relay.mails();
        let found = mails
            .iter()
            .filter(|mail| mail.submission_id.as_ref() == Some(&id))
            .find_map(|mail| Some((mail.queue_id.clone(), signed_links(mail).into_iter().next()?)));
        if found.is_none() {
            self.faults.push(format!("{}: no mail with a signed link", played.scenario.label));
        }
        found
    }

    /// Fetches by its link what was brought in parts, and compares the bytes.
    async fn read_back(&mut self, theatre: &Theatre, played: &Played) -> Result<()> {
        let Some((mail, url)) = self.first_link(theatre, played) else { return Ok(()) };
        let (signed, bare) = (fetch(&url).await?, fetch(unsigned(&url)).await?);
        let sent = played.scenario.brought.map(content).unwrap_or_default();
        let same = signed.status == 200 && signed.body == sent;
        if !same {
            let (status, length) = (signed.status, signed.body.len());
            self.faults.push(format!(
                "the link to what was brought answered {status}, {length} bytes, not the {} that were sent",
                sent.len()
            ));
        }
        if bare.status != 403 {
            self.faults
                .push(format!("without its signature that link answered {}, expected 403", bare.status));
        }
        let shown: String = url.chars().take(URL_SHOWN).collect();
        let lines = vec![
            format!("GET {shown}..."),
            format!(
                "  -> {}, {} bytes, SHA-256 {}...",
                signed.status,
                signed.body.len(),
                &sha256(&signed.body)[..16]
            ),
            format!("     {} what was sent, byte for byte", if same { "is" } else { "is NOT" }),
            format!("the same without its signature -> {}", bare.status),
        ];
        self.blocks.push((format!("The link in mail {mail}.eml    ({})", played.scenario.label), lines));
        Ok(())
    }

    async fn follow_link(&mut self, theatre: &Theatre, played: &Played) -> Result<()> {
        let Some((mail, url)) = self.first_link(theatre, played) else { return Ok(()) };
        let (signed, bare) = (fetch(&url).await?, fetch(unsigned(&url)).await?);
        let file = played.scenario.files.iter().find(|file| url.contains(file.name));
        if signed.status != 200 || file.is_none_or(|file| file.content.as_bytes() != signed.body) {
            self.faults.push(format!(
                "the signed link answered {}: {:?}",
                signed.status,
                String::from_utf8_lossy(&signed.body)
            ));
        }
        if bare.status != 403 {
            self.faults
                .push(format!("without its signature the link answered {}, expected 403", bare.status));
        }
        let shown: String = url.chars().take(URL_SHOWN).collect();
        let lines = vec![
            format!("GET {shown}..."),
            format!(
                "  -> {}, {} bytes: {:?}",
                signed.status,
                signed.body.len(),
                String::from_utf8_lossy(&signed.body)
            ),
            format!("the same without its signature -> {}", bare.status),
        ];
        self.blocks
            .push((format!("The first link in mail {mail}.eml    ({})", played.scenario.label), lines));
        Ok(())
    }

    /// Prints it, the table last, so that it is what stays on the screen.
    pub(super) fn print(&self, narrator: &Narrator, options: &Options, theatre: &Theatre) {
        for (title, lines) in &self.blocks {
            narrator.print(&format!("\n{title}"), Tone::Bold);
            for line in lines {
                narrator.print(&format!("  {line}"), Tone::Plain);
            }
        }
        narrator.print("", Tone::Plain);
        let headings = ["", "submission", "form", "status", "attempts", "outcome"];
        let tones = [Tone::Bold, Tone::Faint].into_iter();
        let tones = tones.chain(
            self.rows.iter().map(|[verdict, ..]| if verdict == GOOD { Tone::Plain } else { Tone::Bad }),
        );
        for (line, tone) in aligned(headings, &self.rows).iter().zip(tones) {
            narrator.print(line, tone);
        }
        let mails = theatre.stage.relay.counters().mails;
        narrator.print(
            &format!("\n{mails} mails as they were sent: {}/*.eml", mail_dir(&options.dir).display()),
            Tone::Plain,
        );
        let posted = theatre.stage.slack.messages().len();
        narrator.print(
            &format!("{posted} messages as Slack has them: {}/*.txt", slack_dir(&options.dir).display()),
            Tone::Plain,
        );
        let log = theatre.router.log_file().display();
        narrator
            .print(&format!("configuration: {}, log: {log}", theatre.router.config().display()), Tone::Plain);
        if self.is_good() {
            narrator.print("Everything ended as it should.", Tone::Good);
            return;
        }
        narrator.print(
            &format!("NOT as it should ({}); see the router's log, {log}", self.faults.len()),
            Tone::Bad,
        );
        for fault in &self.faults {
            narrator.print(&format!("  - {fault}"), Tone::Bad);
        }
    }
}

/// Introduction of the parts, for a first-time reader.
pub(super) fn orientation(theatre: &Theatre) -> String {
    let (log, uploads) = (theatre.router.log_file().display(), &theatre.uploads.origin);
    format!(
        "ready. Columns: seconds, who, which submission, what happens.\n\
         `backend` and `scanner` are played by the demo, `relay` is where mails arrive, and\n\
         `router` is what the process under test writes to its log ({log}).\n\
         The object store is a stand-in that keeps to Google's API; clamd is real, but its signatures are\n\
         stand-ins: it knows the EICAR test file and no real virus. Files are brought to {uploads}."
    )
}

/// Addresses of all parts, for a reader who wants to go on by hand.
///
/// # Errors
/// The program that makes the desk's link cannot be started.
pub(super) async fn addresses(options: &Options, theatre: &Theatre) -> Result<String> {
    let Theatre { stage, router, .. } = theatre;
    let link = theatre.verb(&["desk", "login", REVIEWER, "--to", "/queue"]).await?;
    let events = match stage.source() {
        Source::Pubsub => format!(
            "\x20 Pub/Sub       PUBSUB_EMULATOR_HOST={}  project {PROJECT}, {SUBSCRIPTION}\n",
            stage.broker.host_port()
        ),
        Source::Postgres => String::new(),
    };
    Ok(format!(
        "\nEverything goes on running until Ctrl-C:\n\
         \x20 review desk   {desk}\n\
         \x20 router        http://{http}/metrics  /-/ready  /-/healthy\n\
         \x20 verbs         {verbs} status; list; explain ID; watch ID; …\n\
         \x20 database      psql '{database}'\n\
         {events}\
         \x20 relay         {relay} (SMTP)\n\
         \x20 IAM           {iam}\n\
         \x20 object store  {storage} (a stand-in)\n\
         \x20 uploads       {verbs} upload FILE --form upload --owner YOU; {uploads}/v1/openapi.json\n\
         \x20 Slack         {slack}",
        http = router.address(),
        verbs = wrapper(&options.dir).display(),
        database = stage.database.url_as("forms_app"),
        relay = stage.relay.address(),
        iam = stage.google.iam_endpoint(),
        storage = stage.google.storage_endpoint(),
        uploads = theatre.uploads.origin,
        slack = stage.slack.webhook_url(),
        desk = link.out.trim().lines().next().unwrap_or("has no link: see its log"),
    ))
}
