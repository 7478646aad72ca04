//! The sessions' table, as the kernel claims, writes and counts its rows.

use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use crate::db::DbError;
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions};
use crate::uploads::session::{FileName, Owner, Session};
use crate::uploads::table::{Command, State, Upload};

/// What a [`Session`] is read from, beside id, state, attempts, claims and lease.
macro_rules! columns {
    () => {
        "o.form_id, o.owner, o.submission_id, o.file_name, o.content_type, o.length, encode(o.sha256, 'hex') AS sha256, o.part_size,
  o.token_sha256, o.store_upload_id, o.etags, o.planned_blob, o.blob_id, o.deduplicated, o.problem, o.expires_at, o.created_at,
  o.ended_at"
    };
}
pub(super) use columns;

impl Stored for Upload {
    type Id = Uuid;
    type Columns = Session;
    const RELATION: Relation<State> = Relation {
        name: "content.uploads",
        transactions: transactions!("upload"),
        kind: "o.state",
        columns: columns!(),
        written: &[
            ("store_upload_id", "text"),
            ("sha256", "bytea"),
            ("etags", "jsonb"),
            ("found", "jsonb"),
            ("blob_id", "uuid"),
            ("deduplicated", "boolean"),
            ("problem", "jsonb"),
        ],
        // Two states end an upload: the schema's own trigger says when.
        stamped: &[],
        born: "created_at",
        versioned: false,
        leases_recorded: false,
        log: Log::Transitions,
        beside: "",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Retry,
        fail: Command::Retry,
        give_up: Command::Abort,
    });

    fn columns(row: &PgRow) -> Result<Session, DbError> {
        let count = |column: &str| -> Result<u64, DbError> {
            let found: i64 = row.try_get(column)?;
            u64::try_from(found).map_err(|_| DbError::Shape(format!("content.uploads.{column} is below 0")))
        };
        let digest: Vec<u8> = row.try_get("token_sha256")?;
        let part_size: i32 = row.try_get("part_size")?;
        Ok(Session {
            form_id: row.try_get("form_id")?,
            owner: Owner(row.try_get("owner")?),
            submission_id: row.try_get("submission_id")?,
            file_name: FileName(row.try_get("file_name")?),
            content_type: row.try_get("content_type")?,
            length: count("length")?,
            sha256: row.try_get("sha256")?,
            part_size: u64::try_from(part_size)
                .map_err(|_| DbError::Shape("content.uploads.part_size is below 0".to_owned()))?,
            token_sha256: digest
                .try_into()
                .map_err(|_| DbError::Shape("content.uploads.token_sha256 is no digest".to_owned()))?,
            store_upload_id: row.try_get("store_upload_id")?,
            etags: row.try_get("etags")?,
            planned_blob: row.try_get("planned_blob")?,
            blob_id: row.try_get("blob_id")?,
            deduplicated: row.try_get("deduplicated")?,
            problem: row.try_get("problem")?,
            expires_at: row.try_get("expires_at")?,
            created_at: row.try_get("created_at")?,
            ended_at: row.try_get("ended_at")?,
        })
    }
}
