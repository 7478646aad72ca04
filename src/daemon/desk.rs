//! The desk of the daemon: its parts, and what it shows.
//!
//! It stands beside the routing from the first moment: whoever looks while the database is away is told so. What it cannot do
//! never ends the daemon.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ground::Ground;
use super::reload::Reloads;
use crate::config::Config;
use crate::desk::card::UNAVAILABLE;
use crate::desk::limits::Bounds;
use crate::desk::server::{Desk, DeskParts, Routes, database};
use crate::desk::templates::Templates;
use crate::ops::incident::Incident;
use crate::parts;
use crate::scrub::scrub;

/// Name of its connections.
const APPLICATION: &str = "maple-router-desk";

/// Starts the desk where one is configured. It ends with `stop`.
pub(super) fn open(
    config: &Config,
    reloads: &Reloads,
    ground: &Ground,
    stop: &CancellationToken,
) -> Option<Desk> {
    config.desk.listen.as_ref()?;
    let made = parts::other_pool(config, database(config), APPLICATION, Arc::clone(&ground.clock));
    let started = made.map_err(|error| error.to_string()).and_then(|pool| {
        let parts = DeskParts {
            config: reloads.config.clone(),
            pool,
            clock: Arc::clone(&ground.clock),
            rng: Arc::clone(&ground.rng),
            incidents: ground.incidents.clone(),
            templates: Templates::default(),
            bounds: Bounds::default(),
        };
        Desk::start(parts, Routes::default(), stop).map_err(|error| format!("it has no thread ({error})"))
    });
    match started {
        Ok(desk) => Some(desk),
        Err(why) => {
            let what = format!("The review desk is not open: {}. Routing goes on.", scrub(&why));
            tracing::error!("{what}");
            ground.incidents.raise(Incident::new(UNAVAILABLE, what, &["sudo maple-router check"]));
            None
        }
    }
}
