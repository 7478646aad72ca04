//! Tests of message.rs and message/callback.rs.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::grading::core::result::tests::sample;

const ID: &str = "11111111-1111-4111-8111-111111111111";

fn writing() -> Value {
    json!({
        "requestId": ID, "submissionId": ID, "attempt": 1, "kind": "grade", "skill": "writing",
        "deadlineAt": "2026-01-02T03:04:05Z", "rubric": "2",
        "question": {"id": "q-1", "prompt": "WORDS asked", "known": ["WORDS known"]},
        "payload": {"text": "WORDS written", "wordCount": 2, "taskType": "email"},
    })
}

fn speaking() -> Value {
    let mut request = writing();
    request["skill"] = json!("speaking");
    request["payload"] = json!({"audioUrl": "https://WORDS.example/a?b=c", "durationSeconds": 61, "part": 2});
    request
}

fn cancel() -> Value {
    json!({"requestId": ID, "submissionId": ID, "attempt": 2, "kind": "cancel"})
}

fn bytes(of: &Value) -> Vec<u8> {
    serde_json::to_vec(of).expect("JSON")
}

/// `base` with the member at this pointer set, or, by null, taken away.
fn with(mut base: Value, at: &str, value: Value) -> Vec<u8> {
    let (parent, name) = at.rsplit_once('/').expect("a pointer");
    let parent = base.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    if value.is_null() {
        parent.remove(name)
    } else {
        parent.insert(name.to_owned(), value)
    };
    bytes(&base)
}

#[test]
fn requests_are_read_as_they_are_written() {
    let mut forget = cancel();
    forget["kind"] = json!("forget");
    let mut short = speaking();
    short["payload"].as_object_mut().expect("an object").remove("durationSeconds");
    for (message, kind) in [
        (writing(), RequestKind::Grade),
        (speaking(), RequestKind::Grade),
        (short, RequestKind::Grade),
        (cancel(), RequestKind::Cancel),
        (forget, RequestKind::Forget),
    ] {
        let request = Request::parse(&bytes(&message)).expect("a request");
        assert_eq!(request.kind(), kind);
        let written = request.to_bytes().expect("bytes");
        assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), message);
    }
}

#[test]
fn every_member_is_needed_and_no_other_is_taken() {
    for (base, members) in [
        (writing(), &["skill", "deadlineAt", "rubric", "question", "payload"][..]),
        (writing(), &["payload.text", "payload.wordCount", "payload.taskType"]),
        (speaking(), &["payload.audioUrl", "payload.part"]),
    ] {
        for member in members {
            let found =
                Request::parse(&with(base.clone(), &format!("/{}", member.replace('.', "/")), Value::Null));
            assert_eq!(found, Err(BadMessage::Missing(member)));
        }
    }
    for (base, at, value) in [
        (writing(), "/requestId", Value::Null),
        (writing(), "/attempt", Value::Null),
        (writing(), "/kind", json!("ungrade")),
        (writing(), "/userId", json!(ID)),
        (writing(), "/question/known", Value::Null),
        (writing(), "/question/key", json!(1)),
        (writing(), "/payload/words", json!(1)),
        (writing(), "/question", json!(["q-1", "prompt", []])),
        (writing(), "/payload", json!(["text", 1, "email"])),
        (writing(), "/deadlineAt", json!("soon")),
        (writing(), "/payload/wordCount", json!(-1)),
        (cancel(), "/why", json!("")),
    ] {
        let found = Request::parse(&with(base, at, value));
        assert!(matches!(found, Err(BadMessage::Shape { .. })), "{at}");
    }
    for member in ["skill", "deadlineAt", "rubric", "question", "payload"] {
        let found = Request::parse(&with(cancel(), &format!("/{member}"), writing()[member].clone()));
        assert_eq!(found, Err(BadMessage::Unexpected(member)));
    }
    for (base, other, members) in [
        (writing(), speaking(), ["audioUrl", "durationSeconds", "part"]),
        (speaking(), writing(), ["text", "wordCount", "taskType"]),
    ] {
        for member in members {
            let at = format!("/payload/{member}");
            let found = Request::parse(&with(base.clone(), &at, other["payload"][member].clone()));
            assert!(matches!(found, Err(BadMessage::Unexpected(name)) if name.ends_with(member)), "{at}");
        }
    }
}

#[test]
fn bounds_are_kept_and_named() {
    for (base, at, value, member) in [
        (writing(), "/attempt", json!(0), "attempt"),
        (writing(), "/attempt", json!(2_147_483_648_u32), "attempt"),
        (writing(), "/skill", json!("reading"), "skill"),
        (writing(), "/rubric", json!("2 b"), "rubric"),
        (writing(), "/rubric", json!("2".repeat(41)), "rubric"),
        (writing(), "/question/id", json!(""), "question.id"),
        (writing(), "/payload/text", json!(" \n"), "payload.text"),
        (writing(), "/payload/text", json!("ư".repeat(MOST_TEXT / 2 + 1)), "payload.text"),
        (writing(), "/payload/wordCount", json!(u32::MAX), "payload.wordCount"),
        (speaking(), "/payload/durationSeconds", json!(901), "payload.durationSeconds"),
        (speaking(), "/payload/part", json!(4), "payload.part"),
        (speaking(), "/payload/part", json!(0), "payload.part"),
        (speaking(), "/payload/audioUrl", json!("file:///etc/passwd"), "payload.audioUrl"),
        (speaking(), "/payload/audioUrl", json!("https://a b"), "payload.audioUrl"),
        (speaking(), "/payload/audioUrl", json!(format!("https://{}", "a".repeat(2048))), "payload.audioUrl"),
    ] {
        assert_eq!(Request::parse(&with(base, at, value)), Err(BadMessage::Invalid(member)));
    }
    assert!(Request::parse(&with(writing(), "/payload/text", json!("a".repeat(MOST_TEXT)))).is_ok());
    assert!(Request::parse(&with(speaking(), "/payload/durationSeconds", json!(900))).is_ok());
    let large = with(writing(), "/question/prompt", json!("a".repeat(MOST_MESSAGE)));
    assert_eq!(Request::parse(&large), Err(BadMessage::TooLarge));
    let mut request = Request::parse(&bytes(&writing())).expect("a request");
    let Ask::Grade(grade) = &mut request.ask else { panic!("a grade") };
    grade.question.known = vec!["a".repeat(MOST_TEXT); 2];
    assert_eq!(request.to_bytes(), Err(BadMessage::TooLarge));
}

#[test]
fn a_bad_message_can_be_answered_and_is_not_repeated() {
    let bad = with(writing(), "/payload", json!("WORDS"));
    let fault = Request::parse(&bad).expect_err("bad");
    assert!(!format!("{fault} {fault:?}").contains("WORDS"));
    assert_eq!(Ids::of(&bad).map(|ids| ids.request_id.to_string()), Some(ID.to_owned()));
    assert_eq!((Ids::of(b"[1]"), Ids::of(b""), Ids::of(b"{}")), (None, None, None));
    let listed = json!([ID, ID, 2, "cancel", null, null, null]);
    assert!(matches!(Request::parse(&bytes(&listed)), Err(BadMessage::Shape { .. })), "a list of the values");
    assert_eq!(Ids::of(&bytes(&json!([ID, ID]))), None);
    let twice = br#"{"requestId":"11111111-1111-4111-8111-111111111111","requestId":"x"}"#;
    assert!(matches!(Request::parse(twice), Err(BadMessage::Shape { .. })));
}

fn completed() -> Callback {
    let id = Uuid::parse_str(ID).expect("an id");
    Callback {
        request_id: id,
        submission_id: id,
        job_id: id,
        r#try: 2,
        seq: 3,
        event_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        said: Said::Completed {
            result: Box::new(sample(Skill::Speaking, 70)),
            transcript: Some("WORDS spoken".to_owned()),
        },
    }
}

fn failure(kind: ErrorType) -> Failure {
    Failure { kind, code: "http_429".to_owned(), retryable: true }
}

#[test]
fn nothing_shows_a_text_or_an_address() {
    for message in [writing(), speaking()] {
        let request = Request::parse(&bytes(&message)).expect("a request");
        assert!(!format!("{request:?}").contains("WORDS"));
    }
    assert!(!format!("{:?}", completed()).contains("WORDS"));
}

#[test]
fn callbacks_are_read_as_they_are_written() {
    let mut all = vec![
        completed().said,
        Said::Completed { result: Box::new(sample(Skill::Writing, 70)), transcript: None },
    ];
    all.extend(ErrorType::ALL.iter().map(|kind| Said::Error(failure(*kind))));
    for status in Status::ALL {
        all.push(Said::Progress { status: *status, error: None });
    }
    for status in [Status::Error, Status::Retrying] {
        all.push(Said::Progress { status, error: Some(failure(ErrorType::Model)) });
    }
    for said in all {
        let callback = Callback { said, ..completed() };
        let written = callback.to_bytes().expect("bytes");
        let json: Value = serde_json::from_slice(&written).expect("JSON");
        assert_eq!(json["eventId"], json!(callback.event_id()));
        assert_eq!(Callback::parse(&written).expect("a callback"), callback);
    }
}

#[test]
fn an_id_is_of_job_try_kind_and_number() {
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let id = event_id(one, 1, CallbackKind::Progress, 2);
    assert_eq!(id, event_id(one, 1, CallbackKind::Progress, 2));
    for different in [
        event_id(other, 1, CallbackKind::Progress, 2),
        event_id(one, 2, CallbackKind::Progress, 2),
        event_id(one, 1, CallbackKind::Error, 2),
        event_id(one, 1, CallbackKind::Progress, 1),
        event_id(one, 11, CallbackKind::Progress, 2),
    ] {
        assert_ne!(id, different);
    }
    assert_eq!(id.get_version_num(), 5);
    assert_eq!(
        id.to_string(),
        "e8605e77-e24c-56a5-9eb4-8ee3e849c150",
        "what is sent again by another version is the same event"
    );
}

#[test]
fn a_callback_is_its_own_and_of_its_kind() {
    let base = || serde_json::from_slice::<Value>(&completed().to_bytes().expect("bytes")).expect("JSON");
    for (at, value) in
        [("/eventId", json!(ID)), ("/seq", json!(4)), ("/try", json!(1)), ("/kind", json!("error"))]
    {
        assert_eq!(Callback::parse(&with(base(), at, value)), Err(BadMessage::Invalid("eventId")), "{at}");
    }
    let error = json!({"type": "model", "code": "http_500", "retryable": true});
    for (kind, data, fault) in [
        ("completed", json!({}), BadMessage::Missing("data.result")),
        (
            "completed",
            json!({"result": base()["data"]["result"], "status": "ERROR"}),
            BadMessage::Unexpected("data.status"),
        ),
        (
            "completed",
            json!({"result": base()["data"]["result"], "error": error}),
            BadMessage::Unexpected("data.error"),
        ),
        ("progress", json!({}), BadMessage::Missing("data.status")),
        (
            "progress",
            json!({"status": "RETRYING", "transcript": ""}),
            BadMessage::Unexpected("data.transcript"),
        ),
        (
            "progress",
            json!({"status": "ERROR", "result": base()["data"]["result"]}),
            BadMessage::Unexpected("data.result"),
        ),
        ("progress", json!({"status": "PROCESSING", "error": error}), BadMessage::Unexpected("data.error")),
        ("error", json!({}), BadMessage::Missing("data.error")),
        ("error", json!({"error": error, "status": "ERROR"}), BadMessage::Unexpected("data.status")),
        ("error", json!({"error": error, "transcript": "a"}), BadMessage::Unexpected("data.transcript")),
        (
            "error",
            json!({"error": error, "result": base()["data"]["result"]}),
            BadMessage::Unexpected("data.result"),
        ),
        (
            "error",
            json!({"error": {"type": "model", "code": "a text", "retryable": true}}),
            BadMessage::Invalid("data.error.code"),
        ),
    ] {
        let mut message = base();
        let of = CallbackKind::parse(kind).expect("a kind");
        (message["kind"], message["data"]) = (json!(kind), data);
        message["eventId"] = json!(event_id(completed().job_id, 2, of, 3));
        assert_eq!(Callback::parse(&bytes(&message)), Err(fault), "{kind}");
    }
    for (at, value) in [
        ("/data/result/more", json!(1)),
        ("/data/more", json!(1)),
        ("/more", json!(1)),
        ("/data", json!([])),
        ("/eventAt", Value::Null),
        ("/data/status", json!("COMPLETED")),
    ] {
        assert!(matches!(Callback::parse(&with(base(), at, value)), Err(BadMessage::Shape { .. })), "{at}");
    }
    let far = Callback { seq: u32::MAX, ..completed() };
    assert_eq!(far.to_bytes(), Err(BadMessage::Invalid("seq")));
    let far = Callback { r#try: u32::MAX, ..completed() };
    assert_eq!(far.to_bytes(), Err(BadMessage::Invalid("try")));
}

#[test]
fn a_transcript_is_cut_to_what_a_message_takes() {
    for of in ["a", "ư", "\"", "\n", "\u{1}", "\u{7f}", "a\u{1}ư"] {
        let long = of.repeat(MOST_TRANSCRIPT);
        let cut = cut_transcript(&long);
        let written = serde_json::to_string(cut).expect("JSON").len();
        assert!((MOST_TRANSCRIPT - 9..=MOST_TRANSCRIPT).contains(&written), "{of:?} {written}");
        let said = |transcript: &str| Callback {
            said: Said::Completed {
                result: Box::new(sample(Skill::Speaking, 70)),
                transcript: Some(transcript.to_owned()),
            },
            ..completed()
        };
        assert!(said(cut).to_bytes().is_ok());
        let more = format!("{cut}{of}{of}{of}{of}");
        assert!(said(&more).to_bytes().is_err(), "{of:?}");
    }
    assert_eq!(cut_transcript("short"), "short");
}

proptest! {
    #[test]
    fn nothing_that_is_no_message_is_taken(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Request::parse(&noise).is_err() && Callback::parse(&noise).is_err());
    }

    #[test]
    fn any_text_comes_back_as_it_was(text in "[^ \n]\\PC{0,80}", words in 0_u32..9999) {
        let mut request = Request::parse(&bytes(&writing())).expect("a request");
        if let Ask::Grade(grade) = &mut request.ask {
            grade.payload = Payload::Text { text: format!("a{text}"), word_count: words, task: Task::Essay };
        }
        let written = request.to_bytes().expect("bytes");
        prop_assert_eq!(Request::parse(&written).expect("a request"), request);
    }
}
