//! The statements of the uploads: a session from its birth to a blob and an attachment, its verdicts, its objects' removal, lists. Part
//! of a round where the schemas are there.

use std::time::Duration;

use maple_router::config::{Dedupe, Uploads as Rules};
use maple_router::db::pool::Pool;
use maple_router::kernel::rows::Kinds;
use maple_router::ops::rng::Rng;
use maple_router::uploads::decide::Wanted;
use maple_router::uploads::digest::UploadsKey;
use maple_router::uploads::store::{NewSession, UploadStore, Verdict};
use maple_router::uploads::table::State;
use tokio_postgres::Client;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);
const PAGE: usize = 16;
const FORM: &str = "f";
const STAGING: &str = "s";

/// The uploads of one database.
pub(crate) struct Uploads {
    pool: Pool,
    store: UploadStore,
    key: UploadsKey,
    rules: Rules,
}

impl Uploads {
    pub(crate) fn on(pool: Pool) -> Self {
        let key = UploadsKey::new("0123456789abcdef0123456789abcdef").expect("a key");
        let rules = Rules { staging_bucket: STAGING.to_owned(), ..Rules::default() };
        Self { store: UploadStore::new(pool.clone(), "maple-router@test"), pool, key, rules }
    }

    /// Says every statement once.
    pub(crate) async fn round(&self, eyes: &Client, submission: Uuid) {
        assert!(self.store.is_there().await.expect("asked"));
        let (given_up, kept) = (self.born(eyes).await, self.born(eyes).await);
        self.look(given_up).await;
        let ended = format!(
            "UPDATE content.uploads SET expires_at = now() - interval '1 second' WHERE id = '{given_up}'"
        );
        eyes.batch_execute(&ended).await.expect("late");
        self.store.wake(PAGE).await.expect("woken");
        self.commit(eyes, kept).await;
        let attachment = self.store.attach(kept, submission).await.expect("attached");
        assert_eq!(self.store.attach(kept, submission).await.expect("attached"), attachment);
        let came = self.store.of_attachments(&[attachment]).await.expect("read");
        assert_eq!(came.iter().map(|came| came.upload).collect::<Vec<_>>(), [Some(kept)]);
        self.judge(kept).await;
        let late = format!(
            "UPDATE content.staging SET due_at = now() - interval '1 second' WHERE upload_id IN ('{given_up}', '{kept}')"
        );
        eyes.batch_execute(&late).await.expect("due");
        let staged = self.store.take_staging(PAGE, STAGING).await.expect("taken");
        let objects: Vec<String> = staged.into_iter().map(|staged| staged.object).collect();
        assert!(objects.len() >= 2, "{objects:?}");
        self.store.staging_gone(STAGING, &objects).await.expect("gone");
        self.store.end_unattached(PAGE).await.expect("ended");
        self.store.depths().await.expect("counted");
        self.store.standing().await.expect("counted");
    }

    /// A session of its own bytes.
    async fn born(&self, eyes: &Client) -> Uuid {
        let id = Rng::from_system().uuid();
        let sha256: String = eyes
            .query_one("SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')", &[&id.to_string()])
            .await
            .expect("a digest")
            .get(0);
        let wanted = Wanted {
            form_id: FORM.to_owned(),
            owner: "o7".to_owned(),
            file_name: "a.pdf".to_owned(),
            content_type: "application/pdf".to_owned(),
            length: 10,
            sha256: Some(sha256),
        };
        let token = self.key.token(id);
        let new = NewSession {
            id,
            wanted: &wanted,
            key: &id.to_string(),
            request_digest: [7; 32],
            token: &token,
            part_size: 8 << 20,
            planned_blob: Rng::from_system().uuid(),
            rules: &self.rules,
        };
        let made = self.pool.transaction("upload_create", async |tx| {
            self.store.lock_owner(&tx, &wanted.owner).await?;
            assert_eq!(self.store.before(&tx, &wanted.owner, new.key).await?, None);
            self.store.open(&tx, &wanted.owner).await?;
            for dedupe in [Dedupe::Owner, Dedupe::Form] {
                assert_eq!(self.store.same(&tx, &wanted, dedupe, HOUR).await?, None);
            }
            self.store.create(&tx, &new).await
        });
        made.await.expect("made");
        id
    }

    async fn look(&self, id: Uuid) {
        let store = &self.store;
        let seen = store.get(id).await.expect("read").expect("there");
        assert_eq!(store.equal(&seen.row.columns).await.expect("asked"), None);
        assert_eq!(store.history(id).await.expect("read").len(), 1);
        for (ended, state) in [(false, None), (true, None), (true, Some(State::Aborted))] {
            for form in [None, Some(FORM)] {
                store.list(ended, state, form, PAGE).await.expect("listed");
            }
        }
    }

    /// What the API and the object store bring about, then the commit's own statements.
    async fn commit(&self, eyes: &Client, id: Uuid) {
        let arrived = format!(
            "UPDATE content.uploads SET state = 'parts_uploading', store_upload_id = 'u' WHERE id = '{id}';
             UPDATE content.uploads SET state = 'pending_commit', etags = '[]', available_at = now() WHERE id = '{id}'"
        );
        eyes.batch_execute(&arrived).await.expect("arrived");
        let (kinds, token) = (Kinds::AllBut(Vec::new()), Rng::from_system().uuid());
        assert!(self.store.waits(State::PendingCommit, &kinds).await.expect("asked"));
        let claimed =
            self.store.claim(State::PendingCommit, &kinds, PAGE, HOUR, token).await.expect("claimed");
        let row = claimed.iter().find(|row| row.id == id).expect("it is claimed");
        let leased: Vec<_> = claimed.iter().filter_map(|row| Some((row.id, row.token?))).collect();
        self.store.extend(&leased, HOUR).await.expect("extended");
        let object = row.columns.blob_object();
        assert!(self.store.plan(id, row.token.expect("a lease"), "c", &object).await.expect("planned"));
        let proven = format!(
            "UPDATE content.uploads SET state = 'committed', lease_token = NULL, leased_until = NULL,
               found = jsonb_build_object('sha256', encode(sha256, 'hex'), 'length', length, 'crc32c', 1, 'generation', 7,
                 'verdict', 'unscanned') WHERE id = '{id}'"
        );
        eyes.batch_execute(&proven).await.expect("committed");
    }

    async fn judge(&self, id: Uuid) {
        let store = &self.store;
        let blob = store.get(id).await.expect("read").expect("there").row.columns.blob_id.expect("committed");
        assert_eq!(store.blob(blob).await.expect("read").expect("there").attachments, 1);
        assert!(store.take_unscanned(PAGE, HOUR).await.expect("taken").iter().any(|scan| scan.id == blob));
        store.scan_later(blob, HOUR).await.expect("put off");
        assert!(store.scan_again(blob).await.expect("asked"));
        assert_eq!(store.record_verdict(blob, Verdict::Clean, None, Some("ClamAV")).await.expect("told"), 1);
        store.scan_stale(HOUR, 1).await.expect("asked");
    }
}
