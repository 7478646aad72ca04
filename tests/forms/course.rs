//! The course of versions: what is loaded, judged, followed, taken back; and what keeps each from happening.

use std::time::Duration;

use maple_router::forms::commands::{CommandError, Judged};
use maple_router::forms::definition::Definition;
use maple_router::forms::store::Source;
use maple_router::forms::table::{Command, State};
use uuid::Uuid;

use crate::harness::{Scene, adam, form, zoe};

const DAY: Duration = Duration::from_secs(86_400);

/// The reasons of a refusal, one text.
fn reasons(judged: &Judged) -> String {
    match judged {
        Judged::Done => panic!("it was done"),
        Judged::Refused(reasons) => reasons.join("\n"),
    }
}

#[tokio::test]
async fn the_same_content_is_the_same_version_and_another_has_the_next_number() {
    let scene = Scene::new().await;
    let first = scene.draft(&form("f", "one")).await;
    let again = scene.draft(&form("f", "one")).await;
    assert!(first.is_new && !again.is_new);
    assert_eq!((again.id, again.number, &again.digest), (first.id, 1, &first.digest));
    let second = scene.draft(&form("f", "two")).await;
    assert_eq!((second.number, second.state, second.is_new), (2, State::Draft, true));
    scene.publisher.bury(second.id, Command::Discard, "no", DAY, &zoe()).await.expect("given up");
    let third = scene.draft(&form("f", "two")).await;
    assert_eq!(
        (third.number, third.is_new),
        (3, true),
        "what was given up does not come back under its name"
    );
}

#[tokio::test]
async fn a_draft_is_published_by_the_digest_that_was_reviewed() {
    let scene = Scene::new().await;
    let draft = scene.draft(&form("f", "one")).await;
    let publish = |expect: &str| {
        let (versions, expect) = (scene.publisher.clone(), expect.to_owned());
        async move { versions.publish(draft.id, &expect, &zoe()).await }
    };
    assert!(matches!(publish("abc").await, Err(CommandError::TooShort)));
    assert!(matches!(publish(&"ab".repeat(32)).await, Err(CommandError::Digest { .. })));
    assert_eq!(scene.row(draft.id).await.state, State::Draft);
    assert_eq!(publish(&draft.digest[..12].to_uppercase()).await.expect("judged"), Judged::Done);
    assert_eq!(scene.row(draft.id).await.state, State::Published);
    assert!(matches!(publish(&draft.digest).await, Err(CommandError::NotPossible(_))), "once");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.decisions WHERE allowed").await, 1);
}

#[tokio::test]
async fn what_is_refused_stays_a_draft_with_its_reasons_kept() {
    let scene = Scene::new().await;
    let mut bad = form("f", "one");
    bad.actions[0].destination = "team@evil.test".to_owned();
    let draft = scene.draft(&bad).await;
    let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert!(
        reasons(&judged).contains("its domain evil.test is not in mail.allowed_destination_domains"),
        "{judged:?}"
    );
    assert_eq!(scene.row(draft.id).await.state, State::Draft);
    let said = scene.publisher.store.decisions(draft.id).await.expect("answered");
    assert_eq!((said.len(), said[0].allowed, said[0].actor.as_str()), (1, false, "operator:zoe"));
    assert!(said[0].reasons.iter().all(|reason| !reason.contains("team@")), "no recipient is kept: {said:?}");
    let history = scene.publisher.store.history(draft.id).await.expect("answered");
    assert_eq!((history[0].command.as_str(), history[0].to.as_str()), ("publish", "draft"));
}

#[tokio::test]
async fn a_template_that_does_not_compile_or_never_ends_is_refused_in_words() {
    let scene = Scene::new().await;
    for (text, expected) in [
        ("{% if %}", "cannot be rendered, line 1"),
        ("{{ fields.phone }}", "it prints what the sample does not have: phone"),
        (
            "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
            "cannot be rendered",
        ),
    ] {
        let draft = scene.draft(&form("f", text)).await;
        let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
        let reasons = reasons(&judged);
        assert!(reasons.contains(expected), "{text}: {reasons}");
    }
}

#[tokio::test]
async fn while_the_policy_is_away_nothing_is_published_promoted_or_restored() {
    let scene = Scene::new().await;
    let one = scene.followed(&form("f", "one")).await;
    let published = scene.published(&form("f", "two")).await;
    let buried = scene.published(&form("f", "three")).await;
    scene.publisher.bury(buried.id, Command::Tombstone, "r", DAY, &zoe()).await.expect("out of use");
    let draft = scene.draft(&form("f", "four")).await;
    for (policy, why) in [
        (None, "there is no policy"),
        (Some("package maple.publish\nallow if {"), "does not compile"),
        (Some("package maple.publish\n"), "undefined"),
        (Some("package maple.publish\ndefault allow := true\n"), "not to be believed"),
        (
            Some(
                "package maple.publish\nimport rego.v1\nn := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\nall contains x if { some a in n; some b in n; \
         some c in n; some d in n; some e in n; some f in n; some g in n; x := ((((a + b) + c) + d) + e) + (f * g) }\n\
         default allow := false\nallow if count(all) > 1000\n",
            ),
            "did not answer",
        ),
        (Some("package maple.other\ndefault allow := true\n"), "undefined"),
    ] {
        match policy {
            Some(text) => scene.policy(Some(text)),
            None => scene.policy(None),
        }
        let judged = [
            scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged"),
            scene.publisher.promote(published.id, Some(one.id), None, &zoe()).await.expect("judged"),
            scene.publisher.restore(buried.id, &zoe()).await.expect("judged"),
            scene.desk.promote(published.id, Some(one.id), None, &adam()).await.expect("judged"),
        ];
        for judged in judged {
            let reasons = reasons(&judged);
            assert!(reasons.contains("the policy is away") && reasons.contains(why), "{why}: {reasons}");
        }
    }
    assert_eq!(scene.current("f").await, Some(one.id), "the form follows what it followed");
    let states = [(draft.id, State::Draft), (published.id, State::Published), (buried.id, State::Tombstoned)];
    for (id, state) in states {
        assert_eq!(scene.row(id).await.state, state);
    }
    assert!(scene.rows("f").await.contains("one"), "and routing goes on with it");
}

#[tokio::test]
async fn a_form_follows_what_is_promoted_and_goes_back_in_one_step() {
    let scene = Scene::new().await;
    let one = scene.followed(&form("f", "one")).await;
    let two = scene.followed(&form("f", "two")).await;
    assert!(scene.rows("f").await.contains("two"));
    let (version, judged) = scene.publisher.rollback("f", None, &zoe()).await.expect("rolled back");
    assert_eq!((version, judged), (one.id, Judged::Done));
    assert!(scene.rows("f").await.contains("one") && !scene.rows("f").await.contains("two"));
    assert_eq!(scene.current("f").await, Some(one.id));
    let (version, _) = scene.desk.rollback("f", Some(one.id), &adam()).await.expect("and forth, on the desk");
    assert_eq!(version, two.id);
    let history = scene.publisher.store.history(two.id).await.expect("answered");
    let last = &history[0];
    assert_eq!(
        (last.command.as_str(), last.actor.as_str(), last.actor_type.as_str()),
        ("promote", "desk:adam", "admin")
    );
    let audited: i64 = scene
        .one("SELECT count(*) FROM audit_log WHERE action = 'admin_reload_yaml' AND form_id = 'f'")
        .await;
    assert_eq!(audited, 4);
}

#[tokio::test]
async fn of_two_who_promote_at_once_one_is_told_to_look_again() {
    let scene = Scene::new().await;
    let one = scene.followed(&form("f", "one")).await;
    let (two, three) = (scene.published(&form("f", "two")).await, scene.published(&form("f", "three")).await);
    let seen = Some(one.id);
    let (by_zoe, by_adam) = (zoe(), adam());
    let (a, b) = tokio::join!(
        scene.publisher.promote(two.id, seen, None, &by_zoe),
        scene.desk.promote(three.id, seen, None, &by_adam),
    );
    let done = [&a, &b].iter().filter(|judged| matches!(judged, Ok(Judged::Done))).count();
    let moved = [&a, &b].iter().filter(|judged| matches!(judged, Err(CommandError::Moved))).count();
    assert_eq!((done, moved), (1, 1), "{a:?} {b:?}");
    assert!(matches!(scene.publisher.promote(two.id, None, None, &zoe()).await, Err(CommandError::Moved)));
    assert!(
        matches!(scene.publisher.rollback("f", seen, &zoe()).await, Err(CommandError::Moved)),
        "a stale rollback"
    );
}

#[tokio::test]
async fn the_current_version_and_what_submissions_follow_are_not_taken_out_of_use() {
    let scene = Scene::new().await;
    let one = scene.followed(&form("f", "one")).await;
    let by = zoe();
    let bury = |id| scene.publisher.bury(id, Command::Tombstone, "r", DAY, &by);
    assert!(matches!(bury(one.id).await, Err(CommandError::IsCurrent)));
    let two = scene.followed(&form("f", "two")).await;
    let submission = format!(
        "INSERT INTO submissions (form_id, status, routing_result)
         VALUES ('f', 'received', '{{\"version\": {{\"id\": \"{}\"}}}}')",
        one.id
    );
    scene.sql(&submission).await;
    assert!(matches!(bury(one.id).await, Err(CommandError::Followed(Some(1)))));
    scene.sql("UPDATE submissions SET status = 'routed'").await;
    assert!(matches!(
        scene.publisher.bury(one.id, Command::Tombstone, " ", DAY, &zoe()).await,
        Err(CommandError::NoReason)
    ));
    bury(one.id).await.expect("nobody follows it");
    let facts = scene.facts(one.id).await;
    assert!(facts.deadline.is_some() && facts.tombstoned_at.is_some());
    assert!(matches!(
        scene.publisher.promote(one.id, Some(two.id), None, &zoe()).await,
        Err(CommandError::NotPossible(_))
    ));
    let error = scene.publisher.rollback("f", None, &zoe()).await.expect_err("the one before is out of use");
    assert!(matches!(error, CommandError::NotPossible(_)), "{error}");
}

#[tokio::test]
async fn what_was_published_can_be_taken_back_until_its_deadline_and_a_draft_never() {
    let scene = Scene::new().await;
    let (one, draft) = (scene.published(&form("f", "one")).await, scene.draft(&form("f", "two")).await);
    scene.publisher.bury(one.id, Command::Tombstone, "r", DAY, &zoe()).await.expect("out of use");
    scene.publisher.bury(draft.id, Command::Discard, "r", DAY, &zoe()).await.expect("given up");
    assert_eq!(scene.publisher.restore(one.id, &zoe()).await.expect("judged"), Judged::Done);
    let facts = scene.facts(one.id).await;
    assert_eq!((facts.tombstoned_at, facts.deadline), (None, None));
    assert!(matches!(scene.publisher.restore(draft.id, &zoe()).await, Err(CommandError::TooLate)));
    scene.publisher.bury(one.id, Command::Tombstone, "r", DAY, &zoe()).await.expect("out of use");
    let twin = scene.draft(&form("f", "one")).await;
    assert!(twin.is_new, "what is out of use is loaded anew");
    assert!(matches!(scene.publisher.restore(one.id, &zoe()).await, Err(CommandError::SameContent)));
    scene.publisher.bury(twin.id, Command::Discard, "r", DAY, &zoe()).await.expect("given up");
    scene.publisher.restore(one.id, &zoe()).await.expect("judged");
    scene.publisher.bury(one.id, Command::Tombstone, "r", Duration::ZERO, &zoe()).await.expect("out of use");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(matches!(scene.publisher.restore(one.id, &zoe()).await, Err(CommandError::TooLate)));
}

#[tokio::test]
async fn what_the_tables_have_is_adopted_without_a_change_and_managed_from_then_on() {
    let scene = Scene::new().await;
    scene.loader(&form("f", "one")).await.expect("loaded");
    let before = scene.rows("f").await;
    let (loaded, judged) = scene.publisher.adopt("f", Uuid::new_v4(), &zoe()).await.expect("adopted");
    assert_eq!(judged, Judged::Done);
    assert_eq!(scene.rows("f").await, before);
    assert_eq!(scene.current("f").await, Some(loaded.id));
    assert_eq!(scene.facts(loaded.id).await.source, Source::Adopted);
    let again = scene.publisher.adopt("f", Uuid::new_v4(), &zoe()).await;
    assert!(matches!(again, Err(CommandError::Managed(_, 1))));
    assert!(matches!(
        scene.publisher.adopt("nobody", Uuid::new_v4(), &zoe()).await,
        Err(CommandError::NoForm(_))
    ));
    scene.loader(&form("f", "two")).await.expect_err("it is managed");
}

#[tokio::test]
async fn a_file_of_a_form_is_kept_from_publication_on_and_has_to_be_clean() {
    let scene = Scene::new().await;
    let sha256: String = scene.one("SELECT encode(sha256('logo'), 'hex')").await;
    let yaml = format!(
        "id: f\nname: F\nactions: [{{type: email_raw, destination: team@example.org}}]\nsamples: [{{name: plain}}]\n\
         assets: [{{name: logo.png, sha256: {sha256}}}]\n"
    );
    let definition = Definition::from_yaml(&yaml).expect("valid");
    let draft = scene.draft(&definition).await;
    let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert!(reasons(&judged).contains("no upload of this form has these bytes"), "{judged:?}");
    scene.publisher.bury(draft.id, Command::Discard, "no file", DAY, &zoe()).await.expect("given up");
    scene
        .sql(
            "INSERT INTO content.blobs (id, form_id, owner, sha256, length, crc32c, bucket, object, generation, verdict, scanned_at)
             VALUES (gen_random_uuid(), 'f', 'o', sha256('logo'), 4, 1, 'b', 'o', 1, 'infected', now())",
        )
        .await;
    let draft = scene.draft(&definition).await;
    let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert!(reasons(&judged).contains("the scanner says infected, not clean"), "{judged:?}");
    scene
        .sql(
            "ALTER TABLE content.blobs DISABLE TRIGGER guard; UPDATE content.blobs SET verdict = 'clean'; \
               ALTER TABLE content.blobs ENABLE TRIGGER guard",
        )
        .await;
    let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert_eq!(judged, Judged::Done);
    let kept: i64 = scene
        .one(&format!(
            "SELECT count(*) FROM content.blob_refs WHERE kind = 'version' AND holder = '{}'",
            draft.id
        ))
        .await;
    assert_eq!(kept, 1);
}
