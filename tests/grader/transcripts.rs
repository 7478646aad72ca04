//! Each way of a recording not to be there, and of the scripted transcriber to answer.

use devkit::grader::{Hearing, Kind, Recording};
use devkit::judge::Mishap;
use maple_router::gateway::judge::Cause;
use maple_router::gateway::transcriber::{AudioFault, Away, LARGEST, TranscriberError};
use maple_router::ports::InvalidAnswer as Wrong;
use serde_json::{Value, json};

use crate::harness::{World, transcriber};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_is_heard() {
    let world = World::new().await;
    let heard = world.heard_of("Good morning, I like tea. [[seconds 95]]").await.expect("heard");
    let found = &heard.transcript;
    assert_eq!(
        (found.text.as_str(), found.language.as_str(), found.words, found.no_speech),
        ("Good morning, I like tea. [[seconds 95]]", "english", 7, false)
    );
    assert!((found.duration - 95.0).abs() < 0.01);
    assert!(!format!("{heard:?}").contains("tea"));
    world.scripted.hear(Hearing::Noise);
    assert!(world.heard_of("Mm hm.").await.expect("heard").transcript.no_speech);
    world.scripted.hear(Hearing::ByContent);
    let silence = world.scripted.keep("silence.mp3", Recording::silence());
    let found = world.heard(&silence).await.expect("heard").transcript;
    assert_eq!((found.no_speech, found.words, found.text.as_str()), (true, 0, ""));
    let vietnamese = world.heard_of("Xin chào [[language vietnamese]]").await.expect("heard");
    assert_eq!(vietnamese.transcript.language, "vietnamese");
    assert_eq!((world.scripted.calls(Kind::Recording), world.scripted.calls(Kind::Transcription)), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_answer_has_one_outcome() {
    let world = World::new().await;
    let invalid = TranscriberError::Invalid;
    let with = Hearing::With;
    let mishap = Hearing::Mishap;
    let away = |cause, retry_after| TranscriberError::Unavailable {
        who: Away::Transcriber,
        cause,
        retry_after: Option::map(retry_after, std::time::Duration::from_secs),
    };
    let refused = |status| TranscriberError::Refused { section: "grading.stt", status };
    for (hearing, expected) in [
        (with("text", Value::Null), invalid(Wrong::Shape)),
        (with("text", json!("")), invalid(Wrong::Words)),
        (with("words", json!([])), invalid(Wrong::Words)),
        (with("words", json!({})), invalid(Wrong::Shape)),
        (with("duration", json!("1.5")), invalid(Wrong::Shape)),
        (with("duration", json!(-1)), invalid(Wrong::Duration)),
        (with("duration", json!(0)), invalid(Wrong::Duration)),
        (with("duration", json!(901)), TranscriberError::TooLong),
        (with("language", json!("<b>")), invalid(Wrong::Language)),
        (Hearing::Without("text"), invalid(Wrong::Shape)),
        (Hearing::Without("words"), invalid(Wrong::Words)),
        (Hearing::Without("duration"), invalid(Wrong::Shape)),
        (Hearing::Without("language"), invalid(Wrong::Language)),
        (Hearing::Body("Good morning.".to_owned()), invalid(Wrong::NotJson)),
        (Hearing::Body("[]".to_owned()), invalid(Wrong::Shape)),
        (Hearing::Body("[".repeat(99)), invalid(Wrong::TooDeep)),
        (Hearing::Body(json!({"text": "Good morning."}).to_string()), invalid(Wrong::Shape)),
        (mishap(Mishap::Huge), invalid(Wrong::TooLong)),
        (mishap(Mishap::WrongType), invalid(Wrong::ContentType)),
        (mishap(Mishap::PageAsSuccess), invalid(Wrong::ContentType)),
        (mishap(Mishap::Filtered), invalid(Wrong::Refusal)),
        (mishap(Mishap::Status(413)), TranscriberError::TooLarge),
        (mishap(Mishap::Status(400)), refused(400)),
        (mishap(Mishap::Status(404)), refused(404)),
        (mishap(Mishap::Redirect), refused(307)),
        (mishap(Mishap::Hang), away(Cause::Timeout, None)),
        (mishap(Mishap::RetryAfter(7)), away(Cause::Throttled, Some(7))),
        (mishap(Mishap::Status(500)), away(Cause::Trouble, None)),
        (mishap(Mishap::HalfBody), away(Cause::Broken, None)),
        (mishap(Mishap::Disconnect), away(Cause::Broken, None)),
    ] {
        world.scripted.hear(hearing.clone());
        let found = world.heard_of("Good morning, I like tea.").await.map(|_| ());
        assert_eq!(found, Err(expected), "{hearing:?}");
    }
    assert_eq!(world.scripted.strayed(), 0, "a redirect is not followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_of_a_recording_not_to_be_there_has_its_word() {
    let world = World::new().await;
    let of = |media: &str, bytes: &[u8]| Recording::Of(media.to_owned(), bytes.to_vec());
    let away = |cause| TranscriberError::Unavailable { who: Away::Audio, cause, retry_after: None };
    for (name, recording, expected) in [
        ("a.mp3", Recording::Status(404), TranscriberError::Audio(AudioFault::NotFound)),
        ("a.mp3", Recording::Status(403), TranscriberError::Audio(AudioFault::Forbidden)),
        ("a.mp3", Recording::Status(400), TranscriberError::Audio(AudioFault::Status)),
        ("a.mp3", Recording::Elsewhere("other.mp3".to_owned()), TranscriberError::Audio(AudioFault::Status)),
        ("a.mp3", of("text/html", b"<p>"), TranscriberError::Audio(AudioFault::ContentType)),
        ("a", of("application/octet-stream", b"x"), TranscriberError::Audio(AudioFault::ContentType)),
        ("a.mp3", of("audio/mpeg", b""), TranscriberError::Audio(AudioFault::Empty)),
        ("a.wav", Recording::Long(LARGEST + 1, true), TranscriberError::Audio(AudioFault::TooLarge)),
        ("a.wav", Recording::Long(LARGEST + 1, false), TranscriberError::Audio(AudioFault::TooLarge)),
        ("a.mp3", Recording::Hangs, away(Cause::Timeout)),
        ("a.mp3", Recording::Status(503), away(Cause::Trouble)),
        ("a.mp3", Recording::Status(429), away(Cause::Throttled)),
    ] {
        let address = world.scripted.keep(name, recording.clone());
        world.scripted.keep("other.mp3", Recording::said("Good morning."));
        let found = world.transcriber.fetch(&address).await.map(|_| ());
        assert_eq!(found, Err(expected), "{name}");
    }
    assert_eq!(world.scripted.calls(Kind::Transcription), 0, "nothing is paid for");
    let whole = world.scripted.keep("whole.wav", Recording::Long(LARGEST, false));
    assert_eq!(world.transcriber.fetch(&whole).await.expect("fetched").bytes().len(), LARGEST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_host_is_asked_and_no_address_is_shown() {
    let world = World::new().await;
    let port = world.scripted.authority().rsplit_once(':').map(|(_, port)| port.to_owned()).expect("a port");
    for (address, expected) in [
        (format!("http://localhost:{port}/recordings/planted.mp3"), AudioFault::Host),
        ("https://planted.example/a.mp3".to_owned(), AudioFault::Host),
        (format!("http://planted:pw@127.0.0.1:{port}/a.mp3"), AudioFault::Address),
        ("http://192.0.2.1/planted.mp3".to_owned(), AudioFault::Address),
        ("planted".to_owned(), AudioFault::Address),
    ] {
        let found = world.transcriber.fetch(&address).await.expect_err("refused");
        assert_eq!(found, TranscriberError::Audio(expected), "{address}");
        assert!(!format!("{found} {found:?}").contains("planted"));
    }
    assert_eq!(world.scripted.calls(Kind::Recording), 0);
    let address = world.scripted.keep("said.mp3", Recording::said("planted words"));
    let signed = format!("{address}?X-Signature=planted");
    let audio = world.transcriber.fetch(&signed).await.expect("fetched");
    let stranger = transcriber(&world.scripted, Some("sk-planted-key"));
    let refused = stranger.transcribe(&audio).await.expect_err("refused");
    assert_eq!(refused, TranscriberError::Refused { section: "grading.stt", status: 401 });
    let shown = format!("{refused} {refused:?} {stranger:?} {audio:?} {:?}", world.heard(&signed).await);
    assert!(!shown.contains("planted"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_is_told_from_a_transcriber_that_is() {
    let mut world = World::new().await;
    let address = world.scripted.keep("said.mp3", Recording::said("Good morning."));
    let audio = world.transcriber.fetch(&address).await.expect("fetched");
    world.scripted.away().await;
    let away = |who| TranscriberError::Unavailable { who, cause: Cause::Connect, retry_after: None };
    assert_eq!(world.transcriber.fetch(&address).await.map(|_| ()), Err(away(Away::Audio)));
    assert_eq!(world.transcriber.transcribe(&audio).await.map(|_| ()), Err(away(Away::Transcriber)));
    world.scripted.back().await.expect("the same port");
    assert!(world.heard(&address).await.is_ok());
}
