//! Stories by plain forms: take, decide, two tabs, several at once.

use uuid::Uuid;

use super::scene::{self, PLAIN, hidden, read};
use crate::harness::{Bench, Opened, location};

/// Presses the button of a form on an entry's page, with what was typed, as the page has it.
async fn press(
    desk: &Opened,
    cookie: &str,
    page: &str,
    path: &str,
    typed: &[(&str, &str)],
) -> reqwest::Response {
    let (version, key) = (hidden(page, path, "version"), hidden(page, path, "idempotency_key"));
    let mut fields = vec![("version", version.as_str()), ("idempotency_key", key.as_str())];
    fields.extend(typed);
    desk.send(path, cookie, &fields).await
}

async fn pending(bench: &Bench) -> (Uuid, Uuid) {
    let submission = bench.refused(PLAIN).await;
    (submission, bench.entry(submission).await.0)
}

#[tokio::test]
async fn from_the_link_to_a_remedy_under_way() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (submission, entry) = pending(&bench).await;
    let desk = scene::open(&bench).await;
    // The link that was mailed, its one button, and the page that was wanted.
    let link = bench.link("rita").await;
    let (_, door) = desk.page(&format!("{link}?to=/entries/{entry}"), "").await;
    let to = hidden(&door, &link, "to");
    let entered = desk.send(&link, "", &[("to", &to)]).await;
    let cookie = crate::harness::cookie(entered.headers()).expect("a session");
    assert_eq!(location(&entered), format!("/entries/{entry}"));
    let (_, queue) = desk.page("/queue", &cookie).await;
    assert!(queue.contains(&format!("href=\"/entries/{entry}\"")), "{queue}");

    let (_, page) = desk.page(&format!("/entries/{entry}"), &cookie).await;
    let assign = format!("/entries/{entry}/assign");
    let taken = press(&desk, &cookie, &page, &assign, &[]).await;
    assert_eq!(
        (taken.status().as_u16(), location(&taken)),
        (303, &*format!("/entries/{entry}?done=assign-me"))
    );
    assert_eq!(bench.state(entry).await, ("UnderReview".to_owned(), Some("rita".to_owned())));
    let (_, page) = desk.page(location(&taken), &cookie).await;
    assert!(page.contains("It is yours now."), "{page}");
    assert!(page.contains(&format!("data-accepted=\"{entry}/assign-me\"")), "its draft is forgotten: {page}");

    let resolve = format!("/entries/{entry}/resolve");
    let resolved =
        press(&desk, &cookie, &page, &resolve, &[("remedy", "replan"), ("reason", "the address is mended")])
            .await;
    assert_eq!(resolved.status(), 303);
    assert_eq!(bench.state(entry).await.0, "Processing");
    let (_, page) = desk.page(location(&resolved), &cookie).await;
    assert!(page.contains("The remedy is under way") && page.contains("the address is mended"), "{page}");
    let sql = "SELECT status::text, routing_result #>> '{overrides,1,actor}' FROM submissions WHERE id = $1";
    let row = bench.eyes.query_one(sql, &[&submission]).await.expect("a row");
    assert_eq!(
        (row.get::<_, String>(0), row.get::<_, Option<String>>(1)),
        ("received".to_owned(), Some("reviewer:rita".to_owned()))
    );

    let out = desk.send("/logout", &cookie, &[]).await;
    assert_eq!((out.status().as_u16(), location(&out)), (303, "/logged-out"));
    assert_eq!(desk.page("/queue", &cookie).await.0, 401);
}

#[tokio::test]
async fn the_second_tab_is_told_and_keeps_what_was_typed() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (_, entry) = pending(&bench).await;
    let desk = scene::open(&bench).await;
    let (rita, ada) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "ada").await);
    let path = format!("/entries/{entry}");
    let (_, first) = desk.page(&path, &rita).await;
    let (_, second) = desk.page(&path, &ada).await;
    assert!(second.contains("rita has it open, too"), "{second}");
    let assign = format!("{path}/assign");
    assert_eq!(press(&desk, &rita, &first, &assign, &[]).await.status(), 303);
    let dismiss = format!("{path}/dismiss");
    let late = press(&desk, &ada, &second, &dismiss, &[("reason", "typed with care")]).await;
    let (status, page) = read(late).await;
    assert_eq!(status, 409, "{page}");
    assert!(page.contains("Somebody was first") && page.contains("reviewer:rita"), "what changed: {page}");
    assert!(page.contains("typed with care"), "what was typed: {page}");
    assert_eq!(bench.state(entry).await.0, "UnderReview", "nothing was done");
    // The same decision, where it is still offered: its form has the text again.
    let (_, mine) = desk.page(&path, &rita).await;
    let (_, other) = desk.page(&path, &ada).await;
    let reject = format!("{path}/reject");
    let escalate = format!("{path}/escalate");
    assert_eq!(press(&desk, &rita, &mine, &escalate, &[("escalation_reason", "odd")]).await.status(), 303);
    let (status, page) = read(press(&desk, &ada, &other, &reject, &[("reason", "typed again")]).await).await;
    assert_eq!(status, 409);
    let form = page.split(&format!("action=\"{reject}\"")).nth(1).expect("it is offered");
    assert!(form.split("</form>").next().expect("a form").contains("typed again"), "{page}");
    assert_ne!(hidden(&page, &reject, "version"), hidden(&other, &reject, "version"), "as it is now");
    assert_eq!(press(&desk, &ada, &page, &reject, &[("reason", "typed again")]).await.status(), 303);
}

#[tokio::test]
async fn what_is_missing_is_said_at_its_field_and_nothing_is_lost() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (_, entry) = pending(&bench).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let path = format!("/entries/{entry}");
    let (_, page) = desk.page(&path, &cookie).await;
    let resolve = format!("{path}/resolve");
    let (status, refused) =
        read(press(&desk, &cookie, &page, &resolve, &[("remedy", "replay"), ("reason", "  ")]).await).await;
    assert_eq!(status, 422, "{refused}");
    assert!(
        refused.contains("href=\"#resolve-reason\"") && refused.contains("id=\"resolve-reason-error\""),
        "{refused}"
    );
    assert!(refused.contains("value=\"replay\" required checked"), "the choice stays: {refused}");
    assert_eq!(
        hidden(&refused, &resolve, "idempotency_key"),
        hidden(&page, &resolve, "idempotency_key"),
        "the same form may be sent again"
    );
    let (status, refused) =
        read(press(&desk, &cookie, &page, &resolve, &[("reason", "it is fine")]).await).await;
    assert_eq!(status, 422);
    assert!(refused.contains("Choose a remedy") && refused.contains("it is fine"), "no evidence: {refused}");
    let none = desk.send(&resolve, &cookie, &[("reason", "x")]).await;
    assert_eq!(none.status(), 428, "which version was seen?");
    assert_eq!(bench.state(entry).await.0, "Pending");
    let (_, refused_again) = desk.page(&format!("{path}?done=resolve"), &cookie).await;
    assert!(!refused_again.contains("It is resolved"), "a link cannot claim it: {refused_again}");
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_carried_out_once() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (_, entry) = pending(&bench).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let (_, page) = desk.page(&format!("/entries/{entry}"), &cookie).await;
    let dismiss = format!("/entries/{entry}/dismiss");
    for _ in 0..2 {
        let sent = press(&desk, &cookie, &page, &dismiss, &[("reason", "spam")]).await;
        assert_eq!(
            (sent.status().as_u16(), location(&sent)),
            (303, &*format!("/entries/{entry}?done=dismiss"))
        );
    }
    let sql = "SELECT count(*) FROM router.grey_queue_state_transitions WHERE command = 'dismiss'";
    assert_eq!(bench.eyes.query_one(sql, &[]).await.expect("counted").get::<_, i64>(0), 1);
    let (status, page) =
        read(press(&desk, &cookie, &page, &dismiss, &[("reason", "other words")]).await).await;
    assert_eq!(status, 422, "{page}");
    assert!(page.contains("sent before with other words"), "{page}");
}

#[tokio::test]
async fn a_viewer_decides_nothing_and_is_offered_nothing() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (_, entry) = pending(&bench).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "vera").await;
    let (_, page) = desk.page(&format!("/entries/{entry}"), &cookie).await;
    assert!(!page.contains("/assign\""), "{page}");
    let (_, queue) = desk.page("/queue", &cookie).await;
    assert!(!queue.contains("type=\"checkbox\" name=\"entry\""), "{queue}");
    let sent = desk.send(&format!("/entries/{entry}/assign"), &cookie, &[("version", "1")]).await;
    assert_eq!(sent.status(), 403);
    let chosen = format!("{entry}:1");
    let bulk = desk.send("/queue/bulk", &cookie, &[("command", "assign"), ("entry", &chosen)]).await;
    assert_eq!(bulk.status(), 403);
    assert_eq!(bench.state(entry).await.0, "Pending");
}

#[tokio::test]
async fn several_are_decided_as_they_were_seen_and_the_rest_is_listed() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let ((_, one), (_, two)) = (pending(&bench).await, pending(&bench).await);
    let desk = scene::open(&bench).await;
    let (rita, ada) = (desk.log_in(&bench, "rita").await, desk.log_in(&bench, "ada").await);
    let (_, queue) = desk.page("/queue?cause=failed", &rita).await;
    let key = hidden(&queue, "/queue/bulk", "idempotency_key");
    let chosen = [format!("{one}:1"), format!("{two}:1")];
    assert!(chosen.iter().all(|value| queue.contains(&format!("value=\"{value}\""))), "{queue}");
    let fields = |reason: &'static str| {
        vec![
            ("idempotency_key", key.as_str()),
            ("filters", "cause=failed"),
            ("command", "dismiss"),
            ("reason", reason),
            ("entry", chosen[0].as_str()),
            ("entry", chosen[1].as_str()),
        ]
    };
    let (status, page) = read(desk.send("/queue/bulk", &rita, &fields("")).await).await;
    assert_eq!(status, 422, "{page}");
    assert!(
        page.contains("href=\"#reason\"") && page.matches("\" checked").count() >= 2,
        "the selection stays: {page}"
    );
    let (_, other) = desk.page(&format!("/entries/{two}"), &ada).await;
    assert_eq!(press(&desk, &ada, &other, &format!("/entries/{two}/assign"), &[]).await.status(), 303);
    for _ in 0..2 {
        let (status, page) = read(desk.send("/queue/bulk", &rita, &fields("spam")).await).await;
        assert_eq!(status, 200, "{page}");
        assert!(page.contains("1 entry: dismiss decided") && page.contains("was left alone"), "{page}");
        assert!(page.contains(&format!("href=\"#row-{two}\"")), "{page}");
    }
    assert_eq!(bench.state(one).await.0, "Dismissed");
    assert_eq!(bench.state(two).await, ("UnderReview".to_owned(), Some("ada".to_owned())));
}

#[tokio::test]
async fn next_leads_to_what_waits_longest() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    assert_eq!(location(&desk.get("/next", &cookie).await), "/queue", "nothing waits");
    let (_, old) = pending(&bench).await;
    bench.later("1 min").await;
    let (_, young) = pending(&bench).await;
    assert_eq!(location(&desk.get("/next", &cookie).await), format!("/entries/{old}"));
    let (_, page) = desk.page(&format!("/entries/{old}"), &cookie).await;
    assert!(page.contains(&format!("href=\"/entries/{young}\">Next entry")), "{page}");
}

#[tokio::test]
async fn one_recipient_is_chosen_without_being_named() {
    let bench = scene::bench().await;
    bench.form(PLAIN).await;
    let (submission, entry) = pending(&bench).await;
    let carol = "UPDATE submissions SET routing_result = jsonb_set(jsonb_set(routing_result,
          '{plan,0,destination}', '\"bob@example.org, carol@example.net\"'),
          '{deliveries,1|carol@example.net}', '{\"state\": \"accepted\", \"at\": \"2026-11-01T10:00:00Z\"}')
        WHERE id = $1";
    bench.eyes.execute(carol, &[&submission]).await.expect("accepted");
    let desk = scene::open(&bench).await;
    let cookie = desk.log_in(&bench, "rita").await;
    let path = format!("/entries/{entry}");
    let (_, page) = desk.page(&path, &cookie).await;
    assert!(!page.contains("carol@"), "nobody asked for addresses: {page}");
    let option = page.split("<option value=\"").find(|option| option.contains("somebody at example.net"));
    let name = option.expect("a choice").split('"').next().expect("its value").to_owned();
    assert!(!page.contains("somebody at example.org, accepted"), "Bob has accepted nothing: {page}");

    let start = format!("{path}/start");
    let forged = "0".repeat(64);
    for nobody in ["", "1|carol@example.net", &forged] {
        let typed = [("remedy", "force_delivery"), ("delivery", nobody), ("reason", "it went to nobody")];
        let (status, refused) = read(press(&desk, &cookie, &page, &start, &typed).await).await;
        assert_eq!(status, 422, "{nobody:?}: {refused}");
        assert!(refused.contains("it went to nobody"), "what was typed is kept: {refused}");
        assert_eq!(bench.state(entry).await.0, "Pending");
    }
    let (_, page) = desk.page(&path, &cookie).await;
    let typed = [("remedy", "force_delivery"), ("delivery", &*name), ("reason", "it went to nobody")];
    let started = press(&desk, &cookie, &page, &start, &typed).await;
    assert_eq!(started.status(), 303, "{:?}", started.text().await);
    assert_eq!(bench.state(entry).await.0, "Processing");
    let sql = "SELECT routing_result #>> '{deliveries,1|carol@example.net,state}', status::text FROM submissions WHERE id = $1";
    let row = bench.eyes.query_one(sql, &[&submission]).await.expect("a row");
    assert_eq!(
        (row.get::<_, Option<String>>(0).as_deref(), row.get::<_, String>(1).as_str()),
        (Some("open"), "received")
    );
}
