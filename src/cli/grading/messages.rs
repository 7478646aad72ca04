//! `grading messages`: the queues between the two sides.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::store::views::{DeadMessage, QueueDepth};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Arguments of `grading messages`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Those that nobody could take in, the latest first, without what is in them
    #[arg(long)]
    dead: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u16,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints them.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    if args.dead {
        let dead = room.store.dead_messages(i32::from(args.limit)).await.map_err(setup::database)?;
        output::either(args.json, &dead, || {
            if dead.is_empty() { "no message is dead\n".to_owned() } else { dead_text(&dead) }
        })?;
        return Ok(Exit::Done);
    }
    let depths = room.store.queue_depths().await.map_err(setup::database)?;
    output::either(args.json, &depths, || depth_text(&depths))?;
    Ok(Exit::Done)
}

fn depth_text(depths: &[QueueDepth]) -> String {
    let mut table = Table::new(&[("QUEUE", Side::Left), ("MESSAGES", Side::Right), ("OLDEST", Side::Right)]);
    for depth in depths {
        let oldest =
            if depth.waiting == 0 { String::new() } else { format!("{:.0} s", depth.oldest_seconds) };
        table.row(vec![depth.queue.clone(), depth.waiting.to_string(), oldest]);
    }
    table.text(output::columns())
}

fn dead_text(dead: &[DeadMessage]) -> String {
    let columns = [
        ("AT", Side::Left),
        ("QUEUE", Side::Left),
        ("REASON", Side::Left),
        ("ATTEMPT", Side::Left),
        ("WHAT IS WRONG", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for message in dead {
        table.row(vec![
            at(message.at),
            message.queue.clone(),
            message.reason.clone(),
            message.request.clone().unwrap_or_default(),
            one_line(&message.detail),
        ]);
    }
    table.text(output::columns())
}
