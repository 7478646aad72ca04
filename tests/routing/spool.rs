//! The spool: what the relay has accepted is not forgotten, whatever ends the router while the database is away.

use std::fs;
use std::path::PathBuf;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{CuttingProxy, Trap};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, Stage, StageOptions};
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

    /// Replaces the router that ended by another.
    async fn restart(&mut self) {
        self.restart_with("").await;
    }

    async fn restart_with(&mut self, extra: &str) {
        self.router = self.stage.router(binary(), "router", extra).await.expect("a router");
        self.router.ready().await.expect("ready");
    }

    /// A sweep's write to the claim that the dead router left.
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
    let replayed: Vec<Value> =
        lines(&scene.router).into_iter().filter(|line| line["event"] == "spool_replayed").collect();
    assert_eq!((replayed.len(), &replayed[0]["submission_id"]), (1, &json!(id)), "{replayed:?}");
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
        // With only the answer lost, the row has ended before the router knows of it.
        let of_it = |line: &Value| line["event"] == "spooled" && line["submission_id"] == json!(id);
        scene.await_line("spooled fact", of_it).await;
        scene.until("empty spool", async || scene.spooled().is_empty()).await;
    }
    assert_eq!(scene.stage.relay.mails().len(), 2);
    scene.stop().await;
}

/// A spool before its router.
fn spool_of(stage: &Stage) -> PathBuf {
    let spool = stage.dir().join("router/spool");
    fs::create_dir_all(&spool).expect("a spool");
    spool
}

/// The spool sheet of a router that read a 250.
fn sheet(id: Uuid) -> String {
    let fact = json!({"state": "accepted", "nonce": "n", "token": "t", "queue_id": "4X", "message_id": "<m@x.test>"});
    let audit = json!({"v": 1, "attempt": 1, "generation": 0});
    let facts = json!({"1|a@x.test": {"fact": fact, "audit": audit}});
    json!({"v": 1, "submission_id": id, "token": "t", "facts": facts}).to_string()
}

async fn what_nobody_can_record_is_kept_aside_and_holds_nobody_up(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let purged = SubmissionSeed::of("f").status("purged").insert(&backend).await.expect("a row").id;
    let open = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let spool = spool_of(&stage);
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

/// Looks into the spool every second.
const OFTEN: &str = "[routing]\nsweep_interval = \"1s\"\n[slack]\ngroup_wait = \"1s\"";

impl Scene {
    /// The event is given back because its facts lie in the spool.
    async fn await_spooled(&self, id: Uuid) {
        let given_back =
            |line: &Value| line["reason"] == "facts_in_spool" && line["submission_id"] == json!(id);
        self.await_line("event given back", given_back).await;
    }

    /// The mail was sent before this router was there.
    async fn routed_without_a_mail(&self, id: Uuid) {
        self.publish(id);
        assert_eq!(
            self.await_row(id, "end", |row| row.status == "routed").await.entry("1|a@x.test")["queue_id"],
            "4X"
        );
        assert_eq!(self.stage.relay.mails().len(), 0, "it had its mail");
    }
}

async fn what_a_trigger_or_a_policy_keeps_away_is_tried_on_and_its_mail_not_sent_again(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = stage.submit_unannounced(&SubmissionSeed::of("f"), &backend).await.expect("a row").id;
        fs::write(spool_of(&stage).join(format!("{id}.n.json")), sheet(id)).expect("written");
        ids.push(id);
    }
    let (refused, hidden) = (ids[0], ids[1]);
    let away = format!(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
         CREATE TRIGGER broken BEFORE UPDATE ON submissions FOR EACH ROW WHEN (NEW.id = '{refused}' AND
           NEW.routing_result::text LIKE '%accepted%') EXECUTE FUNCTION broken();
         CREATE POLICY hidden ON submissions AS RESTRICTIVE FOR SELECT TO forms_app USING (id <> '{hidden}')"
    );
    stage.database.alter(&away).await.expect("altered");
    let scene = Scene::on(stage, OFTEN).await;
    let mut waiting = ids.clone();
    waiting.sort();
    let waiting: Vec<String> = waiting.iter().map(|id| format!("{id}.n.json")).collect();
    assert_eq!(scene.spooled(), waiting, "{}", scene.router.log());
    for id in &ids {
        scene.publish(*id);
        scene.await_spooled(*id).await;
    }
    let posted = async || {
        scene.stage.slack.messages().iter().any(|said| said.visible_text().contains("cannot be recorded"))
    };
    scene.until("word of it in Slack", posted).await;
    assert_eq!(scene.row(refused).await.status, "received", "not claimed");
    let mended = "DROP TRIGGER broken ON submissions; DROP POLICY hidden ON submissions";
    scene.stage.database.alter(mended).await.expect("mended");
    scene.until("empty spool", async || scene.spooled().is_empty()).await;
    for id in ids {
        scene.routed_without_a_mail(id).await;
    }
    scene.stop().await;
}

async fn what_is_set_aside_is_tried_at_each_start_and_not_sent_again_meanwhile(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let id = stage.submit_unannounced(&SubmissionSeed::of("f"), &backend).await.expect("a row").id;
    let file = spool_of(&stage).join(format!("{id}.n.bad"));
    fs::write(&file, &sheet(id)[..40]).expect("half a file");
    let mut scene = Scene::on(stage, OFTEN).await;
    scene.publish(id);
    scene.await_spooled(id).await;
    let posted = async || {
        scene.stage.slack.messages().iter().any(|said| said.visible_text().contains(&id.to_string()))
    };
    scene.until("word of it in Slack", posted).await;
    let ended = scene.router.stop().await.expect("it ends");
    assert!(ended.success(), "{ended}");
    fs::write(&file, sheet(id)).expect("mended");
    scene.restart_with(OFTEN).await;
    assert_eq!(scene.spooled(), Vec::<String>::new());
    scene.routed_without_a_mail(id).await;
    scene.stop().await;
}

async fn what_is_not_its_own_stops_nobody_and_is_named_once(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(stage.submit_unannounced(&SubmissionSeed::of("f"), &backend).await.expect("a row").id);
    }
    let spool = spool_of(&stage);
    fs::create_dir(spool.join("0-directory.json")).expect("a directory");
    fs::create_dir(spool.join("lost+found")).expect("a directory");
    fs::write(spool.join("notes.txt"), "see rb-009").expect("written");
    let put = |id: Uuid| fs::write(spool.join(format!("{id}.n.json")), sheet(id)).expect("written");
    put(ids[0]);
    let scene = Scene::on(stage, OFTEN).await;
    let foreign = ["0-directory.json", "lost+found", "notes.txt"];
    assert_eq!(scene.spooled(), foreign, "{}", scene.router.log());
    // A pass of its own sees each.
    for id in &ids[1..] {
        put(*id);
        scene.until("another pass", async || scene.spooled() == foreign).await;
    }
    for name in foreign {
        let said = scene.router.log().lines().filter(|line| line.contains(name)).count();
        assert_eq!(said, 1, "{name}: {}", scene.router.log());
    }
    for id in ids {
        scene.routed_without_a_mail(id).await;
    }
    scene.stop().await;
}

async fn of_a_row_deleted_after_the_dot_it_is_said_that_it_is_gone(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let sent = scene.stage.relay.trap(Rule::at(At::AfterDot));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    sent.hit(PATIENCE).await.expect("the dot was written");
    assert_eq!(
        scene.eyes.execute("DELETE FROM submissions WHERE id = $1", &[&id]).await.expect("deleted"),
        1
    );
    sent.release();
    let gone =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("accepted, but the row"));
    assert_eq!(scene.await_line("the truth", gone).await["submission_id"], json!(id));
    let [name] = scene.spooled().try_into().expect("one file");
    assert!(name.starts_with(&id.to_string()) && name.ends_with(".bad"), "{name}");
    assert!(scene.journal(id).iter().all(|line| line["event"] != "spool_replayed"), "{}", scene.router.log());
    scene.stop().await;
}

async fn without_a_state_directory_it_says_so_and_goes_on(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    // Even root can make no directory there.
    let scene = Scene::on(stage, "[state]\ndir = \"/proc/maple-nowhere\"").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let warnings = lines(&scene.router).into_iter().filter(|line| {
        line["level"] == "error" && line["message"].as_str().is_some_and(|text| text.contains("[state] dir"))
    });
    assert_eq!(warnings.count(), 1, "{}", scene.router.log());
    scene.stop().await;
}

devkit::with_either_source!(
    a_killed_router_leaves_what_was_accepted_to_the_next_one,
    a_stop_in_an_outage_leaves_it_as_well,
    what_is_recorded_after_all_leaves_nothing_behind,
    what_nobody_can_record_is_kept_aside_and_holds_nobody_up,
    what_a_trigger_or_a_policy_keeps_away_is_tried_on_and_its_mail_not_sent_again,
    what_is_set_aside_is_tried_at_each_start_and_not_sent_again_meanwhile,
    what_is_not_its_own_stops_nobody_and_is_named_once,
    of_a_row_deleted_after_the_dot_it_is_said_that_it_is_gone,
    without_a_state_directory_it_says_so_and_goes_on,
);
