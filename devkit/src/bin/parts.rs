//! The parts of [`devkit::parts`] for another program: the first line on standard output is one JSON object of addresses
//! and secrets; then every line on standard input is an order, and is answered by a line with `answer` or `error`.
//!
//! When standard input ends, so does everything here.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use devkit::parts::Parts;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if say(&json!({"error": format!("{error:#}")})).is_err() {
                // The reader has gone; the exit code still speaks.
            }
            ExitCode::FAILURE
        }
    }
}

/// The parts run on the runtime's own threads; this one only waits for orders.
fn serve() -> Result<()> {
    let runtime = Runtime::new()?;
    let mut parts = runtime.block_on(Parts::start())?;
    say(&parts.addresses()?)?;
    for line in io::stdin().lines() {
        let answered = match serde_json::from_str(&line?) {
            Ok(order) => runtime.block_on(parts.obey(order)),
            Err(error) => Err(error.into()),
        };
        say(&match answered {
            Ok(answer) => json!({"answer": answer}),
            Err(error) => json!({"error": format!("{error:#}")}),
        })?;
    }
    Ok(())
}

fn say(line: &Value) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
