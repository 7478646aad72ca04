//! A pass over the spool: each file is read, recorded where the database takes it, and set aside only where it can never be
//! recorded. One file that cannot be recorded keeps no other from it.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Sheet;
use super::kept::{BAD, Part, WAITING, named, stem};
use super::{Spool, SpoolError};
use crate::db::DbErrorKind;
use crate::ops::state_dir::Entry;
use crate::routing::journal;
use crate::routing::store::{Merged, Store};

/// Largest size of a spool file, in bytes: a send has at most `mail.max_recipients` facts.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Files that a pass tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    /// Files set aside as well, because their obstacle may have been removed: at each start.
    Everything,
    /// Waiting files only; files set aside are counted.
    Waiting,
}

/// Result of a pass over the spool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpoolPass {
    /// Files whose facts stand in the database now.
    pub recorded: usize,
    /// Files that the database does not take now.
    pub refused: usize,
    /// Files that are set aside.
    pub bad: usize,
    /// Submission of one of the remaining files, where it is known, and why that file remains: in our own words only.
    pub example: Option<(Option<Uuid>, String)>,
}

/// Result for one file.
enum Became {
    Recorded,
    /// Another process has removed it meanwhile.
    Gone,
    /// The database has no time for it.
    Later,
    /// Refused for now: the reason in our own words, and the original error.
    Refused(String, String),
    /// Can never be recorded, and why.
    Bad(String),
}

/// A file of the spool.
struct File {
    name: String,
    part: Part,
    id: Option<Uuid>,
}

impl Spool {
    /// Records the files here, in the order of their names. A file that another process is about to record does no harm.
    ///
    /// # Errors
    /// [`SpoolError`]: a later pass tries again.
    pub async fn replay(&self, store: &Store, which: Try) -> Result<SpoolPass, SpoolError> {
        let mut pass = SpoolPass::default();
        // All files are looked up first: no submission with a file here is sent again, recordable or not.
        for file in self.look().await? {
            if file.part == Part::Bad && which == Try::Waiting {
                pass.bad += 1;
                pass.left(file.id, "it was set aside");
                continue;
            }
            match self.record(store, &file.name, file.id).await? {
                (_, Became::Recorded) => pass.recorded += 1,
                (_, Became::Gone | Became::Later) => {}
                (id, Became::Refused(why, said)) => {
                    journal::spool_refused(id, &self.dir.path().join(&file.name), &said);
                    // The file was set aside for no fault of its own.
                    self.rename(&file.name, WAITING).await?;
                    pass.refused += 1;
                    pass.left(id, &why);
                }
                (id, Became::Bad(why)) => {
                    self.set_aside(&file.name, id, &why).await?;
                    pass.bad += 1;
                    pass.left(id, &why);
                }
            }
        }
        Ok(pass)
    }

    /// Decides for one file whose row is not visible: the row is gone, or only hidden.
    ///
    /// # Errors
    /// [`SpoolError`]: the next pass decides.
    pub(super) async fn judge(&self, store: &Store, name: &str) -> Result<(), SpoolError> {
        match self.record(store, name, None).await? {
            (_, Became::Recorded | Became::Gone | Became::Later) => {}
            (id, Became::Refused(_, said)) => journal::spool_refused(id, &self.dir.path().join(name), &said),
            (id, Became::Bad(why)) => self.set_aside(name, id, &why).await?,
        }
        Ok(())
    }

    /// The files here; from now on no submission that they are about is claimed.
    async fn look(&self) -> Result<Vec<File>, SpoolError> {
        let before = self.kept.all();
        let (mut files, mut found, mut foreign) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for Entry { name, is_file } in self.dir.entries().await.map_err(|source| self.fault(source))? {
            match name.to_str().filter(|_| is_file).and_then(|name| Some((name, Part::of(name)?))) {
                Some((_, Part::Unfinished)) => {}
                Some((name, part @ (Part::Waiting | Part::Bad))) => {
                    let id = match named(name) {
                        Some(id) => Some(id),
                        None => self.sheet(name).await.ok().map(|sheet| sheet.submission_id),
                    };
                    found.extend(id.map(|id| (id, stem(name).to_owned())));
                    files.push(File { name: name.to_owned(), part, id });
                }
                None => {
                    if self.kept.is_news(&name) {
                        journal::spool_foreign(&self.dir.path().join(&name));
                    }
                    foreign.insert(name);
                }
            }
        }
        self.kept.looked(&before, &found);
        self.kept.foreign_there(&foreign);
        Ok(files)
    }

    /// Content of a file.
    async fn sheet(&self, name: &str) -> Result<Sheet, Became> {
        match self.dir.read(name, LARGEST).await {
            Ok(Some(content)) => Sheet::decode(&content).map_err(Became::Bad),
            Ok(None) => Err(Became::Gone),
            Err(error) => Err(Became::Refused(
                "its file cannot be read".to_owned(),
                format!("it cannot be read: {error}"),
            )),
        }
    }

    /// Records one file, and returns its submission. Only a file that is unreadable in itself, or proved to be of a row that
    /// is gone, can never be recorded: a permission, a policy or a trigger can be mended.
    async fn record(
        &self,
        store: &Store,
        name: &str,
        id: Option<Uuid>,
    ) -> Result<(Option<Uuid>, Became), SpoolError> {
        let sheet = match self.sheet(name).await {
            Ok(sheet) => sheet,
            Err(became) => return Ok((id, became)),
        };
        let id = sheet.submission_id;
        let became = match store.merge_facts(id, &sheet.token, &sheet.facts).await {
            Ok(Merged::Stand) => {
                self.dir.remove(name).await.map_err(|source| self.fault(source))?;
                self.kept.forget(id, name);
                journal::spool_replayed(id, sheet.facts.len());
                Became::Recorded
            }
            Ok(Merged::Gone) => {
                Became::Bad("it was accepted, but the row of its submission is gone".to_owned())
            }
            Ok(Merged::Purged) => {
                Became::Bad("it was accepted, but retention has emptied its submission".to_owned())
            }
            Ok(Merged::Hidden) => {
                let why = "a policy of row-level security may hide its submission from this role";
                Became::Refused(why.to_owned(), why.to_owned())
            }
            Err(error) => match error.kind() {
                DbErrorKind::Unreachable => return Err(error.into()),
                DbErrorKind::Busy => Became::Later,
                DbErrorKind::Contract | DbErrorKind::Bug => {
                    let code = error.sqlstate().map(|code| format!(" (SQLSTATE {code})")).unwrap_or_default();
                    Became::Refused(format!("the database refuses it{code}"), error.to_string())
                }
            },
        };
        Ok((Some(id), became))
    }

    /// Sets poison aside, which is never dropped.
    async fn set_aside(&self, name: &str, id: Option<Uuid>, why: &str) -> Result<(), SpoolError> {
        let bad = self.rename(name, BAD).await?;
        journal::spool_set_aside(id, &self.dir.path().join(bad), why);
        Ok(())
    }

    async fn rename(&self, name: &str, ending: &str) -> Result<String, SpoolError> {
        let renamed = format!("{}{ending}", stem(name));
        if renamed != name {
            self.dir.rename(name, &renamed).await.map_err(|source| self.fault(source))?;
        }
        Ok(renamed)
    }
}

impl SpoolPass {
    fn left(&mut self, id: Option<Uuid>, why: &str) {
        self.example.get_or_insert_with(|| (id, why.to_owned()));
    }
}
