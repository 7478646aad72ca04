//! Room and time for requests, and an answer where a handler has none.

use std::any::Any;
use std::future::Future;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Semaphore;

use super::name::Name;
use super::problem::ProblemKind;

/// The room of a surface for requests, and the time that each has until its answer begins.
#[derive(Debug)]
pub struct Room {
    places: Semaphore,
    answer: Duration,
}

impl Room {
    /// Room for `at_once` requests, each answered within `answer`.
    #[must_use]
    pub fn new(at_once: usize, answer: Duration) -> Self {
        Self { places: Semaphore::new(at_once), answer }
    }

    /// The answer that is made by `answering`; 503 where there is no room for it, or no time.
    pub async fn answered<Kind: ProblemKind>(
        &self,
        answering: impl Future<Output = Response> + Send,
    ) -> Response {
        let busy = || Kind::of_status(StatusCode::SERVICE_UNAVAILABLE).into_response();
        let Ok(_place) = self.places.try_acquire() else { return busy() };
        tokio::time::timeout(self.answer, answering).await.unwrap_or_else(|_| busy())
    }
}

/// What answers for a handler that has panicked: 500, and a line of the journal without the panic's words.
pub fn panicked<Kind: ProblemKind>(name: Name) -> impl Fn(Box<dyn Any + Send>) -> Response + Clone {
    move |panic| {
        let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        // A panic's words may quote a value; its place, which the panic hook prints, does not.
        tracing::error!(
            length = said.len(),
            "a handler of {name} has panicked: that request is answered 500, others go on"
        );
        Kind::of_status(StatusCode::INTERNAL_SERVER_ERROR).into_response()
    }
}
