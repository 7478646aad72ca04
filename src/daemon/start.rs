//! The start: what has to answer before the first event is taken. A dependency that is down is waited for, and said so
//! once per change; what can never work ends the start.
//!
//! Nothing is written here: dying in the middle loses nothing.

use std::time::Duration;

use backon::BackoffBuilder;

use super::DaemonError;
use crate::config::Config;
use crate::db::contract::{self, ContractOptions, Verdict};
use crate::db::pool::Pool;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::inspect::{Verified, verify};
use crate::gateway::smtp::{SmtpSettings, greet};
use crate::ops::http;
use crate::ports::CheckLevel;
use crate::scrub::scrub;

/// What has to answer before the first event is taken.
pub(super) struct Start<'a> {
    pub(super) config: &'a Config,
    pub(super) readiness: &'a http::Readiness,
}

/// What waiting for a dependency comes to.
enum Answer {
    Well,
    /// Not yet; said once per change.
    Wait(String),
    Hopeless(DaemonError),
}

impl Start<'_> {
    pub(super) async fn dependencies(
        &self,
        pool: &Pool,
        smtp: &SmtpSettings,
        pubsub: &PubsubSettings,
    ) -> Result<(), DaemonError> {
        tokio::try_join!(
            self.wait_for("postgres", || self.database(pool)),
            self.wait_for("relay", || relay(smtp)),
            self.wait_for("pubsub", || subscription(pubsub)),
        )?;
        Ok(())
    }

    /// Asks until it is well, with growing pauses; a dependency that is down is waited for.
    async fn wait_for<Asking>(&self, name: &'static str, ask: impl Fn() -> Asking) -> Result<(), DaemonError>
    where
        Asking: Future<Output = Answer>,
    {
        let longest = Duration::from_secs(15);
        let mut pauses = backon::ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_delay(longest)
            .without_max_times()
            .build();
        let mut said = String::new();
        loop {
            match ask().await {
                Answer::Well => {
                    self.readiness.clear(name);
                    return Ok(());
                }
                Answer::Hopeless(error) => return Err(error),
                Answer::Wait(why) => {
                    if said != why {
                        tracing::error!(dependency = name, "waiting for {name}: {why}");
                        self.readiness.hold(name, why.clone());
                        said = why;
                    }
                }
            }
            tokio::time::sleep(pauses.next().unwrap_or(longest)).await;
        }
    }

    async fn database(&self, pool: &Pool) -> Answer {
        let options = ContractOptions {
            finalized_column: self.config.readiness.finalized_column.clone(),
            not_before: self.config.routing.not_before,
        };
        let lines = contract::inspect(pool, &options).await;
        let failed = || {
            let failed = lines.iter().filter(|line| line.level == CheckLevel::Fail);
            let told: Vec<String> = failed
                .map(|l| {
                    format!(
                        "{}: {} ({})",
                        l.name,
                        l.detail,
                        l.remedy.as_deref().unwrap_or("see `maple-router check`")
                    )
                })
                .collect();
            scrub(&told.join("; "))
        };
        match contract::verdict(&lines) {
            Verdict::Start => Answer::Well,
            Verdict::LookAgain => Answer::Wait(failed()),
            Verdict::Refuse => Answer::Hopeless(DaemonError::Contract(failed())),
        }
    }
}

async fn relay(smtp: &SmtpSettings) -> Answer {
    match greet(smtp).await {
        Ok(_) => Answer::Well,
        Err(fault) => Answer::Wait(format!(
            "{} does not take mail ({}): is Postfix running? `systemctl status postfix`",
            smtp.relay(),
            scrub(&fault.reply.reply)
        )),
    }
}

async fn subscription(pubsub: &PubsubSettings) -> Answer {
    match verify(pubsub).await {
        Ok(Verified::Readable(_)) => Answer::Well,
        Ok(Verified::Unreadable { said }) => {
            tracing::warn!(
                "the subscription's settings cannot be read ({said}): grant roles/pubsub.viewer, so that they can be verified"
            );
            Answer::Well
        }
        Err(error) if error.needs_a_human() => Answer::Hopeless(error.into()),
        Err(error) => Answer::Wait(error.to_string()),
    }
}
