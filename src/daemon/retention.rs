//! Retention beside the routing: a look once a minute, over the routing's own connections. The daemon removes nothing.

use std::sync::Arc;

use super::ground::Ground;
use crate::config::Config;
use crate::parts;
use crate::retention::watch::RetentionWatch;

/// Looks until the daemon leaves.
pub(super) fn watch(config: &Config, ground: &mut Ground) {
    let watch = RetentionWatch {
        store: parts::retention_store(config, ground.pool.clone()),
        clock: Arc::clone(&ground.clock),
        incidents: ground.incidents.clone(),
    };
    ground.kept.spawn("retention's watch", move |stop| async move { watch.run(&stop).await });
}
