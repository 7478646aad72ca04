//! The end of a submission, compared with the expected one. Pure: the rows and mails are read elsewhere
//! ([`super::evidence`]), and the daemon's own word counts for nothing here.

use std::collections::BTreeMap;

use super::scenarios::Expect;

/// Knowledge of database and relay about one submission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// `submissions.status`
    pub(super) status: String,
    /// `routing_result.finished.reason`
    pub(super) reason: Option<String>,
    /// `routing_result.attempts`
    pub(super) attempts: u64,
    /// Deliveries in the ledger by state.
    pub(super) deliveries: BTreeMap<String, usize>,
    /// Rows of the audit log by action.
    pub(super) audit: BTreeMap<String, usize>,
    /// `submissions.happyfox_status`
    pub(super) happyfox: Option<String>,
    /// Mails at the relay by recipient.
    pub(super) mailed: BTreeMap<String, usize>,
    /// Tickets at the help desk.
    pub(super) tickets: usize,
    /// Signed links in those mails.
    pub(super) links: usize,
    /// Messages about it on the dead-letter topic; taken there once, at the end.
    pub(super) dead_letters: usize,
}

impl Evidence {
    /// Whether nothing more will happen to the submission.
    pub(super) fn is_over(&self) -> bool {
        ["routed", "failed"].contains(&self.status.as_str())
    }

    /// Whether no delivery of this submission was started.
    pub(super) fn is_untouched(&self) -> bool {
        self.status == "received" && self.attempts == 0 && self.mailed.is_empty()
    }

    /// Differences from the expected end, one sentence each.
    pub(super) fn faults(&self, expect: &Expect) -> Vec<String> {
        let mut faults = Vec::new();
        let mut compare = |what: &str, is: String, should: String| {
            if is != should {
                faults.push(format!("{what}: {is}, expected {should}"));
            }
        };
        compare("status", self.status.clone(), expect.status.to_owned());
        compare("reason", or_none(self.reason.as_deref()), or_none(expect.reason));
        compare("attempts", self.attempts.to_string(), expect.attempts.to_string());
        compare("happyfox_status", or_none(self.happyfox.as_deref()), or_none(expect.happyfox));
        compare("tickets", self.tickets.to_string(), expect.tickets.to_string());
        compare("signed links", self.links.to_string(), expect.links.to_string());
        compare("dead letters", self.dead_letters.to_string(), expect.dead_letters.to_string());
        let once = expect.mailed.iter().map(|&recipient| (recipient, 1)).collect();
        compare("mails by recipient", counted(&borrowed(&self.mailed)), counted(&once));
        let audit = expect.audit.iter().copied().collect();
        compare("audit rows", counted(&borrowed(&self.audit)), counted(&audit));
        faults
    }

    /// The end in a few words.
    pub(super) fn outcome(&self) -> String {
        let state = |state| self.deliveries.get(state).copied().unwrap_or_default();
        let counts = [
            (state("accepted").saturating_sub(self.tickets), "mailed"),
            (self.tickets, if self.tickets == 1 { "ticket" } else { "tickets" }),
            (state("failed"), "refused"),
            (state("not_implemented"), "deferred"),
            (state("open"), "open"),
            (self.links, "links"),
        ];
        // The count says that a delivery was refused.
        let reason = self.reason.iter().filter(|reason| *reason != "refused").cloned();
        let counts =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let is_nothing_sent = self.mailed.is_empty() && self.tickets == 0;
        let nothing = is_nothing_sent.then(|| "nothing sent".to_owned());
        reason.chain(counts).chain(nothing).collect::<Vec<_>>().join(", ")
    }
}

fn or_none(text: Option<&str>) -> String {
    text.unwrap_or("none").to_owned()
}

fn borrowed(counts: &BTreeMap<String, usize>) -> BTreeMap<&str, usize> {
    counts.iter().map(|(what, count)| (what.as_str(), *count)).collect()
}

fn counted(counts: &BTreeMap<&str, usize>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECT: Expect = Expect {
        status: "failed",
        reason: Some("refused"),
        attempts: 1,
        mailed: &["a@x.test", "b@x.test"],
        audit: &[("email_sent", 2), ("submission_route_failed", 1)],
        happyfox: None,
        tickets: 0,
        links: 1,
        dead_letters: 0,
    };

    fn as_expected() -> Evidence {
        let counts = |counts: &[(&str, usize)]| counts.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
        Evidence {
            status: "failed".to_owned(),
            reason: Some("refused".to_owned()),
            attempts: 1,
            deliveries: counts(&[("accepted", 2), ("failed", 1)]),
            audit: counts(&[("email_sent", 2), ("submission_route_failed", 1)]),
            happyfox: None,
            mailed: counts(&[("a@x.test", 1), ("b@x.test", 1)]),
            tickets: 0,
            links: 1,
            dead_letters: 0,
        }
    }

    #[test]
    fn every_difference_is_a_fault() {
        type Spoil = fn(&mut Evidence);
        let cases: [(Spoil, &str); 11] = [
            (|e| e.status = "routed".to_owned(), "status: routed, expected failed"),
            (|e| e.reason = None, "reason: none, expected refused"),
            (|e| e.attempts = 2, "attempts: 2, expected 1"),
            (|e| e.happyfox = Some("deferred".to_owned()), "happyfox_status: deferred, expected none"),
            (|e| e.tickets = 1, "tickets: 1, expected 0"),
            (|e| e.links = 0, "signed links: 0, expected 1"),
            (|e| e.dead_letters = 1, "dead letters: 1, expected 0"),
            (
                |e| *e.mailed.entry("a@x.test".to_owned()).or_default() += 1,
                "2 a@x.test, 1 b@x.test, expected",
            ),
            (
                |e| e.mailed.retain(|to, _| to != "b@x.test"),
                "mails by recipient: 1 a@x.test, expected 1 a@x.test, 1 b",
            ),
            (|e| e.mailed.extend([("c@x.test".to_owned(), 1)]), "1 c@x.test, expected"),
            (|e| e.audit.extend([("submission_routed".to_owned(), 1)]), "audit rows: 2 email_sent, 1"),
        ];
        assert_eq!(as_expected().faults(&EXPECT), Vec::<String>::new());
        for (spoil, fault) in cases {
            let mut evidence = as_expected();
            spoil(&mut evidence);
            let faults = evidence.faults(&EXPECT);
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].contains(fault), "{faults:?}");
        }
    }

    #[test]
    fn an_outcome_fits_a_column() {
        assert_eq!(as_expected().outcome(), "2 mailed, 1 refused, 1 links");
        let nothing = Evidence { reason: Some("infected".to_owned()), ..Evidence::default() };
        assert_eq!(nothing.outcome(), "infected, nothing sent");
    }
}
