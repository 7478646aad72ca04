//! The desk of the daemon: its parts, and what it shows.
//!
//! It stands beside the routing from the first moment: whoever looks while the database is away is told so. What it cannot do
//! never ends the daemon.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ground::Ground;
use super::parts::audit_key;
use super::reload::Reloads;
use super::review::Users;
use super::{DaemonError, ROOMS};
use crate::config::Config;
use crate::desk::card::UNAVAILABLE;
use crate::desk::limits::Bounds;
use crate::desk::server::{Desk, DeskParts, database};
use crate::desk::site::{SiteParts, routes, templates};
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
    let started =
        made(config, reloads, ground).map_err(|error| error.to_string()).and_then(|(parts, site)| {
            Desk::start(parts, routes(site), stop).map_err(|error| format!("it has no thread ({error})"))
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

/// The parts of the desk, and of its pages, over connections of their own.
fn made(config: &Config, reloads: &Reloads, ground: &Ground) -> Result<(DeskParts, SiteParts), DaemonError> {
    let Ground { clock, rng, incidents, .. } = ground;
    let pool = parts::desk_pool(config, database(config), APPLICATION, Arc::clone(clock))?;
    let store = parts::store(config, pool.clone())?.with_audit_key(audit_key(config, rng)?);
    let preparer = parts::preparer(config, store.clone(), Arc::clone(rng))?;
    let people = Arc::new(Users::new(reloads.config.clone()));
    let of_forms = pool.clone();
    let site = SiteParts {
        config: reloads.config.clone(),
        pool: pool.clone(),
        commands: parts::review(config, pool.clone(), store, people, Arc::clone(rng))?,
        preparer: Some(Arc::new(preparer)),
        versions: Arc::new(move |config| {
            parts::versions(config, of_forms.clone()).map_err(|error| error.to_string())
        }),
        rooms: ROOMS,
        clock: Arc::clone(clock),
        rng: Arc::clone(rng),
    };
    let desk = DeskParts {
        config: reloads.config.clone(),
        pool,
        clock: Arc::clone(clock),
        rng: Arc::clone(rng),
        incidents: incidents.clone(),
        templates: templates(config.desk.auth),
        bounds: Bounds::default(),
    };
    Ok((desk, site))
}
