//! Behaviour that only the embedded broker keeps (the emulator passes over retry policies and flow control) or has
//! (faults that a test can order), seen through the official client wherever it can see them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::broker::{Broker, Code, Stats, SubscriptionSpec};
use google_cloud_pubsub::subscriber::MessageStream;
use tokio::time::timeout;

use crate::clients::{World, code, next, retry, silence, text};

const A_WHILE: Duration = Duration::from_millis(400);

/// A broker with the topic `things` and its subscription `look`.
struct Place {
    broker: Broker,
    world: World,
}

impl Place {
    async fn new() -> Result<Self> {
        let broker = Broker::start(([127, 0, 0, 1], 0).into()).await?;
        let world = World::new(broker.endpoint(), "place");
        broker.create_topic(&world.topic("things"))?;
        broker
            .create_subscription(SubscriptionSpec::new(world.subscription("look"), world.topic("things")))?;
        Ok(Self { broker, world })
    }

    fn publish(&self, text: &str) -> Result<()> {
        self.broker.publish(&self.world.topic("things"), text.to_owned(), [("k", "v")])?;
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        Ok(self.broker.stats(&self.world.subscription("look"))?)
    }

    /// Waits until the numbers are as `wanted`: the client settles in its own time.
    async fn until(&self, wanted: impl Fn(Stats) -> bool) -> Result<Stats> {
        for _ in 0..200 {
            let stats = self.stats()?;
            if wanted(stats) {
                return Ok(stats);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        anyhow::bail!("after 5 s the subscription still stands at {:?}", self.stats()?)
    }

    async fn windowed(&self, messages: i64, bytes: i64) -> Result<MessageStream> {
        let subscribe = self.world.subscriber().await?.subscribe(self.world.subscription("look"));
        Ok(subscribe.set_max_outstanding_messages(messages).set_max_outstanding_bytes(bytes).build())
    }
}

#[tokio::test]
async fn a_retry_policy_delays_redelivery() -> Result<()> {
    let place = Place::new().await?;
    let world = &place.world;
    world.make_subscription("paced", "things", |plain| plain.set_retry_policy(retry(2, 10))).await?;
    let mut stream = world.stream("paced").await?;
    place.publish("again")?;
    next(&mut stream).await?.1.nack();
    // The client sends a nack within 100 ms; 2 s later it may come again.
    silence(&mut stream, Duration::from_millis(1800)).await?;
    let (_, handler) = timeout(Duration::from_secs(2), next(&mut stream)).await??;
    handler.nack();
    silence(&mut stream, Duration::from_millis(3800)).await?;
    timeout(Duration::from_secs(2), next(&mut stream)).await??.1.ack();
    Ok(())
}

#[tokio::test]
async fn a_stream_gets_no_more_messages_than_it_asked_for() -> Result<()> {
    let place = Place::new().await?;
    for n in 0..10 {
        place.publish(&format!("{n}"))?;
    }
    let mut stream = place.windowed(3, 0).await?;
    let mut leased = Vec::new();
    for _ in 0..3 {
        leased.push(next(&mut stream).await?.1);
    }
    silence(&mut stream, A_WHILE).await?;
    ensure!(place.stats()?.outstanding == 3, "{:?}", place.stats()?);
    for _ in 0..5 {
        leased.remove(0).ack();
        // At once: the client's lease extensions, every 3 s, must not be what wakes the stream.
        leased.push(timeout(Duration::from_secs(1), next(&mut stream)).await??.1);
    }
    silence(&mut stream, A_WHILE).await?;
    leased.remove(0).nack();
    leased.push(next(&mut stream).await?.1);
    silence(&mut stream, A_WHILE).await?;
    ensure!(place.stats()?.outstanding == 3, "{:?}", place.stats()?);
    Ok(())
}

#[tokio::test]
async fn a_stream_gets_no_more_bytes_than_it_asked_for() -> Result<()> {
    let place = Place::new().await?;
    for _ in 0..4 {
        place.publish(&"x".repeat(1000))?;
    }
    // Two of 1,002 bytes each (with their attribute) fit, three do not.
    let mut stream = place.windowed(100, 2500).await?;
    let first = next(&mut stream).await?.1;
    let _second = next(&mut stream).await?.1;
    silence(&mut stream, A_WHILE).await?;
    first.ack();
    let _third = next(&mut stream).await?.1;
    silence(&mut stream, A_WHILE).await
}

/// The emulator gives a batch to the first stream; here each stream gets its part.
#[tokio::test]
async fn no_stream_takes_everything() -> Result<()> {
    let place = Place::new().await?;
    let (mut one, mut two) = (place.windowed(1000, 0).await?, place.windowed(1000, 0).await?);
    silence(&mut one, A_WHILE).await?;
    silence(&mut two, A_WHILE).await?;
    let many: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    place.world.publish("things", &many).await?;
    for stream in [&mut one, &mut two] {
        for _ in 0..10 {
            next(stream).await?.1.ack();
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_message_outlives_its_dead_letter_topic() -> Result<()> {
    let place = Place::new().await?;
    let (world, broker) = (&place.world, &place.broker);
    broker.create_topic(&world.topic("dead"))?;
    let spec = SubscriptionSpec::new(world.subscription("strict"), world.topic("things"));
    broker.create_subscription(spec.dead_letter(world.topic("dead"), 1))?;
    world.topics().await?.delete_topic().set_topic(world.topic("dead")).send().await?;
    place.publish("poison")?;
    let mut stream = world.stream("strict").await?;
    for attempt in 1..4 {
        let (_, handler) = next(&mut stream).await?;
        ensure!(handler.delivery_attempt() == Some(attempt));
        handler.nack();
    }
    ensure!(broker.stats(&world.subscription("strict"))?.forwarded == 0);
    Ok(())
}

#[tokio::test]
async fn a_large_message_passes_and_one_too_large_is_refused() -> Result<()> {
    let place = Place::new().await?;
    let mut stream = place.world.stream("look").await?;
    let large = "x".repeat(9_500_000);
    place.world.publish("things", std::slice::from_ref(&large)).await?;
    let (message, handler) = next(&mut stream).await?;
    ensure!(text(&message) == large, "it arrives whole");
    handler.ack();
    let error = place.publish(&"x".repeat(10_000_001)).err().context("it must be refused")?;
    ensure!(error.to_string().contains("10000001 bytes"), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_client_comes_back_when_its_stream_breaks() -> Result<()> {
    let place = Place::new().await?;
    let mut stream = place.world.stream("look").await?;
    for n in 0..3 {
        place.publish(&format!("{n}"))?;
        let (message, handler) = next(&mut stream).await?;
        ensure!(text(&message) == format!("{n}"));
        handler.ack();
        place.broker.break_streams(&place.world.subscription("look"))?;
    }
    place.until(|stats| stats.acked == 3).await?;
    Ok(())
}

#[tokio::test]
async fn a_stream_fails_with_the_code_that_is_set_until_mended() -> Result<()> {
    let place = Place::new().await?;
    let subscription = place.world.subscription("look");
    let mut open = place.world.stream("look").await?;
    silence(&mut open, A_WHILE).await?;
    ensure!(place.stats()?.streams == 1);
    place.broker.fail_streams(&subscription, Code::PermissionDenied)?;
    let ended = timeout(Duration::from_secs(5), open.next()).await?.context("an error first")?;
    assert_eq!(code(Err::<(), _>(ended.err().context("an error")?)), "PERMISSION_DENIED");
    let mut fresh = place.world.stream("look").await?;
    let refused = timeout(Duration::from_secs(5), fresh.next()).await?.context("an error first")?;
    assert_eq!(code(Err::<(), _>(refused.err().context("an error")?)), "PERMISSION_DENIED");
    place.until(|stats| stats.streams == 0).await?;
    place.broker.mend_streams(&subscription)?;
    place.publish("mended")?;
    let mut fresh = place.world.stream("look").await?;
    next(&mut fresh).await?.1.ack();
    Ok(())
}

#[tokio::test]
async fn a_stream_can_end_cleanly_and_ends_with_its_subscription() -> Result<()> {
    let place = Place::new().await?;
    let subscription = place.world.subscription("look");
    let mut open = place.world.stream("look").await?;
    silence(&mut open, A_WHILE).await?;
    place.broker.fail_streams(&subscription, Code::Ok)?;
    ensure!(timeout(Duration::from_secs(5), open.next()).await?.is_none(), "a clean end is no error");

    let mut open = place.world.stream("look").await?;
    silence(&mut open, A_WHILE).await?;
    place.broker.delete_subscription(&subscription)?;
    let ended = timeout(Duration::from_secs(5), open.next()).await?.context("an error first")?;
    assert_eq!(code(ended), "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn while_it_hangs_nothing_moves_and_afterwards_everything_does() -> Result<()> {
    let place = Place::new().await?;
    let mut stream = place.world.stream("look").await?;
    silence(&mut stream, A_WHILE).await?;
    place.broker.hang(true);
    place.publish("held up")?;
    silence(&mut stream, A_WHILE).await?;
    let newcomer = place.world.topics().await?;
    let asked = newcomer.get_topic().set_topic(place.world.topic("things")).send();
    ensure!(timeout(A_WHILE, asked).await.is_err(), "a new connection hangs as well");
    place.broker.hang(false);
    let (message, handler) = next(&mut stream).await?;
    ensure!(text(&message) == "held up");
    handler.ack();
    place.until(|stats| stats.acked == 1).await?;
    Ok(())
}

#[tokio::test]
async fn pings_are_answered_unless_it_hangs() -> Result<()> {
    let place = Place::new().await?;
    let socket = tokio::net::TcpStream::connect(place.broker.host_port()).await?;
    let (_requests, mut connection) = h2::client::handshake(socket).await?;
    let mut pings = connection.ping_pong().context("the first to ask gets them")?;
    let connection = tokio::spawn(connection);
    timeout(Duration::from_secs(5), pings.ping(h2::Ping::opaque())).await.context("a ping unanswered")??;
    place.broker.hang(true);
    ensure!(timeout(A_WHILE, pings.ping(h2::Ping::opaque())).await.is_err(), "a hung broker answers no ping");
    connection.abort();
    Ok(())
}

#[tokio::test]
async fn what_it_lacks_is_unimplemented_and_never_hangs() -> Result<()> {
    let place = Place::new().await?;
    let snapshots = place.world.topics().await?.list_topic_snapshots().set_topic(place.world.topic("things"));
    assert_eq!(code(timeout(Duration::from_secs(5), snapshots.send()).await?), "UNIMPLEMENTED");
    let ordered =
        place.world.make_subscription("ordered", "things", |s| s.set_enable_message_ordering(true)).await;
    let refused = ordered.err().context("ordering must be refused, not ignored")?;
    assert_eq!(code(Err::<(), _>(refused.downcast()?)), "UNIMPLEMENTED");

    let channel = tonic::transport::Endpoint::from_shared(place.broker.endpoint())?.connect().await?;
    for method in
        ["/google.pubsub.v1.Subscriber/Seek", "/google.pubsub.v1.SchemaService/ListSchemas", "/a.B/C"]
    {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await?;
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let asked = grpc.unary(tonic::Request::new(()), method.parse()?, codec);
        let answer = timeout(Duration::from_secs(5), asked).await?;
        let status = answer.err().with_context(|| format!("{method} must be refused"))?;
        assert_eq!(status.code(), Code::Unimplemented, "{method}: {status:?}");
    }
    Ok(())
}

#[tokio::test]
async fn its_numbers_tell_the_story_of_a_message() -> Result<()> {
    let place = Place::new().await?;
    let (world, broker) = (&place.world, &place.broker);
    broker.create_topic(&world.topic("dead"))?;
    let spec = SubscriptionSpec::new(world.subscription("strict"), world.topic("things"));
    broker.create_subscription(spec.dead_letter(world.topic("dead"), 2))?;
    broker.create_subscription(SubscriptionSpec::new(world.subscription("morgue"), world.topic("dead")))?;
    place.publish("poison")?;
    let strict = world.subscription("strict");
    assert_eq!(broker.stats(&strict)?, Stats { backlog: 1, ..Stats::default() });
    let mut stream = world.stream("strict").await?;
    next(&mut stream).await?.1.nack();
    let (_, last) = next(&mut stream).await?;
    assert_eq!(last.delivery_attempt(), Some(2));
    assert_eq!(broker.stats(&strict)?.outstanding, 1);
    last.nack();
    let mut morgue = world.stream("morgue").await?;
    next(&mut morgue).await?.1.ack();
    let expected = Stats { delivered: 2, nacked: 2, forwarded: 1, streams: 1, ..Stats::default() };
    assert_eq!(broker.stats(&strict)?, expected);
    // The other subscription still has its own copy.
    assert_eq!(place.stats()?.backlog, 1);
    Ok(())
}

#[tokio::test]
async fn it_stops_promptly_with_a_client_attached() -> Result<()> {
    let Place { broker, world } = Place::new().await?;
    let mut stream = world.stream("look").await?;
    silence(&mut stream, A_WHILE).await?;
    let address = broker.host_port();
    timeout(Duration::from_secs(1), broker.shutdown()).await.context("it should stop at once")?;
    let again = Broker::start(address.parse()?).await?;
    drop(again);
    drop(stream);
    Ok(())
}

/// Unary calls in JSON, as with curl, which the Rust client has no use for.
#[tokio::test]
async fn a_waiting_pull_wakes_for_a_message_and_ends_with_its_subscription() -> Result<()> {
    let place = Place::new().await?;
    let look = format!("{}/v1/{}", place.broker.endpoint(), place.world.subscription("look"));
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build()?;
    let post = |verb: &str, body: serde_json::Value| http.post(format!("{look}:{verb}")).json(&body).send();
    let one = serde_json::json!({ "maxMessages": 1 });

    let pulling = tokio::spawn(post("pull", one.clone()));
    tokio::time::sleep(A_WHILE).await;
    ensure!(!pulling.is_finished(), "it waits for a first message");
    place.publish("awaited")?;
    let pulled: serde_json::Value = pulling.await??.error_for_status()?.json().await?;
    let received = &pulled["receivedMessages"][0];
    assert_eq!(received["message"]["data"], "YXdhaXRlZA==");
    assert_eq!(received["message"]["attributes"]["k"], "v");
    post("acknowledge", serde_json::json!({ "ackIds": [received["ackId"]] })).await?.error_for_status()?;
    place.until(|stats| stats.acked == 1 && stats.outstanding == 0).await?;

    let pulling = tokio::spawn(post("pull", one));
    tokio::time::sleep(A_WHILE).await;
    place.broker.delete_subscription(&place.world.subscription("look"))?;
    let refused = pulling.await??;
    assert_eq!(refused.status(), 404);
    let body: serde_json::Value = refused.json().await?;
    assert_eq!(body["error"]["status"], "NOT_FOUND");
    Ok(())
}

/// Guards against anything that polls: the figure is for people, the bound is loose for a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
async fn a_message_reaches_a_waiting_client_at_once() -> Result<()> {
    let place = Place::new().await?;
    let mut stream = place.world.stream("look").await?;
    silence(&mut stream, A_WHILE).await?;
    let mut took = Vec::new();
    for n in 0..200 {
        let published = std::time::Instant::now();
        place.publish(&format!("{n}"))?;
        let (_, handler) = next(&mut stream).await?;
        took.push(published.elapsed());
        handler.ack();
    }
    took.sort();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    eprintln!("publish to receive: median {median:?}, worst {worst:?} of {}", took.len());
    ensure!(median < Duration::from_millis(20), "the median is {median:?}");
    Ok(())
}
