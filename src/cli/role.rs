//! Connections of a verb as another role than the daemon's: the owner who migrates, the publisher of forms.
//!
//! Connects on first use. Never prints a connection string.

use std::sync::Arc;

use super::{CliError, Context};
use crate::config::dsn::Dsn;
use crate::config::validate::{self, Problem};
use crate::config::{Config, ConfigError, Database, DatabaseAuth};
use crate::db::{Pool, PoolOptions};
use crate::ops::clock::SystemClock;

/// A pool of `database`, as the role of `url` where one is given, under this name in `pg_stat_activity`.
pub(super) fn pool(
    ctx: &Context,
    config: &Config,
    mut database: Database,
    url: Option<&str>,
    name: &str,
) -> Result<Pool, CliError> {
    let mut options = PoolOptions::new(Arc::new(SystemClock));
    name.clone_into(&mut options.application_name);
    match url {
        Some(url) => {
            url.clone_into(&mut database.url);
            // Keys about a proxy are about the other url.
            (database.pooling, database.listen_url) = (None, None);
            // The password in the configuration is another role's.
            database.password_file = None;
            if Dsn::read(url).has_password {
                database.auth = DatabaseAuth::Password;
            } else {
                options.password = ctx.env.get("PGPASSWORD").cloned();
            }
        }
        None => {
            let problems: Vec<Problem> = validate::database_problems(config);
            if !problems.is_empty() {
                return Err(ConfigError::Invalid { file: None, problems }.into());
            }
            options.password = config.database_password()?.map(|found| found.secret.expose().to_owned());
        }
    }
    Ok(Pool::new(&database, options)?)
}
