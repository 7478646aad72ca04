//! Randomness, made once in `daemon.rs` and passed on as an argument: seeded in tests, from the system otherwise.

use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

/// A random number generator that tasks share.
#[derive(Debug)]
pub struct Rng(Mutex<StdRng>);

impl Rng {
    /// A generator seeded by the operating system.
    #[must_use]
    pub fn from_system() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// A generator of the same numbers every time.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Lets `draw` use the generator.
    pub fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A random (version 4) UUID: claim tokens, nonces.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.with(RngExt::random)).into_uuid()
    }
}
