//! The filters that mean the same on every verb that has them.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::routing::submission::message_id;
use crate::routing::table::Status;

/// Which submissions are meant; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub struct Filters {
    /// Status; may be given more than once, or comma separated
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status_parser())]
    pub status: Vec<Status>,
    /// Form id
    #[arg(long, value_name = "FORM")]
    pub form: Option<String>,
    /// Reason of a failure: refused, exhausted, infected, no_actions, ledger_damaged, in_doubt
    #[arg(long, value_name = "CODE")]
    pub reason_code: Option<String>,
    /// With a mail that was lost after the relay had accepted it: bounced, or expired
    #[arg(long)]
    pub bounced: bool,
    /// Routed, with an attachment that was found infected afterwards
    #[arg(long)]
    pub infected_after_routing: bool,
    /// With a delivery to this address, in any state; addresses are matched, never shown
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub recipient: Option<String>,
    /// The one that a mail with this Message-ID belongs to
    #[arg(long, value_name = "MESSAGE_ID", value_parser = message_id)]
    pub message_id: Option<Uuid>,
    /// Last changed longer ago than this, e.g. 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Created at or after this day or time (UTC), e.g. 2026-11-20 or 2026-11-20T08:00:00Z, or within this duration, e.g. 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// A point in time; a duration is taken off the database's clock, not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// An absolute time.
    At(Timestamp),
    /// A duration before now, by the database's clock.
    Ago(Duration),
}

fn status_parser() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::ALL.iter().map(|status| status.label()))
        .try_map(|text| Status::parse(&text).ok_or("no such status"))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 90s, 2h or 7d"))
}

pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Some(at) = moment(text) {
        return Ok(Since::At(at));
    }
    humantime::parse_duration(text).map(Since::Ago).map_err(|_| {
        "write a day as 2026-11-20, a time as 2026-11-20T08:00:00Z, or a duration as 2h or 7d".to_owned()
    })
}

/// A time; where no zone is named it is UTC, as every time that is shown. A day alone is its beginning.
fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let local: DateTime = text.parse().ok()?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// An address as ledgers name it, but for capitals.
fn address(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.contains('@') {
        Ok(text.to_lowercase())
    } else {
        Err("write an address, as in a@example.org".to_owned())
    }
}

fn message_id(text: &str) -> Result<Uuid, String> {
    let ours = || "no Message-ID of this program: they read <maple.….N.G@domain>".to_owned();
    message_id::parse(text).map(|origin| origin.submission).ok_or_else(ours)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Probe {
        #[command(flatten)]
        filters: Filters,
    }

    #[test]
    fn filters_are_read_as_people_write_them() {
        let line = [
            "x",
            "--status",
            "failed,received",
            "--form",
            "f",
            "--older-than",
            "2h",
            "--since",
            "7d",
            "--limit",
            "5",
            "--bounced",
            "--infected-after-routing",
        ];
        let filters = Probe::try_parse_from(line).expect("understood").filters;
        assert_eq!(filters.status, [Status::Failed, Status::Received]);
        assert!(filters.bounced && filters.infected_after_routing);
        assert_eq!(filters.older_than, Some(Duration::from_secs(7200)));
        assert_eq!(filters.since, Some(Since::Ago(Duration::from_secs(7 * 86_400))));
        let at = Probe::try_parse_from(["x", "--since", "2026-11-01T00:00:00Z"])
            .expect("understood")
            .filters
            .since;
        assert_eq!(at, Some(Since::At("2026-11-01T00:00:00Z".parse().expect("timestamp"))));
        for (text, expected) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T08:30", "2026-11-20T08:30:00Z"),
            ("2026-11-20 08:30:15", "2026-11-20T08:30:15Z"),
            ("2026-11-20T08:30:00+01:00", "2026-11-20T07:30:00Z"),
        ] {
            assert_eq!(since(text), Ok(Since::At(expected.parse().expect("timestamp"))), "{text}");
        }
        let one = "<maple.e2187f77d487493fa3a5abd36bd855d6.1.0@greenpeace.org>";
        let line = ["x", "--message-id", one, "--recipient", "A@Example.org"];
        let filters = Probe::try_parse_from(line).expect("understood").filters;
        let id = "e2187f77-d487-493f-a3a5-abd36bd855d6".parse().expect("an id");
        assert_eq!((filters.message_id, filters.recipient.as_deref()), (Some(id), Some("a@example.org")));
        for bad in [
            ["x", "--message-id", "<somebody.else@example.org>"],
            ["x", "--recipient", "nobody"],
            ["x", "--since", "2026-13-01"],
            ["x", "--status", "lost"],
            ["x", "--since", "monday"],
            ["x", "--older-than", "old"],
            ["x", "--limit", "0"],
        ] {
            assert!(Probe::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }
}
