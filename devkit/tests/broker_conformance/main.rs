//! One set of scenarios through the official Rust client, against the embedded broker and against Google's emulator: what
//! both do alike is what our tests may rely on. Then what only the broker keeps or has: retry policy, enforced flow control,
//! faults, pings.
//!
//! The emulator is taken from `MAPLE_PUBSUB_EMULATOR` (a command that takes a port), else from the Google Cloud CLI's
//! directory through `devkit/emulator/run`. Where neither is there, its half says so and passes: the one permitted absence.

mod broker_only;
mod clients;
mod emulator;
mod scenarios;

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use devkit::broker::Broker;

use crate::clients::World;

/// The slowest scenario waits for a lease of 10 s; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

async fn patiently(name: &str, scenario: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::time::timeout(PATIENCE, scenario)
        .await
        .map_err(|_| anyhow!("not done after {PATIENCE:?}"))
        .flatten()
        .with_context(|| format!("scenario {name}"))
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod on_the_broker {
            $(
                #[tokio::test]
                async fn $name() -> anyhow::Result<()> {
                    let broker = super::Broker::start(([127, 0, 0, 1], 0).into()).await?;
                    let world = super::World::new(broker.endpoint(), stringify!($name));
                    super::patiently(stringify!($name), super::scenarios::$name(world)).await
                }
            )*
        }

        /// Runs all of them at once: each has names of its own, and one start of the JVM is enough.
        async fn run_all(endpoint: &str) -> Vec<(&'static str, Result<()>)> {
            let mut running = Vec::new();
            $(
                let world = World::new(endpoint.to_owned(), stringify!($name));
                let scenario = patiently(stringify!($name), scenarios::$name(world));
                running.push((stringify!($name), tokio::spawn(scenario)));
            )*
            let mut results = Vec::new();
            for (name, scenario) in running {
                results.push((name, scenario.await.unwrap_or_else(|died| Err(died.into()))));
            }
            results
        }
    };
}

scenarios!(
    admin_calls_and_their_refusals,
    what_is_published_arrives_and_an_ack_is_final,
    a_nack_brings_it_again_at_once,
    attempts_are_counted_and_the_fifth_is_the_last,
    a_lease_that_runs_out_brings_it_again,
    two_subscribers_share_one_subscription,
    two_subscriptions_each_get_everything,
    a_stopped_subscriber_gives_back_what_it_had_leased,
    a_stream_on_nothing_ends_with_not_found,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn googles_emulator_agrees() -> Result<()> {
    let Some(emulator) = emulator::Emulator::start_if_here().await? else {
        eprintln!(
            "NO PUB/SUB EMULATOR ON THIS MACHINE: the scenarios ran against the embedded broker only. Set {} to a \
             command that takes a port, or install google-cloud-cli-pubsub-emulator and a JDK.",
            emulator::VARIABLE
        );
        return Ok(());
    };
    let mut failures = Vec::new();
    for (name, result) in run_all(emulator.endpoint()).await {
        match result {
            Ok(()) => eprintln!("emulator agrees: {name}"),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    anyhow::ensure!(failures.is_empty(), "the emulator disagrees:\n{}", failures.join("\n"));
    Ok(())
}
