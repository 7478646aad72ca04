//! Every line of the classifier, said on a wire.

use std::time::{Duration, Instant};

use devkit::clamd::scripted::{ScriptedClamd, Step};
use maple_router::config::ScanSocket;
use maple_router::gateway::clamd::{Clamd, Database, NoAnswer, SelfTestFault, Verdict};

use crate::harness::{client_of, infected, random, scan, scan_by};

/// A wait that ends during the test.
const SHORT: Duration = Duration::from_millis(400);
/// One that does not.
const LONG: Duration = Duration::from_secs(20);
/// More than the buffers of a connection on loopback take.
const LONG_FILE: usize = 32 << 20;

async fn server(script: impl Into<Vec<Step>>) -> (ScriptedClamd, ScanSocket) {
    let server = ScriptedClamd::start(script.into()).await.expect("a port");
    let socket = ScanSocket::Tcp(server.address().to_string());
    (server, socket)
}

/// Verdict on a short file, by a server that reads it all and then does this.
async fn after_all(steps: &[Step], patience: Duration) -> Verdict {
    let script = [&[Step::Command, Step::All], steps].concat();
    let (_server, socket) = server(script).await;
    scan(&client_of(socket, patience), b"content").await
}

fn failed(words: &str) -> Verdict {
    NoAnswer::Failed(words.to_owned()).into()
}

#[tokio::test]
async fn each_answer_after_all_was_read() {
    let bytes = |text: &str| Step::Say(text.as_bytes().to_vec());
    let unscannable = |why: &str| Verdict::Unscannable { why: why.to_owned() };
    let cases: Vec<(Vec<Step>, Verdict)> = vec![
        (vec![Step::say("stream: OK")], Verdict::Clean),
        (vec![Step::Dribble(b"stream: OK\0".to_vec(), Duration::from_millis(5))], Verdict::Clean),
        (vec![Step::Pause(Duration::from_millis(300)), Step::say("stream: OK")], Verdict::Clean),
        (vec![Step::say("stream: Eicar-Test FOUND")], infected("Eicar-Test")),
        (vec![Step::say("stream: a\tb\u{e9} FOUND")], infected("a?b??")),
        (vec![Step::say(&format!("stream: {} FOUND", "n".repeat(300)))], infected(&"n".repeat(200))),
        (vec![Step::say("stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND")], {
            unscannable("Heuristics.Limits.Exceeded.MaxFileSize")
        }),
        (vec![Step::say("stream: Heuristics.Encrypted.PDF FOUND")], unscannable("Heuristics.Encrypted.PDF")),
        (vec![Step::say("INSTREAM size limit exceeded. ERROR")], NoAnswer::TooLarge.into()),
        (vec![Step::say("Error writing to temporary file ERROR")], {
            failed("Error writing to temporary file ERROR")
        }),
        (vec![Step::say("COMMAND READ TIMED OUT")], failed("COMMAND READ TIMED OUT")),
        (vec![], NoAnswer::Closed.into()),
        (vec![Step::Reset], NoAnswer::Lost.into()),
        (vec![Step::say("stream: OK"), Step::Pause(SHORT), Step::Reset], NoAnswer::Lost.into()),
        (vec![bytes("stream: OK")], NoAnswer::NotClamd.into()),
        (vec![bytes("stream: OK\n")], NoAnswer::NotClamd.into()),
        (vec![bytes("stream: OK\n\0")], NoAnswer::NotClamd.into()),
        (vec![bytes("stream: O")], NoAnswer::NotClamd.into()),
        (vec![bytes("stream: O"), Step::Reset], NoAnswer::Lost.into()),
        (vec![bytes("stream: OK\0stream: Eicar FOUND\0")], NoAnswer::NotClamd.into()),
        (vec![Step::say("stream: OK"), Step::Pause(SHORT), Step::say("x")], NoAnswer::NotClamd.into()),
        (vec![Step::say("OK")], NoAnswer::NotClamd.into()),
        (vec![Step::say("stream: ok")], NoAnswer::NotClamd.into()),
        (vec![Step::say("PONG")], NoAnswer::NotClamd.into()),
        (vec![Step::say("UNKNOWN COMMAND")], NoAnswer::NotClamd.into()),
        (vec![bytes("HTTP/1.1 200 OK\r\n\r\n")], NoAnswer::NotClamd.into()),
        (vec![bytes("\0")], NoAnswer::NotClamd.into()),
        (vec![Step::Say(vec![0xff; 100])], NoAnswer::NotClamd.into()),
    ];
    for (steps, expected) in cases {
        assert_eq!(after_all(&steps, LONG).await, expected, "{steps:?}");
    }
}

#[tokio::test]
async fn silence_ends() {
    let bytes = |text: &str| Step::Say(text.as_bytes().to_vec());
    for said in ["", "stream: O", "stream: OK"] {
        let verdict = after_all(&[bytes(said), Step::Hang], SHORT).await;
        assert_eq!(verdict, NoAnswer::Silent(SHORT).into(), "{said:?}");
    }
    // Bytes that come one by one win no time.
    let slowly = Step::Dribble(vec![b'x'; 1000], SHORT / 4);
    let asked = Instant::now();
    assert_eq!(after_all(&[slowly], SHORT).await, NoAnswer::Silent(SHORT).into());
    assert!(asked.elapsed() < SHORT * 10, "{:?}", asked.elapsed());
    // A whole answer on a connection that stays open: a dying clamd, or something else than clamd.
    let verdict = after_all(&[Step::say("stream: OK"), Step::Hang], LONG).await;
    assert!(matches!(verdict, Verdict::Unscanned { why: NoAnswer::Silent(_) }), "{verdict:?}");
}

#[tokio::test]
async fn a_megabyte_without_an_end_is_not_read() {
    for byte in [b'x', b'\n', 0xff] {
        let asked = Instant::now();
        let verdict = after_all(&[Step::Say(vec![byte; 1 << 20]), Step::Hang], LONG).await;
        assert_eq!(verdict, NoAnswer::NotClamd.into());
        assert!(asked.elapsed() < LONG / 2, "{:?}", asked.elapsed());
    }
    // Nor one that has an end, and words behind it.
    let verdict =
        after_all(&[Step::say("stream: OK"), Step::Say(vec![b'x'; 1 << 20]), Step::Hang], LONG).await;
    assert_eq!(verdict, NoAnswer::NotClamd.into());
}

/// What was not read is not clean, whatever is said of it.
#[tokio::test]
async fn a_verdict_before_the_end_does_not_count() {
    for said in ["stream: OK", "stream: Eicar FOUND"] {
        for read in [vec![], vec![Step::Command], vec![Step::Command, Step::Content(3)]] {
            for behind in [vec![], vec![Step::Hang]] {
                let script = [&read[..], &[Step::say(said)], &behind[..]].concat();
                let (_server, socket) = server(script.clone()).await;
                let client = client_of(socket, LONG);
                let mut scan = client.begin(6).await;
                scan.write(b"con").await;
                // Whatever it says has come before the rest is sent.
                tokio::time::sleep(SHORT).await;
                scan.write(b"ten").await;
                assert!(scan.is_over(), "{script:?}");
                let verdict = scan.finish().await;
                let early = matches!(verdict, Verdict::Unscanned { why: NoAnswer::Early | NoAnswer::Lost });
                assert!(early, "{script:?}: {verdict:?}");
            }
        }
    }
    // The last moment: everything was sent but the closing chunk.
    let (_server, socket) =
        server([Step::Command, Step::Content(7), Step::say("stream: OK"), Step::All]).await;
    let mut scan = client_of(socket, LONG).begin(7).await;
    scan.write(b"content").await;
    tokio::time::sleep(SHORT).await;
    assert!(!scan.is_over());
    assert_eq!(scan.finish().await, NoAnswer::Early.into());
}

/// The same, where our runtime was too busy to hear of the answer before the closing chunk is due: the socket is asked itself.
#[test]
fn a_verdict_before_the_end_is_seen_by_a_busy_client() {
    let elsewhere = tokio::runtime::Runtime::new().expect("a runtime");
    let script = [Step::Command, Step::Content(7), Step::say("stream: OK"), Step::All];
    let (_server, socket) = elsewhere.block_on(server(script));
    let busy = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let verdict = busy.block_on(async {
        let mut scan = client_of(socket, LONG).begin(7).await;
        scan.write(b"content").await;
        std::thread::sleep(SHORT);
        scan.finish().await
    });
    assert_eq!(verdict, NoAnswer::Early.into());
}

/// The same without a pause: the answer may come together with the end, and the connection tells what was not read.
#[tokio::test]
async fn one_that_did_not_read_everything_is_not_believed() {
    for _ in 0..50 {
        let (_server, socket) =
            server([Step::Command, Step::Content(100_000), Step::say("stream: OK")]).await;
        let content = random(2 << 20);
        let verdict = scan_by(&client_of(socket, LONG), &content, 50_000).await;
        assert_eq!(verdict.label(), "unscanned", "{verdict:?}");
    }
}

#[tokio::test]
async fn words_said_while_a_write_waits_are_heard_at_once() {
    let content = random(LONG_FILE);
    for (said, expected) in [
        ("stream: OK", NoAnswer::Early.into()),
        ("INSTREAM size limit exceeded. ERROR", NoAnswer::TooLarge.into()),
        ("Can't write ERROR", failed("Can't write ERROR")),
    ] {
        let script = [Step::Command, Step::Content(1), Step::Pause(SHORT), Step::say(said), Step::Hang];
        let (_server, socket) = server(script).await;
        let asked = Instant::now();
        assert_eq!(scan(&client_of(socket, LONG), &content).await, expected);
        assert!(asked.elapsed() < LONG / 2, "{:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn the_answer_is_read_after_a_write_that_failed() {
    // As clamd does it: words, then the connection is closed with bytes unread.
    let script = [Step::Command, Step::Content(1 << 20), Step::say("INSTREAM size limit exceeded. ERROR")];
    let (_server, socket) = server(script).await;
    let verdict = scan(&client_of(socket, LONG), &random(LONG_FILE)).await;
    // The system may throw words away when the connection is broken behind them.
    assert!(
        matches!(verdict, Verdict::Unscanned { why: NoAnswer::TooLarge | NoAnswer::Lost }),
        "{verdict:?}"
    );
}

#[tokio::test]
async fn one_that_takes_nothing_is_given_up() {
    let (_server, socket) = server([Step::Command, Step::Hang]).await;
    let asked = Instant::now();
    let mut scan = client_of(socket, SHORT).begin(LONG_FILE as u64).await;
    scan.write(&random(LONG_FILE)).await;
    assert!(scan.is_over());
    assert_eq!(scan.finish().await, NoAnswer::Stalled(SHORT).into());
    assert!(asked.elapsed() < LONG, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address() {
    let (server, socket) = server([]).await;
    let address = server.address().to_string();
    drop(server);
    let client = client_of(socket, LONG);
    assert!(devkit::waiting::until(LONG, SHORT / 20, async || client.ping().await.is_err()).await);
    let mut scan = client.begin(1_000_000).await;
    assert!(scan.is_over());
    scan.write(b"forgotten").await;
    let Verdict::Unscanned { why: NoAnswer::Away(why) } = scan.finish().await else { panic!("nobody") };
    assert!(why.contains(&address), "{why}");
    for nowhere in
        [ScanSocket::Unix("/nowhere/clamd.ctl".into()), ScanSocket::Tcp("no.such.invalid:1".to_owned())]
    {
        let shown = nowhere.to_string();
        let Err(NoAnswer::Away(why)) = client_of(nowhere, LONG).ping().await else { panic!("nobody") };
        assert!(why.contains(&shown), "{why}");
    }
}

#[tokio::test]
async fn what_is_sent_is_what_came() {
    let (server, socket) = server([Step::Command, Step::All, Step::say("stream: OK")]).await;
    let client = client_of(socket, LONG);
    let content = random(600_000);
    let mut scan = client.begin(content.len() as u64).await;
    scan.write(b"").await;
    scan.write(&content[..10]).await;
    scan.write(b"").await;
    scan.write(&content[10..]).await;
    assert_eq!(scan.finish().await, Verdict::Clean);
    let came = server.came().remove(0);
    assert_eq!(
        (came.command.as_str(), &came.chunks[..]),
        ("zINSTREAM", &[10, 262_144, 262_144, 75_702, 0][..])
    );
    assert!(came.content == content, "other bytes came");
    assert_eq!(client.begin(0).await.finish().await, Verdict::Clean, "an empty file");
    assert_eq!(server.came()[1].chunks, [0]);
}

#[tokio::test]
async fn a_write_that_is_given_up_ends_the_scan() {
    let (_server, socket) = server([Step::Command, Step::Hang]).await;
    let mut scan = client_of(socket, LONG).begin(LONG_FILE as u64).await;
    let content = random(LONG_FILE);
    tokio::time::timeout(SHORT, scan.write(&content)).await.expect_err("it waits");
    assert!(scan.is_over());
    assert_eq!(scan.finish().await, NoAnswer::Incomplete.into());
}

#[tokio::test]
async fn a_reader_that_fails_or_ends_early_has_no_verdict() {
    let (server, socket) = server([Step::Command, Step::All, Step::say("stream: OK")]).await;
    let client = client_of(socket, LONG);
    let broken = failing_after(b"begun", std::io::ErrorKind::TimedOut);
    assert!(client.scan(broken, 10).await.is_err());
    assert_eq!(client.scan(&b"five5"[..], 6).await.expect("read"), NoAnswer::Incomplete.into());
    assert_eq!(client.scan(&b"five5"[..], 4).await.expect("read"), NoAnswer::Incomplete.into());
    assert_eq!(client.scan(&b"five5"[..], 5).await.expect("read"), Verdict::Clean);
    assert!(server.came()[..3].iter().all(|came| !came.chunks.contains(&0)), "{:?}", server.came());
}

/// A reader that gives these bytes and then fails.
fn failing_after(bytes: &'static [u8], kind: std::io::ErrorKind) -> impl tokio::io::AsyncRead + Unpin {
    use tokio::io::AsyncReadExt as _;
    struct Failing(std::io::ErrorKind);
    impl tokio::io::AsyncRead for Failing {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(self.0.into()))
        }
    }
    bytes.chain(Failing(kind))
}

async fn asked<T>(line: &str, ask: impl AsyncFnOnce(Clamd) -> T) -> (T, String) {
    let (server, socket) = server([Step::Command, Step::say(line)]).await;
    let answer = ask(client_of(socket, LONG)).await;
    (answer, server.came()[0].command.clone())
}

#[tokio::test]
async fn questions_without_content() {
    let ping = async |client: Clamd| client.ping().await;
    assert_eq!(asked("PONG", ping).await, (Ok(()), "zPING".to_owned()));
    assert_eq!(asked("pong", ping).await.0, Err(NoAnswer::NotClamd));
    assert_eq!(asked("x ERROR", ping).await.0, Err(NoAnswer::Failed("x ERROR".to_owned())));

    let version = async |client: Clamd| client.version().await.map(|version| version.database);
    assert_eq!(asked("ClamAV 1.4.6", version).await, (Ok(Database::None), "zVERSION".to_owned()));
    let (found, _) = asked("ClamAV 1.4.6/27812/Wed Nov  4 08:27:03 2026", version).await;
    let date = "2026-11-04T08:27:03".parse().expect("a date");
    assert_eq!(found, Ok(Database::Official { number: 27_812, date }));
    let (found, _) = asked("ClamAV 1.4.6/4294967295/invalid timestamp", version).await;
    assert_eq!(found, Ok(Database::Broken));
    assert_eq!(asked("PONG", version).await.0, Err(NoAnswer::NotClamd));
}

#[tokio::test]
async fn a_self_test_passes_only_where_the_file_is_found() {
    for (line, expected) in [
        ("stream: Eicar FOUND", Ok("Eicar".to_owned())),
        ("stream: OK", Err(SelfTestFault::Missed)),
        ("stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND", Err(SelfTestFault::Missed)),
        ("x ERROR", Err(SelfTestFault::Unscanned(NoAnswer::Failed("x ERROR".to_owned())))),
    ] {
        let (server, socket) = server([Step::Command, Step::All, Step::say(line)]).await;
        assert_eq!(client_of(socket, LONG).self_test().await, expected);
        assert_eq!(server.came()[0].content, devkit::clamd::eicar());
    }
}
