//! A help desk whose answers are scripted, down to where a connection ends, and a clock that jumps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::secret::Secret;
use maple_router::gateway::happyfox::{Credentials, HelpDeskClient, HelpDeskSettings};
use maple_router::ops::clock::SystemClock;
use maple_router::ports::{Clock, Creation, Fault, NewTicket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) const API_KEY: &str = "k3y-of-the-account";
pub(crate) const AUTH_CODE: &str = "c0de-of-the-account";
pub(crate) const TAG: &str = "maple-0123456789abcdef0123456789abcdef-1-1";
/// API key and auth code, as HTTP Basic has them.
pub(crate) const AUTHORIZATION: &str = "Basic azN5LW9mLXRoZS1hY2NvdW50OmMwZGUtb2YtdGhlLWFjY291bnQ=";

pub(crate) const CATEGORIES: &str =
    r#"[{"id": 7, "name": "Tips", "public": true}, {"id": 8, "name": "Staff", "public": false}]"#;
pub(crate) const TICKET_FIELDS: &str = r#"[
    {"id": 3, "name": "Region", "type": "dropdown", "required": false, "choices": [{"id": 30, "text": "North"}, {"id": 31, "text": "South"}]},
    {"id": 4, "name": "Topics", "type": "multiple_choice", "choices": [{"id": 40, "text": "Whales"}, {"id": 41, "text": "Ice"}]}
]"#;
pub(crate) const CONTACT_FIELDS: &str = r#"[{"id": 5, "name": "Phone", "type": "text", "choices": null}]"#;

/// What the server says to one request.
#[derive(Clone)]
pub(crate) enum Say {
    /// An answer: status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// An answer to the head, before the body is read; then the connection ends.
    Early(u16),
    /// Nothing: the connection ends when the request was read.
    Close,
    /// Nothing, for ever.
    Silence,
    /// The beginning of an answer with this body, twice as long as what comes; then the connection ends.
    Half(u16, String),
}

pub(crate) fn json(status: u16, body: &str) -> Say {
    Say::Answer(status, vec![("Content-Type", "application/json".to_owned())], body.to_owned())
}

pub(crate) fn page(status: u16) -> Say {
    let body = "<!DOCTYPE html><title>Log in</title><p>ada@example.org".to_owned();
    Say::Answer(status, vec![("Content-Type", "text/html".to_owned())], body)
}

pub(crate) fn with(status: u16, header: (&'static str, &str), body: &str) -> Say {
    Say::Answer(status, vec![(header.0, header.1.to_owned())], body.to_owned())
}

pub(crate) fn created() -> Say {
    json(200, r#"{"id": 41, "display_id": "DC00000041", "tags": "x"}"#)
}

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

#[derive(Default)]
struct Script {
    /// Answers by method and path, each used once; the last one stays.
    says: Mutex<BTreeMap<String, VecDeque<Say>>>,
    heads: Mutex<usize>,
    asked: Mutex<Vec<Asked>>,
}

/// The server. It ends when it is dropped, with all of its connections.
pub(crate) struct Desk {
    pub(crate) address: String,
    script: Arc<Script>,
    listening: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Desk {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let script = Arc::new(Script::default());
        let served = script.clone();
        let listening = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, served.clone()));
            }
        });
        let desk = Self { address, script, listening };
        desk.says("GET categories/", [json(200, CATEGORIES)]);
        desk.says("GET ticket_custom_fields/", [json(200, TICKET_FIELDS)]);
        desk.says("GET user_custom_fields/", [json(200, CONTACT_FIELDS)]);
        desk
    }

    /// Answers from now on, one after the other; the last one stays.
    pub(crate) fn says(&self, to: &str, answers: impl IntoIterator<Item = Say>) {
        self.script.says.lock().expect("a script").insert(to.to_owned(), answers.into_iter().collect());
    }

    /// Requests that came whole.
    pub(crate) fn asked(&self, method: &str) -> Vec<Asked> {
        let asked = self.script.asked.lock().expect("a list");
        asked.iter().filter(|asked| asked.method == method).cloned().collect()
    }

    /// Heads that came, of whole requests and others.
    pub(crate) fn heads(&self) -> usize {
        *self.script.heads.lock().expect("a count")
    }

    pub(crate) fn settings(&self) -> HelpDeskSettings {
        settings(&format!("http://{}/api/1.1/json/", self.address))
    }

    pub(crate) fn client(&self) -> HelpDeskClient {
        client(&self.settings(), Arc::new(SystemClock))
    }
}

pub(crate) fn settings(base_url: &str) -> HelpDeskSettings {
    HelpDeskSettings {
        base_url: base_url.parse().expect("a URL"),
        connect_timeout: Duration::from_millis(500),
        read_timeout: Duration::from_millis(700),
        timeout: Duration::from_secs(2),
        max_per_minute: 300,
    }
}

pub(crate) fn client(settings: &HelpDeskSettings, clock: Arc<dyn Clock>) -> HelpDeskClient {
    let credentials = Credentials { api_key: Secret::new(API_KEY), auth_code: Secret::new(AUTH_CODE) };
    HelpDeskClient::new(settings, credentials, clock).expect("a client")
}

pub(crate) fn ticket() -> NewTicket {
    NewTicket {
        category: "Tips".to_owned(),
        subject: "A tip".to_owned(),
        text: Some("Look there.".to_owned()),
        contact_name: "Ada".to_owned(),
        contact_email: "ada@example.org".to_owned(),
        tags: vec![TAG.to_owned()],
        ..NewTicket::default()
    }
}

pub(crate) fn go() -> Result<(), Fault> {
    Ok(())
}

pub(crate) async fn create(client: &HelpDeskClient, ticket: &NewTicket) -> Creation {
    in_time(client.create(ticket, &go)).await
}

/// A future that would wait for ever fails the test instead.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("no end within 20 s")
}

/// The words of an outcome, which show nothing that they must not.
pub(crate) fn words(creation: &Creation) -> String {
    let words = creation.fault().map(|fault| fault.reply.reply.clone()).unwrap_or_default();
    for never in [API_KEY, AUTH_CODE, "ada@example.org", "A tip", "Look there"] {
        assert!(!format!("{creation:?}").contains(never), "{creation:?}");
    }
    words
}

async fn serve(mut stream: TcpStream, script: Arc<Script>) {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if stream.read_buf(&mut read).await.unwrap_or_default() == 0 {
                return;
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end + 4);
        *script.heads.lock().expect("a count") += 1;
        let mut asked = head_of(&head);
        let say = said(&script, &asked);
        if let Say::Early(status) = say {
            stream.write_all(&answer(status, &[], "")).await.ok();
            stream.shutdown().await.ok();
            // What comes is read, or the system takes the answer back with a reset.
            while stream.read_buf(&mut read).await.unwrap_or_default() > 0 {}
            return;
        }
        let length: usize = asked.header("content-length").parse().unwrap_or_default();
        while read.len() < length {
            if stream.read_buf(&mut read).await.unwrap_or_default() == 0 {
                return;
            }
        }
        asked.body = read.drain(..length).collect();
        script.asked.lock().expect("a list").push(asked);
        match say {
            Say::Answer(status, headers, body) => {
                if stream.write_all(&answer(status, &headers, &body)).await.is_err() {
                    return;
                }
            }
            Say::Half(status, body) => {
                let whole = answer(status, &[], &format!("{body}{body}"));
                stream.write_all(&whole[..whole.len() - body.len()]).await.ok();
                stream.shutdown().await.ok();
                return;
            }
            Say::Close => return,
            Say::Silence => std::future::pending().await,
            Say::Early(_) => unreachable!("answered above"),
        }
    }
}

fn said(script: &Script, asked: &Asked) -> Say {
    let path = asked.target.split('?').next().unwrap_or_default();
    let path = path.strip_prefix("/api/1.1/json/").unwrap_or(path);
    let mut says = script.says.lock().expect("a script");
    let Some(answers) = says.get_mut(&format!("{} {path}", asked.method)) else {
        return json(404, r#"{"error": "no such thing"}"#);
    };
    if answers.len() > 1 {
        answers.pop_front().expect("some")
    } else {
        answers.front().expect("some").clone()
    }
}

fn head_of(head: &str) -> Asked {
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Asked {
        method: first.next().unwrap_or_default(),
        target: first.next().unwrap_or_default(),
        headers: headers.collect(),
        body: Vec::new(),
    }
}

fn answer(status: u16, headers: &[(&str, String)], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A clock on which a sleep is over at once, and time has moved by it.
#[derive(Debug)]
pub(crate) struct Leap {
    start: Instant,
    passed: Arc<Mutex<Duration>>,
}

impl Leap {
    #[expect(clippy::disallowed_methods, reason = "an instant to count from")]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), passed: Arc::default() })
    }

    pub(crate) fn passed(&self) -> Duration {
        *self.passed.lock().expect("a clock")
    }

    pub(crate) fn advance(&self, by: Duration) {
        *self.passed.lock().expect("a clock") += by;
    }
}

impl Clock for Leap {
    fn monotonic(&self) -> Instant {
        self.start + self.passed()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let passed = self.passed.clone();
        async move { *passed.lock().expect("a clock") += pause }.boxed()
    }
}
