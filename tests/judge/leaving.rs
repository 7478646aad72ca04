//! What leaves this house, and what is told about it.

use devkit::judge::Mode;
use maple_router::gateway::judge::JudgeError;
use maple_router::ports::Inquiry as _;
use maple_router::screening::judge::prompt::{LARGEST, Question, Unaskable};
use maple_router::screening::judge::redact::{Kind, redact};
use maple_router::screening::run::Profile;
use serde_json::Value;

use crate::harness::{NONCE, World, client, question};

/// Values of a submission, and what of them must not leave.
const VALUES: [(&str, &str); 6] = [
    ("first_name", "Wilhelmina"),
    ("surname", "Featherstonehaugh"),
    ("email", "wilhelmina.f@private.example"),
    ("phone", "+49 171 2345678"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    (
        "message",
        "I am Wilhelmina Featherstonehaugh, write to w.featherstonehaugh@private.example or call 0171-2345678.\n\
         My card is 4111 1111 1111 1111, see https://wf:pw@tracker.example/u/wilhelmina?mail=w%40private.example",
    ),
];
const PERSONAL: [&str; 12] = [
    "Wilhelmina",
    "wilhelmina",
    "Featherstonehaugh",
    "featherstonehaugh",
    "private.example",
    "2345678",
    "3704 0044",
    "4111",
    "wf:pw",
    "/u/",
    "mail=",
    "%40",
];

fn owned(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn of(blocks: Vec<(String, String)>) -> Question {
    Question { profile: Profile::Fields, nonce: NONCE.to_owned(), blocks, tier1: Vec::new() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn personal_values_leave_as_tags_and_hosts_as_they_are() {
    let world = World::new().await;
    let composed = of(redact(&owned(&VALUES), Kind::ALL)).compose().expect("a question");
    world.ask(&composed).await.expect("an answer");
    for personal in PERSONAL {
        assert!(!world.scripted.has_seen(personal), "{personal}");
    }
    for evidence in
        ["tracker.example", "<name>", "<email>", "<phone>", "<iban>", "<card>", "<userinfo>", "<path>"]
    {
        assert!(world.scripted.has_seen(evidence), "{evidence}");
    }
    // Where the form says `send = "full"`, nothing is redacted.
    world.ask(&of(owned(&VALUES)).compose().expect("a question")).await.expect("an answer");
    assert!(PERSONAL.iter().all(|personal| world.scripted.has_seen(personal)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_is_in_one_message_and_nothing_but_text_is_asked_for() {
    let world = World::new().await;
    world.ask(&question(&[("message", "planted one\nplanted two")])).await.expect("an answer");
    let [body] = &world.scripted.asked()[..] else { panic!("one question") };
    let body: Value = serde_json::from_str(body).expect("JSON");
    let keys: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["max_tokens", "messages", "model", "response_format", "temperature"]);
    assert_eq!(body["temperature"], 0);
    let [system, user] = &body["messages"].as_array().expect("messages")[..] else { panic!("two messages") };
    assert_eq!((&system["role"], &user["role"]), (&Value::from("system"), &Value::from("user")));
    assert!(
        !system["content"].to_string().contains("planted") && !system["content"].to_string().contains(NONCE)
    );
    let document: Value = serde_json::from_str(user["content"].as_str().expect("a text")).expect("JSON");
    let text = document["blocks"][0]["text"].as_str().expect("a text");
    assert_eq!(text, format!("{NONCE}| planted one\n{NONCE}| planted two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_not_asked() {
    let world = World::new().await;
    let asked = of(owned(&[("message", &"x".repeat(LARGEST))]));
    assert_eq!(asked.compose().map(|_| ()), Err(Unaskable::TooLarge));
    let most = question(&[("m", &"x".repeat(LARGEST - 1))]);
    world.ask(&most).await.expect("an answer");
    assert_eq!(world.scripted.requests(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_goes_to_the_judge_and_into_no_words() {
    let world = World::new().await;
    let content = question(&[("planted-place", "planted-text")]);
    for wrong in [None, Some("sk-planted-key")] {
        let judge = client(&world.scripted, wrong);
        let refused = judge.ask(&content).await.expect_err("refused");
        assert_eq!(refused, JudgeError::Refused { section: "screening.judge", status: 401 });
        let shown = format!("{refused} {refused:?} {judge:?} {content:?} {:?}", content.chat());
        assert!(!shown.contains("planted"), "{shown}");
    }
    for mode in [Mode::Echo, Mode::Status(500), Mode::Page, Mode::HalfBody, Mode::WrongNonce, Mode::Redirect]
    {
        world.scripted.set(mode);
        let error = world.ask(&content).await.expect_err("no answer");
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("planted") && !shown.contains("127.0.0.1") && !shown.contains("sk-"),
            "{shown}"
        );
    }
}
