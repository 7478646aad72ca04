//! Closed words of the desk in plain English: one vocabulary for list, page and title. Pure.
//!
//! A word that this version does not know is shown as it is spelt, and never breaks a page.

/// What is wrong: the heading of an entry of this cause and reason.
#[must_use]
pub fn heading(cause: &str, reason: &str) -> &'static str {
    match (cause, reason) {
        ("failed", "refused") => "Mail was refused for good",
        ("failed", "exhausted") => "Attempts are spent, something is still open",
        ("failed", "in_doubt") => "A mail may or may not have been delivered",
        ("failed", "no_actions") => "The form has no actions",
        ("failed", "ledger_damaged") => "The record of deliveries cannot be read",
        ("failed", _) => "Routing failed",
        ("infected", _) => "An attachment is infected",
        ("late_infection", _) => "An infected file was mailed before anybody knew",
        ("bounced", _) => "Mail came back after the relay took it",
        ("dead_letter", "unreadable") => "An event cannot be read",
        ("dead_letter", "unknown_submission") => "An event names no known submission",
        ("dead_letter", _) => "A dead letter",
        ("screening", _) => "Screening asks a person",
        ("screening_job", _) => "A screening job failed for good",
        ("grading", _) => "A work waits for a person's grade",
        ("grading_failed", _) => "Grading failed: a grade is owed",
        ("grading_message", _) => "A message of grading was set aside",
        _ => "Something needs a decision",
    }
}

/// What that means for the people who submitted, and where to look first.
#[must_use]
pub fn meaning(cause: &str, reason: &str) -> &'static str {
    match (cause, reason) {
        ("failed", "refused") => {
            "A recipient's server said no and meant it. What others had accepted stays delivered. Mend the \
             address or the plan, then replay."
        }
        ("failed", "exhausted") => {
            "Every attempt was used while something was still open. If the cause is gone, a replay sends only \
             what nobody has accepted."
        }
        ("failed", "in_doubt") => {
            "The connection broke after the mail was written and before the relay's answer. Look into the relay's \
             log before anything is sent a second time."
        }
        ("failed", "no_actions") => {
            "Nobody would have received it. Give the form an action, then replay with a new plan."
        }
        ("failed", "ledger_damaged") => {
            "The row's record is not of any shape this version knows. The original is in the audit log; nothing \
             was sent on a guess."
        }
        ("failed", _) => "It will not go on by itself.",
        ("infected", _) => {
            "A scanner found malware in an attachment. Nothing that was still to be sent will be. Security decides."
        }
        ("late_infection", _) => {
            "A scanner judged the attachment infected after the submission was routed. Its links work until they run out: recall \
             them (links revoke), and tell whoever has the file."
        }
        ("bounced", _) => {
            "The relay accepted the mail, and later reported that it could not be delivered. The submission counts \
             as routed; its reader has not seen it."
        }
        ("dead_letter", "unreadable") => {
            "Its bytes were kept, and nothing else is known of it. Find out who published it; redrive it once \
             this version can read it, or discard it."
        }
        ("dead_letter", "unknown_submission") => {
            "The submission that it names is not in the database: not yet, not any more, or not in this one. Redrive \
             it if the row has come since."
        }
        ("screening", "unavailable") => {
            "No verdict was to be had, and nothing is routed that nobody looked at. Escalate it to have it reviewed, or reject it: \
             its submission fails then."
        }
        ("screening", _) => {
            "The judge has doubts, or something bars a machine from approving. Escalate it to have it reviewed, or reject it: its \
             submission fails then."
        }
        ("screening_job", "content_changed") => {
            "The submission is not what was screened. Have it screened again (screening rescreen): another run looks at what stands \
             there now."
        }
        ("screening_job", "vendor_block") => {
            "A trusted origin brought it, so it went out; a rule blocks it. Tell whoever trusts that origin, and vouch for what was done."
        }
        ("screening_job", _) => {
            "Its submission waits. Redrive the job once the cause is gone, or have the submission screened again (screening rescreen)."
        }
        ("grading", _) => {
            "The grader is not sure enough to have the last word. Read the work and grade it below: the learner is told then, and the mail \
             goes that waits for it."
        }
        ("grading_failed", "timeout") => {
            "There was no grade in time, and one is still owed. Once the grader answers again, redrive it: another attempt begins; or let \
             the mail go without a grade (grading release)."
        }
        ("grading_failed", _) => {
            "The work could not be graded, and a grade is still owed. Mend the cause, then redrive it; or let the mail go without a grade \
             (grading release)."
        }
        ("grading_message", _) => {
            "Somebody wrote what nobody can take in. It is kept: grading messages --dead says what is wrong with it."
        }
        _ => "It waits until a person decides.",
    }
}

/// A state of a screening run.
#[must_use]
pub fn run_state(state: &str) -> String {
    state.to_lowercase().replace('_', " ")
}

/// Why no machine approves a run, as a sentence.
#[must_use]
pub fn bar(bar: &str) -> String {
    match bar {
        "high_privilege" => "It asks for rights that reach far.".to_owned(),
        "review_finding" => "A rule wants a person to look.".to_owned(),
        "waived_block" => "A rule that blocks was waived.".to_owned(),
        "injection_marker" => "It speaks to whoever judges it.".to_owned(),
        "uncalibrated_judge" => "This judge was not tried with this prompt, or failed its trial.".to_owned(),
        "force_review" => "The form wants a person for each.".to_owned(),
        "contradiction" => "The judge's score and its concerns contradict each other.".to_owned(),
        other => words(other),
    }
}

/// A state of an entry: `UnderReview` is `Under review`.
#[must_use]
pub fn state(state: &str) -> &str {
    match state {
        "UnderReview" => "Under review",
        other => other,
    }
}

/// Class of a state, status or outcome: its tint and its mark. A class is one of ours, never a word from a row.
#[must_use]
pub fn tone(word: &str) -> &'static str {
    match word {
        "Pending" | "pending" | "received" | "open" | "retry_wait" | "draft" => "waiting",
        "Processing" | "Retrying" | "processing" | "delivering" | "deferred" => "moving",
        "UnderReview" | "unheard" => "mine",
        "Escalated" | "in_doubt" => "hot",
        "Resolved" | "routed" | "delivered" | "accepted" | "published" | "allowed" => "good",
        "Failed" | "Expired" | "failed" | "refused" | "bounced" | "dead_letter" | "expired" => "bad",
        _ => "quiet",
    }
}

/// The same of a breaker, for which `open` is the bad one.
#[must_use]
pub fn breaker_tone(state: &str) -> &'static str {
    match state {
        "closed" => "good",
        "open" => "bad",
        _ => "hot",
    }
}

/// A word of the database as words: `not_implemented` is `not implemented`.
#[must_use]
pub fn words(label: &str) -> String {
    label.replace('_', " ")
}

/// A criterion as words: `coherence_cohesion` is `coherence and cohesion`.
#[must_use]
pub fn criterion(label: &str) -> String {
    match label {
        "coherence_cohesion" => "coherence and cohesion".to_owned(),
        other => words(other),
    }
}

/// `1 event`, `3 events`.
#[must_use]
pub fn plural(count: &u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count), if *count == 1 { one } else { many })
}

/// `12,345`.
#[must_use]
pub fn thousands(count: &u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The first eight digits of an id: enough to tell neighbours apart; the whole id stands beside it or behind the link.
#[must_use]
pub fn short(id: &uuid::Uuid) -> String {
    id.simple().to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (count, told) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(thousands(&count), told);
        }
        assert_eq!(plural(&1, "entry", "entries"), "1 entry");
        assert_eq!(plural(&2, "entry", "entries"), "2 entries");
    }

    #[test]
    fn unknown_words_have_a_heading_and_a_tone() {
        assert_eq!(heading("volcano", "lava"), "Something needs a decision");
        assert_eq!(tone("\"><script>"), "quiet");
        assert_eq!(state("Melting"), "Melting");
    }
}
