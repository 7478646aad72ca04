//! Grading's main side beside the routing, over the routing's own connections, wherever schema assessment is there: publishes, takes callbacks in, fails
//! what is too late, and looks once a minute. The grader is a process of its own.

use std::sync::Arc;
use std::time::Duration;

use super::ground::Ground;
use crate::config::{Config, Pooling};
use crate::grading::main_side::{self, MainTools, Notified};
use crate::grading::queue::{Queue, QueueName};
use crate::grading::watch::GradingWatch;
use crate::kernel::jobs::listener::Listener;
use crate::parts;

/// Interval of looks whether the schema is there.
const LOOK: Duration = Duration::from_secs(10);

/// Works until the daemon leaves.
pub(super) fn work(config: &Config, ground: &mut Ground) {
    let store = parts::grading_store(config, ground.pool.clone());
    let clock = Arc::clone(&ground.clock);
    let shared = (Arc::clone(&clock), Arc::clone(&ground.rng));
    let link = match parts::grading_link(config, ground.pool.clone(), QueueName::Request, shared) {
        Ok(link) => link,
        Err(error) => {
            tracing::error!("grading does not work: {error}; correct [grading.pubsub], and restart");
            return;
        }
    };
    let watch = GradingWatch {
        store: store.clone(),
        arrivals: link.as_ref().map(|link| link.arrivals.clone()),
        clock: Arc::clone(&clock),
        incidents: ground.incidents.clone(),
    };
    ground.kept.spawn("grading's watch", move |stop| async move { watch.run(&stop).await });
    let (config, pool, rng) = (config.clone(), ground.pool.clone(), Arc::clone(&ground.rng));
    ground.kept.spawn("grading's main side", move |stop| async move {
        // A database that is away is no reason to end, nor is a schema that comes later.
        while !matches!(store.is_there().await, Ok(true)) {
            if stop.run_until_cancelled(clock.sleep(LOOK)).await.is_none() {
                return;
            }
        }
        let pooling = pool.pooling();
        let tools = MainTools {
            store,
            callbacks: Queue::new(pool, QueueName::Callback).linked(link.is_some()),
            link,
            signer: parts::signer(&config).ok().map(Arc::new),
            bands: parts::bands(&config),
            clock: Arc::clone(&clock),
            rng,
        };
        let listener = |channel| listener(&config, pooling, channel, &clock);
        let notified = Notified {
            callbacks: listener(QueueName::Callback.channel()),
            attempts: listener(main_side::CHANNEL),
            requests: match tools.link {
                Some(_) => listener(QueueName::Request.channel()),
                None => Listener::silent(),
            },
        };
        main_side::run(tools, notified, stop).await;
    });
}

/// The listener to a channel, where notifications can come through.
fn listener(
    config: &Config,
    pooling: Pooling,
    channel: &'static str,
    clock: &Arc<dyn crate::ports::Clock>,
) -> Listener {
    parts::listener(config, pooling, channel, Arc::clone(clock)).unwrap_or_else(|_| Listener::silent())
}
