//! An admin promotes and rolls back by plain forms: done, refused, overtaken, sent twice; and nobody else may.

use std::sync::Arc;

use super::{Office, POLICY, form, press, zoe};
use crate::harness::location;
use crate::site::scene::{self, hidden, read};

const PROMOTE: &str = "/forms/f/2/promote";
const BACK: &str = "/forms/f/rollback";

#[tokio::test]
async fn an_admin_promotes_and_rolls_back_and_the_history_says_so() {
    let office = Office::new().await;
    let one = office.followed(&form("one", "team@example.org")).await;
    let two = office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    assert_eq!(hidden(&page, PROMOTE, "expected"), one.id.to_string());
    let sent = press(&desk, &cookie, &page, PROMOTE, "bob@example.org wants it so").await;
    assert_eq!((sent.status().as_u16(), location(&sent)), (303, "/forms/f/2?done=promote"));
    assert_eq!(office.current("f").await, Some(two.id));
    let owned = |text: &str| text.to_owned();
    assert_eq!(
        office.last(two.id).await,
        (owned("promote"), owned("admin:ada"), owned("admin"), Some(owned("<address> wants it so")))
    );
    let (_, page) = desk.page("/forms/f/2?done=promote", &cookie).await;
    assert!(page.contains("The form follows version 2 now."), "{page}");
    assert!(
        page.contains(&format!("data-accepted=\"{}/promote\"", two.id)),
        "its draft is forgotten: {page}"
    );
    assert!(page.contains("wants it so") && page.contains("admin:ada"), "{page}");
    let (_, page) = desk.page("/forms/f/1?done=promote", &cookie).await;
    assert!(!page.contains("The form follows version"), "a link cannot claim it: {page}");

    let (_, page) = desk.page("/forms/f", &cookie).await;
    assert!(page.contains("Roll back to version 1"), "{page}");
    let sent = press(&desk, &cookie, &page, BACK, "").await;
    assert_eq!((sent.status().as_u16(), location(&sent)), (303, "/forms/f/1?done=rollback"));
    assert_eq!(office.current("f").await, Some(one.id));
    assert_eq!(office.last(one.id).await.3.as_deref(), Some("rolled back"));
    let (_, page) = desk.page(location(&sent), &cookie).await;
    assert!(page.contains("The form follows version 1 again."), "{page}");
    assert!(page.contains(&format!("data-accepted=\"{}/rollback\"", two.id)), "{page}");
    let (_, page) = desk.page("/forms/f", &cookie).await;
    assert_eq!(press(&desk, &cookie, &page, BACK, "and forth").await.status(), 303);
    assert_eq!(office.last(two.id).await.3.as_deref(), Some("rolled back: and forth"));
}

#[tokio::test]
async fn a_first_promotion_makes_the_form_follow_it() {
    let office = Office::new().await;
    let one = office.published(&form("one", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let path = "/forms/f/1/promote";
    let (_, page) = desk.page("/forms/f/1", &cookie).await;
    assert_eq!(hidden(&page, path, "expected"), "", "it followed its loader");
    assert_eq!(press(&desk, &cookie, &page, path, "the first").await.status(), 303);
    assert_eq!(office.current("f").await, Some(one.id));
}

#[tokio::test]
async fn nobody_below_admin_moves_a_form() {
    let office = Office::new().await;
    let one = office.followed(&form("one", "team@example.org")).await;
    office.followed(&form("two", "team@example.org")).await;
    let three = office.published(&form("three", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let seen = office.current("f").await.expect("followed").to_string();
    for user in ["vera", "rita", "sam"] {
        let cookie = desk.log_in(&office.bench, user).await;
        for path in ["/forms/f/3", "/forms/f/1", "/forms/f"] {
            let (_, page) = desk.page(path, &cookie).await;
            assert!(!page.contains("/promote\"") && !page.contains("/rollback\""), "{user} {path}: {page}");
        }
        for path in ["/forms/f/3/promote", BACK] {
            let sent = desk.send(path, &cookie, &[("expected", &seen), ("reason", "r")]).await;
            let (status, page) = read(sent).await;
            assert_eq!(status, 403, "{user} {path}");
            assert!(page.contains("needs the role admin"), "{page}");
        }
    }
    let current = office.current("f").await.expect("followed");
    assert_eq!(current.to_string(), seen);
    assert!(current != one.id && current != three.id);
}

#[tokio::test]
async fn a_form_that_moved_meanwhile_is_told_with_what_was_typed() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    let two = office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, stale) = desk.page("/forms/f/2", &cookie).await;
    let three = office.followed(&form("three", "team@example.org")).await;
    let (status, page) = read(press(&desk, &cookie, &stale, PROMOTE, "typed with care").await).await;
    assert_eq!(status, 409, "{page}");
    for word in
        ["Somebody was first", "followed version 1", "version 3 now", "operator:zoe", "typed with care"]
    {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert_eq!(office.current("f").await, Some(three.id), "nothing was done");
    assert_eq!(hidden(&page, PROMOTE, "expected"), three.id.to_string(), "as it is now");
    assert_eq!(press(&desk, &cookie, &page, PROMOTE, "typed with care").await.status(), 303);
    assert_eq!(office.current("f").await, Some(two.id));

    // The way back that was seen is another one by now.
    let (_, stale) = desk.page("/forms/f", &cookie).await;
    let expected = office.current("f").await;
    office.publisher.promote(three.id, expected, None, &zoe()).await.expect("judged");
    let (status, page) = read(press(&desk, &cookie, &stale, BACK, "odd mails").await).await;
    assert_eq!(status, 409, "{page}");
    assert!(page.contains("Roll back to version 2") && page.contains("odd mails"), "{page}");
    assert_eq!(office.current("f").await, Some(three.id));
    for missing in [PROMOTE, BACK] {
        let none = desk.send(missing, &cookie, &[("reason", "r")]).await;
        assert_eq!(none.status(), 428, "which version was seen as current?");
    }
    let nothing = desk.send(BACK, &cookie, &[("expected", ""), ("reason", "r")]).await;
    assert_eq!(nothing.status(), 428, "no way back was seen");
}

#[tokio::test]
async fn what_the_policy_refuses_is_told_with_its_reasons_and_may_be_sent_again() {
    let office = Office::new().await;
    let one = office.followed(&form("one", "team@example.org")).await;
    let two = office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    let key = hidden(&page, PROMOTE, "idempotency_key");
    office.policy(&format!(
        "{POLICY}\ndeny contains \"Nobody of <b>bob@example.org</b>'s reads it.\" if {{\n\tcomplete\n\tsome template in input.templates\n\t\
         template.id == \"f-mail\"\n}}\n"
    ));
    let (status, refused) = read(press(&desk, &cookie, &page, PROMOTE, "typed with care").await).await;
    assert_eq!(status, 422, "{refused}");
    assert!(refused.contains("Nobody of") && refused.contains("typed with care"), "{refused}");
    assert!(
        !refused.contains("<b>b") && !refused.contains("bob@"),
        "as text, and without its address: {refused}"
    );
    assert_eq!(hidden(&refused, PROMOTE, "idempotency_key"), key, "the same form may be sent again");
    assert_eq!(office.current("f").await, Some(one.id));
    let said = office.publisher.store.decisions(two.id).await.expect("answered");
    assert_eq!(
        (said[0].command.as_str(), said[0].allowed, said[0].actor.as_str()),
        ("promote", false, "admin:ada")
    );
    assert!(said[0].policy.is_some(), "the policy was asked: {said:?}");
    let (_, shown) = desk.page("/forms/f/2", &cookie).await;
    assert!(shown.contains("refused") && shown.contains("Nobody of") && !shown.contains("bob@"), "{shown}");

    office.policy("package maple.publish\n");
    let (status, away) = read(press(&desk, &cookie, &page, PROMOTE, "typed with care").await).await;
    assert_eq!(status, 422, "{away}");
    assert!(away.contains("the policy is away"), "{away}");
    office.policy(POLICY);
    assert_eq!(press(&desk, &cookie, &refused, PROMOTE, "typed with care").await.status(), 303);
    assert_eq!(office.current("f").await, Some(two.id));
}

#[tokio::test]
async fn the_configuration_in_force_is_what_counts() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    let mut reloaded = office.bench.config.clone();
    reloaded.mail.allowed_destination_domains = vec!["example.net".to_owned()];
    office.bench.file.send_replace(Arc::new(reloaded));
    let (status, refused) = read(press(&desk, &cookie, &page, PROMOTE, "r").await).await;
    assert_eq!(status, 422, "{refused}");
    assert!(refused.contains("example.org is not in mail.allowed_destination_domains"), "{refused}");
    office.bench.file.send_replace(Arc::new(office.bench.config.clone()));
    assert_eq!(press(&desk, &cookie, &page, PROMOTE, "r").await.status(), 303);
}

#[tokio::test]
async fn what_is_missing_or_not_possible_is_said() {
    let office = Office::new().await;
    let one = office.followed(&form("one", "team@example.org")).await;
    office.published(&form("two", "team@example.org")).await;
    office.draft(&form("three", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    let (status, refused) = read(press(&desk, &cookie, &page, PROMOTE, " \n ").await).await;
    assert_eq!(status, 422);
    assert!(
        refused.contains("href=\"#promote-reason\"") && refused.contains("id=\"promote-reason-error\""),
        "{refused}"
    );
    let seen = one.id.to_string();
    let fields = [("expected", seen.as_str()), ("reason", "typed with care")];
    for (path, says) in [("/forms/f/3/promote", "not possible"), (BACK, "none to go back to")] {
        let (status, refused) = read(desk.send(path, &cookie, &fields).await).await;
        assert_eq!(status, 409, "{path}: {refused}");
        assert!(refused.contains(says) && refused.contains("typed with care"), "{path}: {refused}");
    }
    let odd = desk.send(PROMOTE, &cookie, &[("expected", "x"), ("reason", "r")]).await;
    assert_eq!(odd.status(), 400);
    assert_eq!(office.current("f").await, Some(one.id));
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_carried_out_once() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    let two = office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    let before = office.promotions().await;
    let (a, b) = tokio::join!(
        press(&desk, &cookie, &page, PROMOTE, "reviewed"),
        press(&desk, &cookie, &page, PROMOTE, "reviewed")
    );
    let again = press(&desk, &cookie, &page, PROMOTE, "reviewed").await;
    for sent in [a, b, again] {
        assert_eq!((sent.status().as_u16(), location(&sent)), (303, "/forms/f/2?done=promote"));
    }
    assert_eq!(office.promotions().await, before + 1);
    let (status, page) = read(press(&desk, &cookie, &page, PROMOTE, "other words").await).await;
    assert_eq!(status, 422, "{page}");
    assert!(page.contains("sent before with other words"), "{page}");
    assert_eq!(office.current("f").await, Some(two.id));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn a_slow_policy_holds_up_nobody_else() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    office.published(&form("two", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    office.policy(
        "package maple.publish\nimport rego.v1\nn := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\nall contains x if { some a in n; some b in n; \
         some c in n; some d in n; some e in n; some f in n; some g in n; x := ((((a + b) + c) + d) + e) + (f * g) }\n\
         default allow := false\nallow if count(all) > 1000\n",
    );
    let slow = async {
        let sent = read(press(&desk, &cookie, &page, PROMOTE, "r").await).await;
        (sent, std::time::Instant::now())
    };
    let meanwhile = async {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        let status = desk.page("/lifecycles", &cookie).await.0;
        (status, std::time::Instant::now())
    };
    let (((status, refused), judged), (shown, answered)) = tokio::join!(slow, meanwhile);
    assert_eq!((status, shown), (422, 200), "{refused}");
    assert!(refused.contains("did not answer"), "{refused}");
    assert!(answered < judged, "it was answered while the policy was asked");
}
