//! What backend and client ask of an upload. Each command is repeated without harm: a request that was answered is answered the same.
//!
//! The object store is never asked inside a transaction. A session's row stands before the store is asked to take parts; the
//! ETags stand before it is asked to assemble them. If we die between two of them, the client's next request goes on there.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use utoipa::ToSchema;
use uuid::Uuid;

use super::changes::Changes;
use super::decide::{self, Listed, Wanted, numbers, parts_there, within};
use super::digest::UploadsKey;
use super::journal::{self, EventName};
use super::metrics::{Outcome, UPLOADS};
use super::problem::{Kind, Problem};
use super::session::Session;
use super::store::{Blob, NewSession, Seen, UploadStore};
use super::table::{BACKEND, CLIENT, Command, State, Upload};
use crate::config::Config;
use crate::gateway::objects::store::{ObjectName, ObjectStore, StoreError, UploadId};
use crate::journal;
use crate::kernel::rows::{Fence, Row, Write};
use crate::kernel::{Transition, Who};
use crate::ops::rng::Rng;
use crate::ports::Clock;

/// Links signed at once for one request.
const SIGNED_AT_ONCE: usize = 16;
/// Interval of looks while somebody waits for a change that this process may not be told of.
const LOOK: Duration = Duration::from_millis(250);

/// What commands need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Commands {
    /// The sessions.
    pub store: UploadStore,
    /// The object store, as the daemon's account.
    pub objects: Arc<ObjectStore>,
    /// The backend's key.
    pub key: UploadsKey,
    /// The configuration in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// What became of commits here, and what is due.
    pub changes: Changes,
    /// The clock of waits.
    pub clock: Arc<dyn Clock>,
    /// Draws ids.
    pub rng: Arc<Rng>,
}

/// A session as it was made; the same request is answered the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Created {
    /// The session.
    pub id: Uuid,
    /// Whoever has it may do the rest.
    pub token: String,
    /// `initiated`, or `committed` where the same bytes were there.
    #[schema(value_type = String)]
    pub state: State,
    /// Length of every part but the last, in bytes.
    pub part_size: u64,
    /// When the session ends by itself.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Address of the page on which a person brings the file. Its fragment has the token.
    pub page: String,
}

/// A link by which one part is sent, with PUT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PartLink {
    /// The part's number, from 1.
    pub number: u32,
    /// The link.
    pub url: String,
    /// The part's length in bytes.
    pub length: u64,
    /// Where its first byte stands in the file.
    pub offset: u64,
    /// Until when the link may be used.
    #[schema(value_type = String, format = DateTime)]
    pub valid_until: Timestamp,
}

/// A part whose link is asked for, with its MD5 where the store shall refuse a part with other bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The part's number.
    pub number: u32,
    /// The MD5 that is signed into the link.
    pub md5: Option<[u8; 16]>,
}

/// A session as it is shown to whoever may see it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Shown {
    /// The session.
    pub id: Uuid,
    /// Its state.
    #[schema(value_type = String)]
    pub state: State,
    /// The file's name.
    pub file_name: String,
    /// Media type as declared.
    pub content_type: String,
    /// Length in bytes, as declared.
    pub length: u64,
    /// Length of every part but the last.
    pub part_size: u64,
    /// Number of parts.
    pub parts: u64,
    /// Numbers of the parts that the store has whole, while it takes parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Vec<u32>>,
    /// SHA-256 as declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What the scanner says of it, once it is committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Whether the same bytes were there already.
    pub deduplicated: bool,
    /// The submission that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<Uuid>,
    /// Why it came to nothing: the problem's code, as requests are answered with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<serde_json::Value>,
    /// When an open session ends by itself.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// Somebody who gives a command, as records name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct By<'a> {
    /// The role.
    pub who: Who,
    /// The name.
    pub name: &'a str,
}

/// The client that has the session's token.
pub const THE_CLIENT: By<'static> = By { who: CLIENT, name: "client" };
/// The backend.
pub const THE_BACKEND: By<'static> = By { who: BACKEND, name: "backend" };

impl Commands {
    /// Makes a session, or gives the one that the same request has made before.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn create(&self, key: &str, wanted: Wanted) -> Result<Created, Problem> {
        let config = Arc::clone(&self.config.borrow());
        let rules = config.uploads.rules(&wanted.form_id);
        let request = self.key.request(&serde_json::to_vec(&wanted).unwrap_or_default());
        let wanted = wanted.checked(&rules)?;
        let (id, planned_blob) = (self.rng.uuid(), self.rng.uuid());
        let (token, part_size) = (self.key.token(id), decide::part_size(wanted.length));
        let uploads = &config.uploads;
        let made = self
            .store
            .pool()
            .transaction("upload_create", async |tx| {
                self.store.lock_owner(&tx, &wanted.owner).await?;
                if let Some(before) = self.store.before(&tx, &wanted.owner, key).await? {
                    return Ok(Made::Before(before));
                }
                let same = self.store.same(&tx, &wanted, rules.dedupe, config.scan.rescan_after).await?;
                let open = self.store.open(&tx, &wanted.owner).await?;
                let bytes = uploads.bytes_per_owner.as_bytes();
                if same.is_none()
                    && let Err(problem) = within(open, wanted.length, uploads.sessions_per_owner, bytes)
                {
                    return Ok(Made::Refused(problem));
                }
                let new = NewSession {
                    id,
                    wanted: &wanted,
                    key,
                    request_digest: request,
                    token: &token,
                    part_size,
                    planned_blob,
                    rules: uploads,
                };
                let expires_at = self.store.create(&tx, &new).await?;
                if let Some(blob) = same {
                    let edge = Transition::<Upload>::of(State::Initiated, Command::FastPathDedupe, BACKEND)?;
                    let columns = Some(json!({"blob_id": blob}));
                    let write = Write { columns, ..Write::plain(id, Fence::Locked, edge) };
                    self.store.write_one(&tx, THE_BACKEND.name, write).await?;
                }
                Ok(Made::New { expires_at, at_once: same.is_some() })
            })
            .await?;
        let (id, part_size, expires_at, at_once) = match made {
            Made::Refused(problem) => return Err(problem),
            Made::Before(before) if before.request_digest != request => {
                return Err(Problem::new(
                    Kind::IdempotencyMismatch,
                    "The same Idempotency-Key came with another request of this owner before.",
                    "Send another key for another file.",
                ));
            }
            Made::Before(before) => (before.id, before.part_size, before.expires_at, before.at_once),
            Made::New { expires_at, at_once } => {
                if at_once {
                    UPLOADS.add(Outcome::Deduplicated, 1);
                }
                journal!(
                    info,
                    EventName::UploadCreated,
                    upload = %id,
                    form = wanted.form_id,
                    bytes = wanted.length,
                    deduplicated = at_once,
                    "upload {id}: {}",
                    if at_once { "committed at once, the same bytes were there" } else { "a file is to come" }
                );
                (id, part_size, expires_at, at_once)
            }
        };
        let token = self.key.token(id);
        Ok(Created {
            id,
            page: format!("{}/u#{}", uploads.origin, token.expose()),
            token: token.expose().to_owned(),
            state: if at_once { State::Committed } else { State::Initiated },
            part_size,
            expires_at,
        })
    }

    /// The session of an id, where the token is its own.
    ///
    /// # Errors
    /// [`Problem`] 404, also for somebody else's.
    pub async fn of_token(&self, id: Uuid, token_sha256: &[u8; 32]) -> Result<Seen, Problem> {
        let seen = self.store.get(id).await?.ok_or_else(Problem::not_found)?;
        let same =
            aws_lc_rs::constant_time::verify_slices_are_equal(&seen.row.columns.token_sha256, token_sha256);
        same.map(|()| seen).map_err(|_| Problem::not_found())
    }

    /// The session of an id.
    ///
    /// # Errors
    /// [`Problem`] 404.
    pub async fn of_id(&self, id: Uuid) -> Result<Seen, Problem> {
        self.store.get(id).await?.ok_or_else(Problem::not_found)
    }

    /// Links by which parts are sent; fresh ones for the asking. The first time the store is asked to take parts.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn parts(&self, seen: Seen, asked: &[Asked]) -> Result<Vec<PartLink>, Problem> {
        let by = THE_CLIENT;
        numbers(&seen.row.columns, &asked.iter().map(|part| part.number).collect::<Vec<_>>())?;
        let seen = if seen.row.state == State::Initiated { self.start_parts(seen, by).await? } else { seen };
        let (row, session) = (&seen.row, &seen.row.columns);
        possible(row, Command::IssueUrls, by)?;
        let left = session.left(seen.now).ok_or_else(Problem::expired)?;
        let Some(upload) = session.store_upload_id.clone().map(UploadId::new) else {
            return Err(Problem::lost());
        };
        let (name, life) = (self.staged(row)?, self.config.borrow().uploads.url_ttl.min(left));
        let (name, upload) = (&name, &upload);
        let links = futures::stream::iter(asked.to_vec())
            .map(|part| async move {
                let link = self.objects.part_url(name, upload, part.number, part.md5, life).await;
                let link = link.map_err(|error| store_problem(&error, row.id))?;
                let number = u64::from(part.number);
                Ok(PartLink {
                    number: part.number,
                    url: link.url,
                    length: session.part_length(number),
                    offset: (number - 1) * session.part_size,
                    valid_until: link.valid_until,
                })
            })
            .buffered(SIGNED_AT_ONCE)
            .collect::<Vec<Result<PartLink, Problem>>>()
            .await;
        links.into_iter().collect()
    }

    /// Asks the store to take parts, and writes its word down. Of two at once one is taken, and the other's is given up.
    async fn start_parts(&self, seen: Seen, by: By<'_>) -> Result<Seen, Problem> {
        let id = seen.row.id;
        seen.row.columns.left(seen.now).ok_or_else(Problem::expired)?;
        let name = self.staged(&seen.row)?;
        let upload = self.objects.initiate(&name, &seen.row.columns.content_type).await;
        let upload = upload.map_err(|error| store_problem(&error, id))?;
        let columns = json!({"store_upload_id": upload.as_str()});
        let taken = self.give(id, by, Command::StartParts, Some(columns), None).await?;
        if !taken {
            // Somebody else's request was first, or has ended the session: no link leads to this one.
            drop(self.objects.abort(&name, &upload).await);
        }
        self.of_id(id).await
    }

    /// Says that every part is there. The commit follows by itself.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn complete(&self, seen: Seen, sha256: Option<&str>) -> Result<Shown, Problem> {
        let (by, row) = (THE_CLIENT, &seen.row);
        let session = &row.columns;
        let said = sha256.map(decide::sha256).transpose()?;
        if let (Some(said), Some(declared)) = (&said, &session.sha256)
            && said != declared
        {
            let what = "Another SHA-256 was declared before, and what was declared does not change.";
            return Err(Problem::new(Kind::DigestMismatch, what, "Begin a new upload."));
        }
        if matches!(row.state, State::PendingCommit | State::Committed) {
            return self.shown(&seen, false).await;
        }
        possible(row, Command::CompleteParts, by)?;
        session.left(seen.now).ok_or_else(Problem::expired)?;
        let Some(digest) = said.or_else(|| session.sha256.clone()) else {
            return Err(Problem::guard("sha256", "The SHA-256 of the whole file was not declared yet."));
        };
        let Some(upload) = session.store_upload_id.clone().map(UploadId::new) else {
            return Err(Problem::lost());
        };
        let listed = match self.objects.list_parts(&self.staged(row)?, &upload).await {
            Ok(parts) => parts,
            Err(StoreError::Gone) => return self.lost(&seen).await,
            Err(error) => return Err(store_problem(&error, row.id)),
        };
        let listed: Vec<Listed> = listed
            .into_iter()
            .map(|part| Listed { number: part.number, etag: part.etag, size: part.size })
            .collect();
        let etags = parts_there(session, &listed)?;
        let columns = json!({"etags": etags, "sha256": format!("\\x{digest}")});
        if self.give(row.id, by, Command::CompleteParts, Some(columns), None).await? {
            self.changes.due();
        }
        let seen = self.of_id(row.id).await?;
        if seen.row.state == State::Aborted {
            return Err(ended(&seen.row));
        }
        self.shown(&seen, false).await
    }

    /// How the commit of a session stands.
    ///
    /// # Errors
    /// [`Problem`]: it is not complete, or came to nothing.
    pub async fn committing(&self, seen: Seen) -> Result<Shown, Problem> {
        if !matches!(seen.row.state, State::PendingCommit | State::Committed) {
            possible(&seen.row, Command::Commit, THE_CLIENT)?;
        }
        self.shown(&seen, false).await
    }

    /// The store has no such multipart upload: unless a commit has taken it meanwhile, the session is nothing.
    async fn lost(&self, seen: &Seen) -> Result<Shown, Problem> {
        let (id, problem) = (seen.row.id, Problem::lost());
        let columns = json!({"problem": problem.json()});
        let by = By { who: Who::SYSTEM, name: "the store" };
        let from = Some(State::PartsUploading);
        if self.give(id, by, Command::Abort, Some(columns), from).await? {
            UPLOADS.add(Outcome::Lost, 1);
            journal::lost(id);
            return Err(problem);
        }
        let seen = self.of_id(id).await?;
        if seen.row.state == State::Aborted { Err(ended(&seen.row)) } else { self.shown(&seen, false).await }
    }

    /// A session as it is; with `wait` after its state has changed, or that time is over.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn show(&self, seen: Seen, wait: Duration) -> Result<Shown, Problem> {
        let (id, state) = (seen.row.id, seen.row.state);
        let until = self.clock.monotonic() + wait;
        let (mut seen, mut end) = (seen, self.changes.end_of(id));
        while seen.row.state == state && !state.is_ended() && self.clock.monotonic() < until {
            tokio::select! {
                () = end.come() => {}
                () = self.clock.sleep(LOOK) => {}
            }
            seen = self.of_id(id).await?;
        }
        self.shown(&seen, true).await
    }

    /// [`abort`].
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn abort(&self, seen: &Seen, by: By<'_>, reason: Option<&str>) -> Result<(), Problem> {
        abort(&self.store, seen, by, reason).await
    }

    /// Makes a committed upload an attachment of a submission. Repeated, it is the same attachment.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn attach(&self, id: Uuid, submission: Uuid) -> Result<Uuid, Problem> {
        self.store.attach(id, submission).await.map_err(|error| match error.sqlstate() {
            // The upload was seen: it is the submission that is not there.
            Some("MU001") => Problem::guard("submission_id", "There is no such submission."),
            Some("MU002") => Problem::new(
                Kind::NotPossible,
                "The upload is not committed.",
                "Wait until it is: GET with ?wait=20.",
            ),
            Some("MU003") => Problem::guard(
                "submission_id",
                "The upload is of another form, or belongs to another submission.",
            ),
            Some("MU004") => Problem::new(
                Kind::SubmissionClosed,
                "The submission was routed, or is being routed.",
                "An attachment belongs to a submission before that: finalize it afterwards.",
            ),
            Some("MU005") => Problem::expired(),
            _ => Problem::from(error),
        })
    }

    /// Takes an edge under the lock, where the session is still in a state that has it (and in `from`, where one is named).
    async fn give(
        &self,
        id: Uuid,
        by: By<'_>,
        command: Command,
        columns: Option<serde_json::Value>,
        from: Option<State>,
    ) -> Result<bool, Problem> {
        written(&self.store, id, by, |row| {
            if from.is_some_and(|from| from != row.state) {
                return Err(ended(row));
            }
            let edge = Transition::<Upload>::of(row.state, command, by.who)?;
            Ok(Write { columns: columns.clone(), ..Write::plain(row.id, Fence::Locked, edge) })
        })
        .await
    }

    async fn shown(&self, seen: &Seen, with_parts: bool) -> Result<Shown, Problem> {
        let (row, session) = (&seen.row, &seen.row.columns);
        let received = match (&session.store_upload_id, row.state) {
            (Some(upload), State::PartsUploading) if with_parts => Some(self.received(row, upload).await?),
            _ => None,
        };
        let blob: Option<Blob> = match session.blob_id {
            Some(id) => self.store.blob(id).await?,
            None => None,
        };
        Ok(Shown {
            id: row.id,
            state: row.state,
            file_name: session.file_name.0.clone(),
            content_type: session.content_type.clone(),
            length: session.length,
            part_size: session.part_size,
            parts: session.parts(),
            received,
            sha256: session.sha256.clone(),
            verdict: blob.map(|blob| blob.verdict.to_string()),
            deduplicated: session.deduplicated,
            submission_id: session.submission_id,
            problem: (row.state == State::Aborted).then(|| ended(row).json()),
            expires_at: session.expires_at,
        })
    }

    /// The parts that the store has whole.
    async fn received(&self, row: &Row<Upload>, upload: &str) -> Result<Vec<u32>, Problem> {
        let session = &row.columns;
        match self.objects.list_parts(&self.staged(row)?, &UploadId::new(upload.to_owned())).await {
            Ok(parts) => {
                let whole =
                    parts.iter().filter(|part| part.size == session.part_length(u64::from(part.number)));
                Ok(whole.map(|part| part.number).collect())
            }
            // Being assembled, or given up, at this very moment.
            Err(StoreError::Gone) => Ok(Vec::new()),
            Err(error) => Err(store_problem(&error, row.id)),
        }
    }

    fn staged(&self, row: &Row<Upload>) -> Result<ObjectName, Problem> {
        let bucket = self.config.borrow().uploads.staging_bucket.clone();
        let object = Session::staging_object(row.id, row.columns.planned_blob);
        ObjectName::new(bucket, object).map_err(|error| store_problem(&error, row.id))
    }
}

/// Ends a session; what was brought is removed. Repeated, it is as it was.
///
/// # Errors
/// [`Problem`]; a committed upload is not taken back.
pub async fn abort(
    store: &UploadStore,
    seen: &Seen,
    by: By<'_>,
    reason: Option<&str>,
) -> Result<(), Problem> {
    let row = &seen.row;
    if row.state == State::Aborted {
        return Ok(());
    }
    possible(row, Command::Abort, by)?;
    let columns = json!({"problem": Problem::aborted(by.who.label()).json()});
    let ended = written(store, row.id, by, |row| {
        let edge = Transition::<Upload>::of(row.state, Command::Abort, by.who)?;
        let (columns, reason) = (Some(columns.clone()), reason.map(str::to_owned));
        Ok(Write { columns, reason, ..Write::plain(row.id, Fence::Locked, edge) })
    });
    if ended.await? {
        UPLOADS.add(Outcome::Aborted, 1);
        journal!(info, EventName::UploadAborted, upload = %row.id, by = by.name, "upload {} was ended by {}", row.id, by.name);
    }
    Ok(())
}

/// Locks the session, decides, writes. A decision against it is no error: whoever asked reads the row again.
async fn written(
    store: &UploadStore,
    id: Uuid,
    by: By<'_>,
    decide: impl Fn(&Row<Upload>) -> Result<Write<Upload>, Problem> + Sync,
) -> Result<bool, Problem> {
    let written = store.pool().transaction("upload_command", async |tx| {
        let held = store.hold(&tx, &[id]).await?;
        let Some(write) = held.first().and_then(|row| decide(row).ok()) else { return Ok(false) };
        store.write_one(&tx, by.name, write).await
    });
    Ok(written.await?)
}

/// What became of a request for a session.
enum Made {
    Before(super::store::Before),
    Refused(Problem),
    New { expires_at: Timestamp, at_once: bool },
}

/// Whether somebody may give a command now.
fn possible(row: &Row<Upload>, command: Command, by: By<'_>) -> Result<(), Problem> {
    if row.state == State::Aborted {
        return Err(ended(row));
    }
    Transition::<Upload>::of(row.state, command, by.who).map(drop).map_err(Problem::from)
}

/// The problem that an aborted session answers with.
fn ended(row: &Row<Upload>) -> Problem {
    row.columns.problem.as_ref().map_or_else(Problem::expired, Problem::of_kept)
}

/// What a client is told of a store that did not do what it was asked.
fn store_problem(error: &StoreError, upload: Uuid) -> Problem {
    tracing::warn!(%upload, "upload {upload}: the object store did not do what it was asked: {error}");
    Problem::store_away()
}
