//! The outbox's table, as the kernel claims, writes and counts its rows.

use bytes::Bytes;
use tokio_postgres::Row as PgRow;

use crate::db::DbError;
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions};
use crate::outbox::row::Message;
use crate::outbox::table::{Command, Outbox, State};

impl Stored for Outbox {
    type Id = i64;
    type Columns = Message;
    const RELATION: Relation<State> = Relation {
        name: "router.outbox",
        transactions: transactions!("outbox"),
        kind: "o.kind",
        columns: "o.kind, o.payload::text AS payload, o.created_at",
        written: &[("message_id", "text"), ("error", "text")],
        stamped: &[("delivered_at", State::Delivered)],
        born: "created_at",
        versioned: false,
        leases_recorded: true,
        log: Log::Transitions,
        // A row that is given up on leaves a record, from which people are notified.
        beside: ", d AS (
  INSERT INTO router.dead_letters (id, kind, at, submission_id, reason, message_id, payload, payload_sha256, attributes)
  SELECT gen_random_uuid(), u.columns->>'dead_letter', clock_timestamp(), u.entity_id, u.reason, 'outbox:' || u.id || ':' || u.claims,
    convert_to(u.payload::text, 'UTF8'), encode(sha256(convert_to(u.payload::text, 'UTF8')), 'hex'),
    jsonb_build_object('type', u.kind, 'v', '1')
  FROM u WHERE u.to_state = 'dead_letter'
  ON CONFLICT (message_id) DO NOTHING
)",
        returned: ", o.kind, o.entity_id, o.payload, o.claims",
        shared: None,
        pruned: Some((State::Delivered, "delivered_at")),
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Release,
        fail: Command::Fail,
        give_up: Command::GiveUp,
    });

    fn columns(row: &PgRow) -> Result<Message, DbError> {
        Ok(Message {
            kind: row.try_get("kind")?,
            payload: Bytes::from(row.try_get::<_, String>("payload")?),
            created_at: row.try_get("created_at")?,
        })
    }
}
