//! What a message's commands are there for. Pure.

use uuid::Uuid;

use crate::stage::Answer;

/// Promises of a message's commands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Promise<'a> {
    /// `explain` and `list` tell of one of these.
    pub(super) submissions: &'a [Uuid],
    /// `check` fails at this line.
    pub(super) failing: &'a str,
    /// `dlq list` names this kind, and `grading messages --dead` this reason.
    pub(super) kind: &'a str,
}

impl Promise<'_> {
    /// Whether a command of a message did what it is there for; `None` where nobody knows what that is. `desk` is the port of the
    /// review desk.
    pub(super) fn is_kept(&self, words: &[&str], answer: &Answer, desk: u16) -> Option<bool> {
        let names_one = || self.submissions.iter().any(|id| answer.out.contains(&id.to_string()));
        Some(match words {
            ["maple-router", "explain", id] => {
                answer.out.starts_with(*id) && names_one() && answer.out.contains("why")
            }
            ["maple-router", "list", ..] => names_one(),
            ["maple-router", "check"] => {
                answer.out.lines().any(|line| line.starts_with('✗') && line.contains(self.failing))
                    || (self.failing.is_empty() && answer.out.contains("✓ config"))
                    || answer.out.lines().any(|line| line.starts_with('!') && line.contains(self.failing))
            }
            ["maple-router", "status"] => answer.out.contains("outbox"),
            ["maple-router", "review", "show", _] => {
                answer.out.contains("Possible:") || answer.out.contains("Happened:")
            }
            ["maple-router", "review", "list", ..] => answer.out.contains("ENTRY"),
            ["maple-router", "scan", "--self-test"] => {
                answer.out.contains("finds its test file") || answer.err.contains("clamd")
            }
            ["maple-router", "policy", "test"] => answer.err.contains("policy"),
            ["maple-router", "gc", "status"] => answer.out.contains("blobs have no reference"),
            ["maple-router", "gc", "reconcile"] => answer.out.contains("objects that no row names"),
            ["maple-router", "screening", "jobs", ..] => answer.out.contains("tier1-scan"),
            ["maple-router", "grading", "list", ..] => names_one(),
            ["maple-router", "grading", "messages", "--dead"] => answer.out.contains(self.kind),
            ["maple-router", "grading", "messages"] => answer.out.contains("request"),
            ["maple-router", "grading", "sla", ..] => {
                answer.out.contains("stage") || answer.out.contains("STAGE")
            }
            ["maple-router", "forms", "list"] => answer.out.contains("FOLLOWS"),
            ["maple-router", "uploads", "list", ..] => {
                answer.out.contains("upload") || answer.out.contains("UPLOAD")
            }
            ["maple-router", "dlq", "list"] => answer.out.contains(self.kind),
            ["ss", "-ltnp"] => answer.out.contains(&format!("127.0.0.1:{desk}")),
            ["postconf", ..] => answer.out.contains("mynetworks ="),
            _ => return None,
        })
    }
}
