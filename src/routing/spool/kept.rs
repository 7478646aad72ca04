//! Which submissions have facts in the spool, in memory: whoever claims asks for each submission.
//!
//! Invariant: nothing here does I/O. It follows the directory: what is written is entered afterwards, what is removed is
//! forgotten afterwards, and what somebody else wrote or removed is known after the next look.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// Ending of what is to be recorded.
pub(super) const WAITING: &str = ".json";
/// Ending of what nobody can record.
pub(super) const BAD: &str = ".bad";
/// Ending of a file that is being written, or whose writer has died.
const UNFINISHED: &str = ".tmp";

/// What an entry of the directory is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Facts to be recorded.
    Waiting,
    /// Set aside.
    Bad,
    /// Not there yet.
    Unfinished,
}

impl Part {
    /// `None` for what is not ours.
    pub(super) fn of(name: &str) -> Option<Self> {
        [(WAITING, Self::Waiting), (BAD, Self::Bad), (UNFINISHED, Self::Unfinished)]
            .into_iter()
            .find_map(|(ending, part)| name.ends_with(ending).then_some(part))
    }
}

/// A file's name without what tells whether it is set aside.
pub(super) fn stem(name: &str) -> &str {
    name.strip_suffix(WAITING).or_else(|| name.strip_suffix(BAD)).unwrap_or(name)
}

/// The submission that a file of ours names by its own name, so that it is known even where its content is not.
pub(super) fn named(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name.split('.').next()?).ok()
}

/// See the module's header. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Submission and file, without its ending.
    files: BTreeSet<(Uuid, String)>,
    /// What is not ours and was named in the journal.
    foreign: BTreeSet<OsString>,
}

impl Kept {
    /// Whether facts of it lie there.
    pub(super) fn holds(&self, id: Uuid) -> bool {
        self.state().files.range((id, String::new())..).next().is_some_and(|(found, _)| *found == id)
    }

    pub(super) fn all(&self) -> BTreeSet<(Uuid, String)> {
        self.state().files.clone()
    }

    pub(super) fn add(&self, id: Uuid, name: &str) {
        self.state().files.insert((id, stem(name).to_owned()));
    }

    pub(super) fn forget(&self, id: Uuid, name: &str) {
        self.state().files.remove(&(id, stem(name).to_owned()));
    }

    /// What was there `before` the directory was looked at, and was not `found` there, is gone.
    pub(super) fn looked(&self, before: &BTreeSet<(Uuid, String)>, found: &BTreeSet<(Uuid, String)>) {
        let mut state = self.state();
        state.files.retain(|file| found.contains(file) || !before.contains(file));
        state.files.extend(found.iter().cloned());
    }

    /// Whether it is to be named: the first time it is met.
    pub(super) fn is_news(&self, foreign: &OsString) -> bool {
        self.state().foreign.insert(foreign.clone())
    }

    /// Forgets what is not there any more.
    pub(super) fn foreign_there(&self, there: &BTreeSet<OsString>) {
        self.state().foreign.retain(|name| there.contains(name));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn files(of: &[(u128, &str)]) -> BTreeSet<(Uuid, String)> {
        of.iter().map(|(n, name)| (id(*n), (*name).to_owned())).collect()
    }

    #[test]
    fn a_submission_is_held_while_one_of_its_files_is_there_whatever_its_ending() {
        let kept = Kept::default();
        kept.add(id(2), "a.json");
        kept.add(id(2), "b.json");
        assert_eq!([1, 2, 3].map(|n| kept.holds(id(n))), [false, true, false]);
        kept.forget(id(2), "a.bad");
        assert!(kept.holds(id(2)));
        kept.forget(id(2), "b.json");
        assert!(!kept.holds(id(2)));
    }

    #[test]
    fn a_look_forgets_what_is_gone_and_not_what_was_written_meanwhile() {
        let kept = Kept::default();
        kept.add(id(1), "gone.json");
        let before = kept.all();
        kept.add(id(2), "meanwhile.json");
        kept.looked(&before, &files(&[(3, "foreign")]));
        assert_eq!(kept.all(), files(&[(2, "meanwhile"), (3, "foreign")]));
    }

    #[test]
    fn a_name_tells_what_a_file_is_and_of_whom() {
        let nil = Uuid::nil().to_string();
        let table = [
            (format!("{nil}.n.json"), Some(Part::Waiting), Some(Uuid::nil())),
            (format!("{nil}.n.bad"), Some(Part::Bad), Some(Uuid::nil())),
            (format!(".{nil}.n.json.7.tmp"), Some(Part::Unfinished), None),
            ("notes.json".to_owned(), Some(Part::Waiting), None),
            ("lost+found".to_owned(), None, None),
        ];
        for (name, part, of) in table {
            assert_eq!((Part::of(&name), named(&name)), (part, of), "{name}");
        }
    }

    #[test]
    fn what_is_not_ours_is_named_once_while_it_is_there() {
        let (kept, name) = (Kept::default(), OsString::from("lost+found"));
        assert_eq!([kept.is_news(&name), kept.is_news(&name)], [true, false]);
        kept.foreign_there(&BTreeSet::from([name.clone()]));
        assert!(!kept.is_news(&name));
        kept.foreign_there(&BTreeSet::new());
        assert!(kept.is_news(&name));
    }
}
