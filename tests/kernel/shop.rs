//! A parcel job's effect in the world: an entry outside the row; the job may stand still where a test wants to kill it.

use std::time::Duration;

use maple_router::kernel::rows::Row;
use tokio_postgres::{Client, NoTls};

use crate::parcels::Parcel;

/// Entries that jobs leave, and points where a job stands still.
pub(crate) const MARKS: &str = "CREATE TABLE router.parcel_marks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parcel bigint NOT NULL, job text NOT NULL, token uuid NOT NULL,
    worker text NOT NULL);
CREATE TABLE router.parcel_stands (worker text NOT NULL, place text NOT NULL);
GRANT SELECT, INSERT ON router.parcel_marks, router.parcel_stands TO forms_app";

/// The parcels' world; see the module's header.
pub(crate) struct Shop {
    marks: Client,
    worker: String,
    /// `pack before`, say: the first to come there stays.
    stands: Option<String>,
}

impl Shop {
    pub(crate) async fn open(url: &str, worker: &str, stands: Option<String>) -> Self {
        let (marks, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        Self { marks, worker: worker.to_owned(), stands }
    }

    /// `bad` refuses to be packed, `panic` is worse.
    pub(crate) async fn pack(&self, row: &Row<Parcel>) -> Result<(), String> {
        self.mark(row, "pack").await;
        match row.columns.as_str() {
            "bad" => Err("no such street".to_owned()),
            "panic" => panic!("a bug"),
            _ => Ok(()),
        }
    }

    pub(crate) async fn ship(&self, row: &Row<Parcel>) -> String {
        self.mark(row, "ship").await;
        format!("carrier of {}", row.id)
    }

    async fn mark(&self, row: &Row<Parcel>, job: &str) {
        self.stand(&format!("{job} before")).await;
        let sql = "INSERT INTO router.parcel_marks (parcel, job, token, worker) VALUES ($1, $2, $3, $4)";
        self.marks.execute(sql, &[&row.id, &job, &row.token, &self.worker]).await.expect("marked");
        self.stand(&format!("{job} after")).await;
    }

    async fn stand(&self, place: &str) {
        if self.stands.as_deref() == Some(place) {
            let sql = "INSERT INTO router.parcel_stands (worker, place) VALUES ($1, $2)";
            self.marks.execute(sql, &[&self.worker, &place]).await.expect("standing");
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
    }
}
