//! Views of submissions, composed once: the command line, and any other surface, shows these values as they are.
//!
//! Reads only. Every value is plain and serialises as its readers know it (interfaces page); layout, exit codes and
//! the right to see a value belong to the surface.

pub(crate) mod daemon_client;
pub(crate) mod explain;
pub(crate) mod layout;
pub(crate) mod letter;
pub(crate) mod list;
pub(crate) mod preview;
pub(crate) mod render;
pub(crate) mod review;
pub(crate) mod screening;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod timeline;
pub(crate) mod watch;

use self::daemon_client::Rooms;
use crate::config::{Config, GradingMode, ScreeningMode};
use crate::db::DbError;
use crate::db::pool::Pool;
use crate::db::readiness::Readiness;
use crate::outbox::store::OutboxStore;
use crate::parts;
use crate::retention::store::RetentionStore;
use crate::routing::store::view::View;
use crate::routing::upkeep::dead_letters::Records;
use crate::routing::upkeep::pauses::{PauseError, PauseStore};
use crate::uploads::store::UploadStore;

/// The sources of a view: the configuration, the database, and the state directory of this host.
pub(crate) struct Reader {
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) readiness: Readiness,
    pub(crate) rooms: Rooms,
}

/// Why a view cannot be composed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error(transparent)]
    Database(#[from] DbError),
    #[error(transparent)]
    Pauses(#[from] PauseError),
}

impl Reader {
    /// A reader that connects on first use.
    pub(crate) fn new(config: Config, pool: Pool, rooms: Rooms) -> Result<Self, DbError> {
        let readiness = Readiness::new(config.readiness.finalized_column.as_deref())?
            .screened(config.screening.mode == ScreeningMode::On)
            .graded(config.grading.mode == GradingMode::On);
        Ok(Self { config, pool, readiness, rooms })
    }

    /// The mission's rows.
    pub(crate) fn view(&self) -> View {
        View::new(self.pool.clone(), &self.readiness, &self.config)
    }

    /// Dead-letter records.
    pub(crate) fn records(&self) -> Records {
        Records::new(self.pool.clone(), &self.config.state.dir)
    }

    /// The store of pauses.
    pub(crate) fn pauses(&self) -> PauseStore {
        parts::pause_store(&self.config, self.pool.clone())
    }

    /// The uploads, where the database has them.
    pub(crate) async fn uploads(&self) -> Result<Option<UploadStore>, DbError> {
        let uploads = parts::upload_store(&self.config, self.pool.clone());
        Ok(uploads.is_there().await?.then_some(uploads))
    }

    /// How long what has ended is kept, where anybody collects it.
    pub(crate) async fn retention(&self) -> Result<Option<RetentionStore>, DbError> {
        let retention = parts::retention_store(&self.config, self.pool.clone());
        Ok(retention.is_there().await?.then_some(retention))
    }

    /// The outbox, where the database has one.
    pub(crate) async fn outbox(&self) -> Result<Option<OutboxStore>, DbError> {
        let outbox = parts::outbox(&self.config, self.pool.clone());
        Ok(outbox.is_there().await?.then_some(outbox))
    }
}
