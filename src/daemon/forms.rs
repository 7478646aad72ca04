//! Versions of forms beside the routing: a look once a minute, over the routing's own connections. What it cannot read never ends the
//! daemon.

use std::sync::Arc;

use super::ground::Ground;
use super::reload::Reloads;
use crate::config::Config;
use crate::forms::watch::FormWatch;
use crate::parts;

/// Looks until the daemon leaves.
pub(super) fn watch(config: &Config, reloads: &Reloads, ground: &mut Ground) {
    let watch = FormWatch {
        store: parts::version_store(config, ground.pool.clone()),
        config: reloads.config.clone(),
        clock: Arc::clone(&ground.clock),
        incidents: ground.incidents.clone(),
    };
    ground.kept.spawn("forms' watch", move |stop| async move { watch.run(&stop).await });
}
