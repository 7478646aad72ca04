//! A room as it looks on the kernel: parcels that are ordered, packed and shipped. Five states, two jobs (the second of them
//! in the transaction itself), three timers, two commands of people; everything else is the kernel's.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use maple_router::db::{DbError, Pool};
use maple_router::kernel::jobs::retries::Ending;
use maple_router::kernel::jobs::works::Work;
use maple_router::kernel::rows::{
    Attempts, Commands, Fence, Log, Relation, Row, Rows, Stored, Write, transactions,
};
use maple_router::kernel::{Edge, Lifecycle, Transition, Who, edges, words};
use serde_json::json;
use tokio_postgres::Row as PgRow;

use crate::shop::Shop;

words! {
    State { Ordered = "ordered", Packing = "packing", Packed = "packed", Shipped = "shipped", Failed = "failed" }
}
words! {
    Command {
        Order = "order", Claim = "claim", Pack = "pack", Ship = "ship", Release = "release", Fail = "fail",
        GiveUp = "give_up", Expire = "expire", Lapse = "lapse", Recall = "recall", Reopen = "reopen",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parcel;

impl Lifecycle for Parcel {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "parcel";
    const ABOUT: &'static str = "a parcel, from its order to its dispatch";
    const TABLE: &'static [Edge<State, Command>] = edges! { State, Command:
        _ Order -> Ordered [Who::OPERATOR]: "an address", "available at once";
        Ordered Claim -> Packing [Who::WORKER]: "due", "lease";
        Packing Pack -> Packed [Who::WORKER]: "token", "lease cleared, expires_at";
        Packing Release -> Ordered [Who::WORKER]: "token", "attempt refunded";
        Packing Fail -> Ordered [Who::WORKER]: "token; attempts left", "back-off";
        Packing GiveUp -> Failed [Who::WORKER]: "token; no attempts left", "reason kept";
        Packing Expire -> Ordered [Who::SYSTEM] on Lease: "lease over", "attempt refunded";
        Packed Claim -> Packed [Who::WORKER]: "due, nobody has it", "lease";
        Packed Ship -> Shipped [Who::WORKER]: "token", "carrier, shipped_at";
        Packed Release -> Packed [Who::WORKER]: "token", "attempt refunded";
        Packed Fail -> Packed [Who::WORKER]: "token; attempts left", "back-off";
        Packed GiveUp -> Failed [Who::WORKER]: "token; no attempts left", "reason kept";
        Packed Expire -> Packed [Who::SYSTEM] on Lease: "lease over", "attempt refunded";
        Packed Lapse -> Failed [Who::SYSTEM] on Expiry: "expires_at passed", "nothing";
        Packed Recall -> Ordered [Who::OPERATOR]: "version as seen; a reason", "lease voided";
        Failed Reopen -> Ordered [Who::OPERATOR]: "version as seen; a reason", "attempts 0";
    };
}

pub(crate) const MIGRATION: &str = "CREATE TABLE router.parcels (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address text NOT NULL,
    carrier text,
    state text NOT NULL DEFAULT 'ordered' CHECK (state IN ('ordered', 'packing', 'packed', 'shipped', 'failed')),
    version bigint NOT NULL DEFAULT 1,
    attempts int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims int NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL DEFAULT now(),
    lease_token uuid,
    leased_until timestamptz,
    expires_at timestamptz,
    shipped_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK (state <> 'packing' OR lease_token IS NOT NULL),
    CHECK ((state = 'shipped') = (shipped_at IS NOT NULL)));
GRANT SELECT, INSERT, UPDATE ON router.parcels TO forms_app";

impl Stored for Parcel {
    type Id = i64;
    type Columns = String;
    const RELATION: Relation<State> = Relation {
        name: "router.parcels",
        transactions: transactions!("parcel"),
        kind: "o.state",
        columns: "o.address",
        written: &[("carrier", "text"), ("expires_at", "timestamptz")],
        stamped: &[("shipped_at", State::Shipped)],
        born: "created_at",
        versioned: true,
        leases_recorded: true,
        log: Log::Transitions,
        beside: "",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Release,
        fail: Command::Fail,
        give_up: Command::GiveUp,
    });

    fn columns(row: &PgRow) -> Result<String, DbError> {
        Ok(row.try_get("address")?)
    }
}

/// The job of those that are ordered.
pub(crate) struct Pack(pub(crate) Arc<Shop>);

impl Work for Pack {
    type Of = Parcel;

    fn run<'a>(&'a self, row: &'a Row<Parcel>) -> BoxFuture<'a, Ending<Parcel>> {
        async {
            let columns = Some(json!({"expires_at": "2100-01-01T00:00:00Z"}));
            match self.0.pack(row).await {
                Ok(()) => Ending::Done { command: Command::Pack, to: None, columns },
                Err(why) => Ending::Failed { why, columns: None },
            }
        }
        .boxed()
    }
}

/// The job of those that are packed.
pub(crate) struct Ship(pub(crate) Arc<Shop>);

impl Work for Ship {
    type Of = Parcel;

    fn run<'a>(&'a self, row: &'a Row<Parcel>) -> BoxFuture<'a, Ending<Parcel>> {
        async {
            let carrier = self.0.ship(row).await;
            Ending::Done { command: Command::Ship, to: None, columns: Some(json!({"carrier": carrier})) }
        }
        .boxed()
    }
}

/// A person's command on what was seen at `version`; `false` where somebody was faster.
pub(crate) async fn ask(
    (rows, pool): (&Rows<Parcel>, &Pool),
    (id, version): (i64, i64),
    command: Command,
    reason: &str,
) -> Result<bool, DbError> {
    pool.transaction("parcel_ask", async |tx| {
        let Some(row) = rows.hold(&tx, &[id]).await?.pop() else { return Ok(false) };
        let transition = Transition::of(row.state, command, Who::OPERATOR)?;
        let write = Write {
            attempts: Attempts::Reset,
            reason: Some(reason.to_owned()),
            ..Write::plain(id, Fence::Version(version), transition)
        };
        Ok(rows.write(&tx, "operator:x", &[write]).await?.contains(&id))
    })
    .await
}
