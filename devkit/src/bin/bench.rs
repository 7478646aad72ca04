//! `make bench`: see [`devkit::bench`]. Exit code 0 only if every trial was verified.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use devkit::bench::{self, Contestant, Limit, Options, ReceiverKind, Shape, Size};
use devkit::program;

/// The same submissions through maple-router, its peers, and the limits of this machine, alternating
#[derive(Debug, Parser)]
struct Arguments {
    /// Submissions of a trial [default: 20000 of one action and one recipient, 5000 of the other shapes]
    #[arg(long, env = "N", value_name = "N")]
    submissions: Option<usize>,
    /// Rounds; the table has medians [default: 5 of one action and one recipient, 3 of the other shapes]
    #[arg(long, env = "REPEAT")]
    repeat: Option<usize>,
    /// Only these, separated by spaces or commas: router, router-postgres, router-pooled, python, graphile-js, graphile-rs,
    /// graphile-rs-nodelay, peers; limit-smtp, limit-database, limit-combined, limit-signatures, limits; lag [default: all]
    #[arg(long, env = "ONLY", default_value = "", hide_default_value = true)]
    only: String,
    /// one, many (3 actions × 2 recipients), links (2 attachments); several, or all
    #[arg(long, env = "SHAPE", default_value = "all")]
    shape: String,
    /// sink, postfix; both, or all [default: all as root, else sink, because only root starts a Postfix]
    #[arg(long, env = "RECEIVER")]
    receiver: Option<String>,
    /// Submissions a second at which the lag is measured; empty: not at all
    #[arg(long, env = "LAG", default_value = "10 100 500")]
    lag: String,
    /// Length of each of these
    #[arg(long, value_name = "S", default_value_t = 20)]
    lag_seconds: u32,
    /// Give the receiver a processor of its own, and everything else the others
    #[arg(long, env = "APART")]
    apart: bool,
    /// Sessions of smtp-source; to be as many as the router has connections (see --settings)
    #[arg(long, default_value_t = 32)]
    sessions: usize,
    /// Routers that share one database and one subscription or outbox, wherever a router plays
    #[arg(long, env = "DAEMONS", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    daemons: u32,
    /// Lines of TOML laid over the router's configuration; empty: its defaults, as they are on a host
    #[arg(long, env = "SETTINGS", default_value = bench::FOR_VOLUME)]
    settings: String,
    /// Schema content beside schema router, for router-postgres: what its rooms cost the routing (with --settings they are on)
    #[arg(long)]
    content: bool,
    /// The router [default: maple-router beside this program, built for release]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory for JSON, table and plot [default: target/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Report where PostgreSQL spends its time, by statement (pg_stat_statements)
    #[arg(long)]
    statements: bool,
    /// Record profiles of the router's trials with perf, here
    #[arg(long, value_name = "DIR")]
    perf: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Before there are threads.
    let left = if arguments.apart { bench::processors::leave_the_last() } else { Ok(()) };
    program::ended("bench", left.and_then(|()| begin(arguments)))
}

#[tokio::main]
async fn begin(arguments: Arguments) -> Result<bool> {
    play(arguments).await
}

async fn play(arguments: Arguments) -> Result<bool> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the working tree")?;
    let (contestants, limits, with_lag) = chosen(&arguments.only)?;
    let rates =
        words(&arguments.lag).map(|word| word.parse().with_context(|| format!("\"{word}\" a second")));
    let root = nix::unistd::geteuid().is_root();
    let receivers = arguments.receiver.unwrap_or_else(|| (if root { "all" } else { "sink" }).to_owned());
    let options = Options {
        binary: arguments.binary.unwrap_or_else(|| tree.join("target/release/maple-router")),
        peers: tree.join("target/peers"),
        out: arguments.out.unwrap_or_else(|| tree.join("target/bench")),
        main: Size {
            submissions: arguments.submissions.unwrap_or(20_000),
            repeat: arguments.repeat.unwrap_or(5),
        },
        // Three times the mails, or links to be signed: of the same size they alone would take two hours.
        others: Size {
            submissions: arguments.submissions.unwrap_or(5_000),
            repeat: arguments.repeat.unwrap_or(3),
        },
        contestants,
        limits,
        shapes: words(&arguments.shape).map(shape).collect::<Result<Vec<_>>>()?.concat(),
        receivers: words(&receivers).map(receiver).collect::<Result<Vec<_>>>()?.concat(),
        lag_rates: if with_lag { rates.collect::<Result<Vec<u32>>>()? } else { Vec::new() },
        lag_seconds: arguments.lag_seconds,
        apart: arguments.apart,
        sessions: arguments.sessions,
        daemons: arguments.daemons,
        router_settings: arguments.settings.replace("\\n", "\n"),
        content: arguments.content,
        statements: arguments.statements,
        perf: arguments.perf,
    };
    // The limits of the database are what the router says to it.
    let needed = options.contestants.iter().any(|contestant| contestant.is_router())
        || options.limits.iter().any(|limit| limit.writes());
    if needed && !options.binary.exists() {
        bail!("{} is missing: `make bench` builds it", options.binary.display());
    }
    let mut term = signal(SignalKind::terminate())?;
    // An early end drops these values, and the processes end with them.
    tokio::select! {
        done = bench::run(&options, program::say) => done,
        _ = term.recv() => bail!("ended by SIGTERM"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

fn shape(word: &str) -> Result<Vec<Shape>> {
    Ok(match word {
        "one" => vec![Shape::One],
        "many" => vec![Shape::Many],
        "links" => vec![Shape::Links],
        "all" => Shape::ALL.to_vec(),
        _ => bail!("there is no shape \"{word}\": one, many, links, all"),
    })
}

fn receiver(word: &str) -> Result<Vec<ReceiverKind>> {
    Ok(match word {
        "sink" => vec![ReceiverKind::Sink],
        "postfix" => vec![ReceiverKind::Postfix],
        "all" => vec![ReceiverKind::Sink, ReceiverKind::Postfix],
        _ => bail!("there is no receiver \"{word}\": sink, postfix, all"),
    })
}

/// Contestants, limits, and whether the lag is measured.
fn chosen(only: &str) -> Result<(Vec<Contestant>, Vec<Limit>, bool)> {
    if words(only).next().is_none() {
        return Ok((Contestant::ALL.to_vec(), Limit::ALL.to_vec(), true));
    }
    let (mut contestants, mut limits, mut with_lag) = (Vec::new(), Vec::new(), false);
    for word in words(only) {
        let known = (contestants.len(), limits.len());
        contestants.extend(Contestant::ALL.into_iter().filter(|one| {
            one.to_string() == word || (word == "peers" && !one.to_string().starts_with("router"))
        }));
        limits.extend(Limit::ALL.into_iter().filter(|one| one.to_string() == word || word == "limits"));
        with_lag |= word == "lag";
        if known == (contestants.len(), limits.len()) && word != "lag" {
            bail!("\"{word}\" is nothing of the benchmark; see --help");
        }
    }
    Ok((contestants, limits, with_lag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_played() {
        let (contestants, limits, with_lag) = chosen("router limits").unwrap();
        assert_eq!((contestants, limits.len(), with_lag), (vec![Contestant::Router], 4, false));
        assert_eq!(chosen("peers,lag").unwrap().0.len(), 4);
        assert_eq!(chosen("").unwrap(), (Contestant::ALL.to_vec(), Limit::ALL.to_vec(), true));
        assert!(chosen("routers").is_err());
    }
}
