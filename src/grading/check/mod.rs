//! Lines of `check` outside the daemon's database: whether the endpoints that grade and transcribe answer, whether the grader's role may work and
//! nothing more, and whether the models may grade alone.
//!
//! Asks, and changes nothing; no question is asked that somebody has to pay for. The grader may run on another host, with a key, a connection string
//! and models that this one does not know: what is not known here is said so, and is no fault.

mod calibration;
mod endpoint;
mod grader;

use std::sync::Arc;

use futures::FutureExt as _;

use crate::config::dsn::Dsn;
use crate::config::surroundings::Hidden;
use crate::config::{Config, Database, DatabaseAuth};
use crate::db::contract::{Check, Look};
use crate::db::{DbError, Pool, PoolOptions};
use crate::ops::clock::SystemClock;

/// Line `grader`.
pub(super) const GRADER: Check =
    Check { line: grader::NAME, order: 157, look: Look::Outside(|config| grader::line(config).boxed()) };
/// Line `grading_judge`.
pub(super) const JUDGE: Check = Check {
    line: endpoint::JUDGE,
    order: 158,
    look: Look::Outside(|config| endpoint::judge(config).boxed()),
};
/// Line `grading_stt`.
pub(super) const STT: Check =
    Check { line: endpoint::STT, order: 159, look: Look::Outside(|config| endpoint::stt(config).boxed()) };
/// Line `grading_calibration`.
pub(super) const CALIBRATION: Check = Check {
    line: calibration::NAME,
    order: 160,
    look: Look::Outside(|config| calibration::line(config).boxed()),
};

/// The name of these connections in `pg_stat_activity`.
const APPLICATION: &str = "maple-router check";
/// The detail of a line that needs the grader's role, where this host does not know its connection string.
const ELSEWHERE: &str =
    "not on this host, or known to its own unit alone (grading.grader_url, MAPLE_ROUTER_GRADER_URL)";

/// Connections as the grader's role; none where this host does not know how.
fn graders_pool(config: &Config) -> Option<Result<Pool, DbError>> {
    let from_environment = config.surroundings.grader_url.as_ref().map(Hidden::expose);
    let url =
        from_environment.or(config.grading.grader_url.as_deref().filter(|url| !url.trim().is_empty()))?;
    // The password of the configuration, and what it says of a proxy, are about the daemon's role.
    let mut database = Database {
        url: url.to_owned(),
        max_connections: 1,
        pooling: None,
        listen_url: None,
        password_file: None,
        ..config.database.clone()
    };
    let mut options = options();
    if Dsn::read(url).has_password {
        database.auth = DatabaseAuth::Password;
    } else {
        options.password =
            config.surroundings.pg_password.as_ref().map(|password| password.expose().to_owned());
    }
    Some(Pool::new(&database, options))
}

/// Connections as the daemon's role.
fn daemons_pool(config: &Config) -> Result<Pool, DbError> {
    let mut options = options();
    // Line `secrets` says what is wrong with the file.
    options.password =
        config.database_password().ok().flatten().map(|found| found.secret.expose().to_owned());
    Pool::new(&Database { max_connections: 1, ..config.database.clone() }, options)
}

fn options() -> PoolOptions {
    PoolOptions { application_name: APPLICATION.to_owned(), ..PoolOptions::new(Arc::new(SystemClock)) }
}
