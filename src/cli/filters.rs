//! The filters that mean the same on every verb that has them.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use jiff::Timestamp;

use crate::ops::metrics::Status;

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
    /// Last changed longer ago than this, e.g. 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Created at or after this time (RFC 3339), or within this duration, e.g. 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// A point in time; a duration is taken off the database's clock, not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// This very time.
    At(Timestamp),
    /// This long ago, as the database sees it.
    Ago(Duration),
}

fn status_parser() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::ALL.iter().map(|status| status.as_str()))
        .try_map(|text| Status::parse(&text).ok_or("no such status"))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 90s, 2h or 7d"))
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Since::At(at));
    }
    humantime::parse_duration(text)
        .map(Since::Ago)
        .map_err(|_| "write a time as 2026-11-01T00:00:00Z, or a duration as 2h or 7d".to_owned())
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
        ];
        let filters = Probe::try_parse_from(line).expect("understood").filters;
        assert_eq!(filters.status, [Status::Failed, Status::Received]);
        assert!(filters.bounced);
        assert_eq!(filters.older_than, Some(Duration::from_secs(7200)));
        assert_eq!(filters.since, Some(Since::Ago(Duration::from_secs(7 * 86_400))));
        let at = Probe::try_parse_from(["x", "--since", "2026-11-01T00:00:00Z"])
            .expect("understood")
            .filters
            .since;
        assert_eq!(at, Some(Since::At("2026-11-01T00:00:00Z".parse().expect("timestamp"))));
        for bad in [
            ["x", "--status", "lost"],
            ["x", "--since", "monday"],
            ["x", "--older-than", "old"],
            ["x", "--limit", "0"],
        ] {
            assert!(Probe::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }
}
