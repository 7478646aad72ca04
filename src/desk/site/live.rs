//! The stream of changes that the script listens to: one line for each entry and version, an empty one where more has changed than
//! can be told. The looks behind it are the API's ([`live`](crate::desk::live)).

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _};
use serde_json::json;

use super::Shared;
use crate::desk::access::Visitor;
use crate::desk::live;
use crate::desk::problem::Problem;
use crate::desk::stream::Permit;

pub(super) async fn stream(
    State(site): Shared,
    _: Visitor,
    permit: Permit,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    // Where there is no queue there is nothing to wait for.
    if !site.commands().store.is_there().await? {
        return Err(Problem::not_installed());
    }
    let events = site.live.watch().map(|event| Ok(told(&event)));
    Ok(Sse::new(permit.over(events)).keep_alive(KeepAlive::default()))
}

fn told(event: &live::Event) -> Event {
    match event {
        live::Event::Change(change) => {
            let (id, version, state) = (change.id, change.version, change.state);
            Event::default().data(json!({"id": id, "version": version, "state": state}).to_string())
        }
        live::Event::Reload => Event::default().data(""),
    }
}
