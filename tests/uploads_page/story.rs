//! A file on its way, as a person sees it.

use devkit::browser::Key;
use devkit::clamd::eicar;
use devkit::google::{Act, Call, Rule, Stage};
use serde_json::json;

use crate::harness::{CONTENT, PART, sha256, text};
use crate::person::Person;

/// Twenty mebibytes: three parts.
const LENGTH: usize = 20 << 20;

/// A store that takes the first part and is silent about the others, once.
fn stands_still(person: &Person) {
    for part in [2, 3] {
        let silent = Rule::at(Stage::Before).call(Call::Part).part(part).times(1).act(Act::Silence);
        person.scene.google.rule(silent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_loaded_anew_in_the_middle_sends_only_what_is_missing() {
    let person = Person::new().await;
    let content = text(LENGTH);
    let file = person.file("notes.txt", &content);
    let session = person.invited(&content, json!({})).await;
    assert_eq!(person.browser.title().await.expect("a title"), "Bring notes.txt");
    person.sees("#size", "20.0 MiB").await;
    person.is_accessible("chooses").await;
    stands_still(&person);
    person.chooses(&file).await;
    person.has_arrived(&session, json!([1])).await;
    person.sees("#doing", "of 20.0 MiB sent; 1 of 3 parts have arrived").await;
    let value = "return document.querySelector('#progress').value";
    let shown = person.browser.run(value, Vec::new()).await.expect("asked").as_f64().expect("a number");
    assert!(shown >= 0.39, "8 of 20 MiB and more: {shown}");
    person.is_accessible("sends").await;
    let before = person.scene.google.bytes_received();
    person.browser.reload().await.expect("loaded anew");
    person.sees("#hint", "1 of 3 parts have arrived already").await;
    person.is_accessible("goes-on").await;
    person.chooses(&file).await;
    person.sees("#status.good", "nothing harmful was found in it").await;
    person.is_accessible("clean").await;
    let (missing, sent) = ((LENGTH - PART) as u64, person.scene.google.bytes_received() - before);
    assert!((missing..missing + (1 << 16)).contains(&sent), "{sent} bytes were sent, {missing} were missing");
    let object: String = person.scene.one("SELECT object FROM content.blobs").await;
    assert_eq!(person.scene.google.object_bytes(CONTENT, &object).expect("kept"), content);
    // A person who has touched nothing is not asked whether they mean it.
    person.kept_to_itself(&["beforeunload"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_keyboard_alone_with_a_pause_in_the_middle() {
    let person = Person::new().await;
    let content = text(LENGTH);
    let file = person.file("notes.txt", &content);
    let session = person.invited(&content, json!({"sha256": sha256(&content)})).await;
    person.browser.tab_to("Choose the file").await.expect("the field");
    stands_still(&person);
    person.chooses(&file).await;
    person.has_arrived(&session, json!([1])).await;
    let focused = person.browser.focused().await.expect("asked");
    assert_eq!(focused, "Pause", "whoever chose goes on from there");
    person.browser.press(&[Key::Enter]).await.expect("paused");
    person.sees("#status", "Paused. What has arrived stays.").await;
    person.sees("#doing", "8.0 of 20.0 MiB sent; 1 of 3 parts have arrived").await;
    assert_eq!(person.browser.focused().await.expect("asked"), "Go on");
    person.is_accessible("paused").await;
    let before = person.scene.google.bytes_received();
    person.browser.press(&[Key::Enter]).await.expect("goes on");
    person.sees("#status.good", "nothing harmful was found in it").await;
    let (missing, sent) = ((LENGTH - PART) as u64, person.scene.google.bytes_received() - before);
    assert!((missing..missing + (1 << 16)).contains(&sent), "{sent} bytes were sent, {missing} were missing");
    let focused = "return document.activeElement.id";
    assert_eq!(person.browser.run(focused, Vec::new()).await.expect("asked"), json!("status"));
    person.kept_to_itself(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_is_refused_in_words_and_a_virus_is_told() {
    let person = Person::new().await;
    let content = eicar();
    let (other, file) = (person.file("other.txt", &text(2000)), person.file("invoice.txt", &content));
    let session = person.invited(&content, json!({})).await;
    person.chooses(&other).await;
    person.sees("#status.bad", "and 68 bytes were announced. Choose the file that was announced.").await;
    person.is_accessible("wrong-file").await;
    assert_eq!(person.state(&session).await.0, "initiated", "nothing was sent");
    person.chooses(&file).await;
    person.sees("#status.bad", "has found something harmful in it. It will not be passed on.").await;
    person.is_accessible("infected").await;
    // The same length and another content, where it was said before what it is.
    let (right, wrong) = (text(3000), vec![b'x'; 3000]);
    let session = person.invited(&right, json!({"sha256": sha256(&right)})).await;
    person.chooses(&person.file("wrong.txt", &wrong)).await;
    person.sees("#status.bad", "another file than the one that was announced").await;
    assert_eq!(person.state(&session).await.0, "initiated", "nothing was sent");
    person.chooses(&person.file("right.txt", &right)).await;
    person.sees("#status.good", "nothing harmful").await;
    person.kept_to_itself(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_up_is_asked_once_and_what_was_sent_goes() {
    let person = Person::new().await;
    let content = text(LENGTH);
    let file = person.file("notes.txt", &content);
    let session = person.invited(&content, json!({})).await;
    stands_still(&person);
    person.chooses(&file).await;
    person.has_arrived(&session, json!([1])).await;
    person.browser.click("#end").await.expect("pressed");
    person.sees("#status", "Press the button once more").await;
    assert_eq!(person.state(&session).await.0, "parts_uploading");
    person.browser.click("#end").await.expect("pressed");
    person.sees("#status.bad", "Nothing came of it").await;
    person.is_accessible("given-up").await;
    assert_eq!(person.state(&session).await.0, "aborted");
    person.kept_to_itself(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_in_passing_goes_on_by_itself() {
    let person = Person::new().await;
    let content = text(PART + 9);
    let file = person.file("notes.txt", &content);
    person.invited(&content, json!({})).await;
    let google = &person.scene.google;
    google.rule(Rule::at(Stage::Before).call(Call::Part).times(1).act(Act::Status(503)));
    google.rule(Rule::at(Stage::After).call(Call::Part).times(1).act(Act::Disconnect));
    // A link that has come to its end.
    google.rule(Rule::at(Stage::Before).call(Call::Part).times(1).act(Act::Status(403)));
    person.chooses(&file).await;
    person.sees("#status.good", "nothing harmful").await;
    person
        .kept_to_itself(&["503", "403", "ERR_EMPTY_RESPONSE", "CORS", "ERR_FAILED", "ERR_CONNECTION"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_without_its_end_and_somebody_elses_session_are_told_in_words() {
    let person = Person::new().await;
    person.open("").await;
    person.sees("#status.bad", "The address of this page is not whole").await;
    person.is_accessible("no-token").await;
    let session = person.scene.session(b"x", json!({})).await;
    let secret = session.token.split('.').next_back().expect("a secret");
    person.open(&format!("mrup_{}.{secret}", "0".repeat(32))).await;
    person.sees("#status.bad", "Compare the address and the token").await;
    person.kept_to_itself(&["404"]).await;
}
