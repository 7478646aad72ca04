//! What people ask of form versions. Each command is one transaction: lock, look, judge, write; a decision is kept whichever way
//! it goes, and its reasons are the answer.
//!
//! Nothing is published, promoted or restored while the policy is away ([`Away`](super::policy::Away)): that is a refusal like another,
//! kept with the reason, and routing goes on. If we die before a commit nothing happened.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::checks::{self, FileState};
use super::content::{self, Entry, Kind, Unreadable};
use super::definition::{Definition, Faults};
use super::document::{self, About};
use super::policies::{Policies, Signing};
use super::preview::Composer;
use super::signers::Signers;
use super::signing::{self, Signed, Unsigned};
use super::store::signatures::{Kept, NewSignature};
use super::store::{Current, NewDecision, NewVersion, Shared, Source, Uploaded, VersionStore, blobs};
use super::table::{Command, State, Version};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::rows::{Fence, Row, Write};
use crate::kernel::{NotPossible, Transition, Who};

/// Digits of a digest that name it, at least.
const DIGITS: usize = 12;
/// How the reason of a rollback begins.
pub const ROLLED_BACK: &str = "rolled back";

/// Somebody who gives a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// The role.
    pub who: Who,
    /// The name, as records have it.
    pub name: String,
}

/// The commands to versions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Versions {
    /// The versions.
    pub store: VersionStore,
    /// Composes the mails they are tried with.
    pub composer: Arc<dyn Composer>,
    /// The policy.
    pub policies: Arc<dyn Policies>,
    /// Whose signatures they have to have.
    pub signing: Signing,
    /// `mail.allowed_destination_domains`, as the policy reads it.
    pub allowed_domains: Vec<String>,
}

/// A version that was loaded, or was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Its id.
    pub id: Uuid,
    /// Its number.
    pub number: u32,
    /// The digest of its content, in hexadecimal digits.
    pub digest: String,
    /// Its state.
    pub state: State,
    /// Whether it was made now.
    pub is_new: bool,
}

/// What became of a command that is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It was allowed, and is done.
    Done,
    /// It was refused; the reasons are kept.
    Refused(Vec<String>),
}

/// Why a command is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The table does not have it.
    #[error(transparent)]
    NotPossible(#[from] NotPossible),
    /// The definition is not valid.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// The entries are not ours.
    #[error("{0}")]
    Unreadable(String),
    /// There is no such form.
    #[error("there is no form {0:?}")]
    NoForm(String),
    /// There is no such version.
    #[error("there is no such version")]
    NoVersion,
    /// The form is not managed.
    #[error("form {0:?} is not managed: no version of it was ever promoted")]
    NotManaged(String),
    /// It is managed already.
    #[error("form {0:?} is managed already, by version {1}")]
    Managed(String, u32),
    /// There is nothing to go back to.
    #[error("form {0:?} has followed one version only: there is none to go back to")]
    NoPrevious(String),
    /// What was reviewed is not what would be published.
    #[error("the version's digest is {found}, and not {expected}: another content was reviewed")]
    Digest {
        /// As it is.
        found: String,
        /// As it was expected.
        expected: String,
    },
    /// `--expect` says too little.
    #[error("a digest is named by at least {DIGITS} of its hexadecimal digits")]
    TooShort,
    /// Somebody else moved the pointer.
    #[error("another version is current than was expected; look again")]
    Moved,
    /// It is the current one.
    #[error("it is the version that the form follows; promote another first")]
    IsCurrent,
    /// Submissions follow it.
    #[error("{}submissions on their way follow it; wait until they are routed, or replay them with --replan", .0.map(|n| format!("{n} ")).unwrap_or_default())]
    Followed(Option<u64>),
    /// It is too late.
    #[error("it can no longer be restored; load its file again, and the same content becomes a new version")]
    TooLate,
    /// The same content was loaded again meanwhile, as another version.
    #[error("the same content was loaded again, and is another version; use that one")]
    SameContent,
    /// Another managed form has other texts for a template of this one.
    #[error("{0}")]
    Disagrees(String),
    /// What is given as its signature is none, or counts for nothing.
    #[error("this signature of {0} counts for nothing: {1}")]
    Unsigned(String, Unsigned),
    /// The list of signers cannot be read, or there is none.
    #[error("{0}")]
    NoSigners(String),
    /// A reason has to be given.
    #[error("a reason is needed")]
    NoReason,
}

impl From<Unreadable> for CommandError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable.to_string())
    }
}

/// A version as it was locked, with its content.
struct Held {
    row: Row<Version>,
    definition: Definition,
    files: Vec<FileState>,
    shared: Vec<Shared>,
    current: Option<Current>,
    current_definition: Option<Definition>,
    signed: Signatures,
}

/// A version's signature, and what it counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// As it was brought.
    pub kept: Kept,
    /// Whose it is, or why it counts for nothing.
    pub judged: Result<Signed, Unsigned>,
}

/// A version's signatures, as they count now.
#[derive(Debug, Default)]
struct Signatures {
    /// Each, judged by the list.
    judged: Vec<Result<Signed, Unsigned>>,
    /// Why the list cannot be read.
    unread: Option<String>,
}

type Answer<T> = Result<T, CommandError>;

impl Versions {
    /// Makes a draft of a definition. The same content is the same version.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn load(&self, definition: &Definition, source: Source, id: Uuid, by: &By) -> Answer<Loaded> {
        let faults = definition.faults();
        if !faults.is_empty() {
            return Err(Faults(faults).into());
        }
        self.answered("version_load", async |tx| self.load_in(&tx, definition, source, id, by).await).await
    }

    async fn load_in(
        &self,
        tx: &Transaction,
        definition: &Definition,
        source: Source,
        id: Uuid,
        by: &By,
    ) -> Answer<Loaded> {
        let store = &self.store;
        store.lock_form(tx, &definition.id).await?;
        let sha256: Vec<&str> = definition.assets.values().map(|asset| asset.sha256.as_str()).collect();
        let files = store.files(tx, &definition.id, &sha256).await?;
        let entries = content::entries(definition, &blobs(&files));
        let digest = hex::encode(content::digest(&entries));
        if let Some(row) = store.same(tx, &definition.id, &digest).await? {
            let number = row.columns.number;
            return Ok(Loaded { id: row.id, number, digest, state: row.state, is_new: false });
        }
        let birth = Transition::birth(Command::Load, by.who)?;
        let new = NewVersion {
            id,
            form_id: &definition.id,
            digest: &digest,
            source,
            author: &by.name,
            entries: &entries,
        };
        let number = store.load(tx, &new, birth, &by.name).await?;
        Ok(Loaded { id, number, digest, state: birth.to(), is_new: true })
    }

    /// Publishes a draft whose digest begins with `expect`, if the checks and the policy allow it.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn publish(&self, id: Uuid, expect: &str, by: &By) -> Answer<Judged> {
        let expect = expect.trim().to_ascii_lowercase();
        if expect.len() < DIGITS || !expect.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(CommandError::TooShort);
        }
        self.answered("version_publish", async |tx| {
            let tx = &tx;
            let held = self.held(tx, id).await?;
            let found = &held.row.columns.digest;
            if !found.starts_with(&expect) {
                return Err(CommandError::Digest { found: found.clone(), expected: expect.clone() });
            }
            self.publish_in(tx, &held, by).await
        })
        .await
    }

    async fn publish_in(&self, tx: &Transaction, held: &Held, by: &By) -> Answer<Judged> {
        let row = &held.row;
        // Whether it is possible at all is not the policy's business.
        Transition::<Version>::leading(row.state, Command::Publish, State::Published, by.who).map(drop)?;
        let (policy, reasons) = self.judged(held, Command::Publish, by);
        self.decided(tx, row, Command::Publish, policy.as_deref(), &reasons, by).await?;
        let to = if reasons.is_empty() { State::Published } else { State::Draft };
        let edge = Transition::leading(row.state, Command::Publish, to, by.who)?;
        let reason = (!reasons.is_empty()).then(|| format!("quarantined: {} reasons", reasons.len()));
        self.write(tx, row, edge, reason, None, by).await?;
        Ok(if reasons.is_empty() { Judged::Done } else { Judged::Refused(reasons) })
    }

    /// Keeps somebody's signature of a version, and says whose it is. The same key's is kept once.
    ///
    /// # Errors
    /// [`CommandError`]: also where it would count for nothing now.
    pub async fn sign(&self, id: Uuid, signature: &str, by: &By) -> Answer<(Signed, bool)> {
        let signers = self.signing.signers().map_err(CommandError::NoSigners)?;
        if signers.people() == 0 {
            return Err(CommandError::NoSigners("forms.allowed_signers names nobody".to_owned()));
        }
        self.answered("version_sign", async |tx| {
            let tx = &tx;
            let row = self.lock(tx, id).await?;
            let statement = signing::statement(&row.columns.form_id, row.columns.number, &row.columns.digest);
            let now = self.store.now(tx).await?;
            let signed = signing::judge(&signers, &statement, signature, now).map_err(|why| {
                CommandError::Unsigned(format!("{}@{}", row.columns.form_id, row.columns.number), why)
            })?;
            let new =
                NewSignature { version: id, key: &signed.key, signature: signature.trim(), actor: &by.name };
            let is_new = self.store.sign(tx, &new).await?;
            Ok((signed, is_new))
        })
        .await
    }

    /// Makes a form follow a published version; `expected` is the version that was seen as current.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn promote(
        &self,
        id: Uuid,
        expected: Option<Uuid>,
        reason: Option<&str>,
        by: &By,
    ) -> Answer<Judged> {
        self.answered("version_promote", async |tx| self.promote_in(&tx, id, expected, reason, by).await)
            .await
    }

    /// [`promote`](Self::promote) within [`answered`](Self::answered), for whoever keeps something beside it.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn promote_in(
        &self,
        tx: &Transaction,
        id: Uuid,
        expected: Option<Uuid>,
        reason: Option<&str>,
        by: &By,
    ) -> Answer<Judged> {
        let held = self.held(tx, id).await?;
        if held.current.as_ref().map(|current| current.version) != expected {
            return Err(CommandError::Moved);
        }
        self.follow(tx, &held, reason, by).await
    }

    /// Makes a form follow the version before the current one, which is `expected`.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn rollback(&self, form: &str, expected: Option<Uuid>, by: &By) -> Answer<(Uuid, Judged)> {
        self.answered("version_rollback", async |tx| self.rollback_in(&tx, form, expected, None, by).await)
            .await
    }

    /// [`rollback`](Self::rollback) within [`answered`](Self::answered), for whoever keeps something beside it; `why` is recorded.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn rollback_in(
        &self,
        tx: &Transaction,
        form: &str,
        expected: Option<Uuid>,
        why: Option<&str>,
        by: &By,
    ) -> Answer<(Uuid, Judged)> {
        let current = self.store.current_in(tx, form).await?;
        let current = current.ok_or_else(|| CommandError::NotManaged(form.to_owned()))?;
        if expected.is_some_and(|expected| expected != current.version) {
            return Err(CommandError::Moved);
        }
        let previous = current.previous.ok_or_else(|| CommandError::NoPrevious(form.to_owned()))?;
        let held = self.held(tx, previous).await?;
        if held.current.as_ref().map(|now| now.version) != Some(current.version) {
            return Err(CommandError::Moved);
        }
        let reason = why.map_or_else(|| ROLLED_BACK.to_owned(), |why| format!("{ROLLED_BACK}: {why}"));
        Ok((previous, self.follow(tx, &held, Some(&reason), by).await?))
    }

    async fn follow(&self, tx: &Transaction, held: &Held, reason: Option<&str>, by: &By) -> Answer<Judged> {
        let row = &held.row;
        let edge = Transition::of(row.state, Command::Promote, by.who)?;
        let (policy, reasons) = self.judged(held, Command::Promote, by);
        let Some(policy) = policy.as_deref().filter(|_| reasons.is_empty()) else {
            self.decided(tx, row, Command::Promote, policy.as_deref(), &reasons, by).await?;
            return Ok(Judged::Refused(reasons));
        };
        let expected = held.current.as_ref().map(|current| current.version);
        self.store.promote(tx, (row.id, edge), expected, policy, (&by.name, reason)).await?;
        Ok(Judged::Done)
    }

    /// Takes a published version out of use, or gives up a draft; until `deadline` a published one can be restored.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn bury(
        &self,
        id: Uuid,
        command: Command,
        reason: &str,
        keep: Duration,
        by: &By,
    ) -> Answer<()> {
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(CommandError::NoReason);
        }
        self.answered("version_bury", async |tx| {
            let tx = &tx;
            let row = self.lock(tx, id).await?;
            let edge = Transition::of(row.state, command, by.who)?;
            let current = self.store.current_in(tx, &row.columns.form_id).await?;
            if current.is_some_and(|current| current.version == id) {
                return Err(CommandError::IsCurrent);
            }
            let followed = self.store.open_plans(tx, id).await?;
            if followed > 0 {
                return Err(CommandError::Followed(Some(followed)));
            }
            let now = self.store.now(tx).await?;
            let deadline = now.checked_add(keep).unwrap_or(Timestamp::MAX);
            self.write(tx, &row, edge, Some(reason.to_owned()), Some(deadline), by).await
        })
        .await
    }

    /// Takes a tombstoned version back, if the checks and the policy allow it.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn restore(&self, id: Uuid, by: &By) -> Answer<Judged> {
        self.answered("version_restore", async |tx| {
            let tx = &tx;
            let held = self.held(tx, id).await?;
            let row = &held.row;
            let edge = Transition::of(row.state, Command::Restore, by.who)?;
            let now = self.store.now(tx).await?;
            if row.columns.published_at.is_none()
                || row.columns.deadline.is_some_and(|deadline| deadline < now)
            {
                return Err(CommandError::TooLate);
            }
            let (policy, reasons) = self.judged(&held, Command::Restore, by);
            self.decided(tx, row, Command::Restore, policy.as_deref(), &reasons, by).await?;
            if !reasons.is_empty() {
                return Ok(Judged::Refused(reasons));
            }
            self.write(tx, row, edge, None, None, by).await?;
            Ok(Judged::Done)
        })
        .await
    }

    /// Makes what the tables have of a form its first version, published and current, in one step; its rows stay as they are.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn adopt(&self, form: &str, id: Uuid, by: &By) -> Answer<(Loaded, Judged)> {
        self.answered("version_adopt", async |tx| {
            let tx = &tx;
            self.store.lock_form(tx, form).await?;
            if let Some(current) = self.store.current_in(tx, form).await? {
                let number = self.lock(tx, current.version).await?.columns.number;
                return Err(CommandError::Managed(form.to_owned(), number));
            }
            let rows = self.store.rows_of(tx, form).await?;
            let (name, rows) = rows.ok_or_else(|| CommandError::NoForm(form.to_owned()))?;
            let mut definition = content::definition(form, &rows)?;
            definition.name = name;
            let loaded = self.load_in(tx, &definition, Source::Adopted, id, by).await?;
            let mut held = self.held(tx, loaded.id).await?;
            if held.row.state == State::Draft {
                if let Judged::Refused(reasons) = self.publish_in(tx, &held, by).await? {
                    return Ok((loaded, Judged::Refused(reasons)));
                }
                held = self.held(tx, loaded.id).await?;
            }
            let judged = self.follow(tx, &held, Some("adopted"), by).await?;
            Ok((loaded, judged))
        })
        .await
    }

    /// A transaction whose answer may be a refusal: that comes before anything is written.
    ///
    /// # Errors
    /// [`CommandError`], the schema's refusals among them.
    pub async fn answered<T, F, Working>(&self, name: &'static str, body: F) -> Answer<T>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Answer<T>> + Send,
        T: Send,
    {
        let answered = self
            .store
            .pool()
            .transaction(name, async |tx| match body(tx).await {
                Err(CommandError::Database(error)) => Err(error),
                answer => Ok(answer),
            })
            .await;
        answered.unwrap_or_else(|error| Err(refusal(error)))
    }

    async fn lock(&self, tx: &Transaction, id: Uuid) -> Answer<Row<Version>> {
        self.store.hold(tx, &[id]).await?.pop().ok_or(CommandError::NoVersion)
    }

    async fn held(&self, tx: &Transaction, id: Uuid) -> Answer<Held> {
        let row = self.lock(tx, id).await?;
        let form = row.columns.form_id.clone();
        let entries = self.store.entries_in(tx, id).await?;
        let definition = content::definition(&form, &entries)?;
        let sha256: Vec<&str> = definition.assets.values().map(|asset| asset.sha256.as_str()).collect();
        let found = self.store.files(tx, &form, &sha256).await?;
        let files = files(&entries, &definition, &found);
        let templates: Vec<&str> = definition.templates.keys().map(String::as_str).collect();
        let shared = self.store.shared(tx, &form, &templates).await?;
        let current = self.store.current_in(tx, &form).await?;
        let current_definition = match &current {
            Some(current) => {
                Some(content::definition(&form, &self.store.entries_in(tx, current.version).await?)?)
            }
            None => None,
        };
        let signed = self.signed_in(tx, &row).await?;
        Ok(Held { row, definition, files, shared, current, current_definition, signed })
    }

    async fn signed_in(&self, tx: &Transaction, row: &Row<Version>) -> Answer<Signatures> {
        let kept = self.store.signatures_in(tx, row.id).await?;
        let now = self.store.now(tx).await?;
        Ok(match self.signing.signers() {
            Ok(signers) => Signatures { judged: judged(&signers, row, &kept, now), unread: None },
            Err(why) => Signatures { judged: Vec::new(), unread: Some(why) },
        })
    }

    /// A version's signatures, and what each counts for now.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn signatures(&self, row: &Row<Version>) -> Result<Vec<Signature>, DbError> {
        let read = async |tx: Transaction| {
            Ok((self.store.signatures_in(&tx, row.id).await?, self.store.now(&tx).await?))
        };
        let (kept, now) = self.store.pool().transaction("version_signatures", read).await?;
        let judged = match self.signing.signers() {
            Ok(signers) => judged(&signers, row, &kept, now),
            Err(why) => vec![Err(Unsigned::NoList(why)); kept.len()],
        };
        Ok(kept.into_iter().zip(judged).map(|(kept, judged)| Signature { kept, judged }).collect())
    }

    /// What the checks and the policy say: the policy's digest, where there is one, and the reasons against it.
    fn judged(&self, held: &Held, command: Command, by: &By) -> (Option<String>, Vec<String>) {
        let mut reasons = checks::reasons(&held.definition, &held.files, &*self.composer);
        let required = self.signing.required();
        if let Some(lacks) = signing::lacking(required, &held.signed.judged) {
            reasons.push(held.signed.unread.clone().unwrap_or(lacks));
        }
        let signed: Vec<Signed> = held.signed.judged.iter().flatten().cloned().collect();
        let about = About {
            command,
            number: held.row.columns.number,
            digest: &held.row.columns.digest,
            source: held.row.columns.source,
            author: &held.row.columns.author,
            actor: &by.name,
            files: &held.files,
            shared: &held.shared,
            current: held.current_definition.as_ref(),
            allowed_domains: &self.allowed_domains,
            signed: &signed,
        };
        let input = document::document(&held.definition, &about, &*self.composer);
        match self.policies.policy().and_then(|policy| policy.decide(&input)) {
            Ok(decision) => {
                if !decision.allowed && decision.reasons.is_empty() {
                    reasons.push("the policy does not allow it, and gives no reason".to_owned());
                }
                reasons.extend(decision.reasons);
                (Some(hex::encode(decision.policy)), reasons)
            }
            Err(away) => {
                reasons.push(format!("the policy is away: {away}"));
                (None, reasons)
            }
        }
    }

    async fn decided(
        &self,
        tx: &Transaction,
        row: &Row<Version>,
        command: Command,
        policy: Option<&str>,
        reasons: &[String],
        by: &By,
    ) -> Answer<()> {
        let new = NewDecision {
            version: row.id,
            command: crate::kernel::Word::label(command),
            digest: &row.columns.digest,
            policy,
            reasons,
            actor: &by.name,
        };
        Ok(self.store.decide(tx, &new).await?)
    }

    async fn write(
        &self,
        tx: &Transaction,
        row: &Row<Version>,
        edge: Transition<Version>,
        reason: Option<String>,
        deadline: Option<Timestamp>,
        by: &By,
    ) -> Answer<()> {
        let columns = deadline.map(|deadline| json!({ "deadline": deadline }));
        let write = Write { reason, columns, ..Write::plain(row.id, Fence::Locked, edge) };
        let written = self.store.write(tx, &by.name, &[write]).await?;
        if written.contains(&row.id) { Ok(()) } else { Err(CommandError::Moved) }
    }
}

/// What each signature of a version counts for.
fn judged(
    signers: &Signers,
    row: &Row<Version>,
    kept: &[Kept],
    now: Timestamp,
) -> Vec<Result<Signed, Unsigned>> {
    let statement = signing::statement(&row.columns.form_id, row.columns.number, &row.columns.digest);
    kept.iter().map(|kept| signing::judge(signers, &statement, &kept.signature, now)).collect()
}

/// What is known of a definition's files: the blob that the version names, if it is the one that is there.
fn files(
    entries: &[Entry],
    definition: &Definition,
    found: &std::collections::BTreeMap<String, Uploaded>,
) -> Vec<FileState> {
    let named = |name: &str| {
        let entry = entries.iter().find(|entry| entry.kind == Kind::Asset && entry.key == name)?;
        entry.content.get("blob")?.as_str()?.parse::<Uuid>().ok()
    };
    definition
        .assets
        .iter()
        .map(|(name, asset)| {
            let file = found.get(&asset.sha256).filter(|file| named(name) == Some(file.blob));
            FileState {
                name: name.clone(),
                is_there: file.is_some(),
                verdict: file.map(|file| file.verdict.clone()).unwrap_or_default(),
                shown_type: file.and_then(|file| file.shown_type.clone()),
                length: file.map(|file| file.length).unwrap_or_default(),
            }
        })
        .collect()
}

/// The schema's refusals, which a race may meet where the look before did not.
fn refusal(error: DbError) -> CommandError {
    match error.sqlstate() {
        Some("MV001") => CommandError::Moved,
        Some("MV002") => CommandError::IsCurrent,
        Some("MV003") => CommandError::Followed(None),
        Some("MV004") => CommandError::TooLate,
        Some("23505") if error.to_string().contains("versions_content") => CommandError::SameContent,
        Some("MV005") => CommandError::Disagrees(format!(
            "a template of it is also another managed form's, which has other texts for it; promote them together, or give the \
             template an id of its own ({error})"
        )),
        _ => CommandError::Database(error),
    }
}
