//! Screening beside the routing: a look once a minute, over the routing's own connections. The screener is a process of its own.

use std::sync::Arc;

use super::ground::Ground;
use crate::config::Config;
use crate::parts;
use crate::screening::judge::budget::Budget;
use crate::screening::watch::ScreeningWatch;

/// Looks until the daemon leaves.
pub(super) fn watch(config: &Config, ground: &mut Ground) {
    let watch = ScreeningWatch {
        store: parts::screening_store(config, ground.pool.clone()),
        clock: Arc::clone(&ground.clock),
        incidents: ground.incidents.clone(),
        budget: config.screening.judge.base_url.is_some().then(|| Budget::of(&config.screening.judge)),
    };
    ground.kept.spawn("screening's watch", move |stop| async move { watch.run(&stop).await });
}
