//! `test-send`: one mail by the real path, and what the relay made of it.

use devkit::smtp::{Rule, Stage as At};

use crate::harness::{run, run_config, stage};

#[tokio::test]
async fn an_accepted_mail_is_a_mail_of_ours() {
    let stage = stage(&[]).await;
    let answer = run(&stage, &["test-send", "Someone <a@example.org>"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let mails = stage.relay.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(
        (mails[0].from.as_str(), mails[0].recipients.as_slice()),
        ("gpus-it-security@greenpeace.org", ["a@example.org".to_owned()].as_slice())
    );
    let raw = String::from_utf8_lossy(&mails[0].raw);
    assert!(raw.contains("Auto-Submitted: auto-generated\r\n"), "{raw}");
    assert!(answer.out.contains(&mails[0].queue_id) && answer.out.contains("250 2.0.0"), "{answer:?}");
    let message_id = mails[0].message_id.clone().expect("a Message-ID");
    assert!(message_id.starts_with("maple-test.") && answer.out.contains(&message_id), "{answer:?}");
    let again = run(&stage, &["test-send", "a@example.org"]).await;
    assert!(again.code == Some(0) && !again.out.contains(&message_id), "each has an id of its own");
}

#[tokio::test]
async fn each_answer_of_the_relay_has_its_exit_code() {
    let stage = stage(&[]).await;
    for (at, reply, code) in [
        (At::Rcpt, "550 5.1.1 no such user\u{1b}[2J", 1),
        (At::Rcpt, "451 4.3.0 later", 1),
        (At::Mail, "554 5.7.1 relay denied", 1),
        (At::Dot, "552 5.3.4 too big", 1),
        (At::Banner, "421 4.3.2 shutting down", 69),
    ] {
        stage.relay.clear_rules();
        stage.relay.rule(Rule::at(at).reply(reply));
        let answer = run(&stage, &["test-send", "a@example.org"]).await;
        assert_eq!(answer.code, Some(code), "{reply}: {answer:?}");
        assert!(answer.err.contains(&reply[..3]) && answer.err.contains("remedy:"), "{answer:?}");
        assert!(!answer.err.contains('\u{1b}'), "{answer:?}");
    }
    stage.relay.clear_rules();
    stage.relay.rule(Rule::at(At::AfterDot).disconnect());
    let answer = run(&stage, &["test-send", "a@example.org"]).await;
    assert!(answer.code == Some(69) && answer.err.contains("in doubt"), "{answer:?}");
    stage.relay.stop().await;
    let answer = run(&stage, &["test-send", "a@example.org"]).await;
    assert!(answer.code == Some(69) && answer.err.contains("postfix"), "{answer:?}");
    for bad in ["nonsense", "", "a@b@c", "a@example.org\r\nBcc: x@example.org"] {
        assert_eq!(run(&stage, &["test-send", bad]).await.code, Some(2), "{bad:?}");
    }
}

#[tokio::test]
async fn a_domain_no_form_may_write_to_is_not_written_to() {
    let stage = stage(&[]).await;
    let narrow = stage
        .config("special", 0, "")
        .replace("[mail]", "[mail]\nallowed_destination_domains = [\"example.net\"]");
    let answer = run_config(&stage, &narrow, &["test-send", "a@example.org"]).await;
    assert_eq!((answer.code, stage.relay.mails().len()), (Some(1), 0), "{answer:?}");
    assert_eq!(run_config(&stage, &narrow, &["test-send", "a@EXAMPLE.net"]).await.code, Some(0));
}
