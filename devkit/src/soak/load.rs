//! The load: submissions at an even rate over the whole run, as the backend would, also through restarts of the
//! database. One in a hundred events is lost on the way; the sweep must find those rows.
//!
//! Each submission has its id before it is inserted, so that an insert whose answer was lost is not done twice.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::world::{FORMS, World};
use crate::forms::SubmissionSeed;

/// One event in so many is lost.
pub(super) const LOST_EVENTS: usize = 100;
/// One submission in so many has an attachment, for the signer.
const WITH_ATTACHMENT: usize = 20;
const STEP: Duration = Duration::from_millis(20);

/// The whole load.
#[derive(Debug)]
pub(super) struct Load {
    planned: u64,
    over: Duration,
    rng: StdRng,
}

impl Load {
    pub(super) fn new(planned: u64, over: Duration, seed: u64) -> Self {
        Self { planned, over, rng: StdRng::seed_from_u64(seed) }
    }

    /// Submits until all are in and the time is over; returns their ids.
    pub(super) async fn submit(mut self, world: &World) -> Result<Vec<Uuid>> {
        let mut submitted = Vec::new();
        let mut backend = None;
        let mut reported = 0;
        loop {
            let elapsed = world.elapsed();
            let due = (elapsed.as_secs_f64() / self.over.as_secs_f64() * self.planned as f64) as usize;
            while submitted.len() < due.min(usize::try_from(self.planned)?) {
                let id = uuid::Builder::from_random_bytes(self.rng.random()).into_uuid();
                let number = submitted.len();
                let is_lost = number % LOST_EVENTS == 7;
                self.insert(world, &mut backend, (id, number), is_lost).await;
                if is_lost {
                    world.count("events lost");
                } else {
                    world.stage.announce(id, "finalized")?;
                }
                submitted.push(id);
            }
            if elapsed >= self.over && submitted.len() as u64 >= self.planned {
                return Ok(submitted);
            }
            if elapsed.as_secs() / 60 > reported {
                reported = elapsed.as_secs() / 60;
                world.say(&format!("{} submitted", submitted.len()));
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Inserts until it is there, whatever becomes of the connection; no event names one that is lost.
    async fn insert(
        &mut self,
        world: &World,
        backend: &mut Option<Client>,
        (id, number): (Uuid, usize),
        is_lost: bool,
    ) {
        let mut place = self.rng.random_range(0..10);
        let form = FORMS.iter().find(|(_, share)| {
            let found = place < *share;
            place = place.saturating_sub(*share);
            found
        });
        let mut seed = SubmissionSeed::of(form.map_or("one", |(form, _)| form)).id(id);
        if number % WITH_ATTACHMENT == 3 {
            seed = seed.attachment("form.pdf", "clean");
        }
        loop {
            let Some(client) = backend else {
                *backend = world.stage.database.client_as("forms_app").await.ok();
                tokio::time::sleep(STEP).await;
                continue;
            };
            let inserted = if is_lost {
                world.stage.submit_unannounced(&seed, client).await
            } else {
                seed.insert(client).await
            };
            match inserted {
                Ok(_) => return,
                Err(error) => {
                    let said = error.downcast_ref::<tokio_postgres::Error>().and_then(|e| e.code());
                    if said == Some(&SqlState::UNIQUE_VIOLATION) {
                        return;
                    }
                    *backend = None;
                }
            }
        }
    }
}
