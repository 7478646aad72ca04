//! The closed sets whose words are label values of metrics (interfaces, "Metrics"). Nothing here counts anything.

use crate::kernel::words;
use crate::ports::RelayStatus;

words! {
    /// How work on a submission ended.
    SubmissionOutcome {
        /// Everything delivered.
        Routed = "routed",
        /// Ended badly.
        Failed = "failed",
        /// Given back for another attempt.
        Released = "released",
    }
}
words! {
    /// The database's `action_type`.
    ActionType {
        /// A HappyFox ticket.
        HappyfoxTemplate = "happyfox_template",
        /// A mail from a template.
        EmailTemplate = "email_template",
        /// A mail with the raw fields.
        EmailRaw = "email_raw",
    }
}
words! {
    /// How a delivery in doubt was resolved (protocol, "Crash, doubt, stop, replay").
    Resolution {
        /// The relay's log has it.
        Found = "found",
        /// The relay's log proves the contrary.
        Disproved = "disproved",
        /// Neither; sent again.
        NeitherResent = "neither_resent",
        /// Neither; held.
        NeitherHeld = "neither_held",
    }
}
words! {
    /// What a dead letter was.
    DeadLetterKind {
        /// Nobody can read it.
        Unreadable = "unreadable",
        /// There is no such submission.
        UnknownSubmission = "unknown_submission",
        /// Attempts ran out.
        Exhausted = "exhausted",
        /// The submission is still open with attempts left.
        Premature = "premature",
        /// The submission had ended already.
        Closed = "closed",
    }
}
words! {
    /// What became of an alert.
    AlertResult {
        /// Confirmed by Slack.
        Sent = "sent",
        /// To be tried again.
        Retried = "retried",
        /// Folded into a group, or repeated too soon.
        Suppressed = "suppressed",
    }
}
words! {
    /// What the relay's log says of an accepted mail.
    DeliveryStatus {
        /// Handed on.
        Delivered = "delivered",
        /// Waits in the relay's queue.
        Deferred = "deferred",
        /// Refused further on.
        Bounced = "bounced",
        /// Waited too long in the relay's queue.
        Expired = "expired",
    }
}
words! {
    /// Why the relay's log does not prove what it could have.
    LogFlaw {
        /// Lines cannot be read any more.
        Gap = "gap",
        /// Lines were suppressed by a rate limit.
        Suppressed = "suppressed",
        /// A mail under a Message-ID of ours that is not known to have come from us.
        Unproved = "unproved",
    }
}
words! {
    /// What a returned mail was.
    ReturnedResult {
        /// A delivery status notification about a mail of ours.
        Reported = "reported",
        /// An absence, or another answer that nobody wrote.
        AutoReply = "auto_reply",
        /// A receipt: somebody has read the mail.
        Receipt = "receipt",
        /// Not proved to be about a mail of ours.
        Foreign = "foreign",
        /// About a mail of ours, and not understood.
        NotUnderstood = "not_understood",
    }
}
words! {
    /// What may be paused.
    PauseScope {
        /// Everything.
        All = "all",
        /// A form.
        Form = "form",
        /// A destination domain.
        Destination = "destination",
    }
}
words! {
    /// What the daemon cannot work without.
    Dependency {
        /// PostgreSQL.
        Postgres = "postgres",
        /// The mail relay.
        Relay = "relay",
        /// The signer of URLs.
        Signer = "signer",
        /// Pub/Sub.
        Pubsub = "pubsub",
        /// What the database has to be, as the data contract says: it answers, and is something else.
        Contract = "contract",
    }
}
words! {
    /// What became of a canary event.
    CanaryResult {
        /// Pub/Sub took it.
        Published = "published",
        /// Pub/Sub did not take it.
        Unpublished = "unpublished",
        /// One came back, ours or another daemon's.
        Returned = "returned",
        /// A volley was awaited in vain: the stream was built anew.
        Overdue = "overdue",
    }
}
words! {
    /// What became of a heartbeat.
    HeartbeatResult {
        /// Taken.
        Sent = "sent",
        /// Not taken.
        Failed = "failed",
        /// Not sent, because something is wrong with us.
        Withheld = "withheld",
    }
}
words! {
    /// How a pass of the sweep ended.
    SweepResult {
        /// Every part of it was done.
        Completed = "completed",
        /// The database did not let it be done.
        Failed = "failed",
    }
}

impl From<RelayStatus> for DeliveryStatus {
    fn from(status: RelayStatus) -> Self {
        match status {
            RelayStatus::Delivered => Self::Delivered,
            RelayStatus::Deferred => Self::Deferred,
            RelayStatus::Bounced => Self::Bounced,
            RelayStatus::Expired => Self::Expired,
        }
    }
}
