//! The scanner, and whether it is to be believed: a test file that must be found is sent at the start and every five minutes.
//!
//! A scanner that finds nothing in the test file finds nothing anywhere (seen after a reload that failed), and says OK all the same:
//! until it finds it again nobody is scanned, uploads are committed without a verdict, and people are notified. If we die, the
//! next start tests first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::card::SCANNER;
use super::journal::EventName;
use super::metrics::SCANNER_TRUSTED;
use crate::gateway::clamd::{Clamd, Database, Version};
use crate::journal;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two tests while the scanner is believed, and while it is not.
const EVERY: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(10);

/// The scanner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scanner {
    clamd: Clamd,
    /// What it is, while it is believed.
    trusted: Arc<watch::Sender<Option<Arc<str>>>>,
}

impl Scanner {
    /// A scanner that nobody has tested yet, and that is not believed.
    #[must_use]
    pub fn new(clamd: Clamd) -> Self {
        Self { clamd, trusted: Arc::new(watch::Sender::new(None)) }
    }

    /// The client and what it is, while it is believed.
    #[must_use]
    pub fn trusted(&self) -> Option<(&Clamd, Arc<str>)> {
        let named = self.trusted.borrow().clone();
        named.map(|named| (&self.clamd, named))
    }

    /// Tests once. Returns why it is not believed.
    pub async fn test(&self) -> Result<(), String> {
        let tested = self.clamd.self_test().await.map_err(|fault| fault.to_string());
        let named = match tested {
            Ok(_) => {
                self.clamd.version().await.map(|version| named(&version)).map_err(|error| error.to_string())
            }
            Err(fault) => Err(fault),
        };
        SCANNER_TRUSTED.set((), u64::from(named.is_ok()));
        match named {
            Ok(named) => {
                self.trusted.send_replace(Some(named.into()));
                Ok(())
            }
            Err(why) => {
                self.trusted.send_replace(None);
                Err(why)
            }
        }
    }

    /// Tests until `stop`, and notifies people.
    pub async fn watch(&self, clock: &dyn Clock, incidents: &Incidents, stop: &CancellationToken) {
        let mut believed = None;
        while !stop.is_cancelled() {
            let tested = stop.run_until_cancelled(self.test()).await;
            let pause = match tested {
                None => return,
                Some(Ok(())) => {
                    incidents.resolve(SCANNER);
                    if believed.replace(true) == Some(false) {
                        journal!(
                            info,
                            EventName::ScannerBelieved,
                            "the scanner finds its test file again: scanning goes on"
                        );
                    }
                    EVERY
                }
                Some(Err(why)) => {
                    let what = format!(
                        "The scanner does not find its test file, so no verdict of it is believed ({}). Uploads are committed without a \
                         verdict, and their submissions wait.",
                        scrub(&why)
                    );
                    if believed.replace(false) != Some(false) {
                        journal!(error, EventName::ScannerDoubted, "{what}");
                    }
                    let commands = ["sudo maple-router scan --self-test", "systemctl status clamav-daemon"];
                    incidents.raise(Incident::new(SCANNER, what, &commands));
                    SOON
                }
            };
            stop.run_until_cancelled(clock.sleep(pause)).await;
        }
    }
}

/// The scanner's engine, and the day of its signatures where it has official ones.
fn named(version: &Version) -> String {
    match &version.database {
        Database::Official { number, date } => {
            format!("ClamAV {} / {number} of {}", version.engine, date.date())
        }
        Database::None => format!("ClamAV {}, local signatures", version.engine),
        Database::Broken => format!("ClamAV {}, broken", version.engine),
    }
}
