//! A request that is sent twice is carried out once, however many send it at the same moment.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use maple_router::db::{DbError, Pool};
use maple_router::desk::access::Visitor;
use maple_router::desk::input::Command;
use maple_router::desk::problem::Problem;
use maple_router::desk::server::Routes;
use maple_router::desk::store::access_log::{self, What};
use maple_router::desk::store::idempotency::{keep, once, prune};
use maple_router::web::idempotency::{Kept, Once};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Bench, Opened, refusal};

/// A command that leaves a mark each time it is carried out, in the transaction of its answer.
async fn mark(
    State(pool): State<Pool>,
    visitor: Visitor,
    command: Command<Value>,
) -> Result<Response, Problem> {
    let Some(key) = command.key else { return Err(Problem::guard("idempotency_key", "The key is missing.")) };
    let (user, request, fails) = (&visitor.user, &command.request, command.body["fail"] == true);
    pool.transaction("mark", async |tx| {
        match once(&tx, user, &key, request).await? {
            Once::Kept(kept) => return Ok(Ok(kept.into_response())),
            Once::Mismatch => return Ok(Err(Problem::idempotency_mismatch())),
            Once::Fresh => {}
        }
        // Any table of the role's: each row is one time.
        access_log::append(&tx, user, Uuid::nil(), What::Mail).await?;
        if fails {
            return Err(DbError::Shape("the command failed".to_owned()));
        }
        let marks = "SELECT count(*) FROM router.desk_access_log";
        let nth: i64 = tx.query_one(marks, &[]).await?.try_get(0)?;
        let kept = Kept { status: 202, response: json!({"nth": nth}) };
        keep(&tx, user, &key, request, &kept).await?;
        Ok(Ok(kept.into_response()))
    })
    .await?
}

async fn open(bench: &Bench) -> Opened {
    let closed = Router::new().route("/api/mark", post(mark)).route("/api/other", post(mark));
    let closed = closed.with_state(bench.pool.clone());
    bench.open_with(Routes { open: Router::new().route("/x", post(|| async { Json(()) })), closed }).await
}

fn send(desk: &Opened, cookie: &str, path: &str, key: &str, body: &Value) -> RequestBuilder {
    desk.ask(Method::POST, path).header("cookie", cookie).header("idempotency-key", key).json(body)
}

async fn answered(request: RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn twenty_at_once_with_one_key_do_it_once() {
    let bench = Bench::new().await;
    let desk = open(&bench).await;
    let session = desk.log_in(&bench, "rita").await;
    let body = json!({"reason": "a"});
    let all = (0..20).map(|_| answered(send(&desk, &session, "/api/mark", "k", &body)));
    for (status, answer) in futures::future::join_all(all).await {
        assert_eq!((status, answer), (StatusCode::ACCEPTED, json!({"nth": 1})));
    }
    assert_eq!(bench.count("router.desk_access_log").await, 1);
    assert_eq!(bench.count("router.desk_idempotency").await, 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_request_of_one_user() {
    let bench = Bench::new().await;
    let desk = open(&bench).await;
    let (rita, sam) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "sam").await);
    let body = json!({"reason": "a"});
    let first = answered(send(&desk, &rita, "/api/mark", "k", &body)).await;
    assert_eq!(first, (StatusCode::ACCEPTED, json!({"nth": 1})));
    let others = [
        send(&desk, &rita, "/api/mark", "k", &json!({"reason": "b"})),
        send(&desk, &rita, "/api/other", "k", &body),
        send(&desk, &rita, "/api/mark?x=1", "k", &body),
    ];
    for other in others {
        let refused = other.send().await.expect("an answer");
        assert_eq!(refusal(refused).await, (422, "idempotency_mismatch".to_owned()));
    }
    assert_eq!(
        answered(send(&desk, &sam, "/api/mark", "k", &body)).await.1,
        json!({"nth": 2}),
        "another's key"
    );
    assert_eq!(answered(send(&desk, &rita, "/api/mark", "k2", &body)).await.1, json!({"nth": 3}));
    assert_eq!(answered(send(&desk, &rita, "/api/mark", "k", &body)).await, first);
}

#[tokio::test]
async fn what_failed_is_not_kept() {
    let bench = Bench::new().await;
    let desk = open(&bench).await;
    let session = desk.log_in(&bench, "rita").await;
    let failing =
        send(&desk, &session, "/api/mark", "k", &json!({"fail": true})).send().await.expect("an answer");
    assert_eq!(refusal(failing).await, (500, "internal".to_owned()));
    assert_eq!(bench.count("router.desk_access_log").await, 0, "rolled back");
    // The same key again, for what may work now.
    assert_eq!(answered(send(&desk, &session, "/api/mark", "k", &json!({}))).await.0, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let bench = Bench::new().await;
    let desk = open(&bench).await;
    let session = desk.log_in(&bench, "rita").await;
    let body = json!({});
    assert_eq!(answered(send(&desk, &session, "/api/mark", "k", &body)).await.1, json!({"nth": 1}));
    bench.later("23 h 59 min").await;
    let session = desk.log_in(&bench, "rita").await;
    assert_eq!(answered(send(&desk, &session, "/api/mark", "k", &body)).await.1, json!({"nth": 1}));
    assert_eq!(prune(&bench.pool, 10).await.expect("pruned"), 0);
    bench.later("2 min").await;
    assert_eq!(
        answered(send(&desk, &session, "/api/mark", "k", &body)).await.1,
        json!({"nth": 2}),
        "a new request"
    );
    bench.later("25 h").await;
    assert_eq!(prune(&bench.pool, 10).await.expect("pruned"), 1);
}

#[tokio::test]
async fn who_was_shown_what_is_appended_and_stays() {
    let bench = Bench::new().await;
    let submission = Uuid::nil();
    for what in What::ALL.iter().copied() {
        let appended = bench
            .pool
            .transaction("show", async |tx| access_log::append(&tx, "rita", submission, what).await);
        appended.await.expect("appended");
    }
    assert_eq!(bench.count("router.desk_access_log WHERE user_name = 'rita'").await, 5);
    let app = bench.db.client_as("forms_app").await.expect("forms_app");
    for sql in ["DELETE FROM router.desk_access_log", "UPDATE router.desk_access_log SET user_name = 'sam'"] {
        let denied = app.batch_execute(sql).await.expect_err("nobody may");
        assert_eq!(denied.code().map(|code| code.code().to_owned()).as_deref(), Some("42501"), "{sql}");
    }
}
