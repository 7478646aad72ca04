//! A site on loopback with pages that are as they should be, and pages that are not.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, SET_COOKIE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::get;

/// A page without fault: heading, labelled fields, buttons large enough, contrast on a light and on a dark ground.
const GOOD: &str = r##"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Parcels</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  body { color: #222; background: #fff; font: 1rem sans-serif }
  button, input, select, a { min-height: 2rem; font: inherit }
  #hidden { display: none }
  @media (prefers-color-scheme: dark) { body { color: #eee; background: #111 } a { color: #9cf } }
</style></head><body><main>
<h1>Parcels</h1>
<p id="script">No script ran.</p><p id="hidden">Nobody sees this.</p>
<p><a id="second" href="/second">Second page</a></p>
<form method="post" action="/">
  <p><label for="reason">Reason</label> <input id="reason" name="reason"></p>
  <p><label for="kind">Kind</label> <select id="kind" name="kind"><option value="b">Box</option><option value="l">Letter</option></select></p>
  <p><label><input id="urgent" type="checkbox" name="urgent" value="yes"> Urgent</label></p>
  <p><button id="send">Send</button> <button id="mark" type="button">Mark it</button></p>
</form>
<details id="more"><summary>More</summary><p id="inside">Inside.</p></details>
<p id="marked"></p>
<script>
  document.getElementById("script").textContent = "A script ran.";
  document.getElementById("mark").addEventListener("click", () => { document.getElementById("marked").textContent = "Marked."; });
  document.addEventListener("keydown", event => { if (event.key === "Escape") document.getElementById("more").open = false; });
  console.warn("the page was here");
</script>
</main></body></html>"##;

/// No language, grey on white, a field without label, targets as small as a crumb side by side.
const SPOILT: &str = r##"<!doctype html>
<html><head><meta charset="utf-8"><title>Parcels</title>
<style>body { color: #ccc; background: #fff } button { font-size: 6px; width: 8px; height: 8px; padding: 0; border: 0 }</style></head>
<body><main><h1>Parcels</h1><p>Hardly to be read.</p><input name="reason">
<button>One</button><button>Two</button></main></body></html>"##;

#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

/// A running site; it ends with its test.
#[derive(Debug)]
pub(crate) struct Site {
    seen: Arc<Seen>,
    address: SocketAddr,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let seen = Arc::new(Seen::default());
        let routes = Router::new()
            .route("/", get(Html(GOOD)).post(sent))
            .route("/second", get(Html("<!doctype html><title>Second</title><h1>Second page</h1>")))
            .route("/spoilt", get(Html(SPOILT)))
            .route("/cookie", get(cookie))
            .route("/moved", get(Redirect::to("/second")))
            .route(
                "/tall",
                get(Html("<!doctype html><title>Tall</title><div style='height: 3000px'>tall</div>")),
            )
            .route("/show", get(show))
            .fallback(get("here"))
            .layer(from_fn_with_state(Arc::clone(&seen), noted));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { seen, address }
    }

    /// Its origin, without a slash at the end.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address of a page that shows a text: see [`show`].
    pub(crate) fn showing(&self, how: &[(&str, &str)]) -> String {
        url::Url::parse_with_params(&self.at("/show"), how).expect("an address").into()
    }

    /// Paths that were asked for so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn noted(State(seen): State<Arc<Seen>>, request: Request, next: Next) -> Response {
    seen.0.lock().unwrap_or_else(PoisonError::into_inner).push(request.uri().path().to_owned());
    next.run(request).await
}

async fn sent(form: Bytes) -> Html<String> {
    let fields = url::form_urlencoded::parse(&form).into_owned().collect::<HashMap<_, _>>();
    let said = ["reason", "kind", "urgent"].map(|field| fields.get(field).map_or("-", String::as_str));
    let said = escaped(&said.join(", "));
    Html(format!("<!doctype html><title>Sent</title><h1 id=\"sent\">{said}</h1>"))
}

async fn cookie() -> Response {
    let cookie = "__Host-desk=secret; Path=/; Secure; HttpOnly; SameSite=Lax";
    ([(SET_COOKIE, cookie)], Html("<!doctype html><title>Cookie</title><h1>Cookie</h1>")).into_response()
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Shows `text` where strangers' text stands in a page, without care (`careless`) or as text; with `csp` as policy, and in a
/// sandboxed frame instead where `sandbox` is given (its tokens).
async fn show(Query(how): Query<HashMap<String, String>>) -> Response {
    let asked = |name: &str| how.get(name).cloned();
    let text = asked("text").unwrap_or_default();
    let body = match asked("sandbox") {
        Some(tokens) => format!("<iframe sandbox=\"{tokens}\" srcdoc=\"{}\"></iframe>", escaped(&text)),
        None if how.contains_key("careless") => format!(
            "<p>{text}</p><input value=\"{text}\"><input value='{text}'><textarea>{text}</textarea><!-- {text} -->"
        ),
        None => {
            let text = escaped(&text);
            format!("<p id=\"text\">{text}</p><input value=\"{text}\"><textarea>{text}</textarea>")
        }
    };
    let page = format!("<!doctype html><html lang=\"en\"><title>Shown</title><h1>Shown</h1>{body}</html>");
    match asked("csp") {
        Some(policy) => ([(CONTENT_SECURITY_POLICY, policy)], Html(page)).into_response(),
        None => Html(page).into_response(),
    }
}
