//! The published client for HappyFox, as its users run it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::help_desk::{Act, Call, File, HelpDesk, HelpDeskOptions, Limits, Rule, Stage, Wait};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// Python and its imports take a second; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// hfox, with a home of its own.
struct Hfox<'a> {
    desk: &'a HelpDesk,
    api_key: String,
    home: tempfile::TempDir,
}

/// What a run of it came to.
#[derive(Debug)]
struct Run {
    code: i32,
    /// Each document on standard output.
    said: Vec<Value>,
}

impl<'a> Hfox<'a> {
    fn new(desk: &'a HelpDesk) -> Result<Self> {
        Ok(Self { desk, api_key: desk.api_key().to_owned(), home: tempfile::tempdir()? })
    }

    async fn run(&self, arguments: &[&str]) -> Result<Run> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/hfox");
        ensure!(program.exists(), "{} is missing; run `make python`", program.display());
        // Nothing of the machine has a part in this: no proxy, no configuration, no credentials.
        let mut command = Command::new(&program);
        command.env_clear().args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.env("HOME", self.home.path()).env("HFOX_CONFIG_DIR", self.home.path().join("hfox"));
        command.env("HFOX_BASE_URL", self.desk.base_url()).env("HFOX_API_KEY", &self.api_key);
        command.env("HFOX_AUTH_CODE", self.desk.auth_code()).env("HFOX_STAFF_ID", "1");
        let ended = timeout(PATIENCE, command.output()).await.context("hfox did not end")??;
        let complained = String::from_utf8_lossy(&ended.stderr);
        let said = serde_json::Deserializer::from_slice(&ended.stdout)
            .into_iter::<Value>()
            .collect::<Result<_, _>>();
        let said = said.with_context(|| format!("{arguments:?}: {complained}"))?;
        Ok(Run { code: ended.status.code().context("killed")?, said })
    }

    /// Runs it, and it succeeds with one document.
    async fn succeed(&self, arguments: &[&str]) -> Result<Value> {
        let run = self.run(arguments).await?;
        ensure!(run.code == 0 && run.said.len() == 1, "{arguments:?}: {run:?}");
        Ok(run.said[0].clone())
    }

    /// Runs it, and it fails with this exit code and an error.
    async fn fail(&self, code: i32, arguments: &[&str]) -> Result<Value> {
        let run = self.run(arguments).await?;
        ensure!(run.code == code && run.said.len() == 1, "{arguments:?}: {run:?}");
        Ok(run.said[0].clone())
    }
}

/// A ticket of General.
const CREATE: [&str; 12] = [
    "tickets",
    "create",
    "--category",
    "1",
    "--subject",
    "Broken lamp",
    "--text",
    "It is dark.",
    "--name",
    "Ada",
    "--email",
    "ada@example.org",
];

async fn desk() -> Result<HelpDesk> {
    HelpDesk::start(HelpDeskOptions::default()).await
}

#[tokio::test]
async fn it_reads_what_the_account_has() -> Result<()> {
    let desk = desk().await?;
    let hfox = Hfox::new(&desk)?;
    let categories = hfox.succeed(&["system", "categories", "--name", "complaints"]).await?;
    assert_eq!((&categories[0]["id"], &categories[0]["public"]), (&json!(2), &json!(true)));
    let fields = hfox.succeed(&["system", "ticket-custom-fields", "--name", "kind"]).await?;
    assert_eq!(fields[0]["choices"][1]["id"], 12);
    let fields = hfox.succeed(&["system", "contact-custom-fields"]).await?;
    assert_eq!(fields[0]["name"], "Language");
    for list in ["priorities", "statuses", "staff"] {
        let rows = hfox.succeed(&["system", list]).await?;
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{list}: {rows}");
    }
    Ok(())
}

#[tokio::test]
async fn it_creates_reads_searches_and_tags() -> Result<()> {
    let desk = desk().await?;
    let hfox = Hfox::new(&desk)?;
    let more = [
        "--html",
        "<p>It is <b>dark</b>.</p>",
        "--priority",
        "3",
        "--tags",
        "maple-a-1-1, lamp",
        "--cc",
        "b@example.org,c@example.org",
        "--visible-only-staff",
        "--cf",
        "1=S-1",
        "--cf",
        "2=12",
        "--cf",
        "3=2026-11-25",
        "--contact-cf",
        "1=22",
    ];
    let made = hfox.succeed(&[&CREATE[..], &more[..]].concat()).await?;
    assert_eq!((&made["id"], &made["display_id"]), (&json!(1), &json!("#GEN00000001")));
    let kept = &desk.tickets()[0];
    assert_eq!((kept.subject.as_str(), kept.contact.email.as_str()), ("Broken lamp", "ada@example.org"));
    assert_eq!(kept.text.as_deref(), Some("It is dark."));
    assert_eq!(kept.html.as_deref(), Some("<p>It is <b>dark</b>.</p>"));
    assert_eq!((kept.priority, kept.visible_only_staff, kept.cc.len()), (3, true, 2));
    let fields: Vec<Value> =
        kept.ticket_fields.values().chain(kept.contact_fields.values()).cloned().collect();
    assert_eq!(fields, [json!("S-1"), json!(12), json!("2026-11-25"), json!(22)]);

    let read = hfox.succeed(&["tickets", "get", "1"]).await?;
    assert_eq!((&read["subject"], &read["tags"]), (&json!("Broken lamp"), &json!("maple-a-1-1, lamp")));
    assert_eq!(read, made);

    hfox.succeed(&[&CREATE[..], &["--tags", "other"]].concat()).await?;
    for (q, expected) in [
        ("tag:\"maple-a-1-1\"", json!([1])),
        ("tag:\"maple-a-1\"", json!([])),
        ("id:GEN00000002", json!([2])),
        ("broken LAMP", json!([2, 1])),
        ("Kind:\"complaint\"", json!([1])),
    ] {
        let found = hfox.succeed(&["tickets", "list", "-q", q, "--fields", "id"]).await?;
        let ids: Value =
            found["data"].as_array().into_iter().flatten().map(|row| row["id"].clone()).collect();
        assert_eq!(ids, expected, "{q}");
    }
    let tagged = hfox.succeed(&["tickets", "tags", "2", "--add", "lamp,new", "--remove", "other"]).await?;
    assert_eq!(tagged["tags"], "lamp, new");
    let found = hfox.succeed(&["tickets", "list", "-q", "tag:\"lamp\""]).await?;
    assert_eq!(found["page_info"]["last_index"], 2);
    Ok(())
}

#[tokio::test]
async fn it_sends_files_byte_for_byte_and_walks_pages() -> Result<()> {
    let desk = desk().await?;
    let hfox = Hfox::new(&desk)?;
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (png, text) = (hfox.home.path().join("lamp.png"), hfox.home.path().join("notes.txt"));
    std::fs::write(&png, &bytes)?;
    std::fs::write(&text, "--boundary\r\nContent-Disposition: form-data\r\n\r\n")?;
    let files =
        ["--attachment", png.to_str().context("a path")?, "--attachment", text.to_str().context("a path")?];
    let more = ["--visible-only-staff", "--cf", "2=13", "--tags", "maple-f-1-1"];
    let made = hfox.succeed(&[&CREATE[..], &files[..], &more[..]].concat()).await?;
    assert_eq!(made["attachments_count"], 2);
    let kept = &desk.tickets()[0];
    let png = File { name: "lamp.png".into(), content_type: Some("image/png".into()), bytes: bytes.into() };
    assert_eq!(kept.files[0], png);
    assert!(kept.files[1].bytes.starts_with(b"--boundary\r\n") && kept.visible_only_staff);
    assert_eq!(kept.ticket_fields[&2], json!(13));

    let http = reqwest::Client::builder().no_proxy().build()?;
    let ticket = crate::client::ticket(json!({}));
    for _ in 0..24 {
        let request = http.post(format!("{}tickets/", desk.api_url())).json(&ticket);
        request.basic_auth(desk.api_key(), Some(desk.auth_code())).send().await?.error_for_status()?;
    }
    let walk = hfox.run(&["--page-all", "--page-delay", "0", "tickets", "list", "--size", "10"]).await?;
    assert_eq!(walk.said.len(), 3, "{walk:?}");
    let info = json!({"count": 5, "start_index": 21, "end_index": 25, "last_index": 25, "page_count": 3});
    assert_eq!(walk.said[2]["page_info"], info);
    let ids: Vec<u64> = walk
        .said
        .iter()
        .flat_map(|page| page["data"].as_array())
        .flatten()
        .filter_map(|row| row["id"].as_u64())
        .collect();
    assert_eq!(ids, (1..=25).rev().collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn it_understands_every_refusal() -> Result<()> {
    let desk = desk().await?;
    let mut hfox = Hfox::new(&desk)?;
    desk.change(|account| account.set_public(1, false));
    let refused = hfox.fail(1, &CREATE).await?;
    assert_eq!((&refused["status_code"], &refused["detail"][0]["field"]), (&json!(400), &json!("category")));
    desk.change(|account| account.set_public(1, true));
    assert_eq!(hfox.fail(4, &["tickets", "get", "7"]).await?["type"], "not_found");

    let wait = Wait { header: Some(2), body: Some(36_000) };
    desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Throttled(wait)));
    let throttled = hfox.fail(1, &[&["--max-retries", "0"][..], &CREATE[..]].concat()).await?;
    assert_eq!(
        (&throttled["type"], throttled["retry_after"].as_f64()),
        (&json!("rate_limited"), Some(36_000.0))
    );
    assert_eq!(desk.counters().made, 0);
    // It waits as long as the account's own limit says, and tries again.
    desk.set_limits(Limits { posts: 1, throttle: Duration::from_secs(1), ..Limits::default() });
    desk.end_throttle();
    hfox.succeed(&CREATE).await?;
    hfox.succeed(&CREATE).await?;
    assert_eq!((desk.counters().made, desk.counters().throttled), (2, 1));

    hfox.api_key.push('x');
    assert_eq!(hfox.fail(2, &CREATE).await?["type"], "auth");
    assert_eq!(desk.counters().unauthorized, 1);
    Ok(())
}

#[tokio::test]
async fn it_says_that_it_does_not_know() -> Result<()> {
    let desk = desk().await?;
    let hfox = Hfox::new(&desk)?;
    let faults = [(Stage::Body, 0), (Stage::Answer, 1)];
    let acts = [Act::Status(502), Act::Disconnect];
    let mut made = 0;
    for (stage, more) in faults {
        for act in &acts {
            desk.rule(Rule::at(stage).call(Call::Create).times(1).act(act.clone()));
            let run = hfox.run(&[&CREATE[..], &["--tags", "maple-d-1-1"]].concat()).await?;
            made += more;
            assert_eq!(
                (run.code == 0, &run.said[0]["outcome_unknown"]),
                (false, &json!(true)),
                "{act:?}: {run:?}"
            );
            assert_eq!(desk.counters().made, made, "{stage:?} {act:?}");
        }
    }
    let found = hfox.succeed(&["tickets", "list", "-q", "tag:\"maple-d-1-1\""]).await?;
    assert_eq!(found["page_info"]["count"], made);
    Ok(())
}
