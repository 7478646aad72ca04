//! What runs beside the tickets: the notices of tickets that were made twice, and the help desk's allowance, shared among the
//! daemons: each takes its part of `happyfox.max_per_minute`.
//!
//! A daemon that has just started waits until the others know of it; one that died counts as long as its silence may be short.
//! So the parts are never more than the whole. If we die, nothing is lost: the next start counts anew.

use std::sync::Arc;
use std::time::Duration;

use super::ground::Ground;
use crate::config::Config;
use crate::gateway::happyfox::HelpDeskClient;
use crate::kernel::tasks::Task;
use crate::ops::alerting::Alerts;
use crate::ports::Clock;
use crate::routing::follow::extra_tickets::ExtraTickets;
use crate::routing::metrics::{HELP_DESK_DAEMONS, HELP_DESK_THROTTLED};
use crate::routing::upkeep::pauses::PauseStore;
use crate::routing::worker::{TicketParts, Tickets};
use crate::scrub::scrub;

/// Interval at which a daemon counts the others.
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// Time after which every other daemon has counted, and knows of one that has signed in.
const KNOWN_AFTER: Duration = Duration::from_secs(5);
/// Interval at which the throttle is shown.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// The carrier of tickets, and what runs beside it. To be called after the daemon has signed in.
pub(super) async fn start(
    config: &Config,
    client: Arc<HelpDeskClient>,
    signs: &PauseStore,
    ground: &Ground,
    alerts: Option<&Alerts>,
) -> (Tickets, Vec<Task>) {
    let clock = Arc::clone(&ground.clock);
    let mut sharing = Sharing { client: Arc::clone(&client), signs: signs.clone(), said: String::new() };
    // Nobody else can be out of date where nobody else is; who could not be counted may be there.
    let others = if sharing.count().await == Some(1) { Duration::ZERO } else { KNOWN_AFTER };
    client.hold(others);
    let extra = ExtraTickets::new(&config.state.dir);
    let mut tasks = vec![Task::spawn("share of the help desk", |_| sharing.run(Arc::clone(&clock)))];
    tasks.extend(alerts.cloned().map(|alerts| {
        let (extra, clock) = (extra.clone(), Arc::clone(&clock));
        Task::spawn("further tickets", |_| async move { extra.tell(&alerts, &*clock).await })
    }));
    let gate = ground.outages.help_desk_gate.clone();
    let doubt_window = config.happyfox.doubt_window;
    (Tickets::new(TicketParts { client, doubt_window, gate, extra, clock }), tasks)
}

struct Sharing {
    client: Arc<HelpDeskClient>,
    signs: PauseStore,
    /// Why the daemons cannot be counted; logged once.
    said: String,
}

impl Sharing {
    async fn run(mut self, clock: Arc<dyn Clock>) {
        let mut counted = clock.monotonic();
        loop {
            clock.sleep(SHOW_EVERY).await;
            HELP_DESK_THROTTLED.set((), self.client.is_throttled());
            if clock.monotonic().saturating_duration_since(counted) >= COUNT_EVERY {
                counted = clock.monotonic();
                self.count().await;
            }
        }
    }

    /// Counts the daemons. Where that is not possible the share stays as it is: nobody else can claim anything either.
    async fn count(&mut self) -> Option<usize> {
        match self.signs.living().await {
            Ok(living) => {
                let daemons = living.max(1);
                self.client.set_share(u32::try_from(daemons).unwrap_or(u32::MAX));
                HELP_DESK_DAEMONS.set((), daemons);
                self.said.clear();
                Some(daemons)
            }
            Err(error) => {
                let now = scrub(&error.to_string());
                if now != self.said {
                    tracing::warn!("the daemons that share the help desk cannot be counted: {now}");
                    self.said = now;
                }
                None
            }
        }
    }
}
