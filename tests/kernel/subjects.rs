//! What every subject of a review must do, asked in the caller's transaction; and the journal's lines meanwhile.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use maple_router::db::{DbError, Pool};
use maple_router::kernel::subject::{OnAccount, Remedied, Remedy, Subject};
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

/// On whose account these tests act.
pub(crate) const ACCOUNT: OnAccount<'static> =
    OnAccount { actor: "reviewer:ada", reason: "a test", review: "entry:1", delivery: None };

/// Locks the subject and carries the remedy out, in a transaction that is committed.
pub(crate) async fn committed(
    subject: &dyn Subject,
    pool: &Pool,
    id: Uuid,
    remedy: Remedy,
    account: OnAccount<'_>,
) -> Remedied {
    let body = async |tx| {
        subject.lock(&tx, id).await?;
        subject.remedy(&tx, id, remedy, account).await
    };
    pool.transaction("remedy", body).await.expect("answered")
}

/// The same, in a transaction that its owner rolls back afterwards.
pub(crate) async fn rolled_back(
    subject: &dyn Subject,
    pool: &Pool,
    id: Uuid,
    remedy: Remedy,
    account: OnAccount<'_>,
) -> Remedied {
    let answer = Mutex::new(None);
    let body = async |tx| {
        subject.lock(&tx, id).await?;
        *answer.lock().expect("lock") = Some(subject.remedy(&tx, id, remedy, account).await?);
        Err::<(), _>(DbError::Shape("its owner thinks better of it".to_owned()))
    };
    pool.transaction("remedy", body).await.expect_err("rolled back");
    answer.into_inner().expect("lock").expect("answered")
}

pub(crate) fn words(answer: Remedied) -> String {
    match answer {
        Remedied::Refused(words) => words,
        Remedied::Done => panic!("it was done"),
    }
}

/// The lines of the journal that this thread writes, while it is kept.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Keeps the lines from now on.
    pub(crate) fn keep(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt().json().with_writer(self.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// The fields of the overrides so far.
    pub(crate) fn overrides(&self) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().expect("lock").clone()).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let fields = lines.map(|line: serde_json::Value| line["fields"].clone());
        fields.filter(|fields| fields["event"] == "override").collect()
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
