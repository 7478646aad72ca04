//! One request, from its head to its answer: counted, let in, read, done, answered; and at each step what the rules want.
//!
//! What a request asks for is done by a task of its own, so that a client that goes away in the middle does not undo it: a
//! server that has read a request goes on. When the help desk stops, it does not.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{self, Reply};
use super::desk::{Desk, count, now};
use super::lock::lock;
use super::refusal::Refusal;
use super::rules::{Act, Call, Moment, Orders, Stage};
use super::work::{self, Asked, Work};
use crate::trap::Fate;

/// A body that is too large is read to its end, so that the client hears the 413 instead of a broken connection; but not
/// for ever.
const DRAIN_LIMIT: usize = 256 << 20;

/// A connection's view of the help desk.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) desk: Arc<Desk>,
    /// The number of the door it came in by.
    pub(super) door: u64,
    /// Ends the connection.
    pub(super) cut: CancellationToken,
    /// The help desk stops.
    pub(super) down: CancellationToken,
    /// What is being done, with its connection or after it: a stop waits for it.
    pub(super) works: TaskTracker,
}

/// The service of one connection.
pub(super) fn router(visit: Visit) -> Router {
    Router::new().fallback(serve).with_state(visit)
}

async fn serve(State(visit): State<Visit>, request: Request<Body>) -> Response {
    match receive(&visit, request).await {
        Reply::Answer(response) => response,
        Reply::Cut => {
            visit.cut.cancel();
            std::future::pending().await
        }
        Reply::Silence => std::future::pending().await,
    }
}

async fn receive(visit: &Visit, request: Request<Body>) -> Reply {
    let desk = &visit.desk;
    let (head, body) = request.into_parts();
    let post = head.method == Method::POST;
    count(if post { &desk.tally.posts } else { &desk.tally.gets });
    let limits = *lock(&desk.limits);
    lock(&desk.meter).see(post, now(), &limits);
    let asked = Asked::of(&head.method, head.uri.path());
    let (door, call) = (visit.door, Some(asked.call()));
    let moment = Moment { stage: Stage::Head, door, call, tags: &[], subject: None };
    if let Err(reply) = obey(desk.ask(&moment)).await {
        return reply;
    }
    if !desk.lets_in(head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok())) {
        count(&desk.tally.unauthorized);
        return Reply::Answer(answer::unauthorized());
    }
    if let Err(left) = lock(&desk.meter).admit(post, now(), &limits) {
        count(&desk.tally.throttled);
        return Reply::Answer(answer::throttled(limits.naming.wait(left)));
    }
    let body = match read(body, &head.headers, desk.body_limit).await {
        Ok(body) => body,
        Err(Some(refusal)) => return refuse(&desk.tally.refused, &refusal),
        Err(None) => return Reply::Cut,
    };
    let doing = done(Arc::clone(desk), visit.door, asked, head, body);
    let doing = visit.down.clone().run_until_cancelled_owned(doing);
    visit.works.spawn(doing).await.ok().flatten().unwrap_or(Reply::Cut)
}

/// Does what was asked for.
async fn done(desk: Arc<Desk>, door: u64, asked: Asked, head: Parts, body: Bytes) -> Reply {
    let call = asked.call();
    let read = Work::read(asked, &head, body, &desk).await;
    let (tags, subject) = match &read {
        Ok(work) => (work.tags(), work.subject()),
        Err(_) => (Vec::new(), None),
    };
    let entry = desk.calls.read(call, &tags);
    let at = |stage| Moment { stage, door, call: Some(call), tags: &tags, subject: subject.as_deref() };
    let before = match obey(desk.ask(&at(Stage::Body))).await {
        Ok(act) => act,
        Err(reply) => return reply,
    };
    let work = match read {
        Ok(work) => work,
        Err(refusal) => return refuse(&desk.tally.refused, &refusal),
    };
    let result = match work.carry_out(&desk) {
        Ok(result) => result,
        Err(refusal) => return refuse(&desk.tally.refused, &refusal),
    };
    entry.done(result.tickets());
    let after = match obey(desk.ask(&at(Stage::Answer))).await {
        Ok(act) => act,
        Err(reply) => return reply,
    };
    let spoilt = if after == Act::Normal { before } else { after };
    if spoilt == Act::Normal {
        entry.answered();
    }
    Reply::Answer(work::finish(&desk, result, &spoilt))
}

/// Waits, stands still, and answers in the desk's place, as a rule wants it; else gives back what is left of its act.
async fn obey(orders: Orders) -> Result<Act, Reply> {
    // A timer without a delay would still wait for the next millisecond.
    if !orders.delay.is_zero() {
        tokio::time::sleep(orders.delay).await;
    }
    if let Some(snare) = orders.snare
        && snare.stand().await == Fate::Cut
    {
        return Err(Reply::Cut);
    }
    if !orders.act.replaces() {
        return Ok(orders.act);
    }
    Err(match orders.act {
        Act::Status(status) => Reply::Answer(answer::status(status)),
        Act::Html(status) => Reply::Answer(answer::html(status)),
        Act::Redirect(to) => Reply::Answer(answer::redirect(&to)),
        Act::Throttled(wait) => Reply::Answer(answer::throttled(wait)),
        Act::Silence => Reply::Silence,
        Act::Disconnect
        | Act::Normal
        | Act::WithoutId
        | Act::WrongId
        | Act::Truncated
        | Act::Strangers(_)
        | Act::IgnoreQuery => Reply::Cut,
    })
}

/// A new connection meets the rules before anything of it is read; whether it is served.
pub(super) async fn welcome(visit: &Visit) -> bool {
    let (door, call) = (visit.door, None::<Call>);
    let moment = Moment { stage: Stage::Accepted, door, call, tags: &[], subject: None };
    match obey(visit.desk.ask(&moment)).await {
        Err(Reply::Silence) => std::future::pending().await,
        Err(Reply::Cut | Reply::Answer(_)) => false,
        Ok(_) => true,
    }
}

fn refuse(counter: &AtomicU64, refusal: &Refusal) -> Reply {
    count(counter);
    Reply::Answer(answer::refused(refusal))
}

/// Reads a body of at most `most` bytes; none where its connection broke.
async fn read(body: Body, headers: &HeaderMap, most: usize) -> Result<Bytes, Option<Refusal>> {
    let said =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let mut whole = Vec::with_capacity(said.unwrap_or_default().min(most));
    let (mut stream, mut length) = (body.into_data_stream(), 0_usize);
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else { return Err(None) };
        length += chunk.len();
        if length <= most {
            whole.extend_from_slice(&chunk);
        } else {
            whole = Vec::new();
        }
        if length > most.saturating_add(DRAIN_LIMIT) {
            return Err(None);
        }
    }
    if length > most {
        return Err(Some(Refusal::whole(413, "Request Entity Too Large")));
    }
    Ok(whole.into())
}
