//! A Chromium and a server of sample pages under the desk's own rules: its content security policy, its assets, its stream.
//! What a page's judge or story has to say, it writes into the title, and Chromium prints the page.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use maple_router::desk::pages::assets;
use maple_router::desk::policy;
use tokio::sync::Notify;

use crate::samples;

const SAID: &str = "said:";

/// What the server has.
#[derive(Default)]
pub(crate) struct Served {
    /// Further files by path: scripts of judges and stories, pages.
    pub(crate) files: Vec<(String, &'static str, String)>,
    /// Events of the stream's first connection; later ones are told that there are no more.
    pub(crate) events: Vec<String>,
    /// Rows that `/queue/rows` answers.
    pub(crate) rows: String,
    /// The stream has nothing to say before somebody asks for `/go`.
    pub(crate) holds: bool,
}

/// The server's memory.
struct Running {
    served: Served,
    connections: AtomicUsize,
    go: Notify,
    asked: Mutex<Vec<String>>,
}

async fn answer(State(running): State<Arc<Running>>, request: Request) -> Response {
    let path = request.uri().path();
    let served = &running.served;
    let asked = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    running.asked.lock().expect("nobody panicked").push(asked);
    let found: Option<(&str, Vec<u8>)> = if let Some((media_type, content)) = assets::find(path) {
        Some((media_type, content.to_vec()))
    } else if let Some((_, media_type, content)) = served.files.iter().find(|(own, ..)| own == path) {
        Some((media_type, content.clone().into_bytes()))
    } else if path == "/queue/rows" {
        Some(("text/html; charset=utf-8", served.rows.clone().into_bytes()))
    } else if path == "/tick" {
        tokio::time::sleep(Duration::from_millis(20)).await;
        None
    } else if path == "/go" {
        running.go.notify_one();
        None
    } else if path == "/live" && running.connections.fetch_add(1, Ordering::Relaxed) == 0 {
        if served.holds {
            running.go.notified().await;
        }
        let events: String = served.events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Some(("text/event-stream", events.into_bytes()))
    } else {
        None
    };
    // The judge frames the pages; who frames them else is the header's own test.
    let policy = if path.contains("/mail/") {
        policy::MAIL.to_owned()
    } else {
        policy::PAGE.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
    };
    let status = if found.is_some() { 200 } else { 204 };
    let (media_type, body) = found.unwrap_or(("text/plain", Vec::new()));
    Response::builder()
        .status(status)
        .header("content-type", media_type)
        .header("content-security-policy", policy)
        .body(Body::from(body))
        .expect("an answer")
}

/// Every sample page by its path, `/sample/NAME`.
pub(crate) fn sample_files() -> Vec<(String, &'static str, String)> {
    let file =
        |page: samples::Sample| (format!("/sample/{}", page.name), "text/html; charset=utf-8", page.html);
    samples::all(&str::to_owned).into_iter().map(file).collect()
}

/// Serves until dropped.
pub(crate) struct Server {
    address: SocketAddr,
    running: Arc<Running>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Paths and queries asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.running.asked.lock().expect("nobody panicked").clone()
    }
}

pub(crate) fn serve(served: Served) -> Server {
    let running = Arc::new(Running {
        served,
        connections: AtomicUsize::new(0),
        go: Notify::new(),
        asked: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(answer).with_state(Arc::clone(&running));
    runtime.spawn(async move { axum::serve(listener, router).await });
    Server { address, running, _runtime: runtime }
}

/// What the page at this path writes into its title, at this width and on this ground.
pub(crate) fn said(server: &Server, path: &str, dark: bool, width: u32) -> String {
    let profile = tempfile::tempdir().expect("a profile");
    let ended = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--window-size={width},900"))
        .args(["--virtual-time-budget=120000", "--dump-dom"])
        .arg(format!("http://{}{path}", server.address))
        .output()
        .expect("chromium; scripts/install-missing python");
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let title =
        printed.split("<title>").nth(1).and_then(|title| title.split("</title>").next()).unwrap_or_default();
    match title.strip_prefix(SAID) {
        Some(said) => said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
        None => {
            panic!("{path} said nothing: {} {title} {}", ended.status, String::from_utf8_lossy(&ended.stderr))
        }
    }
}
