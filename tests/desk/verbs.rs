//! `maple-router desk …` as an operator uses it, on the desk's own database.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use devkit::postgres::Variant;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::harness::{Bench, ORIGIN, SECRET, cookie, location};

struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }
}

/// The configuration of a bench as a file, with more `[desk]` keys.
fn written(bench: &Bench, desk: &str) -> std::path::PathBuf {
    let users: String = (bench.config.desk.users.iter())
        .map(|(name, user)| {
            format!("[desk.users.{name}]\nemail = \"{}\"\nrole = \"{}\"\n", user.email, user.role)
        })
        .collect();
    let text = format!(
        "[database]\nurl = \"{}\"\n[source]\nkind = \"postgres\"\n[mail]\nfrom = \"forms@example.org\"\n\
         [state]\ndir = \"{}\"\n[desk]\n{desk}\n{users}",
        bench.config.database.url,
        bench.dir().join("state").display()
    );
    let path = bench.dir().join("config.toml");
    std::fs::write(&path, text).expect("written");
    path
}

/// `[desk]` as it is on.
fn on(bench: &Bench) -> String {
    let secret = bench.config.desk.secret_file.as_ref().expect("a secret").display();
    format!("listen = \"127.0.0.1:9465\"\nsecret_file = \"{secret}\"")
}

async fn run(config: &std::path::Path, arguments: &[&str]) -> Answer {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_maple-router"))
        .env_clear()
        .arg("--config")
        .arg(config)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the verb runs");
    Answer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("utf-8"),
        err: String::from_utf8(output.stderr).expect("utf-8"),
    }
}

#[tokio::test]
async fn init_makes_a_secret_once_and_rotates_it_when_asked() {
    let bench = Bench::new().await;
    let secret = bench.dir().join("made");
    let config = written(&bench, &format!("secret_file = \"{}\"", secret.display()));
    let made = run(&config, &["desk", "init", "--json"]).await;
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert_eq!(made.json(), serde_json::json!({"path": secret, "rotated": false}));
    let first = std::fs::read_to_string(&secret).expect("there");
    assert!(
        first.trim_end().len() == 64 && first.trim_end().bytes().all(|b| b.is_ascii_hexdigit()),
        "{}",
        first.len()
    );
    assert_eq!(std::fs::metadata(&secret).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(!made.out.contains(first.trim()) && !made.err.contains(first.trim()), "it is not shown");
    let again = run(&config, &["desk", "init"]).await;
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("--rotate"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&secret).expect("there"), first);
    assert_eq!(run(&config, &["desk", "init", "--rotate", "--json"]).await.json()["rotated"], true);
    assert_ne!(std::fs::read_to_string(&secret).expect("there"), first);
    let nowhere = written(&bench, "secret_file = \"/nowhere/desk-secret\"");
    assert_eq!(run(&nowhere, &["desk", "init"]).await.code, Some(1));
}

#[tokio::test]
async fn a_link_that_is_printed_logs_in() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let config = written(&bench, &on(&bench));
    let printed = run(&config, &["desk", "login", "rita", "--to", "/queue?state=Pending", "--json"]).await;
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let printed = printed.json();
    assert_eq!((printed["user"].as_str(), printed["role"].as_str()), (Some("rita"), Some("reviewer")));
    let url = printed["url"].as_str().expect("an address");
    let link = url.strip_prefix(ORIGIN).expect("the desk's own");
    let page = desk.ask(Method::GET, link).send().await.expect("an answer");
    assert_eq!(page.status(), StatusCode::OK);
    assert!(page.text().await.expect("a page").contains("&#x2f;queue?state=Pending"));
    let path = link.split('?').next().expect("a path");
    let pressed =
        desk.ask(Method::POST, path).form(&[("to", "/queue?state=Pending")]).send().await.expect("an answer");
    assert_eq!((pressed.status(), location(&pressed)), (StatusCode::SEE_OTHER, "/queue?state=Pending"));
    assert!(cookie(pressed.headers()).is_some());
    let people = run(&config, &["desk", "login", "rita"]).await;
    assert!(
        people.out.starts_with(&format!("{ORIGIN}/login/")) && people.out.contains("counts once"),
        "{}",
        people.out
    );
}

#[tokio::test]
async fn a_token_is_printed_once_and_works() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let config = written(&bench, &on(&bench));
    let call = [
        "desk",
        "token",
        "ada",
        "--role-cap",
        "viewer",
        "--days",
        "30",
        "--label",
        "weekly report",
        "--json",
    ];
    let printed = run(&config, &call).await;
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let printed = printed.json();
    let token = printed["token"].as_str().expect("a token");
    let who = desk.ask(Method::GET, "/api/whoami").bearer_auth(token).send().await.expect("an answer");
    let who: Value = who.json().await.expect("JSON");
    assert_eq!((who["user"].as_str(), who["role"].as_str()), (Some("ada"), Some("viewer")));
    let listed = run(&config, &["desk", "sessions", "--json"]).await;
    assert!(!listed.out.contains(token) && listed.out.contains("weekly report"), "{}", listed.out);
    assert_eq!(listed.json()[0]["id"], printed["id"]);
    for wrong in [
        &["desk", "token", "ada", "--role-cap", "owner", "--days", "1", "--label", "x"][..],
        &["desk", "token", "ada", "--role-cap", "viewer", "--days", "91", "--label", "x"],
        &["desk", "token", "ada", "--role-cap", "viewer", "--days", "0", "--label", "x"],
        &["desk", "token", "ada", "--role-cap", "viewer", "--days", "1", "--label", ""],
        &["desk", "token", "ada", "--days", "1", "--label", "x"],
        &["desk", "sessions", "--end", "xyz"],
        &["desk", "sessions", "--end", "abcd", "--end-all"],
    ] {
        assert_eq!(run(&config, wrong).await.code, Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn who_is_no_user_gets_nothing() {
    let bench = Bench::new().await;
    let config = written(&bench, &on(&bench));
    for call in [
        &["desk", "login", "eve"][..],
        &["desk", "token", "eve", "--role-cap", "viewer", "--days", "1", "--label", "x"],
    ] {
        let refused = run(&config, call).await;
        assert_eq!(refused.code, Some(1));
        for part in ["eve is no user", "[desk.users.eve]", "ada, rita, sam, vera"] {
            assert!(refused.err.contains(part), "{part}: {}", refused.err);
        }
    }
    assert_eq!(bench.count("router.desk_credentials").await, 0);
}

#[tokio::test]
async fn what_is_off_or_not_set_up_says_what_to_do() {
    let bench = Bench::new().await;
    let login = ["desk", "login", "rita"];
    let cases = [
        (String::new(), "desk.listen"),
        (
            "listen = \"127.0.0.1:9465\"\nsecret_file = \"/nowhere/desk-secret\"".to_owned(),
            "/nowhere/desk-secret",
        ),
    ];
    for (desk, part) in cases {
        let refused = run(&written(&bench, &desk), &login).await;
        assert_eq!(refused.code, Some(78), "{}", refused.err);
        assert!(refused.err.contains(part) && refused.err.contains("remedy"), "{part}: {}", refused.err);
    }
    let assertion = format!(
        "{}\nauth = \"assertion\"\norigin = \"https://desk.example.org\"\nassertion = {{ header = \"x-a\", issuer = \"i\", \
         audience = \"a\", keys_url = \"https://keys.example.org\" }}",
        on(&bench)
    );
    let refused = run(&written(&bench, &assertion), &login).await;
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("https://desk.example.org"), "{}", refused.err);
    let without = Bench::with(Variant { router: false, ..Variant::default() }).await;
    let refused = run(&written(&without, &on(&without)), &login).await;
    assert_eq!(refused.code, Some(78), "{}", refused.err);
    assert!(refused.err.contains("migrate --router"), "{}", refused.err);
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let mut bench = Bench::new().await;
    let desk = bench.open().await;
    let (rita, sam) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "sam").await);
    let also = desk.log_in(&bench, "rita").await;
    bench.link("sam").await;
    let config = written(&bench, &on(&bench));
    let listed = run(&config, &["desk", "sessions", "--json"]).await.json();
    let kinds: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["user"].as_str(), one["kind"].as_str()))
        .collect();
    let (session, link) = (Some("session"), Some("link"));
    assert_eq!(
        kinds,
        [(Some("rita"), session), (Some("rita"), session), (Some("sam"), session), (Some("sam"), link)]
    );
    let one = listed[0]["id"].as_str().expect("an id").to_owned();
    let dry = run(&config, &["desk", "sessions", "--user", "rita", "--end-all", "--dry-run", "--json"])
        .await
        .json();
    assert_eq!((dry["matched"].as_u64(), dry["changed"].as_array().map(Vec::len)), (Some(2), Some(0)));
    assert_eq!(desk.get("/", &rita).await.status(), StatusCode::OK);
    let ended = run(&config, &["desk", "sessions", "--end", &one[..12], "--json"]).await.json();
    assert_eq!(ended["changed"], serde_json::json!([one]));
    assert_eq!(desk.get("/", &rita).await.status(), StatusCode::UNAUTHORIZED, "at once");
    assert_eq!(desk.get("/", &also).await.status(), StatusCode::OK);
    let unknown = run(&config, &["desk", "sessions", "--end", &one[..12]]).await;
    assert_eq!(unknown.code, Some(1), "it is not among what counts any more");
    let all = run(&config, &["desk", "sessions", "--user", "rita", "--end-all", "--json"]).await.json();
    assert_eq!(all["changed"].as_array().map(Vec::len), Some(1));
    assert_eq!(desk.get("/", &also).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(desk.get("/", &sam).await.status(), StatusCode::OK);
    // Who was removed from the file is told of, and what rested too long is no session.
    bench.config.desk.users.remove("sam");
    let config = written(&bench, &on(&bench));
    let text = run(&config, &["desk", "sessions"]).await.out;
    assert!(text.contains("sam (no user any more)") && !text.contains(SECRET), "{text}");
    bench.later("61 min").await;
    assert!(run(&config, &["desk", "sessions"]).await.out.contains("nobody is logged in"));
}

#[tokio::test]
async fn check_says_how_the_desk_is() {
    let mut bench = Bench::new().await;
    let line = async |config: &std::path::Path| {
        let report = run(config, &["check", "--json"]).await.json();
        let line =
            report["lines"].as_array().expect("lines").iter().find(|line| line["name"] == "desk").cloned();
        let line = line.expect("the line");
        (
            line["level"].as_str().expect("a level").to_owned(),
            line["detail"].as_str().expect("words").to_owned(),
        )
    };
    let off = line(&written(&bench, "")).await;
    assert_eq!(off.0, "ok");
    assert!(off.1.contains("off"), "{}", off.1);
    let (level, detail) =
        line(&written(&bench, "listen = \"127.0.0.1:1\"\nsecret_file = \"/nowhere/s\"")).await;
    assert_eq!(level, "fail");
    assert!(detail.contains("/nowhere/s"), "{detail}");
    let (level, detail) = line(&written(&bench, &on(&bench).replace("9465", "1"))).await;
    assert_eq!(level, "warn");
    assert!(detail.contains("does not answer") && detail.contains("4 users"), "{detail}");
    let desk = bench.open().await;
    let port = desk.base.rsplit(':').next().expect("a port").to_owned();
    let (level, detail) = line(&written(&bench, &on(&bench).replace("9465", &port))).await;
    assert_eq!((level.as_str(), detail.contains("answers at")), ("ok", true), "{detail}");
    let other = format!("{}\norigin = \"http://localhost:1\"", on(&bench).replace("9465", &port));
    assert!(line(&written(&bench, &other)).await.1.contains("another origin"));
    bench.config.desk.users.clear();
    assert!(line(&written(&bench, &on(&bench).replace("9465", &port))).await.1.contains("nobody may use it"));
    let secret = bench.config.desk.secret_file.clone().expect("a secret");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).expect("opened");
    let (level, detail) = line(&written(&bench, &on(&bench))).await;
    assert!(level == "warn" && detail.contains("every user"), "{detail}");
}
