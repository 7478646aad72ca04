//! Output for a person at a terminal that a script does not see: colours, progress, libraries opened by `RUST_LOG`.
//! And help for both: the nearest name of a form, the tables of lifecycles.

use std::process::Stdio;

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Stage;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::harness::{binary, run, seed, stage};

/// Runs a verb on a terminal of its own (script(1), util-linux), with these variables; returns all that is seen there.
async fn on_a_terminal(stage: &Stage, variables: &[(&str, &str)], line: &str) -> String {
    let config = stage.write_config("terminal", &stage.config("terminal", 0, "")).expect("a configuration");
    let line = format!("{} --config {} {line}", binary().display(), config.display());
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GCE_METADATA_HOST", stage.google.metadata_host())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await
        .expect("script(1)");
    String::from_utf8(output.stdout).expect("utf-8")
}

/// The same, with an answer typed in.
async fn answered(stage: &Stage, line: &str, answer: &str) -> String {
    let config = stage.write_config("terminal", &stage.config("terminal", 0, "")).expect("a configuration");
    let line = format!("{} --config {} {line}", binary().display(), config.display());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script(1)");
    let mut typed = child.stdin.take().expect("a keyboard");
    typed.write_all(format!("{answer}\n").as_bytes()).await.expect("typed");
    let output = child.wait_with_output().await.expect("an end");
    drop(typed);
    String::from_utf8(output.stdout).expect("utf-8")
}

fn forms() -> [Form; 2] {
    [Form::new("contact").mail_to("a@example.org"), Form::new("press").mail_to("p@example.org")]
}

#[tokio::test]
async fn colours_and_progress_are_for_people() {
    let stage = stage(&forms()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let ledger = json!({"v": 1, "attempts": 5, "finished": {"token": "f", "at": "2026-11-01T10:00:00Z",
                            "status": "failed", "reason": "exhausted"}});
        ids.push(seed(&stage, SubmissionSeed::of("contact").status("failed").ledger(ledger)).await.id);
    }
    let explain = format!("explain {}", ids[0]);
    const RED: &str = "\u{1b}[31m";
    assert!(on_a_terminal(&stage, &[], &explain).await.contains(RED));
    assert!(!on_a_terminal(&stage, &[("NO_COLOR", "1")], &explain).await.contains('\u{1b}'));
    assert!(on_a_terminal(&stage, &[("NO_COLOR", "")], &explain).await.contains(RED));
    assert!(!on_a_terminal(&stage, &[], &format!("{explain} --color never")).await.contains('\u{1b}'));
    assert!(!on_a_terminal(&stage, &[], &format!("{explain} --json")).await.contains('\u{1b}'));
    let words: Vec<&str> = explain.split(' ').collect();
    assert!(!run(&stage, &words).await.out.contains('\u{1b}'));
    let always = run(&stage, &[&words[..], &["--color", "always"]].concat()).await;
    assert!(always.out.contains(RED), "{always:?}");
    assert_eq!(run(&stage, &["status", "--color", "sometimes"]).await.code, Some(2));

    let all = "replay --form contact --dry-run --reason why";
    let seen = on_a_terminal(&stage, &[], all).await;
    assert!(seen.contains("3/3") && seen.contains("3 matched, 3 would be changed, 0 skipped"), "{seen:?}");
    let answer = run(&stage, &all.split(' ').collect::<Vec<_>>()).await;
    assert!(!answer.err.contains("3/3") && answer.code == Some(0), "{answer:?}");
    let publish = format!("publish {} {}", ids[0], ids[1]);
    let seen = on_a_terminal(&stage, &[], &publish).await;
    assert!(seen.contains("2/2") && seen.contains("2 matched, 2 changed, 0 skipped"), "{seen:?}");
}

/// No line is longer than a terminal is wide but for its last word, and for commands, which are copied.
#[tokio::test]
async fn results_are_as_wide_as_the_terminal_and_ids_stay_whole() {
    let stage = stage(&forms()).await;
    let ledger = json!({"v": 1, "attempts": 1,
        "plan": [crate::harness::action(1, "a@example.org")],
        "deliveries": {"1|a@example.org": {"state": "failed", "at": "2026-11-01T10:00:00Z",
            "error": {"class": "refused", "stage": "RCPT", "code": 550, "reply": "no such user ".repeat(8)}}},
        "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": "refused"}});
    let row = SubmissionSeed::of("contact").status("failed").ledger(ledger).attachment("a.pdf", "pending");
    let seeded = seed(&stage, row).await;
    let (id, file) = (seeded.id.to_string(), seeded.attachments[0].to_string());
    for width in [60, 80, 120] {
        let columns = [("COLUMNS", width.to_string())];
        let columns = columns.each_ref().map(|(name, value)| (*name, value.as_str()));
        for verb in [format!("explain {id}"), "list".to_owned(), "status".to_owned(), "check".to_owned()] {
            let plain = [&columns[..], &[("NO_COLOR", "1")]].concat();
            let seen = on_a_terminal(&stage, &plain, &verb).await.replace('\r', "");
            for line in seen.lines().filter(|line| line.chars().count() > width) {
                let command =
                    line.trim_start().starts_with("maple-router ") || line.contains("  maple-router ");
                let but_one_word =
                    line.rsplit_once(' ').map_or(0, |(rest, _)| rest.trim_end().chars().count());
                assert!(command || but_one_word <= width, "{verb} at {width}: {line}\n{seen}");
            }
            if verb != "status" && verb != "check" {
                assert!(seen.contains(&id), "{verb} at {width}: {seen}");
            }
            if verb.starts_with("explain") {
                assert!(seen.contains(&format!("{file} pending a.pdf")), "at {width}: {seen}");
            }
        }
    }
    let wide = run(&stage, &["list"]).await.out;
    assert!(wide.lines().count() == 2, "a line each where nobody looks: {wide}");
}

#[tokio::test]
async fn a_replay_of_many_asks_a_person_and_nobody_else() {
    let stage = stage(&forms()).await;
    let ledger = json!({"v": 1, "attempts": 5, "finished": {"token": "f", "at": "2026-11-01T10:00:00Z",
                        "status": "failed", "reason": "exhausted"}});
    let id = seed(&stage, SubmissionSeed::of("contact").status("failed").ledger(ledger)).await.id;
    let all = "replay --form contact --reason why";
    let refused = run(&stage, &all.split(' ').collect::<Vec<_>>()).await;
    assert!(refused.code == Some(2) && refused.err.contains("--yes"), "{refused:?}");
    let seen = answered(&stage, all, "n").await;
    assert!(
        seen.contains("1 submission would be routed again. Go on? [y/N]")
            && seen.contains("nothing was done"),
        "{seen}"
    );
    assert!(crate::harness::ledger(&stage, id).await["finished"].is_object(), "nothing was done");
    let seen = answered(&stage, all, "y").await;
    assert!(seen.contains("1 matched, 1 changed, 0 skipped"), "{seen}");
}

#[tokio::test]
async fn the_configuration_may_be_named_by_a_variable() {
    let stage = stage(&forms()).await;
    let config = stage.write_config("named", &stage.config("named", 0, "")).expect("a configuration");
    let listed = async |file: &str, arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.env_clear().env("MAPLE_ROUTER_CONFIG", file).args(arguments).stdin(Stdio::null());
        command.output().await.expect("the verb runs").status.code()
    };
    let file = config.to_str().expect("utf-8");
    assert_eq!(listed(file, &["list"]).await, Some(0));
    assert_eq!(listed("/nowhere/at/all", &["list"]).await, Some(78));
    assert_eq!(
        listed("/nowhere/at/all", &["list", "--config", file]).await,
        Some(0),
        "what is said counts more"
    );
}

#[tokio::test]
async fn libraries_speak_on_a_persons_own_terminal_only() {
    let stage = stage(&forms()).await;
    if std::path::Path::new("/run/systemd/journal/socket").exists() {
        eprintln!("skipped: here a verb writes to the journal, never to the terminal");
        return;
    }
    let wide = [("RUST_LOG", "trace")];
    let seen = on_a_terminal(&stage, &wide, "list").await;
    assert!(
        seen.contains(
            "RUST_LOG opens libraries (trace): addresses and signed URLs may be among what follows"
        ),
        "{seen}"
    );
    let config = stage.write_config("piped", &stage.config("piped", 0, "")).expect("a configuration");
    let piped = Command::new(binary())
        .args(["--config", config.to_str().expect("utf-8"), "list"])
        .env_clear()
        .envs(wide)
        .output()
        .await
        .expect("the verb runs");
    let text = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(
        text.contains(
            "RUST_LOG (trace) is for this program only: libraries stay at warn, except on a terminal"
        ),
        "{text}"
    );
    assert!(!text.contains("DEBUG") && !text.contains("TRACE"), "{text}");
    let narrow = on_a_terminal(&stage, &[("RUST_LOG", "warn,maple_router=debug")], "list").await;
    assert!(!narrow.contains("RUST_LOG"), "{narrow}");
}

#[tokio::test]
async fn a_mistyped_form_is_named_with_the_nearest_name() {
    let stage = stage(&forms()).await;
    for line in [
        "list --form conatct",
        "replay --form conatct --reason why",
        "release --form conatct --reason why",
        "pause --form conatct --force --reason why",
        "pause --form conatct --reason why",
    ] {
        let answer = run(&stage, &line.split(' ').collect::<Vec<_>>()).await;
        let refused = line == "pause --form conatct --reason why";
        assert_eq!(answer.code, Some(i32::from(refused)), "{line}: {answer:?}");
        assert!(answer.err.contains("there is no form conatct; did you mean contact?"), "{line}: {answer:?}");
    }
    assert!(run(&stage, &["list", "--form", "contact"]).await.err.is_empty());
    let none = run(&stage, &["release", "--reason", "why"]).await;
    assert!(
        none.code == Some(2) && none.err.contains("nothing says which submissions to release"),
        "{none:?}"
    );
}

#[tokio::test]
async fn lifecycles_are_shown_as_the_program_goes_by_them() {
    let stage = stage(&[]).await;
    let listed = run(&stage, &["lifecycle", "list", "--json"]).await.json().expect("JSON");
    let names: Vec<&Value> = listed.as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(
        names,
        [
            "submission",
            "outbox",
            "grey_queue",
            "upload",
            "version",
            "blob",
            "screening",
            "grading",
            "grading_job"
        ],
        "{listed:#}"
    );
    let shown = run(&stage, &["lifecycle", "show", "submission", "--json"]).await.json().expect("JSON");
    assert_eq!(listed[0], shown);
    let claim = &shown["transitions"][0];
    assert_eq!(
        (&claim["from"], &claim["command"], &claim["to"]),
        (&json!("received"), &json!("claim"), &json!("processing"))
    );
    let table = run(&stage, &["lifecycle", "show", "submission"]).await.out;
    assert!(table.contains("failed -> received  replay (operator)"), "{table}");
    let diagram = run(&stage, &["lifecycle", "diagram", "submission"]).await;
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("lifecycle_submission", diagram.out);
    });
    let diagram = run(&stage, &["lifecycle", "diagram", "outbox"]).await;
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("lifecycle_outbox", diagram.out);
    });
    let diagram = run(&stage, &["lifecycle", "diagram", "upload"]).await;
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("lifecycle_upload", diagram.out);
    });
    let diagram = run(&stage, &["lifecycle", "diagram", "version"]).await;
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("lifecycle_version", diagram.out);
    });
    let diagram = run(&stage, &["lifecycle", "diagram", "blob"]).await;
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("lifecycle_blob", diagram.out);
    });
    let unknown = run(&stage, &["lifecycle", "show", "submision"]).await;
    assert!(unknown.code == Some(2) && unknown.err.contains("'submission'"), "{unknown:?}");
}
