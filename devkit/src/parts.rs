//! The stage for a router that somebody else runs: the parts stand on loopback, their addresses are printed once,
//! and then orders are taken, one at a time.
//!
//! Written for `make test-systemd`, where systemd runs the router in a container and this process only shares its
//! network. The database is on TCP and asks `forms_app` for a password, so that the router needs its credential.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::forms::SubmissionSeed;
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::slack::SlackMessage;
use crate::smtp::{Rule, Stage as At};
use crate::stage::{BUCKET, PROBE, PROJECT, Stage, StageOptions};
use crate::trap::Trapped;

/// Clients on TCP must authenticate.
const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
/// Redelivery back-off of the subscription.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Short, so that an event leased by a router that is gone comes again while somebody waits.
const ACK_DEADLINE: Duration = Duration::from_secs(10);

/// Orders; on the wire `{"do": "submit", "form": "contact"}`.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// A submission comes in; returns its id.
    Submit {
        /// A sample form.
        form: String,
        /// File names; scanned and clean, and in the object store.
        #[serde(default)]
        attachments: Vec<String>,
        /// Came in this long ago.
        #[serde(default)]
        age_seconds: u64,
        /// The submission's event is lost.
        #[serde(default)]
        silent: bool,
    },
    /// Row, audit and mails of a submission.
    Look {
        /// Which.
        id: Uuid,
    },
    /// The relay keeps the next transaction waiting at this stage: before (`dot`) or after (`after_dot`) it has
    /// stored the mail.
    Hold {
        /// Stage of the dialogue.
        at: Moment,
    },
    /// Waits until somebody stands there.
    Caught {
        /// Longest wait.
        seconds: u64,
    },
    /// Lets the caught dialogue go on.
    LetGo {},
    /// From now on the relay says this to every RCPT.
    RefuseRecipients {
        /// E.g. `550 5.1.1 no such user`.
        line: String,
    },
    /// The relay's port refuses connections.
    RelayDown {},
    /// The relay is there, without rules.
    RelayUp {},
    /// Returns the messages Slack has confirmed: one text a message.
    Slack {},
}

/// Points at which [`Order::Hold`] stops.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before anything is stored.
    Dot,
    /// The mail is stored, its sender does not know.
    AfterDot,
}

/// The parts, running; dropped in this order.
pub struct Parts {
    trapped: Option<Trapped>,
    stage: Stage,
    cluster: Cluster,
    password: String,
}

impl Parts {
    /// Starts them.
    ///
    /// # Errors
    /// A part that cannot start, named.
    #[expect(clippy::disallowed_methods, reason = "the password must only be unlike any other")]
    pub async fn start() -> Result<Self> {
        let options =
            ClusterOptions { tcp_port: Some(0), hba: Some(HBA.to_owned()), ..ClusterOptions::default() };
        let cluster = Cluster::start(options).await?;
        let variant = Variant { audit_readable: true, ..Variant::default() };
        let database = cluster.database(variant).await?;
        let password = Uuid::new_v4().simple().to_string();
        let sql = format!("ALTER ROLE forms_app PASSWORD '{password}'");
        database.superuser().await?.batch_execute(&sql).await?;
        let options =
            StageOptions { variant, retry: RETRY, ack_deadline: ACK_DEADLINE, ..StageOptions::default() };
        let stage = Stage::on(database, options).await?;
        Ok(Self { trapped: None, stage, cluster, password })
    }

    /// Addresses of all parts, and their secrets: for a configuration of the router.
    ///
    /// # Errors
    /// The key cannot be written.
    pub fn addresses(&self) -> Result<Value> {
        let stage = &self.stage;
        let key = stage.dir().join("key.json");
        stage.google.write_key_file(&key)?;
        let endpoint = self.cluster.endpoint();
        let port = endpoint.tcp_port.context("the database listens on no port")?;
        Ok(json!({
            "database": {"url": format!("postgres://forms_app@127.0.0.1:{port}/{}", stage.database.name())},
            "pubsub": {
                "project": PROJECT,
                "topic": "routing",
                "subscription": "routing-worker",
                "dead_letter_topic": "routing-dead",
                "dead_letter_subscription": "routing-dead-worker",
                "endpoint": stage.broker.endpoint(),
            },
            "smtp": {"host": "127.0.0.1", "port": stage.relay.port()},
            "signed_url": {
                "storage_endpoint": stage.google.storage_endpoint(),
                "probe_object": format!("{BUCKET}/{PROBE}"),
            },
            "credentials": {
                "slack-webhook": stage.slack.webhook_url(),
                "database-password": self.password,
                "signing-key.json": std::fs::read_to_string(&key)?,
            },
        }))
    }

    /// Carries out an order.
    ///
    /// # Errors
    /// The order fails; the error says why.
    pub async fn obey(&mut self, order: Order) -> Result<Value> {
        match order {
            Order::Submit { form, attachments, age_seconds, silent } => {
                let id = self.submit(&form, &attachments, Duration::from_secs(age_seconds)).await?;
                if !silent {
                    self.stage.publish(id, "finalized")?;
                }
                Ok(json!({"id": id}))
            }
            Order::Look { id } => self.look(id).await,
            Order::Hold { at } => {
                let stage = match at {
                    Moment::Dot => At::Dot,
                    Moment::AfterDot => At::AfterDot,
                };
                self.trapped = Some(self.stage.relay.trap(Rule::at(stage)));
                Ok(json!({}))
            }
            Order::Caught { seconds } => {
                let trapped = self.trapped.as_ref().context("nothing is to be caught")?;
                trapped.hit(Duration::from_secs(seconds)).await?;
                Ok(json!({}))
            }
            Order::LetGo {} => {
                self.trapped.take().context("nothing is caught")?.release();
                Ok(json!({}))
            }
            Order::RefuseRecipients { line } => {
                self.stage.relay.rule(Rule::at(At::Rcpt).reply(&line));
                Ok(json!({}))
            }
            Order::RelayDown {} => {
                self.stage.relay.stop().await;
                Ok(json!({}))
            }
            Order::RelayUp {} => {
                self.stage.relay.clear_rules();
                self.stage.relay.restart().await?;
                Ok(json!({}))
            }
            Order::Slack {} => {
                let messages = self.stage.slack.messages();
                let texts: Vec<String> = messages.iter().map(SlackMessage::visible_text).collect();
                Ok(json!({"texts": texts}))
            }
        }
    }

    async fn submit(&self, form: &str, attachments: &[String], age: Duration) -> Result<Uuid> {
        let mut seed = SubmissionSeed::of(form)
            .age(age)
            .bucket(BUCKET)
            .field("name", "Ann Example")
            .field("email", "ann@example.net")
            .field("topic", "a question")
            .field("message", "What I want to know.");
        for name in attachments {
            seed = seed.attachment(name, "clean");
        }
        let id = seed.insert(&self.stage.database.client_as("forms_app").await?).await?.id;
        for (number, name) in (1..).zip(attachments) {
            let object = format!("submissions/{id}/{number}-{name}");
            self.stage.google.put_object(BUCKET, &object, "application/octet-stream", name.as_bytes());
        }
        Ok(id)
    }

    async fn look(&self, id: Uuid) -> Result<Value> {
        let client = self.stage.database.superuser().await?;
        let sql = "SELECT status::text, routing_result,
                          ARRAY(SELECT action::text FROM audit_log WHERE submission_id = $1 ORDER BY id)
                   FROM submissions WHERE id = $1";
        let row = client.query_one(sql, &[&id]).await?;
        let (status, ledger, audit): (String, Value, Vec<String>) = (row.get(0), row.get(1), row.get(2));
        let wanted = id.to_string();
        let mails: Vec<Value> = self
            .stage
            .relay
            .mails()
            .iter()
            .filter(|mail| mail.submission_id.as_deref() == Some(&wanted))
            .map(|mail| json!({"message_id": mail.message_id, "recipients": mail.recipients}))
            .collect();
        Ok(json!({"status": status, "ledger": ledger, "audit": audit, "mails": mails}))
    }
}
