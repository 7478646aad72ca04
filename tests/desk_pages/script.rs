//! The script in a real Chromium, under the desk's policy: what it keeps, what it changes in place, what it leaves alone.

use maple_router::desk::pages::queue::QueueRows;
use serde_json::{Value, json};

use crate::browser::{Served, Server, said, sample_files, serve};
use crate::samples;

/// Runs before the page's own script: notes what breaks the policy, and each stream that is opened.
const EARLY: &str = "
window.broken = [];
addEventListener('securitypolicyviolation', (event) => broken.push(event.violatedDirective + ' ' + event.sourceFile));
window.streams = [];
window.EventSource = class extends EventSource { constructor(url) { super(url); streams.push(this); } };
";

/// What stories share.
const TOOLS: &str = "
const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));
// Virtual time runs ahead of other processes; the server's answer takes a moment of the real one.
const until = async (true_) => { for (let asked = 0; asked < 500 && !true_(); asked += 1) await fetch('/tick'); };
const byId = (id) => document.getElementById(id);
const frame = async (path) => {
  const made = document.createElement('iframe');
  await new Promise((loaded) => { made.onload = loaded; made.src = path; document.body.append(made); });
  return made;
};
const type = (field, text) => { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); };
const say = (told) => { document.title = 'said:' + JSON.stringify({ ...told, broken }); };
";

fn page(name: &str) -> String {
    samples::all(&str::to_owned).into_iter().find(|page| page.name == name).expect("it is there").html
}

/// The page with a story at its end.
fn staged(html: &str) -> String {
    html.replace("<script type=\"module\"", "<script src=\"/test/early.js\"></script><script type=\"module\"")
        .replace("</body>", "<script type=\"module\" src=\"/test/story.js\"></script></body>")
}

/// What the story says, told on this page.
fn told(html: &str, story: &str, mut served: Served) -> (Value, Server) {
    served.files.extend(sample_files());
    served.files.push(("/test/early.js".to_owned(), "text/javascript", EARLY.to_owned()));
    served.files.push(("/test/story.js".to_owned(), "text/javascript", format!("{TOOLS}{story}")));
    served.files.push(("/stage".to_owned(), "text/html; charset=utf-8", staged(html)));
    let server = serve(served);
    let said = said(&server, "/stage", false, 1280);
    let told: Value = serde_json::from_str(&said).expect("what the story says");
    assert_eq!(told["broken"], json!([]), "the policy is kept");
    (told, server)
}

/// Ids of the sample's rows, in their order.
fn ids() -> Vec<String> {
    samples::rows(&str::to_owned).entries.iter().map(|entry| entry.id.to_string()).collect()
}

#[test]
fn ages_go_on_by_the_clock_of_the_database() {
    let story = "
        const row = document.querySelector('#rows tbody tr:last-child');
        const age = () => [...row.querySelectorAll('time')].map((time) => time.textContent);
        const before = age();
        await wait(95000);
        say({ before, after: age(), asOf: byId('as-of').textContent });";
    let (told, _server) = told(&page("queue"), story, Served::default());
    assert_eq!(told["before"], json!(["41 min", "41 min ago"]));
    assert_eq!(told["after"], json!(["42 min", "42 min ago"]));
    assert_eq!(told["asOf"], "25 Nov 2026, 09:30:00 UTC", "it stays the time of the look");
}

#[test]
fn what_was_typed_stays_until_it_was_accepted() {
    let entry = page("entry-mine");
    let accepted = entry.replace("/assign-me\">", "/reject\">");
    assert_ne!(entry, accepted);
    let story = "
        const inside = (frame) => frame.contentDocument.getElementById('reject-reason');
        type(byId('reject-reason'), 'a duplicate of 8f1e');
        type(byId('resolve-reason'), 'what this tab remembers');
        byId('resolve').querySelectorAll('[type=radio]')[1].click();
        const again = await frame('/sample/entry-mine');
        const kept = inside(again).value;
        const unfolded = inside(again).closest('details').open;
        const remedy = again.contentDocument.querySelector('#resolve :checked').value;
        const conflict = await frame('/sample/entry-conflict');
        const served = conflict.contentDocument.getElementById('resolve-reason').value;
        const problem = await frame('/sample/problem');
        const hint = !problem.contentDocument.getElementById('kept').hidden;
        await frame('/accepted');
        const after = await frame('/sample/entry-mine');
        const forgotten = inside(after).value === '' && !inside(after).closest('details').open;
        const others = after.contentDocument.querySelector('#resolve :checked').value;
        await frame('/sample/logged-out');
        say({ kept, unfolded, remedy, served, hint, forgotten, others, left: sessionStorage.length });";
    let files = vec![("/accepted".to_owned(), "text/html; charset=utf-8", accepted)];
    let (told, _server) = told(&entry, story, Served { files, ..Served::default() });
    assert_eq!(told["kept"], "a duplicate of 8f1e");
    assert_eq!(told["unfolded"], true);
    assert_eq!(told["remedy"], "replan");
    assert_eq!(told["hint"], true, "a problem's page says that it is kept");
    let given_back = "The mailbox exists again since this morning; the postmaster of example.org says so.";
    assert_eq!(told["served"], given_back, "what the server gives back is not overwritten");
    assert_eq!(
        (&told["forgotten"], &told["others"]),
        (&json!(true), &json!("replan")),
        "only what was accepted"
    );
    assert_eq!(told["left"], 0, "after logout nothing is left");
}

/// Answers of `/queue/rows`: the first row changed, another is new, the second does not fit any more.
fn rows_after() -> (String, Vec<String>) {
    let ids = ids();
    let mut rows: QueueRows = samples::rows(&str::to_owned);
    rows.entries.truncate(3);
    rows.entries[0].version = 7;
    rows.entries[0].state = "Resolved".to_owned();
    rows.entries.remove(1);
    rows.entries[1].id = uuid::Uuid::from_u128(7);
    (rows.to_string(), ids)
}

#[test]
fn rows_change_in_place_and_what_is_new_waits() {
    let (rows, ids) = rows_after();
    let new = uuid::Uuid::from_u128(7);
    let events = vec![
        json!({"id": ids[0], "version": 7, "state": "Resolved"}).to_string(),
        json!({"id": ids[1], "version": 9, "state": "Rejected"}).to_string(),
        json!({"id": ids[2], "version": 3, "state": "UnderReview"}).to_string(),
        json!({"id": new, "version": 1, "state": "Pending"}).to_string(),
        json!({"id": uuid::Uuid::from_u128(8), "version": 5, "state": "UnderReview"}).to_string(),
    ];
    let story = format!(
        "const [changed, gone, same] = {ids}.map((id) => 'row-' + id);
        const id = {ids}[0];
        byId('pick-' + id).click();
        byId('open-' + id).focus();
        const rows = document.querySelectorAll('#rows tbody tr').length;
        await until(() => byId(changed).classList.contains('changed'));
        await wait(2000);
        say({{
          state: byId(changed).querySelector('.badge').textContent,
          marked: byId(changed).classList.contains('changed'),
          selected: byId('pick-' + id).checked,
          focused: document.activeElement.id === 'open-' + id,
          gone: byId(gone).querySelector('.state').textContent.includes('not in this list any more'),
          same: byId(same).classList.contains('changed'),
          fresh: byId('fresh').hidden ? '' : byId('fresh').textContent.trim(),
          link: byId('fresh').querySelector('a').getAttribute('href'),
          aloud: byId('said').textContent,
          rows: document.querySelectorAll('#rows tbody tr').length - rows,
        }});",
        ids = json!(ids[..3])
    );
    let (told, server) = told(&page("queue"), &story, Served { events, rows, ..Served::default() });
    assert_eq!(told["state"], "Resolved");
    assert_eq!((&told["marked"], &told["gone"], &told["same"]), (&json!(true), &json!(true), &json!(false)));
    assert_eq!(told["selected"], false, "what was selected is not what is there now");
    assert_eq!(told["focused"], true, "the focus stays where it was");
    assert_eq!((&told["fresh"], &told["link"]), (&json!("1 new"), &json!("/queue")));
    assert_eq!(told["rows"], 0, "nothing moves under a reader's hand");
    assert_eq!(told["aloud"], "2 changed, 1 of them not selected any more.");
    let asked: Vec<String> =
        server.asked().into_iter().filter(|path| path.starts_with("/queue/rows")).collect();
    let wanted = format!("/queue/rows?ids={}%2C{}%2C{new}", ids[0], ids[1]);
    assert_eq!(asked, [wanted], "once, for what changed; an old version and another page's row are no news");
}

#[test]
fn an_open_entry_says_that_it_changed_and_stays_as_it_is() {
    let entry = page("entry-mine");
    let id = ids()[0].clone();
    let events = vec![json!({"id": id, "version": 3, "state": "UnderReview"}).to_string()];
    let story = "
        const before = byId('stale').hidden;
        await until(() => !byId('stale').hidden);
        say({ before, after: byId('stale').hidden, state: document.querySelector('.standing .badge').textContent });";
    let (told, _server) = told(&entry, story, Served { events, ..Served::default() });
    assert_eq!(told["before"], true);
    assert_eq!((&told["after"], &told["state"]), (&json!(false), &json!("Under review")));
}

#[test]
fn two_windows_share_one_stream_and_a_hidden_one_has_none() {
    let (rows, ids) = rows_after();
    let events = vec![json!({"id": ids[0], "version": 7, "state": "Resolved"}).to_string()];
    let story = format!(
        "const other = await frame('/other');
        await fetch('/go');
        const row = 'row-{}';
        const badges = () => [document, other.contentDocument].map((page) => page.getElementById(row).querySelector('.badge').textContent);
        await until(() => badges().every((badge) => badge === 'Resolved'));
        const both = badges();
        const opened = [streams.length, other.contentWindow.streams.length];
        Object.defineProperty(document, 'hidden', {{ value: true, configurable: true }});
        document.dispatchEvent(new Event('visibilitychange'));
        await until(() => other.contentWindow.streams.length);
        const left = streams.map((stream) => stream.readyState);
        const taken = other.contentWindow.streams.length;
        say({{ both, opened, left, taken }});",
        ids[0]
    );
    let other = page("queue").replace(
        "<script type=\"module\"",
        "<script src=\"/test/early.js\"></script><script type=\"module\"",
    );
    let files = vec![("/other".to_owned(), "text/html; charset=utf-8", other)];
    let (told, _server) = told(&page("queue"), &story, Served { events, rows, files, holds: true });
    assert_eq!(told["both"], json!(["Resolved", "Resolved"]), "who has no stream is told by who has");
    assert_eq!(told["opened"], json!([1, 0]));
    assert_eq!(told["left"], json!([2]), "closed");
    assert_eq!(told["taken"], 1, "the other window takes over");
}

#[test]
fn all_of_a_page_can_be_selected_and_the_bar_says_how_many() {
    let story = "
        const says = () => [byId('selected').textContent, byId('all').checked, byId('all').indeterminate];
        const shown = !byId('all').closest('label').hidden;
        const none = says();
        byId('all').click();
        const all = says();
        document.querySelector('#rows tbody input').click();
        const some = says();
        byId('command').value = 'dismiss';
        const data = new FormData(document.querySelector('form.bulk')).getAll('entry').length;
        say({ shown, none, all, some, data });";
    let (told, _server) = told(&page("queue"), story, Served::default());
    assert_eq!(told["shown"], true);
    assert_eq!(told["none"], json!(["With the selected entries", false, false]));
    assert_eq!(told["all"], json!(["With the 9 selected", true, false]));
    assert_eq!(told["some"], json!(["With the 8 selected", false, true]));
    assert_eq!(told["data"], 8);
}

#[test]
fn a_filter_that_is_not_set_is_not_in_the_address() {
    let story = "
        const list = await frame('/sample/queue-empty');
        const form = list.contentDocument.querySelector('form[data-bare]');
        form.elements.cause.value = 'bounced';
        form.elements.state[0].checked = true;
        const moved = new Promise((loaded) => { list.onload = loaded; });
        form.requestSubmit();
        await moved;
        say({ address: list.contentWindow.location.pathname + list.contentWindow.location.search });";
    let files = vec![("/queue".to_owned(), "text/html; charset=utf-8", page("queue-empty"))];
    let (told, _server) = told(&page("logged-out"), story, Served { files, ..Served::default() });
    assert_eq!(told["address"], "/queue?state=Pending&cause=bounced");
}

/// A mail with all that mails have tried: the frame shows it, and nothing of it runs, loads or sends.
#[test]
fn a_hostile_mail_in_its_frame_runs_nothing_and_asks_for_nothing() {
    let shown = page("entry-shown");
    let at = shown.find("<iframe sandbox src=\"").expect("a frame") + "<iframe sandbox src=\"".len();
    let path = shown[at..].split('"').next().expect("a path").to_owned();
    let mail = "<!doctype html><p id=words style='color: red'>words</p><img src=/beacon/img><link rel=stylesheet href=/beacon/css>\
        <script src=/beacon/script></script><script>parent.document.title = 'ran'; fetch('/beacon/fetch')</script>\
        <form action=/beacon/form id=f><input name=a></form><script>f.submit()</script><iframe src=/beacon/frame></iframe>\
        <meta http-equiv=refresh content='0; url=/beacon/refresh'><svg onload='fetch(\"/beacon/svg\")'></svg>\
        <video src=/beacon/video autoplay></video><object data=/beacon/object></object>";
    let files = vec![(path.clone(), "text/html; charset=utf-8", mail.to_owned())];
    let story = "
        const inside = document.querySelector('iframe');
        inside.loading = 'eager';
        inside.scrollIntoView();
        for (let asked = 0; asked < 50; asked += 1) await fetch('/tick');
        let reached = true;
        try { reached = inside.contentDocument !== null; } catch { reached = false; }
        say({ reached });";
    let (told, server) = told(&shown, story, Served { files, ..Served::default() });
    assert_eq!(told["reached"], false, "the mail has an origin of its own");
    let asked = server.asked();
    assert!(asked.contains(&path), "it was shown: {asked:?}");
    let beacons: Vec<_> = asked.iter().filter(|path| path.starts_with("/beacon")).collect();
    assert!(beacons.is_empty(), "{beacons:?}");
}

/// The notice of what breaks the policy works, and no page of ours breaks it.
#[test]
fn no_page_breaks_the_policy() {
    let names: Vec<&str> = samples::all(&str::to_owned).iter().map(|page| page.name).collect();
    let staged = |html: &str| {
        html.replace(
            "<script type=\"module\"",
            "<script src=\"/test/early.js\"></script><script type=\"module\"",
        )
    };
    let mut files: Vec<_> = samples::all(&str::to_owned)
        .into_iter()
        .map(|page| (format!("/early/{}", page.name), "text/html; charset=utf-8", staged(&page.html)))
        .collect();
    let spoilt = staged(&page("api")).replace("<h1>", "<h1 style=\"color: red\">");
    files.push(("/early/spoilt".to_owned(), "text/html; charset=utf-8", spoilt));
    let story = format!(
        "const seen = {{}};
        for (const name of [...{}, 'spoilt']) {{
          const shown = await frame('/early/' + name);
          await wait(50);
          seen[name] = shown.contentWindow.broken;
          shown.remove();
        }}
        say({{ seen }});",
        json!(names)
    );
    let (told, _server) = told(&page("logged-out"), &story, Served { files, ..Served::default() });
    let seen = told["seen"].as_object().expect("an object");
    assert_eq!(seen.len(), names.len() + 1);
    for (name, broken) in seen {
        let nothing = broken.as_array().is_some_and(Vec::is_empty);
        assert_eq!(nothing, name != "spoilt", "{name}: {broken}");
    }
}
