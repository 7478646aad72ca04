//! The lifecycle of an upload: a session, from its creation until its bytes are a blob, or nothing. Pure.
//!
//! Four edges are ours beside the document's: the birth, a worker's claim and return of the commit, and a lease that runs out.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `content.uploads.state`.
    State {
        /// Created; nothing was sent.
        Initiated = "initiated",
        /// The store takes parts.
        PartsUploading = "parts_uploading",
        /// All parts are there; they are assembled, read and scanned.
        PendingCommit = "pending_commit",
        /// The bytes are a blob, which is what was declared.
        Committed = "committed",
        /// Nothing came of it; its objects are removed.
        Aborted = "aborted",
    }
}

impl State {
    /// Whether the upload has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Committed | Self::Aborted => true,
            Self::Initiated | Self::PartsUploading | Self::PendingCommit => false,
        }
    }
}

words! {
    /// The commands to an upload.
    Command {
        /// The backend makes a session.
        Create = "create",
        /// The store is asked to take parts.
        StartParts = "start_parts",
        /// The same bytes are a blob already.
        FastPathDedupe = "fast_path_dedupe",
        /// The client wants URLs of parts, again or for the first time.
        IssueUrls = "issue_urls",
        /// The client says that all parts are there.
        CompleteParts = "complete_parts",
        /// A worker takes the commit.
        Claim = "claim",
        /// The commit: proven, or disproven.
        Commit = "commit",
        /// The store or the scanner was away: the commit is tried again.
        Retry = "retry",
        /// The worker is gone.
        Expire = "expire",
        /// The client gives up, its time is up, or somebody ends it.
        Abort = "abort",
    }
}

/// The client that has the session's token.
pub const CLIENT: Who = Who::named("client");
/// The backend, by its key.
pub const BACKEND: Who = Who::named("backend");

/// The lifecycle of an upload; its log is `router.transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload;

impl Lifecycle for Upload {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "upload";
    const ABOUT: &'static str =
        "a file that a browser or a program brings, from its session to a blob that was proven and scanned";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ Create -> Initiated [BACKEND, Who::OPERATOR]:
        "form, type, name and length allowed; the owner's sessions and bytes within bounds", "token's digest, planned blob; staging row";
    Initiated StartParts -> PartsUploading [CLIENT, BACKEND, Who::OPERATOR]:
        "not expired", "the store's upload id";
    Initiated FastPathDedupe -> Committed [CLIENT, BACKEND, Who::OPERATOR]:
        "same form, owner, SHA-256 and length; clean, scan fresh", "reference";
    Initiated Abort -> Aborted [CLIENT, BACKEND, Who::OPERATOR, Who::SYSTEM] on Expiry:
        "asked, or expired", "problem; staging due";
    PartsUploading IssueUrls -> PartsUploading [CLIENT]:
        "not expired", "nothing";
    PartsUploading CompleteParts -> PendingCommit [CLIENT]:
        "the store lists all parts, sizes exact; SHA-256 declared", "ETags as intent, job due";
    PartsUploading Abort -> Aborted [CLIENT, BACKEND, Who::OPERATOR, Who::SYSTEM] on Expiry:
        "asked, or expired", "problem; staging due";
    PendingCommit Claim -> PendingCommit [Who::WORKER]:
        "available_at passed, no lease", "lease token and end set";
    PendingCommit Commit -> Committed [Who::WORKER]:
        "lease; length, SHA-256 and CRC-32C of the final object are those declared and read", "blob or an equal one, reference, staging due";
    PendingCommit Commit -> Aborted [Who::WORKER]:
        "lease; length, digest or type differ", "problem; staging due";
    PendingCommit Retry -> PendingCommit [Who::WORKER]:
        "lease; store away", "available_at by back-off, lease cleared";
    PendingCommit Expire -> PendingCommit [Who::SYSTEM] on Lease:
        "the lease has run out", "available at once, lease cleared";
    PendingCommit Abort -> Aborted [CLIENT, BACKEND, Who::OPERATOR, Who::WORKER, Who::SYSTEM] on Expiry:
        "asked, or expired without a live lease, or claimed too often without an answer", "problem; staging due";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Transition;
    use crate::kernel::transition::checks::{every_triple, lines};

    #[test]
    fn every_triple_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_triple::<Upload>();
    }

    #[test]
    fn the_edges_are_those_of_the_page_and_the_four_it_lacks() {
        assert_eq!(
            lines::<Upload>(),
            [
                "- create initiated",
                "initiated start_parts parts_uploading",
                "initiated fast_path_dedupe committed",
                "initiated abort aborted",
                "parts_uploading issue_urls parts_uploading",
                "parts_uploading complete_parts pending_commit",
                "parts_uploading abort aborted",
                "pending_commit claim pending_commit",
                "pending_commit commit committed",
                "pending_commit commit aborted",
                "pending_commit retry pending_commit",
                "pending_commit expire pending_commit",
                "pending_commit abort aborted",
            ]
        );
    }

    #[test]
    fn what_has_ended_is_final() {
        for state in [State::Committed, State::Aborted] {
            let refusal = Transition::<Upload>::of(state, Command::Abort, CLIENT).expect_err("final");
            assert!(refusal.to_string().contains("the state is final"), "{refusal}");
            assert!(state.is_ended());
        }
    }
}
