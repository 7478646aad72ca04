//! The runnable part of the red/blue drill (`runbooks/drill-red-blue.md`): a real daemon, real parts around it, red's steps
//! one after the other, and after each what blue must see: in Slack (every command in the message is pasted into a shell and
//! must do what it is there for), in the journal, in `explain`, and as a firing alert of a real Prometheus.
//!
//! Files outside the working directory are not touched. Dying in the middle leaves nothing but that directory behind.

mod aside;
mod delivery_tracking;
mod events;
mod failures;
mod forms;
mod grading;
pub mod message;
mod operation;
mod outages;
mod outbox;
mod policy;
mod promise;
mod retention;
mod review;
mod screening;
mod uploads;
mod world;

use std::path::PathBuf;
use std::pin::Pin;

use anyhow::Result;

use self::world::World;

/// Settings of a drill.
#[derive(Debug, Clone)]
pub struct Options {
    /// The router.
    pub binary: PathBuf,
    /// Working directory, emptied first.
    pub dir: PathBuf,
    /// Restricts to steps whose name contains one of these; all where empty.
    pub only: Vec<String>,
    /// Laid over the world's settings.
    pub settings: String,
}

type Playing<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// One act of red, and what blue must see.
pub struct Step {
    /// The step's section in the runbook.
    pub name: &'static str,
    play: for<'a> fn(&'a mut World) -> Playing<'a>,
}

/// Every step, in the order in which they are played.
#[must_use]
pub fn steps() -> Vec<&'static str> {
    main_steps().chain(aside::STEPS).map(|step| step.name).collect()
}

fn main_steps() -> impl Iterator<Item = &'static Step> {
    let parts = [
        operation::KILLS,
        outages::STEPS,
        failures::STEPS,
        events::STEPS,
        outbox::STEPS,
        review::STEPS,
        uploads::STEPS,
        forms::STEPS,
        retention::STEPS,
        screening::STEPS,
        grading::STEPS,
        delivery_tracking::STEPS,
        operation::STEPS,
    ];
    parts.into_iter().flatten()
}

/// Plays; returns whether blue saw everything.
///
/// # Errors
/// The world could not be set up.
pub async fn run(options: Options) -> Result<bool> {
    let dir = options.dir.join("aside");
    let beside = Options { dir, settings: aside::SETTINGS.to_owned(), ..options.clone() };
    let main = Options { dir: options.dir.join("main"), ..options };
    let (main, beside) =
        tokio::join!(play(&main, main_steps().collect()), play(&beside, aside::STEPS.iter().collect()));
    let (main, beside) = (main?, beside?);
    Ok(main && beside)
}

async fn play(options: &Options, steps: Vec<&'static Step>) -> Result<bool> {
    let wanted =
        |step: &&Step| options.only.is_empty() || options.only.iter().any(|part| step.name.contains(part));
    let steps: Vec<_> = steps.into_iter().filter(wanted).collect();
    if steps.is_empty() {
        return Ok(true);
    }
    let mut world = World::open(options).await?;
    operation::pause(&world).await?;
    let mut failed = Vec::new();
    for step in &steps {
        world.start_step();
        world.say(step.name);
        if let Err(error) = (step.play)(&mut world).await {
            world.say(&format!("  NOT SEEN  {error:#}"));
            failed.push(step.name);
            world.recover().await?;
        }
        world.stage.relay.clear_rules();
    }
    for command in &world.booted {
        world.say(&format!("not run here, in `make test-systemd`: {command}"));
    }
    world.say(&format!("{} of {} steps seen{}", steps.len() - failed.len(), steps.len(), listed(&failed)));
    if !failed.is_empty() {
        world.say(&format!("the daemon's log: {}", world.router.log_file().display()));
    }
    world.router.stop().await?;
    Ok(failed.is_empty())
}

fn listed(failed: &[&str]) -> String {
    if failed.is_empty() { String::new() } else { format!("; not: {}", failed.join(", ")) }
}
