//! The spool: what the relay has accepted is not forgotten, whatever ends the router while the database is away.

use std::fs;
use std::path::PathBuf;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{CuttingProxy, Trap};
use devkit::stage::{Source, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, binary, lines, stage_of};

/// A router whose way to the database can be cut.
async fn scene(source: Source, extra: &str) -> (Scene, CuttingProxy) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let proxy = CuttingProxy::start(&stage.database).await.expect("a proxy");
    let extra = format!("[database]\nurl = \"{}\"\n{extra}", proxy.url_as("forms_app"));
    (Scene::on(stage, &extra).await, proxy)
}

impl Scene {
    fn spool(&self) -> PathBuf {
        self.stage.dir().join("router/spool")
    }

    /// Names in the spool.
    fn spooled(&self) -> Vec<String> {
        let entries = fs::read_dir(self.spool()).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("utf-8")).collect();
        names.sort();
        names
    }

    /// Another router in the place of the one that ended.
    async fn restart(&mut self) {
        self.router = self.stage.router(binary(), "router", "").await.expect("a router");
        self.router.ready().await.expect("ready");
    }

    /// What a sweep does to the claim that the dead router left.
    async fn take_back(&self, id: Uuid) {
        let sql = "UPDATE submissions SET status = 'received', routing_result = routing_result - 'claim' WHERE id = $1";
        assert_eq!(self.eyes.execute(sql, &[&id]).await.expect("taken back"), 1);
        self.publish(id);
    }
}

/// Submits one whose 250 has been read when the database goes away for good.
async fn accepted_in_an_outage(scene: &Scene, proxy: CuttingProxy) -> Uuid {
    let trapped = proxy.trap(Trap::BeginSent("record"), 1);
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    trapped.hit(PATIENCE).await.expect("the 250 was read");
    drop(proxy);
    trapped.cut();
    scene.await_line("spooled fact", |line| line["event"] == "spooled").await;
    id
}

async fn recorded_and_sent_once(scene: &Scene, id: Uuid) {
    let row = scene.row(id).await;
    assert_eq!(
        (row.status.as_str(), &row.entry("1|a@x.test")["state"]),
        ("processing", &json!("accepted")),
        "{row:?}"
    );
    assert_eq!(scene.spooled(), Vec::<String>::new(), "what is recorded is not kept");
    scene.take_back(id).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    assert_eq!(scene.stage.relay.mails().len(), 1, "exactly one mail");
    assert_eq!(scene.audited(id).await, ["email_sent", "submission_routed"]);
}

async fn a_killed_router_leaves_what_was_accepted_to_the_next_one(source: Source) {
    let (mut scene, proxy) = scene(source, "").await;
    let id = accepted_in_an_outage(&scene, proxy).await;
    let row = scene.row(id).await;
    assert!(row.entry("1|a@x.test")["begun"].is_object(), "begun, and nothing known: {row:?}");
    scene.router.signal("KILL").await.expect("killed");
    scene.router.ended().await.expect("dead");
    let [name] = scene.spooled().try_into().expect("one file");
    assert!(name.starts_with(&id.to_string()), "{name}");
    scene.restart().await;
    // Before it was ready: nothing is sent before it is known what was.
    recorded_and_sent_once(&scene, id).await;
    let told: Vec<Value> =
        lines(&scene.router).into_iter().filter(|line| line["event"] == "spool_replayed").collect();
    assert_eq!((told.len(), &told[0]["submission_id"]), (1, &json!(id)), "{told:?}");
    scene.stop().await;
}

async fn a_stop_in_an_outage_leaves_it_as_well(source: Source) {
    let short = "statement_timeout = \"1s\"\nlock_timeout = \"500ms\"\n[smtp]\nconnect_timeout = \"500ms\"\n\
                 command_timeout = \"200ms\"\ndot_timeout = \"1s\"\ndelivery_deadline = \"3s\"\n\
                 [routing]\ndrain_timeout = \"4s\"";
    let (mut scene, proxy) = scene(source, short).await;
    let id = accepted_in_an_outage(&scene, proxy).await;
    let ended = scene.router.stop().await.expect("it ends");
    assert!(ended.success(), "{ended}\n{}", scene.router.log());
    assert_eq!(scene.spooled().len(), 1);
    scene.restart().await;
    recorded_and_sent_once(&scene, id).await;
    scene.stop().await;
}

async fn what_is_recorded_after_all_leaves_nothing_behind(source: Source) {
    let (scene, proxy) = scene(source, "").await;
    for trap in [Trap::CommitSent("record"), Trap::CommitAnswered("record")] {
        proxy.trap(trap, 1).cut();
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        assert_eq!(scene.ended(id).await.status, "routed");
        // Where only the answer is lost, the row has ended before the router knows of it.
        let of_it = |line: &Value| line["event"] == "spooled" && line["submission_id"] == json!(id);
        scene.await_line("spooled fact", of_it).await;
        scene.until("empty spool", async || scene.spooled().is_empty()).await;
    }
    assert_eq!(scene.stage.relay.mails().len(), 2);
    scene.stop().await;
}

async fn what_nobody_can_record_is_kept_aside_and_holds_nobody_up(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let purged = SubmissionSeed::of("f").status("purged").insert(&backend).await.expect("a row").id;
    let open = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let spool = stage.dir().join("router/spool");
    fs::create_dir_all(&spool).expect("a spool");
    let sheet = |id: Uuid| {
        let fact = json!({"state": "accepted", "nonce": "n", "token": "t", "queue_id": "4X", "message_id": "<m@x.test>"});
        let audit = json!({"v": 1, "attempt": 1, "generation": 0});
        let facts = json!({"1|a@x.test": {"fact": fact, "audit": audit}});
        json!({"v": 1, "submission_id": id, "token": "t", "facts": facts}).to_string()
    };
    let write = |name: &str, text: &str| fs::write(spool.join(name), text).expect("written");
    write("1-half.json", &sheet(open)[..40]);
    write(
        "2-newer.json",
        &sheet(open)
            .replacen("\"v\":1}", "\"v\":9}", 1)
            .replace("\"token\":\"t\",\"v\":1", "\"token\":\"t\",\"v\":9"),
    );
    write("3-unknown.json", &sheet(Uuid::nil()));
    write("4-purged.json", &sheet(purged));
    write("5-nul.json", &sheet(open).replace("4X", "4X\\u0000"));
    write("6-good.json", &sheet(open));
    write("7-unfinished.tmp", "{");
    let scene = Scene::on(stage, "").await;
    let names = scene.spooled();
    let kept =
        ["1-half.bad", "2-newer.bad", "3-unknown.bad", "4-purged.bad", "5-nul.bad", "7-unfinished.tmp"];
    assert_eq!(names, kept, "{}", scene.router.log());
    assert_eq!(scene.row(open).await.entry("1|a@x.test")["queue_id"], "4X");
    assert_eq!(scene.row(purged).await.ledger, json!({}), "nothing is written to a purged row");
    let said: Vec<String> = lines(&scene.router)
        .iter()
        .filter(|line| line["level"] == "error")
        .filter_map(|line| line["message"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(!scene.router.log().contains("a@x.test"), "no address in the journal");
    scene.publish(open);
    assert_eq!(scene.await_row(open, "end", |row| row.status == "routed").await.status, "routed");
    assert_eq!(scene.stage.relay.mails().len(), 0, "it had its mail");
    scene.stop().await;
}

async fn without_a_state_directory_it_says_so_and_goes_on(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    // Nobody makes a directory there, not even root.
    let scene = Scene::on(stage, "[state]\ndir = \"/proc/maple-nowhere\"").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let told = lines(&scene.router).into_iter().filter(|line| {
        line["level"] == "error" && line["message"].as_str().is_some_and(|text| text.contains("[state] dir"))
    });
    assert_eq!(told.count(), 1, "{}", scene.router.log());
    scene.stop().await;
}

devkit::with_either_source!(
    a_killed_router_leaves_what_was_accepted_to_the_next_one,
    a_stop_in_an_outage_leaves_it_as_well,
    what_is_recorded_after_all_leaves_nothing_behind,
    what_nobody_can_record_is_kept_aside_and_holds_nobody_up,
    without_a_state_directory_it_says_so_and_goes_on,
);
