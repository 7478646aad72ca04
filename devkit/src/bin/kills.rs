//! `make kills`: see [`devkit::kills`]. Exit code 0 only if everything was as it must be.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use devkit::kills::{self, Options};
use devkit::program;

/// A router before a real Postfix is killed a thousand times, and every mail is counted at the upstream (as root)
#[derive(Debug, Parser)]
struct Arguments {
    /// SIGKILLs while the relay's log can be read; a tenth as many follow without it, under each policy
    #[arg(long, env = "KILLS", default_value_t = 1_000)]
    kills: u64,
    /// Only this log [default: all, one after the other]
    #[arg(long, value_name = "LOG")]
    log: Option<Log>,
    /// Worlds that share the kills: each mostly waits
    #[arg(long, default_value_t = 4)]
    side_by_side: u64,
    /// The same seed, the same moments (but for what else the machine does)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Log {
    Readable,
    Resend,
    Hold,
}

impl Log {
    fn meant(self) -> kills::Log {
        match self {
            Self::Readable => kills::Log::Readable,
            Self::Resend => kills::Log::Resend,
            Self::Hold => kills::Log::Hold,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("kills", play(Arguments::parse()).await)
}

async fn play(arguments: Arguments) -> Result<bool> {
    let binary = program::router(arguments.binary)?;
    let (all, fewer) = (arguments.kills, arguments.kills.div_ceil(10));
    let runs = match arguments.log {
        Some(log) => vec![(log, all)],
        None => vec![(Log::Readable, all), (Log::Resend, fewer), (Log::Hold, fewer)],
    };
    let mut good = true;
    for (log, kills) in runs {
        let options = Options {
            binary: binary.clone(),
            kills,
            log: log.meant(),
            side_by_side: arguments.side_by_side,
            seed: arguments.seed,
        };
        let report = kills::run(&options, program::say).await?;
        report.figures.iter().for_each(|line| program::say(line));
        report.wrong.iter().for_each(|line| program::say(&format!("NOT as it should: {line}")));
        good &= report.wrong.is_empty();
    }
    program::say(if good {
        "nothing was lost, and nothing came twice but what was said"
    } else {
        "NOT everything was as it should be"
    });
    Ok(good)
}
