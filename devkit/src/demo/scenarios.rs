//! The demo's submissions, and how each should end. Data only: the stage manager is [`super::play`], the judge
//! [`super::verdict`].

use crate::stage::Source;

/// One submission's story.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    /// Short name, as in the first column of the table.
    pub(super) label: &'static str,
    /// Announcement to the reader.
    pub(super) story: &'static str,
    /// The same where the database is the source of events, if it differs.
    pub(super) without_broker: Option<&'static str>,
    /// Which form it is of.
    pub(super) form: &'static str,
    /// Fields that the submitter typed.
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// Files that the submitter uploaded.
    pub(super) files: &'static [File],
    /// A file that is brought through the API of uploads before the submission is finalized.
    pub(super) brought: Option<Brought>,
    /// The relay's reply to a recipient.
    pub(super) relay: Option<Reply>,
    /// Deeds of the backend and the scan worker, in this order, after the submission is finalized.
    pub(super) deeds: &'static [Deed],
    /// Expected end.
    pub(super) expect: Expect,
}

impl Scenario {
    /// Announcement to the reader.
    pub(super) fn announcement(&self, source: Source) -> &'static str {
        self.without_broker.filter(|_| source == Source::Postgres).unwrap_or(self.story)
    }

    /// Expected end. Without a broker no copy of a spent event is kept: its row alone alerts.
    pub(super) fn expected(&self, source: Source) -> Expect {
        match source {
            Source::Pubsub => self.expect,
            Source::Postgres => Expect { dead_letters: 0, ..self.expect },
        }
    }

    /// Cause of its entry in the review queue, where it has one.
    pub(super) fn cause(&self) -> Option<&'static str> {
        match (self.expect.status, self.expect.reason) {
            ("failed", Some("infected")) => Some("infected"),
            ("failed", _) => Some("failed"),
            _ => None,
        }
    }

    /// Events that name it, where the database writes them: none before its attachments are clean.
    pub(super) fn events(&self) -> usize {
        let waits = self.files.iter().any(|file| file.scan == "pending");
        let early = |deed: &&Deed| waits && matches!(deed, Deed::Publish("finalized"));
        let published = |deed: &&Deed| matches!(deed, Deed::Publish(_));
        self.deeds.iter().filter(published).filter(|deed| !early(deed)).count()
    }
}

/// An uploaded file.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    /// File name.
    pub(super) name: &'static str,
    /// Scan status when the submission is finalized.
    pub(super) scan: &'static str,
    /// File content.
    pub(super) content: &'static str,
}

/// A file that the API of uploads takes. Its bytes are made when it is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// Twenty mebibytes of text, in parts.
    InParts,
    /// The EICAR test file.
    Virus,
}

/// A relay's reply instead of 250.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    /// Recipient of the reply.
    pub(super) recipient: &'static str,
    /// The reply line.
    pub(super) line: &'static str,
    /// Number of such replies; always when absent.
    pub(super) times: Option<u64>,
}

/// One act of the backend or the scan worker.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// An event is published, for this reason.
    Publish(&'static str),
    /// The scan worker judges a file, counted from 0.
    Scan(usize, &'static str),
    /// A while later the submission must still be untouched: not claimed, nothing sent.
    Untouched,
}

/// A submission's expected end, in database rows and mails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expect {
    /// `submissions.status`
    pub(super) status: &'static str,
    /// Why it failed, where it should.
    pub(super) reason: Option<&'static str>,
    /// Attempts spent.
    pub(super) attempts: u64,
    /// Recipients that get one mail each; nobody else gets any.
    pub(super) mailed: &'static [&'static str],
    /// Rows of the audit log by action, all of them.
    pub(super) audit: &'static [(&'static str, usize)],
    /// `submissions.happyfox_status`
    pub(super) happyfox: Option<&'static str>,
    /// Tickets at the help desk.
    pub(super) tickets: usize,
    /// Signed links in its mails.
    pub(super) links: usize,
    /// Messages about it on the dead-letter topic.
    pub(super) dead_letters: usize,
}

/// A submission that is routed at the first attempt with one mail each to these.
const fn routed(mailed: &'static [&'static str], audit: &'static [(&'static str, usize)]) -> Expect {
    Expect {
        status: "routed",
        reason: None,
        attempts: 1,
        mailed,
        audit,
        happyfox: None,
        tickets: 0,
        links: 0,
        dead_letters: 0,
    }
}

/// A submission that fails at the first attempt, for this reason.
const fn failed(
    reason: &'static str,
    mailed: &'static [&'static str],
    audit: &'static [(&'static str, usize)],
) -> Expect {
    Expect {
        status: "failed",
        reason: Some(reason),
        attempts: 1,
        mailed,
        audit,
        happyfox: None,
        tickets: 0,
        links: 0,
        dead_letters: 0,
    }
}

/// A finalized submission, announced once; stories start from it.
const PLAIN: Scenario = Scenario {
    label: "plain",
    story: "one mail to one recipient",
    without_broker: None,
    form: "contact",
    fields: &[("name", "Ada"), ("email", "ada@example.org"), ("topic", "Hello"), ("message", "Hello there")],
    files: &[],
    brought: None,
    relay: None,
    deeds: &[Deed::Publish("finalized")],
    expect: routed(&["office@example.org"], &[("email_sent", 1), ("submission_routed", 1)]),
};

/// Scenario whose story is explained at the end.
pub(super) const EXPLAINED: &str = "one refused";
/// Scenario whose links are fetched at the end.
pub(super) const LINKED: &str = "becomes clean";
/// Scenario whose large file is read back at the end.
pub(super) const BROUGHT: &str = "20 MiB in parts";
/// Label of the event that nobody can read.
pub(super) const UNPARSEABLE: &str = "unparseable";
/// Story after which the event comes.
pub(super) const UNPARSEABLE_AFTER: &str = "published twice";
/// Payload published as that event.
pub(super) const GIBBERISH: &str = "{\"submission_id\": 42, this is not JSON";
/// Payload of that event where an event is a row: JSON, but it names no submission.
pub(super) const GIBBERISH_ROW: &str = "{\"submission_id\": 42}";

/// Announcement of it to the reader.
pub(super) fn unparseable(source: Source) -> &'static str {
    match source {
        Source::Pubsub => {
            "an event that is not JSON is given back each time; after five deliveries Pub/Sub keeps it on the \
             dead-letter topic"
        }
        Source::Postgres => {
            "an event that names no submission is put back each time; after five deliveries it is a dead letter \
             in schema router, and holds up nobody"
        }
    }
}
/// Form of the demo's own, whose one recipient has left.
pub(super) const FEEDBACK: (&str, &str) = ("feedback", "former-colleague@example.org");

/// The stories, in their order of display.
pub(super) const SCENARIOS: &[Scenario] = &[
    PLAIN,
    Scenario {
        label: "three actions",
        story: "three actions, carried out one after the other, one mail each",
        form: "membership",
        fields: &[("name", "Grace"), ("city", "Hamburg"), ("level", "supporter")],
        expect: routed(
            &["accounts@example.org", "archive@example.org", "members@example.org"],
            &[("email_sent", 3), ("submission_routed", 1)],
        ),
        ..PLAIN
    },
    Scenario {
        label: EXPLAINED,
        story: "one action with three recipients; the relay refuses one for good. The others get their mail, \
                once, and the submission counts as failed",
        form: "volunteer",
        fields: &[("name", "Alan"), ("city", "Bremen"), ("hours", "4")],
        relay: Some(Reply { recipient: "south@example.org", line: "550 5.1.1 no such user", times: None }),
        expect: failed(
            "refused",
            &["north@example.org", "volunteers@example.org"],
            &[("email_failed", 1), ("email_sent", 2), ("submission_route_failed", 1)],
        ),
        ..PLAIN
    },
    Scenario {
        label: LINKED,
        story: "two attachments are still being scanned: nothing may be sent until both are clean; then the mail \
                has a signed link for each",
        without_broker: Some(
            "two attachments are still being scanned: the database writes no event before both are clean; then \
             the mail has a signed link for each",
        ),
        form: "upload",
        fields: &[("name", "Edsger")],
        files: &[
            File { name: "statement.txt", scan: "pending", content: "Simplicity is a prerequisite.\n" },
            File { name: "photo.txt", scan: "pending", content: "(imagine a photo here)\n" },
        ],
        deeds: &[
            Deed::Publish("finalized"),
            Deed::Untouched,
            Deed::Scan(0, "clean"),
            Deed::Untouched,
            Deed::Scan(1, "clean"),
            Deed::Publish("scan_clean"),
        ],
        expect: Expect {
            links: 2,
            ..routed(&["documents@example.org"], &[("email_sent", 1), ("submission_routed", 1)])
        },
        ..PLAIN
    },
    Scenario {
        label: "infected",
        story: "one clean attachment and one infected: it fails at once and nobody gets anything",
        form: "upload",
        fields: &[("name", "Mallory")],
        files: &[
            File { name: "letter.txt", scan: "clean", content: "harmless\n" },
            File { name: "invoice.txt", scan: "infected", content: "not harmless\n" },
        ],
        expect: Expect { attempts: 0, ..failed("infected", &[], &[("submission_route_failed", 1)]) },
        ..PLAIN
    },
    Scenario {
        label: BROUGHT,
        story: "a file of 20 MiB is brought in parts straight to the store, compared with its SHA-256 and scanned, all before \
                the submission is finalized; the mail has a link to exactly these bytes",
        form: "upload",
        fields: &[("name", "Grace")],
        brought: Some(Brought::InParts),
        expect: Expect {
            links: 1,
            ..routed(&["documents@example.org"], &[("email_sent", 1), ("submission_routed", 1)])
        },
        ..PLAIN
    },
    Scenario {
        label: "virus brought",
        story: "the file that is brought is the EICAR test virus: clamd finds it, the submission fails as it is finalized \
                (runbooks/rb-008), and nobody gets anything",
        form: "upload",
        fields: &[("name", "Mallory")],
        brought: Some(Brought::Virus),
        expect: Expect { attempts: 0, ..failed("infected", &[], &[("submission_route_failed", 1)]) },
        ..PLAIN
    },
    Scenario {
        label: "451, then 250",
        story: "the relay says 451 (try again later): the event is given back, redelivered, and the second attempt \
                succeeds",
        without_broker: Some(
            "the relay says 451 (try again later): the event is put back, comes again when the submission is due, \
             and the second attempt succeeds",
        ),
        form: "press",
        fields: &[("outlet", "The Daily"), ("question", "Why?")],
        relay: Some(Reply {
            recipient: "press@example.org",
            line: "451 4.3.0 try again later",
            times: Some(1),
        }),
        expect: Expect {
            attempts: 2,
            ..routed(&["press@example.org"], &[("email_sent", 1), ("submission_routed", 1)])
        },
        ..PLAIN
    },
    Scenario {
        label: "550 for good",
        story: "the only recipient is refused for good: it fails at the first attempt and is not tried again",
        form: FEEDBACK.0,
        fields: &[("comment", "You are doing well")],
        relay: Some(Reply { recipient: FEEDBACK.1, line: "550 5.1.1 no such user", times: None }),
        expect: failed("refused", &[], &[("email_failed", 1), ("submission_route_failed", 1)]),
        ..PLAIN
    },
    Scenario {
        label: UNPARSEABLE_AFTER,
        story: "its event is published twice: still one mail, and routed once",
        without_broker: Some("it has two events, its own and one more: still one mail, and routed once"),
        deeds: &[Deed::Publish("finalized"), Deed::Publish("finalized")],
        ..PLAIN
    },
    Scenario {
        label: "help desk only",
        story: "its only action is a HappyFox ticket: the help desk makes it, and the row says which",
        form: "helpdesk",
        fields: &[("summary", "Printer"), ("details", "It prints in Klingon")],
        expect: Expect {
            happyfox: Some("created"),
            tickets: 1,
            ..routed(&[], &[("happyfox_success", 1), ("submission_routed", 1)])
        },
        ..PLAIN
    },
    Scenario {
        label: "desk and mail",
        story: "a HappyFox ticket and a mail: each goes its way",
        form: "complaint",
        fields: &[("name", "Barbara"), ("summary", "Noise"), ("details", "All night")],
        expect: Expect {
            happyfox: Some("created"),
            tickets: 1,
            ..routed(
                &["complaints@example.org"],
                &[("email_sent", 1), ("happyfox_success", 1), ("submission_routed", 1)],
            )
        },
        ..PLAIN
    },
    Scenario {
        label: "no actions",
        story: "its form has no actions, a fault of configuration: tried until five attempts are spent, then failed \
                and dead-lettered, never routed",
        without_broker: Some(
            "its form has no actions, a fault of configuration: tried until five attempts are spent, then failed, \
             never routed; its row alone alerts",
        ),
        form: "newsletter",
        fields: &[("email", "edith@example.org")],
        expect: Expect {
            attempts: 5,
            dead_letters: 1,
            ..failed("no_actions", &[], &[("submission_route_failed", 1)])
        },
        ..PLAIN
    },
];
