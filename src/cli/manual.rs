//! Text of the manual pages beyond the declarations: paragraphs and examples for each verb, and the sections that are the
//! same on every page. Pure data; [`super::man`] makes pages of it, and its tests compare it with the parser.

/// A term and its meaning.
pub(super) type Entry = (&'static str, &'static str);

/// Text of a verb's page besides its options.
#[derive(Debug)]
pub(super) struct Page {
    /// The verb, as typed after `maple-router`.
    pub(super) verb: &'static str,
    /// Paragraphs.
    pub(super) text: &'static [&'static str],
    /// A call, and when it is made.
    pub(super) examples: &'static [Entry],
}

impl Page {
    /// Says whether the verb reads the configuration, so that environment and files matter.
    pub(super) fn is_configured(&self) -> bool {
        let verb = self.verb.split(' ').next().unwrap_or_default();
        !["lifecycle", "completions", "man"].contains(&verb)
    }
}

/// Exit codes, as in `Exit`.
pub(super) const EXIT_STATUS: &[Entry] = &[
    ("0", "Done. Warnings included; whoever closes our output early has seen enough."),
    ("1", "Found wanting, or failed: what, and what to do, stands on standard error."),
    ("2", "Called wrongly."),
    ("69", "A dependency is unavailable: the database, Pub/Sub, the relay or the signer. Try again later."),
    ("78", "Bad configuration, or a database that does not meet the contract. Trying again does not help."),
];

/// Variables that every configured verb reads.
pub(super) const ENVIRONMENT: &[Entry] = &[
    ("MAPLE_ROUTER_CONFIG", "The configuration file, where --config names none."),
    (
        "MAPLE_ROUTER__SECTION__KEY",
        "Overrides a key of the configuration, e.g. MAPLE_ROUTER__SMTP__PORT=2525. Lists are comma separated.",
    ),
    ("DATABASE_URL", "The same as database.url; may hold a password, which the file may not."),
    ("PUBSUB_EMULATOR_HOST, STORAGE_EMULATOR_HOST, GCE_METADATA_HOST", "As Google's own clients read them."),
    ("GOOGLE_APPLICATION_CREDENTIALS", "A service account's key file, where the host has no identity."),
    ("MAPLE_ROUTER_OWNER_URL", "For migrate: the connection string of the schema's owner."),
    (
        "MAPLE_ROUTER_PUBLISHER_URL, MAPLE_ROUTER_COLLECTOR_URL, MAPLE_ROUTER_SCREENER_URL, MAPLE_ROUTER_GRADER_URL",
        "For forms, retention, screening and grading, for gc, erase and links revoke, for screen, and for grade and grading calibrate: the \
         connection string of the publisher's, of the collector's, of the screener's and of the grader's role.",
    ),
    ("CREDENTIALS_DIRECTORY", "Set by systemd: where the service finds its secrets."),
    ("MAPLE_ROUTER_TIMEOUT_STOP_SEC", "Set by the unit: its TimeoutStopSec, which draining must fit into."),
    (
        "RUST_LOG",
        "What is logged, instead of log.level, e.g. warn,maple_router::routing=debug. Libraries stay at warn, except where it \
         is written to a terminal.",
    ),
    ("COLUMNS", "The width results are laid out for, instead of the terminal's."),
    ("NO_COLOR", "No colours, also on a terminal, unless --color says otherwise."),
];

/// Files that every configured verb may read.
pub(super) const FILES: &[Entry] = &[
    (
        "/etc/maple-router/config.toml",
        "The configuration. Readable for root and the group maple-router; never holds secrets.",
    ),
    (
        "/etc/maple-router/credentials/",
        "Secrets, a file each, for root only: slack-webhook, database-password, signing-key.json, heartbeat-url, bounce-secret, audit-key, desk-secret, happyfox-api-key, happyfox-auth-code, uploads-key. systemd \
         hands them to the service; a command line reads them here, so run it with sudo. What is absent is not used.",
    ),
    (
        "/etc/maple-router/collector/",
        "The collector's, for root only: gc-key.json, the key of its service account, and environment, with its connection string. systemd hands \
         them to maple-router-gc.service alone.",
    ),
    (
        "/etc/maple-router/screener/",
        "The screener's, for root only: judge-key, the key of the judge, and environment, with its connection string. systemd hands them to \
         maple-router-screener.service alone.",
    ),
    (
        "/etc/maple-router/grader/",
        "The grader's, for root only: grader-key and stt-key, the keys of the models and of the transcriber, and environment, with its connection \
         string. systemd hands them to maple-router-grader.service alone.",
    ),
    (
        "/var/lib/maple-router/",
        "State of this host: facts that the database did not take yet, and without schema router pauses and dead-letter \
         records. Do not delete it while there are files in spool/.",
    ),
    ("/usr/share/maple-router/monitoring/", "Alert rules, a dashboard and Wazuh rules to copy from."),
    ("/usr/share/doc/maple-router/runbooks/", "What to do when something is wrong."),
];

const ID: &str = "Recipients are shown in full to whoever may run this; field values never are.";

macro_rules! pages {
    ($($verb:literal: $($text:expr),+; $($example:literal => $when:literal),+;)*) => {
        &[$(Page { verb: $verb, text: &[$($text),+], examples: &[$(($example, $when)),+] }),*]
    };
}

/// A page for each verb, in the order of the interfaces page: its paragraphs, then calls and when they are made.
pub(super) const PAGES: &[Page] = pages! {
    "":
        "A daemon and its tools. An event says only: look at this submission; it comes from Pub/Sub, or from PostgreSQL \
         itself (source.kind). What is ready is claimed in \
         PostgreSQL, its form's actions are carried out in order (mail through the Postfix of this host, attachments as \
         signed links), every outcome is recorded, and only then the event is settled. What a crash or a lost event \
         leaves behind is found by a sweep every minute; no failure is silent.",
        "Wherever an id is taken, its beginning is, too, where it names only one thing: at least four digits, as in 6f3e0f5c. \
         Where it names several, they are listed, and nothing is done.",
        "Every reading verb has --json. Every bulk verb has --dry-run, shows its progress on a terminal and ends with \
         how many matched, were changed and were skipped, with the reasons. Where a person overrides something, --reason \
         is required and recorded. Filters are the same everywhere.";
        "sudo maple-router check" => "Is everything as it should be?",
        "sudo maple-router status" => "How much is where, and how old?",
        "sudo maple-router list --status failed --since 24h" => "Which submissions failed, and why?",
        "sudo maple-router explain f0a9d36e-423d-4d16-b66f-64f02eddff1f"
            => "What happened to this one, and what happens next?";
    "run":
        "Started by systemd as maple-router.service (Type=notify). It is READY once database, relay and, with Pub/Sub, \
         subscription have answered; a dependency that is down is waited for. It refuses to start, with exit status 78, where the \
         configuration is wrong or the database does not meet the contract.",
        "SIGTERM drains: no event is taken any more, what is being sent is finished and recorded, the rest is given back \
         without spending an attempt; a second SIGTERM ends at once. SIGHUP reads the configuration again: what can \
         change without reconnecting does, the journal names the keys that need a restart, and a bad file changes \
         nothing.",
        "Metrics, /-/healthy and /-/ready are served at http.listen.";
        "maple-router run --config ./config.toml" => "In the foreground, as a developer does";
    "check":
        "A line for each thing the daemon relies on: configuration, database, schema, grants, row-level security, \
         subscription and dead-letter policy, relay, returned mails, signing (a probe object is fetched through a signed link), secrets \
         (which were read, and from where), the buckets of uploads and their scanner, the collector, alerts and forms. A line that fails says what to do. An answer comes within \
         about 20 seconds, whatever is down.",
        "Nothing is changed, and nothing is sent unless --send is given.";
        "sudo maple-router check" => "After every change of the configuration, and when in doubt",
        "sudo maple-router check --send" => "Does an alert reach Slack, does a mail leave?",
        "sudo maple-router check --json" => "For a program";
    "provision":
        "Topics, subscriptions, the dead-letter policy (five attempts) and the retry policy are created where they are \
         missing and verified where they exist; what exists otherwise is named, never changed in a way that loses \
         messages. It may be repeated at any time. Rights of Pub/Sub's own service agent cannot be granted from here: \
         what is missing is named. With source.kind = \"postgres\" there is nothing to provision but the topics of grading, where grading.transport = \"pubsub\".";
        "sudo maple-router provision --dry-run" => "What would be done?",
        "sudo maple-router provision" => "Do it";
    "migrate":
        "Migrations are part of this program. A production database has the backend's tables already and needs one of \
         ours: --only 011, which adds values to audit_log's actions and nothing else, and may be repeated. Schema router \
         is optional: with it, pauses and dead-letter records are shared by all hosts, and the database itself writes an \
         event when a submission becomes ready.",
        "Schema router may come and go on a database in use: indexes are built concurrently first, a table's lock is \
         given up after two seconds and tried again. [readiness] finalized_column is passed on to it, at every run. \
         --back 002 takes the outbox back: the triggers first, the rest when the daemon has delivered what there is.",
        "Schema content is optional as well, and comes after schema router: it has upload sessions, what was brought, its verdicts, versions of \
         forms, and how what has ended is removed. --content --back 003 takes the last back, with holds, rules and receipts; \
         --content --back 001 all of it: attachments and their objects stay, and what still waits for a verdict waits for ever.",
        "It connects as the owner of the schema, not as the daemon's role. The connection string is never printed; \
         PGPASSWORD may hold the password.";
        "maple-router migrate --only 011 --dry-run" => "Show the SQL to whoever owns the database",
        "maple-router migrate --only 011 --owner-url postgres://owner@localhost/forms" => "Apply it",
        "maple-router migrate --router" => "The optional schema of the daemon's own records, and its outbox",
        "maple-router migrate --router --back 002" => "Take the outbox and its triggers back",
        "maple-router migrate --content" => "The optional schema of uploads, versions and retention",
        "maple-router migrate --content --back 001" => "Take it back";
    "publish":
        "An event says only that a submission is to be looked at: one too many changes nothing. An id that the database does not \
         have is refused, unless --force is given. To be used when an event \
         was lost and the sweep, which finds it within a quarter of an hour, shall not be waited for.";
        "sudo maple-router publish f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "A submission is ready, and nothing happens";
    "finalize":
        "The first of the two readiness overrides, for tests and repair: sets readiness.finalized_column, where the backend \
         has one, and announces the submission once everything is ready.";
        "sudo maple-router finalize f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"backend died in between\""
            => "The backend died before it finalized a submission that is complete";
    "mark-attachment":
        "The second of the two readiness overrides, for tests and repair: records what a scan found. A submission with an \
         attachment that is infected is never sent. Taking that back needs a reason, which is recorded.";
        "sudo maple-router mark-attachment 0a7e6f1c-2a0e-4d6e-9d0c-9d1f4c6c1f10 --clean --reason \"scanned by hand\""
            => "The scan worker is down, and the file is known to be clean";
    "status":
        "Submissions by status with the age of the oldest, open ones by attempts, deliveries in doubt, failures that \
         nobody was notified of yet, open dead letters, pauses, and the breakers of the daemon on this host. Where no daemon \
         answers on this host, all that is shown as well, and the exit status is 1.",
        "Where the relay's log is followed on this host, also the mails that the relay accepted within a week and nothing \
         final is known of, and the age of the oldest. That opens the ledgers of all that changed in eight days; without \
         an index on (status, updated_at), as schema router brings one, it reads the whole table.";
        "sudo maple-router status" => "How much is where, and how old?",
        "sudo maple-router status --json | jq .counts" => "For a program";
    "list":
        "Oldest change first, a line each, with attempts, the reason of a failure and the deliveries by state; with --group-by \
         only how many there are. Columns go on below where the terminal is too narrow for them.",
        "Addresses are matched against the deliveries that were planned, whatever became of them, and never shown; what \
         retention has emptied names none any more.";
        "sudo maple-router list --status failed --since 24h" => "What failed since yesterday?",
        "sudo maple-router list --status processing --older-than 10m" => "What is stuck?",
        "sudo maple-router list --bounced --since 7d" => "Which mails were lost after the relay had accepted them?",
        "sudo maple-router list --since 2026-11-20 --group-by day" => "How much came, by day?",
        "sudo maple-router list --recipient a@example.org --newest --limit 5" => "What was sent to them lately?",
        "sudo maple-router list --status failed --since 30d --csv" => "For a spreadsheet",
        "sudo maple-router list --status failed --reason-code exhausted --form contact --json" => "For a program";
    "explain":
        "Where it stands, whether it is ready and which attachments are not clean, the plan, each delivery with what the relay \
         said, attempts, its history (audit trail, replays and other overrides, and each failed attempt with the reply, in \
         one order), why it is as it is, what happens next and when, and what a person can do.",
        "Where the relay's log is followed ([relay_log]), each delivery also shows what became of its mail after the \
         relay: delivered, deferred since when and why, bounced, expired, or nothing reported of it yet.",
        ID;
        "sudo maple-router explain f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "The first thing to ask";
    "watch":
        "What happened so far, then each change as it is seen, once a second: scans, claims, attempts with what the relay said, \
         acceptances, replays, the end. It ends with the submission: 0 where it is routed, 1 where it failed or was emptied. \
         Ctrl-C ends it at any time; nothing is written.",
        ID;
        "sudo maple-router watch f0a9d36e" => "It was announced just now: what becomes of it?",
        "sudo maple-router watch f0a9d36e-423d-4d16-b66f-64f02eddff1f --json"
            => "For a program: a line of JSON for each change";
    "tail":
        "A line for each submission that is routed or fails from now on, whichever host did it, until Ctrl-C. It looks once a \
         second, by the backend's index on (status, updated_at), or by the audit log where that may be read; where there is \
         neither, each look reads the whole table, and it looks seldom.";
        "sudo maple-router tail" => "What is going on?",
        "sudo maple-router tail --form contact --json" => "For a program: a line of JSON for each";
    "render":
        "The message as it would go to the relay, headers and links included. Nothing is sent or written but a line in \
         the journal, since the links in it are real.";
        "sudo maple-router render f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "What exactly would be sent?",
        "sudo maple-router render f0a9d36e-423d-4d16-b66f-64f02eddff1f --action 1" => "Of one action only";
    "links":
        "A link gives access to a file of a submission, so making one is recorded before it is shown. Attachments that \
         are not clean are refused by name.";
        "sudo maple-router links f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "A link in a mail has expired";
    "links revoke":
        "Gives the objects of a submission's files other names, so that every link that was mailed answers 404, also those of other submissions \
         with the same file. The files stay, as evidence; a new link to one that is clean is made by links. Files inside mails and \
         tickets cannot be recalled.",
        "Acts as the collector, as gc does. What is not done says why, with exit status 69; the same command again, or the next run of the \
         collector, goes on.";
        "sudo maple-router links revoke f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"infected, mailed on Monday\""
            => "A file proved infected after it was mailed";
    "replay":
        "Opens again what has ended, with fresh attempts. What the relay has accepted is never sent again, unless \
         --force-delivery or --force-action names it: then as a new mail with a Message-ID of its own, to that recipient \
         alone, or to all of the action. The plan stays pinned unless --replan takes the form's actions of today.",
        "A delivery's key is its action's order and its address, 1|it@example.org; explain --json names it, and explain's own \
         command has it, quoted for a shell. No delivery is forced while another one of its action is in doubt: under the new \
         Message-ID that one could go out twice. A replay that forces nothing settles the doubt first.",
        "Each submission is reopened by itself; what is reopened is announced by an event, or found by the sweep. Where filters \
         choose, a person at a terminal is asked first; --yes does not ask, and without a terminal it is required.",
        "With --bounced those with a mail that was lost after the relay had accepted it are meant, routed ones too; they \
         need --force-delivery, or --force-action, which sends to all recipients of that action.";
        "sudo maple-router replay --status failed --reason-code refused --since 24h --dry-run --reason \"mailbox mended\""
            => "What would be routed again?",
        "sudo maple-router replay f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"mailbox mended\"" => "The cause is mended",
        "sudo maple-router replay --bounced --since 24h --force-action 1 --yes --reason \"mail gateway mended\""
            => "Mails came back, and the cause is mended",
        "sudo maple-router replay f0a9d36e-423d-4d16-b66f-64f02eddff1f --force-delivery '1|it@example.org' --reason \"deleted by mistake\""
            => "A mail that was accepted is needed once more",
        "sudo maple-router replay f0a9d36e-423d-4d16-b66f-64f02eddff1f --force-action 1 --reason \"all deleted by mistake\""
            => "All recipients of an action need theirs once more";
    "release":
        "Takes a claim back from its worker now; the sweep does so by itself after routing.stuck_after. A worker that is \
         alive after all loses its claim: what it had begun is in doubt and may be delivered twice. Therefore a reason is \
         required.";
        "sudo maple-router release f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"host is gone\""
            => "A worker is gone, and its submission must not wait";
    "happyfox":
        "What only a help desk makes possible. [happyfox] of the configuration says where it is.";
        "sudo maple-router happyfox backfill --dry-run --reason \"the help desk is there\"" => "What would be made?";
    "happyfox backfill":
        "Actions that want a ticket were deferred while there was no help desk. This opens exactly those, the oldest submission first, \
         and the daemon makes their tickets: by the plan that was pinned, with every fact kept, so that no mail goes out again. What is \
         opened is announced by an event, or found by the sweep.",
        "No more than happyfox.max_per_minute are opened in a minute. Ctrl-C finishes the submission in hand and says how many are \
         left; whoever was interrupted or killed runs the same command again, which goes on with them.",
        "The help desk is asked first for its categories and custom fields; where it does not answer nothing is changed. What it would \
         refuse is left and named, with one submission for each reason: a category that is none or is not public, a custom field or a \
         choice that it does not know, no usable contact, a template that does not render. A category and the texts are pinned: \
         after the form's YAML was corrected, replay ID --replan takes them anew. A field that a category requires is not known \
         beforehand.",
        "A submission that somebody has is left and named: do it again later. One that failed is replay's: once it is routed, this finds \
         its tickets. Neither a field's value nor an address is shown.";
        "sudo maple-router happyfox backfill --dry-run --reason \"the help desk is there\""
            => "How many are there, and what would be refused?",
        "sudo maple-router happyfox backfill --form contact --since 2026-11-01 --reason \"the help desk is there\""
            => "One form first";
    "sweep":
        "One pass of what the daemon does every minute: takes back claims that nobody touches, finds what is ready and \
         waits without an event, fails what is infected, counts what never becomes ready, and tells people of failures \
         nobody was notified of. maple-router-sweep.timer runs it where it shall not depend on the daemon.";
        "sudo maple-router sweep --once --dry-run" => "What would it do now?",
        "sudo maple-router sweep --once" => "Do it";
    "pause":
        "Everything, one form or one destination domain waits; nothing of it spends an attempt, and nothing is lost. A \
         daemon goes by it within two seconds, and what is being sent is finished; the answer comes when every daemon has said that \
         it does, or says which has not (exit 1). A pause survives restarts.";
        "sudo maple-router pause --until 2h --reason \"mail host moves\"" => "Send nothing for two hours",
        "sudo maple-router pause --destination-domain example.org --reason \"they asked\"" => "Send nothing to one domain";
    "resume":
        "Ends a pause. What it deferred comes back by its event, or by the sweep. Answers as pause does, when every daemon has \
         read it.";
        "sudo maple-router resume --reason \"mail host is back\"" => "The pause of everything",
        "sudo maple-router resume --all --reason \"mail host is back\"" => "Every pause there is";
    "dlq":
        "What Pub/Sub or the outbox gave up on: messages that nobody can read, events of submissions that are not there \
         (both recorded with their payload), and submissions that failed because nothing was left to try.";
        "sudo maple-router dlq list" => "What was given up on?";
    "dlq list":
        "A line each: record, kind, time, submission and reason.";
        "sudo maple-router dlq list --kind unreadable" => "Only what nobody can read";
    "dlq show":
        "The record with its payload, who gave up on it, what is unreadable about it (which field, at which byte), and what a \
         redrive or a discard does. With --json the payload is \
         there byte for byte, as base64.";
        "sudo maple-router dlq show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "What was in the message?";
    "dlq redrive":
        "Has the message delivered again and closes the record; a submission that had no attempts left is replayed. Published \
         first, closed second: dying in between leaves the record open, and an event too many changes nothing.",
        "A row of the outbox is delivered again by the daemon, from its first attempt on; row and record are changed in one \
         transaction, and no Pub/Sub is needed.";
        "sudo maple-router dlq redrive --kind unknown_submission --reason \"database restored\""
            => "The submissions are there again";
    "dlq discard":
        "Closes records without doing anything else. They are kept, with the reason and who said so. A row of the outbox \
         stays there as dead_letter, and is never delivered.";
        "sudo maple-router dlq discard f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"a test of the backend\""
            => "Nobody needs it";
    "review":
        "The queue of what waits for a person: what failed, is infected, came back, or became a dead letter has an entry there, one \
         for each problem, opened by the event itself where schema router is there. Whoever runs this acts with role admin, and \
         is named in the entry's history.",
        "A decision is on the entry as it is at that moment, or with --version as it was seen: then it changes nothing where \
         somebody was faster. Every decision has --dry-run.";
        "sudo maple-router review next" => "What is to be looked at?";
    "review list":
        "The open entries, the one that waits longest first, with state, age, queue, reviewer, form, and what it is. With --state or \
         --all closed ones as well. Filters are the same in the API and on the page.";
        "sudo maple-router review list --assignee none" => "What has nobody taken yet?",
        "sudo maple-router review list --state Failed --order newest" => "Which remedies were given up on?";
    "review show":
        "What the entry is, what is missing before it can be resolved, the commands that are possible, and what happened to it.";
        "sudo maple-router review show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "What is to be decided?";
    "review history":
        "Who did what, when, and why.";
        "sudo maple-router review history f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "What has happened to it?";
    "review next":
        "Shows the entry that waits longest and that nobody has; with --queue only of one queue.";
        "sudo maple-router review next --queue security" => "What waits for the security team?";
    "review open":
        "Opens entries for failures, lost mails and dead letters since a moment that have none, those from before there was a queue \
         among them. What has its entry keeps it.";
        "sudo maple-router review open --since 2026-11-01T00:00:00Z" => "The queue is new, and old failures shall be in it";
    "review assign":
        "Makes a user of the desk the reviewer, who gets a mail. Without --to it is you. An entry that somebody has is taken with \
         --take-over; one whose remedy is under way is taken from its worker.";
        "sudo maple-router review assign f0a9d36e-423d-4d16-b66f-64f02eddff1f --to anna" => "Anna is to look at it";
    "review unassign":
        "Gives an entry back to the queue, where its time begins anew.";
        "sudo maple-router review unassign f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "Somebody else is to look at it";
    "review escalate":
        "Asks the security team, which is told in its channel.";
        "sudo maple-router review escalate f0a9d36e-423d-4d16-b66f-64f02eddff1f --escalation-reason \"is this phishing?\"" => "Somebody else has to decide";
    "review de-escalate":
        "Gives an entry that was escalated back to its reviewer, or to --to.";
        "sudo maple-router review de-escalate f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"a test of ours\"" => "It is no matter of security";
    "review resolve":
        "Resolves an entry honestly: where evidence is sufficient at once; with --remedy the verb of that name is carried out, and \
         evidence resolves the entry later, or a new failure brings it back to you; with --vouch because you say so.",
        "Evidence is sufficient when the submission is routed and, where the relay's log is followed, every mail of it is delivered.";
        "sudo maple-router review resolve f0a9d36e-423d-4d16-b66f-64f02eddff1f --remedy replan --reason \"address corrected\"" => "The cause is mended",
        "sudo maple-router review resolve f0a9d36e-423d-4d16-b66f-64f02eddff1f --vouch --reason \"told them by telephone\"" => "It is done otherwise";
    "review reject":
        "Closes an entry that is under review because it is not to be acted upon.";
        "sudo maple-router review reject f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"spam\"" => "Nothing is to be sent";
    "review dismiss":
        "Closes an entry that nobody has taken.";
        "sudo maple-router review dismiss f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"a test of the backend\"" => "Nobody needs it";
    "review reopen":
        "Opens an entry again that was rejected, dismissed, or whose remedy was given up on.";
        "sudo maple-router review reopen f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"it is no spam\"" => "It was closed too early";
    "review reset":
        "Has an entry whose remedy was given up on wait again, with all attempts.";
        "sudo maple-router review reset f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"the mail host is back\"" => "The cause is gone";
    "review start":
        "Begins a remedy without a reviewer: check only looks, replay routes by the pinned plan, replan by the form's actions of \
         today, force_delivery sends one mail once more, release gives a claim back, redrive has a dead letter delivered again.";
        "sudo maple-router review start f0a9d36e-423d-4d16-b66f-64f02eddff1f --remedy replay --reason \"the mail host is back\"" => "It shall be tried once more";
    "uploads":
        "Sessions of files that browsers and programs bring, straight to the object store. A session ends as a blob, which was compared \
         with what was declared and scanned, or as nothing, and says why. Names of files and of whoever brought them are shown to \
         whoever may run this.";
        "sudo maple-router uploads list" => "What is being brought?";
    "uploads list":
        "Open sessions, the one that ends first at the top; with --ended those that have come to their end, the latest first.";
        "sudo maple-router uploads list --state pending_commit" => "What waits for its proof?",
        "sudo maple-router uploads list --ended --form contact" => "What became of those of one form?";
    "uploads show":
        "What was declared, what has arrived, the blob and the scanner's verdict, what happens next or what to do, and the history.";
        "sudo maple-router uploads show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "Somebody's file does not arrive";
    "uploads abort":
        "Ends an open session. A daemon removes what was brought of it, and its client is told why from then on. What has ended \
         stays as it is.";
        "sudo maple-router uploads abort f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"brought by mistake\""
            => "It shall not be kept";
    "forms":
        "Versions of forms. A form's file is loaded as a draft, read as a difference, published unchangeable if the built-in checks and the \
         policy allow it, and followed from the moment it is promoted; what is on its way keeps the version that it began with. A form \
         that follows no version is what its loader writes.",
        "VERSION is FORM for its newest version, FORM@3, or FORM@current. Writing connects as the publisher's role.";
        "maple-router forms list" => "Which forms follow which version?";
    "forms load":
        "Makes a draft of a form's file, and says every fault of it with its line. The same content is the same version.";
        "maple-router forms load contact.yaml" => "A form is to change",
        "maple-router forms load contact.yaml --dry-run" => "Is the file right?";
    "forms list":
        "Forms, what each follows since when and by whom; with a form its versions, the newest first.";
        "maple-router forms list contact" => "Which versions are there?";
    "forms show":
        "A version's content by name, what was decided about it with the reasons, its history, and what can be done with it.";
        "maple-router forms show contact@3" => "Why was it refused?";
    "forms diff":
        "What a version changes of the one that its form follows, or of another: actions side by side, texts by line, the mails of the \
         samples before and after, and other forms that a shared template touches.";
        "maple-router forms diff contact" => "What would change if it were promoted?",
        "maple-router forms diff contact@current --from contact@2" => "What has changed since?";
    "forms publish":
        "Publishes a draft whose digest is the one that was reviewed. Where a check or the policy refuses it, or the policy is away, it \
         stays a draft; the reasons are kept, and the exit status is 1.";
        "maple-router forms publish contact --expect 3f1c9a2b77d0" => "It was read, and is right";
    "forms statement":
        "Prints what a signature of a version is made of: its form, its number, and the digest of its content. Read its diff before you sign.";
        "maple-router forms statement contact@3 | ssh-keygen -Y sign -n maple-router-form -f ~/.ssh/id_ed25519 | maple-router forms sign contact@3 -"
            => "It was read, and is right";
    "forms sign":
        "Keeps a signature of a version, if it counts: made of the version's statement, in namespace maple-router-form, by a key of \
         forms.allowed_signers. How many people have to sign is forms.require_signatures.";
        "maple-router forms sign contact@3 statement.sig" => "It was signed elsewhere";
    "forms promote":
        "Makes a form follow a published version, in one transaction with its rows. --expect is the number of the version that was seen \
         as followed: where somebody else moved it meanwhile, nothing happens.";
        "maple-router forms promote contact@3 --reason \"new address\"" => "From now on";
    "forms rollback":
        "Makes a form follow the version before its current one.";
        "maple-router forms rollback contact" => "It does what nobody wanted";
    "forms tombstone":
        "Takes a published version out of use. Not the one that is followed, and none that a submission on its way follows.";
        "maple-router forms tombstone contact@1 --reason \"the address is gone\"" => "Nobody is to go back to it";
    "forms restore":
        "Takes a tombstoned version back until its time is up, if checks and policy allow it today.";
        "maple-router forms restore contact@1" => "It is needed after all";
    "forms discard":
        "Gives a draft up, for good.";
        "maple-router forms discard contact@4 --reason \"another file follows\"" => "It shall not be published";
    "forms adopt":
        "Makes what the tables have of a form its first version, published and followed. Nothing changes for anybody, but its loader may \
         not change it any more.";
        "maple-router forms adopt contact" => "A form that is there already is to have versions";
    "policy":
        "The policy that versions of forms are published by: Rego, package maple.publish, in forms.policy_dir.";
        "maple-router policy test" => "Is it to be believed?";
    "policy test":
        "Says whether the policy denies the form in which everything is wrong and allows the one that is right, and what it and the \
         built-in checks answer about files of forms. Connects to nothing; exit status 1 where a file is refused.";
        "maple-router policy test contact.yaml" => "Would it be published?",
        "maple-router policy test --policy ./policy contact.yaml" => "By a policy that is not in use yet?";
    "upload":
        "Brings a file through the API, as any client does: in parts, each with its digest, and waits for the scanner's verdict. The same \
         command goes on with the parts that are missing, after Ctrl-C or a kill, and the same file again sends nothing.",
        "With --submission the file becomes an attachment of a submission that is not closed yet. Exit status 1 where the scanner found \
         something in it.";
        "sudo maple-router upload ./report.pdf --form contact --owner test" => "Do uploads work, from end to end?",
        "sudo maple-router upload ./report.pdf --form contact --owner test --submission f0a9d36e-423d-4d16-b66f-64f02eddff1f"
            => "A file came by mail, and belongs to a submission";
    "scan":
        "Asks the scanner itself, or has the daemon ask it. --self-test sends it a file in which everything of its kind must find \
         something: a scanner that does not says OK to anything, and no verdict of it is believed.",
        "A file that is scanned again keeps its verdict until there is another; infected is final.";
        "sudo maple-router scan --self-test" => "Is the scanner to be believed?",
        "sudo maple-router scan --stale" => "What do the signatures of today find in files of before?",
        "sudo maple-router scan f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "The file of one upload";
    "screen":
        "The screener: runs of screening are taken on leases, looked at by rules and judge, and go on by what was found, until SIGTERM. It has \
         a role of its own, which can neither route, mail nor decide as a person: MAPLE_ROUTER_SCREENER_URL or screening.screener_url. \
         maple-router-screener.service runs it; several on several hosts share the work. Rules that do not compile, or a judge whose settings \
         are wrong, end the start (78).";
        "maple-router screen" => "By hand, in front of a terminal";
    "screening":
        "What is submitted is looked at before it is routed or published: by rules (tier 1), by a judge (tier 2), and where either doubts by a \
         person (tier 3), at the review desk or by maple-router review. In shadow a form has all of its runs and nothing waits for them.",
        "What people entered is never shown here: rules, places, scores and the judge's scrubbed notes are. Setting, waiving and recording \
         connects as the publisher's role.";
        "sudo maple-router screening list --state NEEDS_REVIEW" => "What waits for a person?",
        "sudo maple-router screening sla" => "Is it fast enough?";
    "screening enable":
        "Submissions of the form that are created from now on have a run, by profile fields (spam and phishing in what people enter) or git (a \
         repository that they name). Without --enforce it is in shadow. With it a submission is routed when its run is published, and fails as \
         screened out where rules, judge or a person refuse it; screening.mode has to be on.",
        "Enabled again, its settings are replaced; an enforced form keeps the time since when it is. In shadow again, what waits for an open run \
         goes on waiting for it.";
        "sudo maple-router screening enable contact --profile fields" => "What would it keep out?",
        "sudo maple-router screening enable contact --profile fields --enforce" => "It keeps the right things out";
    "screening disable":
        "New submissions of the form have no run any more. Open runs go on, and what waits for them waits; how many there are is said.";
        "sudo maple-router screening disable contact --reason \"the form is closed\"" => "It needs no screening";
    "screening forms":
        "A line for each form that is screened: by which profile, since when, and since when its submissions wait.";
        "sudo maple-router screening forms --json" => "For a program";
    "screening list":
        "Runs, the latest first, each with its state, its score, and what barred a machine from approving it.";
        "sudo maple-router screening list --state NEEDS_REVIEW --form contact" => "What waits for a person?",
        "sudo maple-router screening list --dead" => "Whose job was given up on?";
    "screening show":
        "A run, or the current one of a submission: its states with times, trigger and actor, what the rules found and where, what the judge \
         said, and what follows, as commands.";
        "sudo maple-router screening show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "Why is it kept out?";
    "screening rescreen":
        "Opens another run of a submission; the old one stays. A submission that has failed as screened out is opened again in the same \
         transaction: both happen, or neither. Where a run is open there is no other; one whose job was given up on is replaced.";
        "sudo maple-router screening rescreen f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"a member wrote it\"" => "It was kept out by mistake";
    "screening waive":
        "A rule blocks no more in a form, everywhere or at one place; what it finds is a person's then, never a machine's. The reason is one of \
         false_positive, used_in_tests, will_fix. It counts for runs to come: screening rescreen brings back what was blocked. --end has the \
         rule block again.";
        "sudo maple-router screening waive skills aws-access-token --place docs/example.md:3 --reason used_in_tests --why \"AWS's own example\""
            => "It is no secret",
        "sudo maple-router screening waive --end 7" => "It was one after all";
    "screening waivers":
        "A line for each waiver that stands: rule, place, who said so and why.";
        "sudo maple-router screening waivers --form contact" => "What does not block there?";
    "screening jobs":
        "Jobs of open runs, the longest due first: pending, waiting, running or dead. What was given up on is tried again from its entry in the \
         review queue.";
        "sudo maple-router screening jobs --type tier2-scan" => "What waits for the judge?",
        "sudo maple-router screening jobs --dead" => "What was given up on, and why?";
    "screening sla":
        "Median and 95th percentile of each stage, of runs that left it within --since, against the targets: tier 1 within 0.5 and 1 s, once its \
         content is in hand, tier 2 within 15 and 30 s, publication within 5 and 10 s, all of it without people within 30 and 60 s; people \
         within five and ten business days, taken as 7 and 14 days. Exit status 1 where a 95th percentile is missed.";
        "sudo maple-router screening sla --since 7d" => "How was the week?",
        "sudo maple-router screening sla --json" => "For a program";
    "screening calibrate":
        "Asks the judge of [screening.judge] about each item of a labelled corpus, as a worker would: without what is personal unless \
         screening.judge.send is full, twice where the score is near the line, screening.judge.slots at once. As many harmless items are taken as \
         others, in order, and 120 are the fewest. What came of it is recorded for the model that answered and the present prompt: it approves only \
         with an answer for each and at most 2 % false approvals. A later trial replaces it; exit status 1 where it may not approve.",
        "A corpus is a file with a JSON object a line: id, label (harmless, or spam, phishing, malicious, leak, injection), and the fields of a form \
         or the files of a repository. Ctrl-C ends it, and nothing is recorded. Its tokens do not count for screening's budget.";
        "sudo maple-router screening calibrate --profile fields corpus.jsonl" => "May this model approve?";
    "screening backtest":
        "Runs the rules over a labelled corpus, as calibrate takes it, and says how many of the items that are blocked are blocked rightly \
         (precision), how many of those with \"block\": true are blocked (recall), and which rules find something in harmless items. Connects to \
         nothing; exit status 1 where the precision is below 0.98.";
        "maple-router screening backtest --profile git corpus.jsonl" => "How good are the rules?",
        "maple-router screening backtest --profile fields --form contact --rules ./rules.toml corpus.jsonl"
            => "How good would they be with ours?";
    "grade":
        "The grader: requests become jobs, jobs are taken on leases, transcribed where they are spoken, graded by the models of \
         [grading.judge], and answered, until SIGTERM. It has a role of its own, which sees neither submissions nor people: \
         MAPLE_ROUTER_GRADER_URL or grading.grader_url. maple-router-grader.service runs it; several on several hosts share the work. Settings of \
         a model or of the transcriber that are wrong end the start (78).",
        "Each call that was paid for is kept before it counts: whoever comes after a crash asks only for what is missing. Models that are away \
         spend no try.";
        "maple-router grade" => "By hand, in front of a terminal";
    "grading":
        "What a form brings is graded before its mail goes: listening and reading by a key, writing and speaking by models, and where they are not \
         sure, or were not tried yet, by a person at the review desk. An attempt that has no result in time fails, and a grade is still owed.",
        "Nothing that people wrote or said is shown here, nor what was said of it: states, scores and codes are. Setting connects as the \
         publisher's role, calibrating as the grader's.";
        "sudo maple-router grading list --state FAILED" => "Who is owed a grade?",
        "sudo maple-router grading sla" => "Is it fast enough?";
    "grading enable":
        "Submissions of the form that are created from now on are graded. Writing names the field with the text and its task, speaking the part; \
         the recording is the first attachment that is audio. The question is one that grading question has set.",
        "The mail waits for the grade unless --no-gate is given; grading.mode has to be on. Enabled again, its settings are replaced, and it keeps \
         the time since when it is graded; attempts that are open keep gate and deadline.";
        "sudo maple-router grading enable essays --skill writing --question essay-1 --text-field answer --task essay --no-gate"
            => "How well does it grade?",
        "sudo maple-router grading enable essays --skill writing --question essay-1 --text-field answer --task essay --consent-field consent --sla 20m"
            => "It grades well, and the mail is to have the grade";
    "grading disable":
        "New submissions of the form are not graded any more. Attempts that are open go on, and mails that wait for them wait.";
        "sudo maple-router grading disable essays --reason \"the exam is over\"" => "It needs no grade";
    "grading forms":
        "A line for each form that is graded: skill, question, what becomes of its mail, the time for an attempt, and how many are open.";
        "sudo maple-router grading forms --json" => "For a program";
    "grading question":
        "Sets a question in the place of that with its name: a JSON object with skill and prompt, or with the answer_key of listening and reading, \
         an item's name and the answer that is right, or a list of them. Case, spaces and the form of characters do not count. known are texts \
         that nobody can have written, rubric the version of the rubric. Requests that were sent keep what they have.";
        "sudo maple-router grading question essay-1 --file essay-1.json" => "What is asked, or what is right?";
    "grading list":
        "Attempts, the latest first, each with its state, its deadline, and why it failed or who is wanted.";
        "sudo maple-router grading list --state REVIEW_PENDING --form essays" => "What waits for a person?",
        "sudo maple-router grading list --late" => "Which results came after their time?";
    "grading show":
        "All attempts at a submission: states with times, trigger and actor, scores and bands, and what follows, as commands.";
        "sudo maple-router grading show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "Why has it no grade?";
    "grading regrade":
        "Opens another attempt where the last one failed; the old one stays. What was paid for and is still kept is not paid for again, so a result \
         that came too late is its answer. Where an attempt is open, or there is a grade, there is no other.";
        "sudo maple-router grading regrade f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"the model is back\"" => "A grade is owed";
    "grading release":
        "Lets the mail of a submission go without its grade, whatever its attempt does; the attempt goes on.";
        "sudo maple-router grading release f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"it is urgent\"" => "The mail must not wait";
    "grading messages":
        "How many requests and callbacks wait between the two sides, and for how long; with --dead those that nobody could take in, with the \
         reason and without what is in them.";
        "sudo maple-router grading messages" => "Does anybody take them?",
        "sudo maple-router grading messages --dead" => "What could nobody read?";
    "grading sla":
        "Median and 95th percentile of each stage, of attempts that left it within --since, and how many of those that no person reviewed had \
         their result in time. Exit status 1 where one had not.";
        "sudo maple-router grading sla --since 7d" => "How was the week?",
        "sudo maple-router grading sla --json" => "For a program";
    "grading calibrate":
        "Asks the models of [grading.judge] about each work of a corpus that people have graded, as the grader would ask them, and says how far \
         they agree: kappa of bands, mean difference of scores, calibration error. It is recorded for these models, the present prompt and the \
         rubric: they grade alone only with thirty works and more, an answer for each, a kappa of 0.7 and a difference of 0.75 at most. A later \
         trial replaces it; exit status 1 where they may not.",
        "A corpus is a file with a JSON object a line: prompt, text, score, and task (email or essay) of writing. Ctrl-C ends it, and nothing is \
         recorded. Its tokens do not count for the day's.";
        "sudo maple-router grading calibrate --skill writing --corpus graded.jsonl" => "May these models grade alone?";
    "gc":
        "The collector: submissions whose time has come are emptied, objects that nothing refers to any more are deleted. It has a role and a \
         service account of its own, which the daemon has not: MAPLE_ROUTER_COLLECTOR_URL or retention.collector_url, and the credential \
         gc-key or retention.key_file.",
        "Nothing goes that is open, undelivered, under review, untold, referred to, or held, whoever asks; each removal leaves a receipt.";
        "sudo maple-router gc status" => "What waits, and does anybody collect it?";
    "gc run":
        "One run: ends of submissions, versions and references first, then the mark, then the deletion of what was marked, by generation. \
         maple-router-gc.timer starts one each night where it is enabled. Of two at once the second says so and does nothing.",
        "SIGINT or SIGTERM ends it after the page it is at; what is done stands, and the next one goes on from there. Exit status 1 where it was \
         stopped or another is at work, 69 where the store did nothing of what was asked.";
        "sudo maple-router gc run" => "Now, instead of tonight";
    "gc status":
        "Blobs without a reference, marked, or deleted with an object that is not gone yet; holds, recalls, rules, and the latest runs \
         with what they did and why one ended early. Reads only, as the daemon's role.";
        "sudo maple-router gc status" => "What did the last run do?",
        "sudo maple-router gc status --json" => "For a program";
    "gc undelete":
        "Takes back a blob that has lost its last reference and is not deleted yet. It is kept for retention.grace, or --for, within which \
         something has to refer to it. Deleted is final: then the bucket's soft delete helps for a while, by a person's hand.";
        "sudo maple-router gc undelete f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"erased by mistake\""
            => "It was somebody else's file";
    "gc reconcile":
        "Compares every object of the buckets that rows name with every row, and reports objects that no row names, rows without their \
         object, and objects that are not the ones that were proven. Deletes nothing; exit status 1 where anything differs.";
        "sudo maple-router gc reconcile" => "Does somebody else write or remove objects?",
        "sudo maple-router gc reconcile --bucket maple-content --json" => "For a program: a line for each difference";
    "retention":
        "How long what has ended is kept. An end that the backend gave a submission (retention_expires_at) goes before any rule; without \
         either it is kept for ever. Writing connects as the publisher's role: whoever removes does not say when.";
        "sudo maple-router retention list" => "How long is anything kept?";
    "retention set":
        "Says how long submissions of a form are kept from their arrival, or without a form those of every form that has no rule of its \
         own. It counts for what is there already: a shorter time empties the past with the next run. Nothing is kept for less than a day.";
        "sudo maple-router retention set contact --routed 400d --failed 800d" => "One form",
        "sudo maple-router retention set --routed 730d" => "All others";
    "retention unset":
        "Removes the rule of a form, which then goes by the rule of all others, or without a form that one.";
        "sudo maple-router retention unset contact" => "It is to be as all others";
    "retention list":
        "A line for each rule: whose it is, how long routed and failed submissions are kept, and who said so.";
        "sudo maple-router retention list --json" => "For a program";
    "hold":
        "Legal holds. Whatever one names is not removed, whatever its time says and whoever asks, an erasure included. The collector cannot lift one.";
        "sudo maple-router hold list" => "What is held, by whom, and why?";
    "hold place":
        "Names a submission with its files, a form with its submissions, files and versions, an object, or everything. It waits for what is being \
         removed at that moment; once it has answered, nothing of what it names goes.";
        "sudo maple-router hold place --submission f0a9d36e-423d-4d16-b66f-64f02eddff1f --reason \"case 4711\"" => "It is evidence",
        "sudo maple-router hold place --form contact --reason \"case 4711\"" => "So is all that came by this form",
        "sudo maple-router hold place --all --reason \"an investigation\"" => "Nothing may go for now";
    "hold lift":
        "Lifts a hold by its number. What it named goes when its time has come, unless another hold names it, too.";
        "sudo maple-router hold lift 7 --reason \"case 4711 is closed\"" => "Nobody needs it any more";
    "hold list":
        "Holds that stand, the latest first; with --all lifted ones as well.";
        "sudo maple-router hold list --all" => "What was held, and who lifted it?";
    "erase":
        "Removes a person's data before its time. With --dry-run it tells what would go, what would be kept and why, and what is not ours to \
         remove: mails, tickets, entries of the review, backups. Its last line has the token that --expect takes: where anything has changed \
         since, nothing is erased.",
        "It skips the time and no other guard. --abandon takes what was never claimed, instead of what has ended. The files go with the \
         next run of the collector; receipts show proves it. Acts as the collector, as gc does.",
        "With --field every submission with this value in a field is meant, upper and lower case being the same. The value - is read from standard \
         input, so that no history of a shell has it; it is neither printed nor logged.";
        "sudo maple-router erase f0a9d36e-423d-4d16-b66f-64f02eddff1f --dry-run" => "What would go?",
        "sudo maple-router erase f0a9d36e-423d-4d16-b66f-64f02eddff1f --expect 3f1c9a2b77d0 --reason \"request 12\"" => "Exactly that",
        "sudo maple-router erase --field email=- --dry-run" => "All that has somebody's address";
    "receipts":
        "What was removed, on whose authority, and what the store said, without a name, an address or a field. Each receipt has the digest \
         of the one before. Reads only, as the daemon's role.";
        "sudo maple-router receipts verify" => "Is the record whole?";
    "receipts verify":
        "Judges the whole chain, and prints the number and the digest of its end. With --expect a receipt must be in it, as an earlier \
         verification said it: that the end was cut off is seen by nobody else. Keep what it prints elsewhere.";
        "sudo maple-router receipts verify" => "Once a month, and keep the answer",
        "sudo maple-router receipts verify --expect 4711:3f1c9a2b77d0" => "Is what was kept still there?";
    "receipts show":
        "The receipts of a submission and of its files, or of a blob, with the time until which the store could bring an object back. Exit status 1 \
         while the object of one is not deleted yet.";
        "sudo maple-router receipts show f0a9d36e-423d-4d16-b66f-64f02eddff1f" => "Somebody asks for proof of an erasure";
    "desk":
        "The review desk has pages and an API for people who decide about what failed. Who they are, and what they may do, is \
         said in [desk.users.NAME] of the configuration and takes effect by a reload; here they get in, and out.",
        "It listens on this host alone unless a proxy that signs assertions is before it: come by ssh -L 9465:127.0.0.1:9465 HOST \
         and open the link that desk login prints.";
        "sudo maple-router desk login alice" => "Somebody is to look at what failed";
    "desk init":
        "Makes the credential desk-secret (or desk.secret_file), once: 32 random bytes, for its owner only. Sessions, links and \
         tokens are kept as digests under it, so that whoever reads or writes the database gets nobody in.",
        "With --rotate a new one replaces it, and nothing that was handed out counts any more.";
        "sudo maple-router desk init" => "Once, when the desk is set up",
        "sudo maple-router desk init --rotate" => "The secret may have been read";
    "desk login":
        "Prints a link that logs a user in: it counts once, for ten minutes, and is spent by the button on its page. Whoever has \
         it is that user for up to twelve hours, or until an hour without a request.",
        "Not with desk.auth = \"assertion\": there the proxy says who somebody is.";
        "sudo maple-router desk login alice" => "Alice wants in",
        "sudo maple-router desk login alice --to /queue" => "and wants to see the queue first";
    "desk token":
        "Prints a token for the API, once. It gives at most the role that is said here, and never more than the user has at the \
         moment of a request.";
        "sudo maple-router desk token alice --role-cap viewer --days 30 --label \"weekly report\""
            => "A program reads the queue";
    "desk sessions":
        "A line for each session, open link and token that counts, never the credential itself. With --end or --end-all they are \
         ended, at once.";
        "sudo maple-router desk sessions" => "Who is logged in?",
        "sudo maple-router desk sessions --user alice --end-all" => "A laptop was lost";
    "audit":
        "The audit log outlives the submissions, and names recipients by domain and by a keyed digest of the address: \
         HMAC-SHA256 under the credential audit-key, audit.key_file, or a key that is made once in the state directory.";
        "sudo maple-router audit rekey" => "Which rows were written without a key?";
    "audit rekey":
        "Counts the rows by the key of their digests. Rows of before have a SHA-256 without a key, which a list of addresses \
         turns back; exit 1 where there are any. Nothing is changed: UPDATE on audit_log is revoked from every role.";
        "sudo maple-router audit rekey --json" => "For a program";
    "test-send":
        "Composes a short mail as the daemon would and hands it to the relay; tells what the relay said.";
        "sudo maple-router test-send me@example.org" => "Does mail leave this host?";
    "lifecycle":
        "The tables of states and commands that the program itself goes by: who may ask what, in which state, under \
         which condition, and what else happens in the same transaction. The diagram is Mermaid.";
        "maple-router lifecycle show submission" => "Why was a command refused?";
    "lifecycle list":
        "A line each: name, what lives so, and the states.";
        "maple-router lifecycle list" => "What there is";
    "lifecycle show":
        "Each transition: from, to, the command, who may give it, its condition, and what happens with it.";
        "maple-router lifecycle show submission --json" => "For a program";
    "lifecycle diagram":
        "A state diagram in Mermaid; commands that lead the same way share an arrow.";
        "maple-router lifecycle diagram submission" => "For a wiki";
    "completions":
        "Prints a script for bash, zsh, fish, elvish or PowerShell. The package installs the first three.";
        "maple-router completions bash | sudo tee /etc/bash_completion.d/maple-router"
            => "Where it was not installed by the package";
    "man":
        "Prints a page in roff, or writes all of them. The package installs them.";
        "maple-router man explain | man -l -" => "Read a page",
        "maple-router man --dir /usr/local/share/man/man1" => "Install all of them";
};
