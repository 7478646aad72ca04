//! What each role is shown of forms and their versions.

use devkit::postgres::CuttingProxy;

use super::{Office, form, press};
use crate::harness::location;
use crate::site::scene::{self, PLAIN};

#[tokio::test]
async fn every_page_is_there_for_each_role_and_names_no_address() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    office.published(&form("two", "team@example.org")).await;
    let draft = office.draft(&form("two", "other@example.org, team@example.org")).await;
    office.bench.form(PLAIN).await;
    let desk = scene::open(&office.bench).await;
    for user in ["vera", "rita", "sam", "ada"] {
        let cookie = desk.log_in(&office.bench, user).await;
        for (path, says) in [
            ("/forms", vec!["volunteer", "its loader", "Form F", "version 1", "operator:zoe"]),
            ("/forms/volunteer", vec!["Follows its loader", "maple-router forms adopt volunteer"]),
            ("/forms/f", vec!["Version 3", "the form follows it", "published", "draft", &draft.digest[..12]]),
            ("/forms/f/1", vec!["the form follows it", "as agreed"]),
            ("/forms/f/2", vec!["- one", "+ two", "by policy", "operator:zoe", "somebody at example.org"]),
            ("/forms/f/3", vec!["somebody at example.org", "2 at example.org", "Nobody has asked"]),
            ("/forms/f/3?from=2", vec!["2 at example.org", "forms diff f@3 --from f@2"]),
        ] {
            let (status, page) = desk.page(path, &cookie).await;
            assert_eq!(status, 200, "{user} {path}: {page}");
            for word in says {
                assert!(page.contains(word), "{user} {path} says nothing of {word}: {page}");
            }
            assert!(!page.contains("team@") && !page.contains("other@"), "{user} {path}: {page}");
            assert!(page.contains("href=\"/forms\" aria-current=\"page\""), "{path}");
            let offers = page.contains("action=\"/forms/f/2/promote\"");
            assert_eq!(offers, user == "ada" && path == "/forms/f/2", "{user} {path}");
            assert!(!page.contains("/rollback\""), "there is no way back yet: {user} {path}");
        }
        let (_, page) = desk.page("/forms/f/3?from=2", &cookie).await;
        assert!(!page.contains("- two"), "the same text: {page}");
    }
    assert_eq!(office.bench.shown().await, [], "nobody was shown an address");
}

#[tokio::test]
async fn addresses_are_for_reviewers_who_ask_and_the_log_says_so() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    office.published(&form("one", "other@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let (viewer, reviewer) =
        (desk.log_in(&office.bench, "vera").await, desk.log_in(&office.bench, "rita").await);
    let (plain, asked) = ("/forms/f/2", "/forms/f/2?show=recipients");
    let (_, page) = desk.page(plain, &viewer).await;
    assert!(page.contains("another address") && !page.contains("Show addresses"), "{page}");
    let (status, page) = desk.page(asked, &viewer).await;
    assert_eq!(status, 403, "a viewer sees domains");
    assert!(!page.contains("other@"), "{page}");
    let (_, page) = desk.page(plain, &reviewer).await;
    assert!(page.contains("from=1&#38;show=recipients#actions"), "it is offered: {page}");
    assert_eq!(office.bench.shown().await, [], "nothing was shown");
    let (status, page) = desk.page(asked, &reviewer).await;
    assert_eq!(status, 200);
    assert!(page.contains("team@example.org") && page.contains("other@example.org"), "{page}");
    assert_eq!(office.bench.shown().await, [("rita".to_owned(), "recipients".to_owned())]);
    office.bench.db.alter("REVOKE INSERT ON router.desk_access_log FROM forms_app").await.expect("revoked");
    let (status, page) = desk.page(asked, &reviewer).await;
    assert_eq!(status, 503, "nothing is shown that cannot be recorded");
    assert!(!page.contains("other@"), "{page}");
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_says_so() {
    let office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    for path in [
        "/forms/nobody",
        "/forms/a%00b",
        "/forms/f/2",
        "/forms/f/x",
        "/forms/nobody/1",
        "/forms/f/1?from=7",
        "/forms/f/1?from=x",
        "/forms/f/99999999999",
    ] {
        let (status, page) = desk.page(path, &cookie).await;
        assert_eq!(status, 404, "{path}: {page}");
        assert!(page.contains("There is nothing here"), "{path}: {page}");
    }
    let fields = [("expected", ""), ("reason", "r")];
    for path in ["/forms/f/2/promote", "/forms/nobody/1/promote"] {
        assert_eq!(scene::read(desk.send(path, &cookie, &fields).await).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn without_the_schema_the_section_says_so_and_is_no_error() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "ada").await;
    for path in ["/forms", "/forms/volunteer", "/forms/volunteer/1"] {
        let (status, page) = desk.page(path, &cookie).await;
        assert_eq!(status, 200, "{path}: {page}");
        assert!(
            page.contains("Versions of forms are not set up")
                && page.contains("maple-router migrate --content"),
            "{page}"
        );
    }
    let fields = [("expected", ""), ("reason", "r")];
    for path in ["/forms/volunteer/1/promote", "/forms/volunteer/rollback"] {
        let (status, page) = scene::read(desk.send(path, &cookie, &fields).await).await;
        assert_eq!(status, 503, "{path}");
        assert!(page.contains("maple-router migrate --content"), "{page}");
    }
}

#[tokio::test]
async fn what_was_typed_while_the_database_was_away_is_sent_again() {
    let mut office = Office::new().await;
    office.followed(&form("one", "team@example.org")).await;
    let two = office.published(&form("two", "team@example.org")).await;
    let wire = CuttingProxy::start(&office.bench.db).await.expect("a wire");
    office.bench.reach(wire.url_as("forms_app"));
    let desk = scene::open(&office.bench).await;
    let cookie = desk.log_in(&office.bench, "ada").await;
    let (_, page) = desk.page("/forms/f/2", &cookie).await;
    wire.sever(true);
    let path = "/forms/f/2/promote";
    let (status, away) = scene::read(press(&desk, &cookie, &page, path, "typed with care").await).await;
    assert_eq!(status, 503, "{away}");
    assert!(away.contains("typed with care"), "{away}");
    wire.sever(false);
    let mut sent = press(&desk, &cookie, &away, path, "typed with care").await;
    for _ in 0..20 {
        if sent.status() == 303 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        sent = press(&desk, &cookie, &away, path, "typed with care").await;
    }
    assert_eq!(location(&sent), "/forms/f/2?done=promote");
    assert_eq!(office.current("f").await, Some(two.id));
}
