//! A desk that cannot be opened, or that has no database: told of, tried again, and nobody else's trouble.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use devkit::postgres::{CuttingProxy, Variant};
use futures::future::BoxFuture;
use maple_router::desk::card::UNAVAILABLE;
use maple_router::desk::server::{Desk, DeskParts};
use maple_router::ports::Clock;
use reqwest::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::harness::{Bench, PATIENCE, SECRET, Standing, refusal, routes};

/// Waits until the incident is there, and answers its words.
async fn told(bench: &mut Bench) -> String {
    let seen = bench.incidents.wait_for(|open| open.contains_key(&UNAVAILABLE));
    let open = tokio::time::timeout(PATIENCE, seen).await.expect("in time").expect("open");
    let incident = &open[&UNAVAILABLE];
    format!("{} {:?} {}", incident.what, incident.commands, incident.advice)
}

/// Lets half a minute pass again and again, until the desk listens.
async fn opened(bench: &Bench, desk: &mut Desk) -> SocketAddr {
    let passing = async {
        loop {
            bench.clock.advance(Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waiting = async {
        tokio::select! {
            address = desk.listening() => address.expect("it listens"),
            () = passing => unreachable!("time passes for ever"),
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time")
}

/// Waits until it is over.
async fn over(bench: &mut Bench) {
    let seen = bench.incidents.wait_for(|open| !open.contains_key(&UNAVAILABLE));
    drop(tokio::time::timeout(PATIENCE, seen).await.expect("in time").expect("open"));
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_incident_until_it_is_free() {
    let mut bench = Bench::new().await;
    let port = devkit::port::free_port().expect("a port");
    let holder = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    let taken = holder.local_addr().expect("an address").to_string();
    bench.config.desk.listen = Some(taken.clone());
    let stop = CancellationToken::new();
    let mut desk = Desk::start(bench.parts(), routes(&bench.pool), &stop).expect("a desk");
    let told = told(&mut bench).await;
    assert!(told.contains(&taken) && told.contains("Routing goes on") && told.contains("ss -ltnp"), "{told}");
    drop(holder);
    let address = opened(&bench, &mut desk).await;
    assert_eq!(address.to_string(), taken);
    over(&mut bench).await;
    desk.stop().await;
}

#[tokio::test]
async fn without_its_secret_it_stays_closed_until_there_is_one() {
    let mut bench = Bench::new().await;
    let secret = bench.dir().join("made-later");
    bench.config.desk.secret_file = Some(secret.clone());
    let stop = CancellationToken::new();
    let mut desk = Desk::start(bench.parts(), routes(&bench.pool), &stop).expect("a desk");
    let words = told(&mut bench).await;
    assert!(words.contains("made-later") && words.contains("desk init"), "{words}");
    std::fs::write(&secret, SECRET).expect("written");
    opened(&bench, &mut desk).await;
    over(&mut bench).await;
    desk.stop().await;
}

#[tokio::test]
async fn a_secret_that_could_be_guessed_is_none() {
    let mut bench = Bench::new().await;
    let secret = bench.config.desk.secret_file.clone().expect("a secret");
    std::fs::write(&secret, "short\n").expect("written");
    let stop = CancellationToken::new();
    let desk = Desk::start(bench.parts(), routes(&bench.pool), &stop).expect("a desk");
    let words = told(&mut bench).await;
    assert!(words.contains("could be guessed") && !words.contains("short"), "{words}");
    desk.stop().await;
}

#[tokio::test]
async fn a_desk_that_waits_stops_at_once() {
    let mut bench = Bench::new().await;
    bench.config.desk.secret_file = Some(bench.dir().join("nowhere"));
    let stop = CancellationToken::new();
    let desk = Desk::start(bench.parts(), routes(&bench.pool), &stop).expect("a desk");
    told(&mut bench).await;
    tokio::time::timeout(Duration::from_secs(2), desk.stop()).await.expect("at once");
}

#[tokio::test]
async fn without_the_schema_the_remedy_is_told() {
    let bench = Bench::with(Variant { router: false, ..Variant::default() }).await;
    let desk = bench.open().await;
    let anybody = format!("/login/{}", "A".repeat(43));
    let pressed = desk.press(&anybody, None).await;
    let text = pressed.text().await.expect("a body");
    assert!(text.contains("problem:not_installed") && text.contains("migrate --router"), "{text}");
    let cookie = format!("__Host-desk={}", "A".repeat(43));
    assert_eq!(refusal(desk.get("/", &cookie).await).await, (503, "not_installed".to_owned()));
    let open = desk.ask(Method::GET, "/assets/style.css").send().await.expect("an answer");
    assert_eq!(open.status(), StatusCode::OK);
}

#[tokio::test]
async fn without_a_database_it_says_so_and_works_again_by_itself() {
    let mut bench = Bench::new().await;
    let wire = CuttingProxy::start(&bench.db).await.expect("a wire");
    bench.reach(wire.url_as("forms_app"));
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let link = bench.link("sam").await;
    wire.sever(true);
    for _ in 0..5 {
        let away = desk.get("/", &session).await;
        assert_eq!(away.headers()["retry-after"], "2");
        assert_eq!(refusal(away).await, (503, "database_away".to_owned()));
    }
    assert_eq!(refusal(desk.press(&link, None).await).await, (503, "database_away".to_owned()));
    let open = desk.ask(Method::GET, "/assets/style.css").send().await.expect("an answer");
    assert_eq!(open.status(), StatusCode::OK, "what the page of the problem is made of");
    wire.sever(false);
    assert_eq!(desk.get("/", &session).await.status(), StatusCode::OK);
    assert_eq!(desk.press(&link, None).await.status(), StatusCode::SEE_OTHER, "nothing was spent");
}

/// A clock whose first rest is a bug.
#[derive(Debug)]
struct Shaky {
    inner: Arc<Standing>,
    rests: Arc<AtomicU32>,
}

impl Clock for Shaky {
    fn monotonic(&self) -> Instant {
        self.inner.monotonic()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        assert!(self.rests.fetch_add(1, Ordering::SeqCst) > 0, "a bug");
        self.inner.sleep(pause)
    }
}

/// The desk's own task panics, not one of its requests: it is begun anew, and whoever shares the process with it goes on.
#[tokio::test]
async fn a_desk_that_panics_comes_back_and_stops_nobody_else() {
    let mut bench = Bench::new().await;
    let secret = bench.dir().join("made-later");
    bench.config.desk.secret_file = Some(secret.clone());
    let rests = Arc::new(AtomicU32::new(0));
    let clock = Arc::new(Shaky { inner: Arc::clone(&bench.clock), rests: Arc::clone(&rests) });
    let (stop, beats) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let beating = Arc::clone(&beats);
    // The routing's stand-in shares the daemon's stop, and ends by it alone.
    let routing = tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            beating.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }));
    let parts = DeskParts { clock, ..bench.parts() };
    let mut desk = Desk::start(parts, routes(&bench.pool), &stop).expect("a desk");
    told(&mut bench).await;
    std::fs::write(&secret, SECRET).expect("written");
    // Not woken by the clock: it has panicked before it could rest.
    let address =
        tokio::time::timeout(PATIENCE, desk.listening()).await.expect("in time").expect("it listens");
    assert!(rests.load(Ordering::SeqCst) > 0, "it has panicked");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let page = client.get(format!("http://{address}/assets/style.css")).header("host", crate::harness::HOST);
    assert_eq!(page.send().await.expect("an answer").status(), StatusCode::OK);
    over(&mut bench).await;
    let before = beats.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!stop.is_cancelled() && beats.load(Ordering::SeqCst) > before && !routing.is_finished());
    desk.stop().await;
    assert!(!stop.is_cancelled(), "the desk's stop is its own");
    routing.abort();
}
