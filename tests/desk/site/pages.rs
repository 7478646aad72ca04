//! Every page, for each role; and who is shown what.

use maple_router::desk::pages::assets;
use reqwest::Method;
use uuid::Uuid;

use super::scene::{self, PLAIN};

#[tokio::test]
async fn every_page_is_there_for_each_role() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let letter = bench.letter(PLAIN).await;
    let ((entry, _), (dead, _)) = (bench.entry(submission).await, bench.entry(letter).await);
    let desk = scene::open(&bench).await;
    for user in ["vera", "rita", "sam", "ada"] {
        let cookie = desk.log_in(&bench, user).await;
        for (path, says) in [
            ("/queue".to_owned(), "Mail was refused for good"),
            ("/queue?state=Pending&cause=&order=newest".to_owned(), "An event cannot be read"),
            ("/queue?state=Resolved".to_owned(), "No entry fits these filters"),
            (format!("/entries/{entry}"), "Mail was refused for good"),
            (format!("/entries/{dead}"), "An event cannot be read"),
            ("/submissions".to_owned(), &*submission.to_string()),
            (format!("/submissions?id={}", &submission.to_string()[..8]), &*submission.to_string()),
            (format!("/submissions/{submission}"), "somebody at"),
            ("/status".to_owned(), "does not answer"),
            ("/lifecycles".to_owned(), "grey_queue"),
            ("/lifecycles/grey_queue".to_owned(), "UnderReview"),
            ("/api".to_owned(), "/api/openapi.json"),
        ] {
            let (status, page) = desk.page(&path, &cookie).await;
            assert_eq!(status, 200, "{user} {path}: {page}");
            assert!(page.contains(says), "{user} {path} says nothing of {says}: {page}");
            assert!(page.contains(&format!("<bdi>{user}</bdi>")), "{path} says who reads it");
            assert!(!page.contains("a secret of the submitter"), "{path} shows no field");
        }
        let rows = format!("/queue/rows?ids={entry},{dead}&cause=failed");
        let (status, rows) = desk.page(&rows, &cookie).await;
        assert_eq!((status, rows.matches("<tr").count()), (200, 1), "{rows}");
        assert!(rows.contains(&entry.to_string()), "the one that fits the filters: {rows}");
        let home = desk.get("/", &cookie).await;
        assert_eq!(
            (home.status().as_u16(), &home.headers()["location"]),
            (303, &"/queue".parse().expect("a path"))
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_says_so() {
    let bench = scene::bench().await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let nobody = Uuid::nil();
    for path in [
        format!("/entries/{nobody}"),
        "/entries/x".to_owned(),
        format!("/submissions/{nobody}"),
        "/submissions/x".to_owned(),
        "/lifecycles/x".to_owned(),
        "/nowhere".to_owned(),
    ] {
        let (status, page) = desk.page(&path, &cookie).await;
        assert_eq!(status, 404, "{path}: {page}");
        assert!(page.contains("There is nothing here"), "{path}: {page}");
        assert_eq!(
            page.contains("Log out"),
            path != "/nowhere",
            "{path}: who asks for no route is not asked for"
        );
    }
    let posted = desk.send(&format!("/entries/{nobody}/assign"), &cookie, &[("version", "1")]).await;
    assert_eq!(scene::read(posted).await.0, 404);
    let (status, page) = desk.page("/queue?older_than=soon", &cookie).await;
    assert_eq!(status, 400, "a filter that cannot be understood");
    assert!(page.contains("href=\"#f-older\"") && page.contains("soon"), "{page}");
}

#[tokio::test]
async fn the_doors_ask_nobody_and_the_files_may_be_kept() {
    let bench = scene::bench().await;
    let desk = scene::open(&bench).await;
    for path in [assets::css(), assets::script(), assets::icon(), "/favicon.svg"] {
        let file = desk.ask(Method::GET, path).send().await.expect("an answer");
        assert_eq!(file.status(), 200, "{path}");
        assert_eq!(
            file.headers()["cache-control"].to_str().expect("text").contains("immutable"),
            path != "/favicon.svg"
        );
    }
    for (path, says) in [("/login", "maple-router desk login NAME"), ("/logged-out", "You are logged out")] {
        let (status, page) = desk.page(path, "").await;
        assert_eq!(status, 200, "{path}");
        assert!(page.contains(says), "{page}");
    }
    let (status, page) = desk.page("/queue", "").await;
    assert_eq!(status, 401);
    assert!(
        page.contains("You are not logged in") && page.contains("maple-router desk login NAME"),
        "{page}"
    );
    let link = bench.link("rita").await;
    let (status, page) = desk.page(&format!("{link}?to=/entries/1"), "").await;
    assert_eq!((status, page.matches("<button").count()), (200, 1), "one button: {page}");
    assert_eq!(scene::hidden(&page, &link, "to"), "/entries/1");
}

#[tokio::test]
async fn recipients_are_for_reviewers_who_ask_and_the_log_says_so() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let (entry, _) = bench.entry(submission).await;
    let desk = scene::open(&bench).await;
    let (viewer, reviewer) = (desk.log_in(&bench, "vera").await, desk.log_in(&bench, "rita").await);
    for path in [format!("/entries/{entry}"), format!("/submissions/{submission}")] {
        for cookie in [&viewer, &reviewer] {
            let (status, page) = desk.page(&path, cookie).await;
            assert_eq!(status, 200);
            assert!(page.contains("example.org") && !page.contains("bob@"), "the domain alone: {page}");
            assert!(!page.contains("no such user.pdf"), "no name of a file");
        }
        let asked = format!("{path}?show=recipients");
        let (status, page) = desk.page(&asked, &viewer).await;
        assert_eq!(status, 403, "a viewer sees domains");
        assert!(!page.contains("bob@"), "{page}");
    }
    assert_eq!(bench.shown().await, [], "nothing was shown");
    for path in [format!("/entries/{entry}"), format!("/submissions/{submission}")] {
        let (status, page) = desk.page(&format!("{path}?show=recipients"), &reviewer).await;
        assert_eq!(status, 200);
        assert!(page.contains("bob@example.org"), "{page}");
    }
    let twice = vec![("rita".to_owned(), "recipients".to_owned()); 2];
    assert_eq!(bench.shown().await, twice);
}

#[tokio::test]
async fn a_payload_is_for_reviewers_who_ask_and_the_log_says_so() {
    let bench = scene::bench().await;
    let letter = bench.letter(PLAIN).await;
    let (entry, _) = bench.entry(letter).await;
    let desk = scene::open(&bench).await;
    let (viewer, reviewer) = (desk.log_in(&bench, "vera").await, desk.log_in(&bench, "rita").await);
    let (plain, asked) = (format!("/entries/{entry}"), format!("/entries/{entry}?show=payload"));
    assert!(!desk.page(&plain, &reviewer).await.1.contains("payload no such user"));
    assert_eq!(desk.page(&asked, &viewer).await.0, 403);
    assert_eq!(bench.shown().await, []);
    assert!(desk.page(&asked, &reviewer).await.1.contains("payload no such user"));
    assert_eq!(bench.shown().await, [("rita".to_owned(), "dead_letter".to_owned())]);
}

#[tokio::test]
async fn a_mail_is_for_reviewers_who_ask_and_stands_in_a_frame_without_rights() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let (entry, _) = bench.entry(submission).await;
    let desk = scene::open(&bench).await;
    let (viewer, reviewer) = (desk.log_in(&bench, "vera").await, desk.log_in(&bench, "rita").await);
    for base in [format!("/entries/{entry}"), format!("/submissions/{submission}")] {
        let (asked, own) = (format!("{base}?mail=1"), format!("{base}/mail/1"));
        let (_, page) = desk.page(&base, &reviewer).await;
        assert!(page.contains("Show mail 1") && !page.contains("details to follow"), "{page}");
        assert!(!desk.page(&base, &viewer).await.1.contains("Show mail 1"), "a viewer is offered none");
        for path in [&asked, &own] {
            assert_eq!(desk.page(path, &viewer).await.0, 403, "{path}");
        }
        assert_eq!(desk.page(&format!("{base}/mail/7"), &reviewer).await.0, 404);
        let (status, page) = desk.page(&asked, &reviewer).await;
        assert_eq!(status, 200, "{page}");
        assert!(page.contains("details to follow") && page.contains("bob@example.org"), "{page}");
        assert!(page.contains(&format!("<iframe sandbox src=\"{own}\"")), "{page}");
        let framed = desk.get(&own, &reviewer).await;
        let policy = framed.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(
            policy.starts_with("sandbox; default-src 'none'") && policy.contains("frame-ancestors 'self'"),
            "{policy}"
        );
        assert_eq!(framed.headers()["cache-control"], "no-store");
        let (status, mail) = scene::read(framed).await;
        assert!(status == 200 && mail.contains("details to follow"), "{mail}");
    }
    assert_eq!(bench.shown().await, vec![("rita".to_owned(), "mail".to_owned()); 4]);
}

#[tokio::test]
async fn nothing_is_shown_that_cannot_be_recorded() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    bench.db.alter("REVOKE INSERT ON router.desk_access_log FROM forms_app").await.expect("revoked");
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "ada").await;
    let (status, page) = desk.page(&format!("/submissions/{submission}?show=recipients"), &cookie).await;
    assert_eq!(status, 503);
    assert!(!page.contains("bob@"), "{page}");
}

#[tokio::test]
async fn a_submissions_page_tells_what_happened_in_every_lifecycle() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let submission = bench.refused(PLAIN).await;
    let (entry, version) = bench.entry(submission).await;
    let event = "INSERT INTO router.outbox (kind, entity_id, payload) VALUES ('routing.ready', $1, '{\"reason\": \"replayed\"}')";
    bench.eyes.execute(event, &[&submission]).await.expect("an event");
    // An attempt that was deferred is told with its recipient, where recipients are shown.
    let tried = "UPDATE submissions SET routing_result = jsonb_set(routing_result, '{deliveries,1|bob@example.org,tries,0,class}',
        '\"transient\"') WHERE id = $1";
    bench.eyes.execute(tried, &[&submission]).await.expect("a try");
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let (assign, version) = (format!("/entries/{entry}/assign"), version.to_string());
    assert_eq!(desk.send(&assign, &cookie, &[("version", &version)]).await.status(), 303);
    for path in [format!("/submissions/{submission}"), format!("/entries/{entry}")] {
        let (_, page) = desk.page(&path, &cookie).await;
        let told = page.split("id=\"timeline\"").nth(1).expect("a timeline");
        for words in [
            "replay",
            "tried",
            "written",
            "row 1, replayed",
            "open",
            "assign",
            "reviewer:rita",
            "UnderReview",
        ] {
            assert!(told.contains(words), "{path} says nothing of {words}: {told}");
        }
        assert!(!page.contains("bob@example.org"), "nobody asked for addresses: {page}");
    }
}
