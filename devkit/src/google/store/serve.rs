//! One request, from its head to its answer: counted, let in, read, done, answered; and at each step what the rules want.
//!
//! What a request asks for is done by a task of its own, so that a client that goes away in the middle does not undo it: a
//! server that has read a request goes on. When the store stops, it does not.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use futures::StreamExt as _;

use super::caller::{self, Caller};
use super::effect::{Effect, Stop};
use super::refusal::Refusal;
use super::routes::{Api, Asked};
use super::rules::{Act, Call, Moment, Orders, Stage};
use super::{Store, cors, download, json, json_uploads, multipart, objects};
use crate::google::Spoilt;
use crate::google::loopback::Cut;
use crate::google::script::Step;
use crate::trap::Fate;

/// A refused upload is read to its end, so that its client hears why instead of a broken connection; but not for ever.
const DRAIN_LIMIT: u64 = 1 << 30;

/// What becomes of a request.
enum Reply {
    Answer(Response),
    /// The connection is closed.
    Cut,
    /// Nothing is said.
    Silence,
}

/// Every answer says what time it is to the store, and lets the pages read it that may.
pub(super) async fn serve(
    State(store): State<Arc<Store>>,
    Extension(cut): Extension<Cut>,
    request: Request<Body>,
) -> Response {
    let asked = Asked::of(request.method(), request.uri(), store.host());
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let read = method == Method::GET || method == Method::HEAD;
    store.tally.count(asked.call, read);
    let mishap = if read { store.script.step().await } else { Step::Usual };
    let (bucket, api) = (asked.bucket.clone(), asked.api);
    let reply = if let Step::Fail(status, _) = mishap {
        Reply::Answer(Refusal::trouble(status).answer(api))
    } else {
        let doing = store.down().run_until_cancelled_owned(receive(Arc::clone(&store), asked, request));
        tokio::spawn(doing).await.ok().flatten().unwrap_or(Reply::Cut)
    };
    let mut response = match reply {
        Reply::Answer(response) => response,
        Reply::Cut => return cut.now().await,
        Reply::Silence => return std::future::pending().await,
    };
    let date = store.time().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(date) = HeaderValue::from_str(&date) {
        response.headers_mut().insert(header::DATE, date);
    }
    if api == Api::Xml
        && let Ok(shelf) = store.shelves().shelf(&bucket)
    {
        cors::answer(&shelf.bucket, &method, &headers, response.headers_mut());
    }
    response
}

async fn receive(store: Arc<Store>, asked: Asked, request: Request<Body>) -> Reply {
    let (head, body) = request.into_parts();
    let at = |stage| Moment {
        stage,
        call: asked.call,
        bucket: &asked.bucket,
        object: &asked.object,
        part: asked.part(),
    };
    let mut act = match obey(store.ask(&at(Stage::Head)), asked.api).await {
        Ok(act) => act,
        Err(reply) => return reply,
    };
    let mut body = Some(body);
    let prepared = prepare(&store, &asked, &head, &mut body).await;
    drain(&head, body).await;
    let refuse = |refusal: &Refusal| Reply::Answer(refusal.answer(asked.api));
    let effect = match prepared {
        Ok(effect) => effect,
        Err(Stop::Refused(refusal)) => return refuse(&refusal),
        Err(Stop::Broken) => return Reply::Cut,
    };
    match obey(store.ask(&at(Stage::Before)), asked.api).await {
        Ok(Act::Normal) => {}
        Ok(other) => act = other,
        Err(reply) => return reply,
    }
    let done = effect(&store);
    match obey(store.ask(&at(Stage::After)), asked.api).await {
        Ok(Act::Normal) => {}
        Ok(other) => act = other,
        Err(reply) => return reply,
    }
    match done {
        Ok(response) if asked.call == Call::Read => {
            let act = store.next_spoilt().map_or(act, |spoilt| match spoilt {
                Spoilt::Flipped => Act::Flipped,
                Spoilt::Cut => Act::Truncated,
            });
            Reply::Answer(if act == Act::Normal { response } else { download::spoilt(response, act) })
        }
        Ok(response) => Reply::Answer(response),
        Err(refusal) => refuse(&refusal),
    }
}

/// Lets the request in, and reads it.
async fn prepare(
    store: &Arc<Store>,
    asked: &Asked,
    head: &Parts,
    body: &mut Option<Body>,
) -> Result<Effect, Stop> {
    if asked.call == Call::Preflight {
        let bucket = store.shelves().shelf(&asked.bucket).ok().map(|shelf| shelf.bucket.clone());
        let response = cors::preflight(bucket.as_ref(), &head.headers);
        return Ok(Box::new(move |_| Ok(response)));
    }
    // The address of a session is all that its owner needs.
    if asked.call == Call::Write && asked.api == Api::Json && head.method != Method::POST {
        return json_uploads::resume(store, asked, head, body).await;
    }
    if asked.call == Call::Unknown && asked.api == Api::Xml && head.method != Method::GET {
        return Err(Refusal::method().into());
    }
    let caller = Caller::of(store, asked, head)?;
    if asked.call == Call::Permissions {
        return json::permissions(asked, caller);
    }
    let (right, permission) = caller::needed(asked.call);
    let who = caller.may(store, asked.api, &asked.bucket, right, permission)?;
    match (asked.api, asked.call) {
        (Api::Xml, Call::Initiate) => multipart::initiate(asked, head),
        (Api::Xml, Call::Part) => multipart::part(store, asked, head, body).await,
        (Api::Xml, Call::ListParts) => multipart::list_parts(asked, head),
        (Api::Xml, Call::Complete) => multipart::complete(asked, head, body, who).await,
        (Api::Xml, Call::Abort) => multipart::abort(asked, head),
        (Api::Xml, Call::ListUploads) => multipart::list_uploads(asked),
        (Api::Xml, Call::Write) => objects::write(store, asked, head, body, who).await,
        (_, Call::Read) => objects::read(asked, head, who),
        (_, Call::Delete) => objects::delete(asked, head, who),
        (Api::Json, Call::Write) => json_uploads::begin(store, asked, head, body, who).await,
        (Api::Json, Call::Rewrite) => json::rewrite(store, asked, body, &caller).await,
        (Api::Json, Call::List) => json::list(asked),
        (Api::Json, Call::Metadata) => json::metadata(asked, who),
        (Api::Json, Call::Bucket) => json::bucket(asked),
        _ => Err(Refusal::not_implemented("This stand-in does not speak it.").into()),
    }
}

/// Reads what is left of a body, unless its client waits for permission to send it.
async fn drain(head: &Parts, body: Option<Body>) {
    let Some(body) = body.filter(|_| !head.headers.contains_key(header::EXPECT)) else { return };
    let (mut stream, mut length) = (body.into_data_stream(), 0);
    while let Some(Ok(bytes)) = stream.next().await {
        length += bytes.len() as u64;
        if length > DRAIN_LIMIT {
            return;
        }
    }
}

/// Waits, stands still, and answers in the store's place, as a rule wants it; else gives back what is left of its act.
async fn obey(orders: Orders, api: Api) -> Result<Act, Reply> {
    tokio::time::sleep(orders.delay).await;
    if let Some(snare) = orders.snare
        && snare.stand().await == Fate::Cut
    {
        return Err(Reply::Cut);
    }
    if !orders.act.replaces() {
        return Ok(orders.act);
    }
    Err(match orders.act {
        Act::Status(status) => Reply::Answer(Refusal::trouble(status).answer(api)),
        Act::Silence => Reply::Silence,
        Act::ErrorInside => Reply::Answer(Refusal::trouble(500).inside()),
        Act::Disconnect | Act::Normal | Act::Flipped | Act::Truncated | Act::Stalled => Reply::Cut,
    })
}
