//! The routing worker as a task of the crate `graphile_worker`: local queue, batched completion, lettre's pool, sqlx's
//! prepared statements.
//!
//! The job's payload is the submission's id. A handler claims, sends each action's mail, and sets the submission to routed
//! with its audit rows in the statement that records the last mail: two commits for one action, besides those of the queue.

mod signed;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use graphile_worker::{IntoTaskHandlerResult, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions};
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{MultiPart, SinglePart};
use lettre::transport::smtp::PoolConfig;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::signed::Signer;

const CLAIM: &str = "UPDATE submissions SET status = 'processing', updated_at = clock_timestamp()
WHERE id = $1 AND status = 'received'
RETURNING form_id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), routing_result";
const FORM: &str = "SELECT f.name, a.action_order, a.destination, a.subject_template
FROM forms f JOIN actions a ON a.form_id = f.id
WHERE f.id = $1 AND a.action_type IN ('email_template', 'email_raw') ORDER BY a.action_order";
const ATTACHMENTS: &str = "SELECT file_name, gcs_bucket, gcs_object FROM attachments
WHERE submission_id = $1 AND clamav_status = 'clean' ORDER BY created_at, id";
const SENT: &str = "WITH u AS (UPDATE submissions SET updated_at = clock_timestamp(), routing_result = routing_result || $2
  WHERE id = $1 RETURNING id, form_id)
INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
SELECT 'worker', 'email_sent', u.id, u.form_id, $3 FROM u";
const ROUTED: &str = "WITH u AS (UPDATE submissions SET status = 'routed', updated_at = clock_timestamp(),
    routing_result = routing_result || $2
  WHERE id = $1 AND status = 'processing' RETURNING id, form_id)
INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
SELECT 'worker', t.action::audit_action, u.id, u.form_id, t.detail
FROM u, (VALUES ('email_sent', $3::jsonb), ('submission_routed', '{}')) AS t(action, detail)";

/// Parts that every handler works with.
#[derive(Clone)]
struct Parts {
    database: PgPool,
    relay: AsyncSmtpTransport<Tokio1Executor>,
    from: String,
    signer: Arc<Signer>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

#[derive(Deserialize, Serialize)]
struct Route {
    id: Uuid,
}

impl TaskHandler for Route {
    const IDENTIFIER: &'static str = "route";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let parts = context.get_ext::<Parts>().expect("it was added below");
        route(self.id, parts).await.map_err(|error| format!("{error:#}"))
    }
}

struct Action {
    name: String,
    order: i32,
    recipients: Vec<String>,
    subject: Option<String>,
}

async fn route(id: Uuid, parts: &Parts) -> Result<()> {
    let claimed: Option<(String, String, Value)> =
        sqlx::query_as(CLAIM).bind(id).fetch_optional(&parts.database).await?;
    let Some((form, received, done)) = claimed else { return Ok(()) };
    let rows: Vec<(String, i32, String, Option<String>)> =
        sqlx::query_as(FORM).bind(&form).fetch_all(&parts.database).await?;
    let attachments: Vec<(String, String, String)> =
        sqlx::query_as(ATTACHMENTS).bind(id).fetch_all(&parts.database).await?;
    let mut block = String::new();
    for (name, bucket, object) in &attachments {
        block += &format!("\n{name}\n{}\n", parts.signer.url(bucket, object, name)?);
    }
    let actions: Vec<Action> = rows
        .into_iter()
        .map(|(name, order, destination, subject)| {
            let recipients = destination.split(',').map(|address| address.trim().to_owned()).collect();
            Action { name, order, recipients, subject }
        })
        .collect();
    for (place, action) in actions.iter().enumerate() {
        let order = action.order.to_string();
        if done.get(&order).is_some() {
            continue;
        }
        parts.relay.send(mail(id, &form, &received, action, &block, &parts.from)?).await?;
        let record = if place + 1 == actions.len() { ROUTED } else { SENT };
        let outcome = json!({ order: {"status": "sent", "recipients": action.recipients} });
        let detail = json!({"action_order": action.order});
        sqlx::query(record).bind(id).bind(outcome).bind(detail).execute(&parts.database).await?;
    }
    Ok(())
}

/// A header that lettre has no type for.
#[derive(Clone)]
struct Own<const N: usize>(String);

const NAMES: [&str; 3] = ["Auto-Submitted", "X-Submission-ID", "X-Form-ID"];

impl<const N: usize> Header for Own<N> {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str(NAMES[N])
    }

    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}

fn mail(id: Uuid, form: &str, received: &str, action: &Action, block: &str, from: &str) -> Result<Message> {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{id}|{}", action.order).as_bytes());
    let name = &action.name;
    let text = format!(
        "A new submission of the form \"{name}\" has been received; details to follow.\n\n\
         Submission: {id}\nForm:       {name}\nReceived:   {received} UTC\n{block}"
    );
    let subject = action.subject.clone().unwrap_or_else(|| format!("[{name}] submission {id}"));
    let mut message = Message::builder()
        .from(from.parse()?)
        .subject(subject)
        .message_id(Some(format!("<{}@maple.test>", hex::encode(&digest.as_ref()[..16]))))
        .header(Own::<0>("auto-generated".to_owned()))
        .header(Own::<1>(id.to_string()))
        .header(Own::<2>(form.to_owned()));
    for recipient in &action.recipients {
        message = message.to(recipient.parse()?);
    }
    Ok(message.multipart(MultiPart::mixed().singlepart(SinglePart::plain(text)))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let variable = |name: &str| std::env::var(name).map_err(|error| anyhow::anyhow!("{name}: {error}"));
    let concurrency: usize = variable("CONCURRENCY")?.parse()?;
    // For the queue and the handlers; more connections than the server has use for bring nothing. The ping before
    // each use, sqlx's default, is a round trip for every statement; the server is next door.
    let database = PgPoolOptions::new()
        .max_connections(10)
        .test_before_acquire(false)
        .connect(&variable("DATABASE_URL")?)
        .await?;
    // A connection for each handler: lettre waits for the acknowledgement of the body before it sends the final dot, about
    // 40 ms, so that few connections would be slower still.
    let relay = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
        .port(variable("SMTP_PORT")?.parse()?)
        .hello_name(ClientId::Domain("maple.test".to_owned()))
        .pool_config(PoolConfig::new().max_size(u32::try_from(concurrency)?))
        .build();
    let signer = Arc::new(Signer::read(&variable("SIGNER_KEY_FILE")?, &variable("STORAGE_ENDPOINT")?)?);
    let parts = Parts { database: database.clone(), relay, from: variable("MAIL_FROM")?, signer };
    let worker = WorkerOptions::default()
        .concurrency(concurrency)
        .schema("graphile_worker")
        .define_job::<Route>()
        .pg_pool(database)
        .add_extension(parts)
        .local_queue(LocalQueueConfig::default().with_size(10 * concurrency))
        .complete_job_batch_delay(Duration::from_millis(5))
        .fail_job_batch_delay(Duration::from_millis(5))
        .init()
        .await?;
    println!("ready");
    worker.run().await?;
    Ok(())
}
