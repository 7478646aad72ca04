//! The daemon's look at form versions, once a minute: decisions that people made on the command line or on the desk come to journal
//! and metrics, and people are notified of a form that is not what it follows, and of a policy that could not be believed.
//!
//! It changes nothing. If we die, the next look begins with what is decided after it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::card::{AWAY, DRIFT};
use super::journal::EventName;
use super::metrics::{DECISIONS, DRIFTED, MANAGED, Outcome};
use super::policies::{Policies as _, PolicyDir, Signing};
use super::store::VersionStore;
use super::store::watched::Decided;
use crate::config::Config;
use crate::db::DbError;
use crate::journal;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(60);

/// What a look needs.
#[derive(Debug)]
pub struct FormWatch {
    /// The versions.
    pub store: VersionStore,
    /// The configuration in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// Who is notified.
    pub incidents: Incidents,
}

impl FormWatch {
    /// Looks until `stop`: once a minute, and after a reload, so that whoever has mended the policy need not wait.
    pub async fn run(&self, stop: &CancellationToken) {
        let (mut seen, mut reloads) = (None, self.config.clone());
        while !stop.is_cancelled() {
            if let Ok(true) = self.store.is_there().await
                && let Err(error) = self.look(&mut seen).await
            {
                // The breaker reports a database that does not answer.
                tracing::debug!("forms are looked at again: {}", scrub(&error.to_string()));
            }
            let next = async {
                tokio::select! {
                    () = self.clock.sleep(INTERVAL) => {}
                    Ok(()) = reloads.changed() => {}
                }
            };
            stop.run_until_cancelled(next).await;
        }
    }

    /// One look: what was decided since `seen`, a transaction, and how things stand. `seen` is nothing at the first look. A decision
    /// is told once every older transaction of the server is over, so that none is passed by.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, seen: &mut Option<i64>) -> Result<(), DbError> {
        let over = self.store.over().await?;
        if let Some(from) = *seen {
            for decided in self.store.decided(from, over).await? {
                told(&decided);
            }
        }
        *seen = Some(over);
        let standing = self.store.standing().await?;
        MANAGED.set((), standing.managed);
        DRIFTED.set((), standing.drifted);
        match standing.sample {
            Some(form) => {
                let what = format!(
                    "{} managed forms are not what they follow, {form} among them: somebody wrote past the schema's guard. Mail goes \
                     by what the tables have.",
                    standing.drifted
                );
                self.incidents.raise(Incident::new(
                    DRIFT,
                    what,
                    &["sudo maple-router check", "maple-router forms list"],
                ));
            }
            None => self.incidents.resolve(DRIFT),
        }
        match self.away() {
            Some(why) => {
                let what = format!("No version of a form can be published: {why}. Mail goes on.");
                self.incidents.raise(Incident::new(AWAY, what, &["maple-router policy test"]));
            }
            None => self.incidents.resolve(AWAY),
        }
        Ok(())
    }

    /// Why nothing could be published now, where there is a policy at all.
    fn away(&self) -> Option<String> {
        let forms = self.config.borrow().forms.clone();
        let directory = forms.policy_dir.clone()?;
        let policy = PolicyDir::new(Some(directory)).policy();
        policy.err().map(|away| away.to_string()).or_else(|| Signing::new(&forms).people().err())
    }
}

fn told(decided: &Decided) {
    let Decided { form_id: form, number, command, allowed, reasons, actor } = decided;
    let outcome = match (command.as_str(), allowed) {
        ("publish", true) => Outcome::Published,
        ("publish", false) => Outcome::Quarantined,
        ("promote", true) => Outcome::Promoted,
        ("restore", true) => Outcome::Restored,
        _ => Outcome::Refused,
    };
    DECISIONS.add(outcome, 1);
    match outcome {
        Outcome::Published => {
            journal!(
                info,
                EventName::FormPublished,
                form,
                version = number,
                actor,
                "form {form}: version {number} is published by {actor}"
            );
        }
        Outcome::Promoted => {
            journal!(
                info,
                EventName::FormPromoted,
                form,
                version = number,
                actor,
                "form {form} follows version {number} from now on, by {actor}"
            );
        }
        Outcome::Restored => {
            journal!(
                info,
                EventName::FormRestored,
                form,
                version = number,
                actor,
                "form {form}: version {number} is taken back by {actor}"
            );
        }
        Outcome::Quarantined | Outcome::Refused => {
            journal!(
                warn,
                EventName::FormQuarantined,
                form,
                version = number,
                actor,
                reasons,
                "form {form}: {command} of version {number} by {actor} is refused, with {reasons} reasons: maple-router forms show {form}@{number}"
            );
        }
    }
}
