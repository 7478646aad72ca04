//! `make crowd`: see [`devkit::crowd`]. Exit code 0 only if everything was as it must be.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use devkit::crowd::client::{self, Part};
use devkit::crowd::{self, Options};
use devkit::{program, stage};

/// Many finalize and scan in plain SQL and are killed at random, no client publishes, and every submission is routed once
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Submissions
    #[arg(long, env = "CROWD", default_value_t = 100_000)]
    submissions: u64,
    /// Source of the router's events [default: both, one after the other]
    #[arg(long, value_name = "SOURCE")]
    source: Option<Source>,
    /// The same seed, the same clients (not at the same moments)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One of the crowd, until it is killed or its standard input ends
    Client {
        /// backend or scanner
        part: String,
        /// Connection string
        #[arg(long)]
        url: String,
        /// Seed of the run's randomness
        #[arg(long)]
        seed: u64,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Source {
    Postgres,
    Pubsub,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("crowd", play(Arguments::parse()).await)
}

async fn play(arguments: Arguments) -> Result<bool> {
    if let Some(Role::Client { part, url, seed }) = arguments.role {
        let part = Part::named(&part).context("which part?")?;
        // The parent process is gone when this ends.
        std::thread::spawn(|| {
            let ended = io::stdin().read(&mut [0]);
            std::process::exit(i32::from(ended.is_err()));
        });
        client::play(part, &url, seed, |line| program::say(&line)).await?;
        return Ok(true);
    }
    let own = std::env::current_exe().context("finding this program's own file")?;
    let binary = program::router(arguments.binary)?;
    let sources = match arguments.source {
        None => vec![stage::Source::Postgres, stage::Source::Pubsub],
        Some(Source::Postgres) => vec![stage::Source::Postgres],
        Some(Source::Pubsub) => vec![stage::Source::Pubsub],
    };
    let mut good = true;
    for source in sources {
        let options = Options {
            binary: binary.clone(),
            client: Some(own.clone()),
            submissions: arguments.submissions,
            source,
            seed: arguments.seed,
        };
        let report = crowd::run(&options, program::say).await?;
        report.figures.iter().for_each(|line| program::say(line));
        report.wrong.iter().for_each(|line| program::say(&format!("NOT as it should: {line}")));
        good &= report.wrong.is_empty();
    }
    program::say(if good {
        "every one was announced once and routed once"
    } else {
        "NOT everything was as it should be"
    });
    Ok(good)
}
