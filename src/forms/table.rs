//! The lifecycle of a form's version: drafted, published unchangeable, taken out of use. Pure.
//!
//! Which version a form follows is no state but a pointer (`content.current`): promotion moves it, and is an edge that stays.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `content.versions.state`.
    State {
        /// Loaded; it may still be given up.
        Draft = "draft",
        /// Allowed; it never changes again, and can be made current.
        Published = "published",
        /// Out of use; until its deadline it can be restored, if it was published.
        Tombstoned = "tombstoned",
    }
}

words! {
    /// The commands to a version.
    Command {
        /// A definition becomes a draft.
        Load = "load",
        /// The draft is checked, and published or refused.
        Publish = "publish",
        /// The draft is given up.
        Discard = "discard",
        /// The form follows this version from now on.
        Promote = "promote",
        /// The version is taken out of use.
        Tombstone = "tombstone",
        /// A tombstoned version is taken back.
        Restore = "restore",
        /// The content of a version that can no longer be restored is removed.
        Forget = "forget",
    }
}

/// Whoever drafts and publishes: the command line, as the publisher's role.
pub const PUBLISHER: Who = Who::named("publisher");
/// Whoever removes what nobody needs any more: a role of its own.
pub const COLLECTOR: Who = Who::named("collector");
/// An admin of the desk, who may move the pointer among published versions.
pub const ADMIN: Who = Who::named("admin");

/// The lifecycle of a version; its log is `router.transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version;

impl Lifecycle for Version {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "a version of a form's definition, from its draft until it is out of use; which one is current is a pointer beside it";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ Load -> Draft [PUBLISHER]:
        "the definition is valid; the same content is the same version", "entries";
    Draft Publish -> Published [PUBLISHER]:
        "the digest that was reviewed; built-in checks; the policy allows; files clean", "decision, references of files, published_at";
    Draft Publish -> Draft [PUBLISHER]:
        "a check or the policy refuses, or the policy is away", "decision with the reasons";
    Draft Discard -> Tombstoned [PUBLISHER]:
        "a reason", "deadline; it is never restored";
    Published Promote -> Published [PUBLISHER, ADMIN]:
        "the current version is the one that was seen; built-in checks and the policy allow it anew", "decision, pointer, rows, audit";
    Published Tombstone -> Tombstoned [PUBLISHER]:
        "a reason; not current; no submission on its way follows it", "deadline";
    Tombstoned Restore -> Published [PUBLISHER]:
        "was published; the deadline has not passed; checks and policy allow; files clean", "decision; deadline cleared";
    Tombstoned Forget -> Tombstoned [COLLECTOR]:
        "the deadline has passed; no hold", "entries and references of files go; the digest stays";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::transition::checks::{every_triple, lines};

    #[test]
    fn every_triple_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_triple::<Version>();
    }

    #[test]
    fn the_edges_are_those_of_the_page() {
        assert_eq!(
            lines::<Version>(),
            [
                "- load draft",
                "draft publish published",
                "draft publish draft",
                "draft discard tombstoned",
                "published promote published",
                "published tombstone tombstoned",
                "tombstoned restore published",
                "tombstoned forget tombstoned",
            ]
        );
    }
}
