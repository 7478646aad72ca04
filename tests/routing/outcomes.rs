//! The protocol's outcome table, row by row, where the relay speaks about recipients and messages: what the ledger,
//! the trail, the journal and the relay have afterwards. All cases share one router, as forms do.

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::Source;
use devkit::submission::Row;

use crate::harness::Scene;

/// Class, stage and code of a delivery's last error.
type Failure = Option<(&'static str, &'static str, Option<u64>)>;

/// One row of the table. The case's name is its form and the domain of its recipients.
struct Case {
    name: &'static str,
    form: Form,
    rules: Vec<Rule>,
    status: &'static str,
    reason: Option<&'static str>,
    attempts: u64,
    /// Key, state, and how it failed.
    entries: Vec<(String, &'static str, Failure)>,
    /// Outcomes in the journal, in order: `order outcome code`.
    journal: Vec<&'static str>,
    /// Mails the relay has, of this submission.
    mails: usize,
    doubted: bool,
}

impl Case {
    /// Mail actions to local parts of the case's domain; routed at once, one mail an action, until a method changes that.
    fn new(name: &'static str, actions: &[&str]) -> Self {
        let address = |local: &str| {
            if local.is_empty() || local.contains(' ') {
                local.to_owned()
            } else {
                format!("{local}@{name}.test")
            }
        };
        let mut form = Form::new(name);
        for action in actions {
            form = form.mail_to(&action.split(',').map(|l| address(l.trim())).collect::<Vec<_>>().join(", "));
        }
        Self {
            name,
            form,
            rules: Vec::new(),
            status: "routed",
            reason: None,
            attempts: 1,
            entries: Vec::new(),
            journal: Vec::new(),
            mails: actions.len(),
            doubted: false,
        }
    }

    /// The recipient of local part `who`, or the whole domain for "*".
    fn when(mut self, stage: At, who: &str, act: impl Fn(Rule) -> Rule) -> Self {
        let to =
            if who == "*" { format!("@{}.test", self.name) } else { format!("{who}@{}.test", self.name) };
        self.rules.push(act(Rule::at(stage).to(&to)));
        self
    }

    fn failed(mut self, reason: &'static str) -> Self {
        (self.status, self.reason) = ("failed", Some(reason));
        self
    }

    fn attempts(mut self, n: u64) -> Self {
        self.attempts = n;
        self
    }

    fn mails(mut self, n: usize) -> Self {
        self.mails = n;
        self
    }

    fn doubted(mut self) -> Self {
        self.doubted = true;
        self
    }

    /// `who` is a local part, or a key's remainder as it stands (`!1`, nothing).
    fn entry(mut self, order: u8, who: &str, state: &'static str, failure: Failure) -> Self {
        let plain = who.is_empty() || who.starts_with('!');
        let key = if plain { format!("{order}|{who}") } else { format!("{order}|{who}@{}.test", self.name) };
        self.entries.push((key, state, failure));
        self
    }

    fn journal(mut self, lines: &[&'static str]) -> Self {
        self.journal = lines.to_vec();
        self
    }
}

fn once(reply: &'static str) -> impl Fn(Rule) -> Rule {
    move |rule| rule.reply(reply).times(1)
}

fn always(reply: &'static str) -> impl Fn(Rule) -> Rule {
    move |rule| rule.reply(reply)
}

fn mail(name: &'static str, actions: &[&str]) -> Case {
    Case::new(name, actions)
}

fn relay_table() -> Vec<Case> {
    let refused = |stage, code| Some(("refused", stage, Some(code)));
    vec![
        mail("accepted", &["a,b"])
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 accepted 250", "1 accepted 250"]),
        mail("rcpt-550", &["a,b,c"])
            .when(At::Rcpt, "b", always("550 5.1.1 <b@rcpt-550.test>: User unknown"))
            .failed("refused")
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "failed", refused("RCPT", 550))
            .entry(1, "c", "accepted", None)
            .journal(&["1 accepted 250", "1 refused 550", "1 accepted 250"]),
        mail("data-554", &["a,b"])
            .when(At::Data, "*", always("554 5.5.1 no"))
            .failed("refused")
            .mails(0)
            .entry(1, "a", "failed", refused("DATA", 554))
            .entry(1, "b", "failed", refused("DATA", 554))
            .journal(&["1 refused 554", "1 refused 554"]),
        mail("dot-554", &["a"])
            .when(At::Dot, "*", always("554 5.6.0 content rejected"))
            .failed("refused")
            .mails(0)
            .entry(1, "a", "failed", refused("DOT", 554))
            .journal(&["1 refused 554"]),
        mail("dot-552", &["a"])
            .when(At::Dot, "*", always("552 5.3.4 Error: message file too big"))
            .failed("refused")
            .mails(0)
            .entry(1, "a", "failed", refused("DOT", 552))
            .journal(&["1 refused 552"]),
        mail("rcpt-451", &["a,b"])
            .when(At::Rcpt, "b", once("451 4.3.0 later"))
            .attempts(2)
            .mails(2)
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 accepted 250", "1 deferred 451", "1 accepted 250"]),
        mail("mixed", &["a,b,c"])
            .when(At::Rcpt, "b", once("550 5.1.1 never"))
            .when(At::Rcpt, "c", once("450 4.2.0 greylisted"))
            .failed("refused")
            .attempts(2)
            .mails(2)
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "failed", refused("RCPT", 550))
            .entry(1, "c", "accepted", None)
            .journal(&["1 accepted 250", "1 refused 550", "1 deferred 450", "1 accepted 250"]),
        mail("dot-451", &["a,b"])
            .when(At::Dot, "*", once("451 4.3.0 queue file write error"))
            .attempts(2)
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 deferred 451", "1 deferred 451", "1 accepted 250", "1 accepted 250"]),
        mail("rcpt-421", &["a,b"])
            .when(At::Rcpt, "a", |rule| {
                rule.act(devkit::smtp::Act::ReplyThenClose("421 4.3.2 shutting down".to_owned())).times(1)
            })
            .attempts(2)
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 deferred 421", "1 deferred 421", "1 accepted 250", "1 accepted 250"]),
        mail("relay-denied", &["a"])
            .when(At::Rcpt, "a", once("554 5.7.1 <a@relay-denied.test>: Relay access denied"))
            .attempts(2)
            .entry(1, "a", "accepted", None)
            .journal(&["1 deferred 554", "1 accepted 250"]),
        mail("cut-before-dot", &["a"])
            .when(At::Data, "*", |rule| rule.disconnect().times(1))
            .attempts(2)
            .entry(1, "a", "accepted", None)
            .journal(&["1 deferred -", "1 accepted 250"]),
        // The relay has both; the second has the same Message-ID (see `laws`), and the ledger says why.
        mail("cut-after-dot", &["a,b"])
            .when(At::AfterDot, "*", |rule| rule.disconnect().times(1))
            .attempts(2)
            .mails(2)
            .doubted()
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 unknown -", "1 unknown -", "1 accepted 250", "1 accepted 250"]),
        mail("cut-at-dot", &["a"])
            .when(At::Dot, "*", |rule| rule.disconnect().times(1))
            .attempts(2)
            .doubted()
            .entry(1, "a", "accepted", None)
            .journal(&["1 unknown -", "1 accepted 250"]),
        // A failed action never blocks the next; a deferred one waits for the next attempt, alone.
        mail("three-actions", &["a", "b", "c"])
            .when(At::Rcpt, "a", always("550 5.1.1 never"))
            .when(At::Rcpt, "b", once("451 4.3.0 later"))
            .failed("refused")
            .attempts(2)
            .mails(2)
            .entry(1, "a", "failed", refused("RCPT", 550))
            .entry(2, "b", "accepted", None)
            .entry(3, "c", "accepted", None)
            .journal(&["1 refused 550", "2 deferred 451", "3 accepted 250", "2 accepted 250"]),
        mail("many-actions", &["a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c"]).journal(&[
            "1 accepted 250",
            "2 accepted 250",
            "3 accepted 250",
            "4 accepted 250",
            "5 accepted 250",
            "6 accepted 250",
            "7 accepted 250",
            "8 accepted 250",
            "9 accepted 250",
            "10 accepted 250",
            "11 accepted 250",
            "12 accepted 250",
        ]),
    ]
}

fn destination_table() -> Vec<Case> {
    let address = Some(("refused", "address", None));
    let crowd: Vec<String> = (0..51).map(|n| format!("p{n}")).collect();
    let crowd = crowd.join(",");
    let mut ticket = mail("happyfox-alone", &[]).entry(1, "", "not_implemented", None);
    ticket.form = happyfox(ticket.form);
    let mut both = mail("happyfox-and-mail", &[])
        .mails(1)
        .entry(1, "", "not_implemented", None)
        .entry(2, "a", "accepted", None)
        .journal(&["1 not_implemented -", "2 accepted 250"]);
    both.form = happyfox(both.form).mail_to("a@happyfox-and-mail.test");
    vec![
        mail("bad-beside-good", &["a,not an address,b,nor this"])
            .failed("refused")
            .entry(1, "!1", "failed", address)
            .entry(1, "!2", "failed", address)
            .entry(1, "a", "accepted", None)
            .entry(1, "b", "accepted", None)
            .journal(&["1 refused -", "1 refused -", "1 accepted 250", "1 accepted 250"]),
        mail("nobody", &[""])
            .failed("refused")
            .mails(0)
            .entry(1, "!none", "failed", address)
            .journal(&["1 refused -"]),
        mail("crowd", &[&crowd])
            .failed("refused")
            .mails(0)
            .entry(1, "!limit", "failed", address)
            .journal(&["1 refused -"]),
        ticket.journal(&["1 not_implemented -"]),
        both,
    ]
}

fn happyfox(mut form: Form) -> Form {
    form.actions.push(devkit::forms::Action {
        kind: "happyfox_template".to_owned(),
        template: None,
        destination: "helpdesk".to_owned(),
        subject: None,
        category: Some("general".to_owned()),
    });
    form
}

async fn hold(source: Source, cases: Vec<Case>) {
    let forms: Vec<Form> = cases.iter().map(|case| case.form.clone()).collect();
    let scene = Scene::of(source, &forms).await;
    let mut ids = Vec::new();
    for case in &cases {
        case.rules.iter().for_each(|rule| scene.stage.relay.rule(rule.clone()));
        ids.push(scene.submit(&SubmissionSeed::of(case.name).field("f", "v")).await.id);
    }
    for (case, id) in cases.iter().zip(ids) {
        let row = scene.ended(id).await;
        let context = format!("{}: {row:?}\n{:#?}", case.name, scene.journal(id));
        assert_eq!((row.status.as_str(), row.reason()), (case.status, case.reason), "{context}");
        assert_eq!(row.attempts(), case.attempts, "{context}");
        entries(case, &row, &context);
        let sent = scene.stage.relay.mails().into_iter().filter(|m| m.submission_id == Some(id.to_string()));
        assert_eq!(sent.count(), case.mails, "{context}");
        let happyfox = row.entry("1|")["state"] == "not_implemented";
        assert_eq!(row.happyfox_status.as_deref(), happyfox.then_some("deferred"), "{context}");
        assert_eq!(outcomes(&scene, id), case.journal, "{context}");
    }
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.forwarded), (cases.len() as u64, 0), "{stats:?}");
    scene.stop().await;
}

fn entries(case: &Case, row: &Row, context: &str) {
    for (key, state, failure) in &case.entries {
        let entry = row.entry(key);
        assert_eq!(entry["state"], *state, "{key} of {context}");
        assert!(entry["at"].is_string(), "{key} of {context}");
        let error = &entry["error"];
        match failure {
            None => assert!(error.is_null(), "{key} of {context}"),
            Some((class, stage, code)) => {
                assert_eq!(
                    (&error["class"], &error["stage"]),
                    (&(*class).into(), &stage_word(stage)),
                    "{context}"
                );
                assert_eq!(error["code"].as_u64(), *code, "{key} of {context}");
                assert!(error["reply"].as_str().is_some_and(|reply| !reply.is_empty()), "{key} of {context}");
            }
        }
        if *state == "accepted" {
            assert_eq!(entry["doubted"] == true, case.doubted, "{key} of {context}");
        }
    }
    if !case.entries.is_empty() {
        let known = row.ledger["deliveries"].as_object().map(serde_json::Map::len);
        assert_eq!(known, Some(case.entries.len()), "{context}");
    }
}

/// SMTP's stages as SMTP writes them, those without a command of their own in lower case.
fn stage_word(stage: &str) -> serde_json::Value {
    if stage == "DOT" { "dot".into() } else { stage.into() }
}

/// `order outcome code` of every outcome in the journal.
pub(crate) fn outcomes(scene: &Scene, id: uuid::Uuid) -> Vec<String> {
    // The resolution of a doubt is logged besides the outcome.
    let is_outcome = |line: &serde_json::Value| line["outcome"].is_string() && line["event"] != "in_doubt";
    let lines = scene.journal(id).into_iter().filter(is_outcome);
    lines
        .map(|line| {
            let code = line["smtp_code"].as_u64().map_or_else(|| "-".to_owned(), |code| code.to_string());
            format!("{} {} {code}", line["action_order"], line["outcome"].as_str().unwrap_or_default())
        })
        .collect()
}

devkit::with_either_source!(
    what_the_relay_says_about_recipients_and_messages,
    what_is_decided_without_the_relay,
);

async fn what_the_relay_says_about_recipients_and_messages(source: Source) {
    hold(source, relay_table()).await;
}

async fn what_is_decided_without_the_relay(source: Source) {
    hold(source, destination_table()).await;
}
