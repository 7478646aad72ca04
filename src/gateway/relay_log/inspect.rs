//! `check`, line `relay_log`: whether the log can be read and is Postfix's, and whether its queue can be asked.
//!
//! Without the log nobody learns what became of a mail; without the queue a doubt stays one, and the throttle does
//! not follow the queue's growth. Reads a little of the end of the log; changes nothing.

use super::journal::JournalLog;
use super::{RelayQueue, file};
use crate::config;
use crate::ports::{CheckLine, RelayLogError};

const NAME: &str = "relay_log";
/// Most bytes of a file, or lines of the journal, that are looked at.
const BYTES: u64 = 4 << 20;
const LINES: u32 = 500;
/// Messages in the queue that are counted where there is no limit.
const COUNTED: usize = 100_000;

/// Looks at what `[relay_log]` names.
pub async fn inspect(config: &config::RelayLog) -> CheckLine {
    if !config.enabled {
        return CheckLine::ok(
            NAME,
            "not followed: relay_log.enabled is not set, so what becomes of mails that the relay has taken stays unknown",
        );
    }
    let (whence, understood) = lately(config).await;
    let understood = match understood {
        Ok(understood) => understood,
        // The error says what to do.
        Err(RelayLogError(why)) => {
            return CheckLine::fail(
                NAME,
                why,
                "without the log, a mail that is refused further on is not noticed",
            );
        }
    };
    if understood == 0 {
        return CheckLine::warn(
            NAME,
            format!("{whence} can be read, and holds nothing of Postfix's at its end"),
            format!(
                "maple-router test-send ADDRESS, then look again; compare postconf syslog_name with relay_log.syslog_name \
                 ({}), and where it logs to with [relay_log] (systemctl list-units 'postfix*'; postconf maillog_file)",
                config.syslog_name
            ),
        );
    }
    let limit = if config.queue_limit == 0 { COUNTED } else { config.queue_limit };
    match RelayQueue::new(&config.queue_directory).depth(limit).await {
        Ok((waiting, more)) => {
            let further = if more { " or more" } else { "" };
            let detail = format!("{whence} is read; {waiting}{further} messages in the relay's queue");
            if more && config.queue_limit > 0 {
                return CheckLine::warn(
                    NAME,
                    detail,
                    "mails are sent slowly until it is shorter: postqueue -p says why they wait",
                );
            }
            CheckLine::ok(NAME, detail)
        }
        Err(error) => CheckLine::warn(
            NAME,
            format!("{whence} is read; {error}"),
            "without it, a mail in doubt cannot be disproved, and a long queue is not noticed",
        ),
    }
}

/// The log's location, in words, and how many lines at its end were understood.
async fn lately(config: &config::RelayLog) -> (String, Result<usize, RelayLogError>) {
    if let Some(path) = &config.file {
        let (of, name) = (path.clone(), config.syslog_name.clone());
        let looked = tokio::task::spawn_blocking(move || file::lately(&of, &name, BYTES)).await;
        let looked = looked.unwrap_or_else(|error| Err(RelayLogError(error.to_string())));
        return (path.display().to_string(), looked);
    }
    let Some(unit) = &config.unit else {
        return (
            String::new(),
            Err(RelayLogError("neither relay_log.unit nor relay_log.file is set".to_owned())),
        );
    };
    let journal = JournalLog::new(unit, &config.syslog_name, config.journal_directory.as_deref(), "");
    (format!("the journal of {unit}"), journal.lately(LINES).await)
}
