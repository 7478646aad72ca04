//! Traps: the wire to PostgreSQL and the relay stand still where they say, and what was held back goes on or is lost.

use std::time::Duration;

use devkit::broker::{Broker, SubscriptionSpec};
use devkit::postgres::{Cluster, CuttingProxy, TestDatabase, Traffic, Trap, Variant};
use devkit::smtp::{Rule, SmtpOptions, SmtpServer, Stage};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls};

const PATIENCE: Duration = Duration::from_secs(20);

async fn connect(proxy: &CuttingProxy) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&proxy.url_as("forms_app"), NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// Does what maple-router's named transactions look like on the wire.
async fn act(client: &Client, name: &str) -> Result<(), tokio_postgres::Error> {
    let begin = format!("BEGIN; SET LOCAL application_name = 'maple-router:{name}'");
    client.batch_execute(&begin).await?;
    client.batch_execute("INSERT INTO audit_log (actor, action) VALUES ('trap', 'email_sent')").await?;
    client.batch_execute("SELECT 1; COMMIT").await
}

async fn done(database: &TestDatabase) -> i64 {
    let sql = "SELECT count(*) FROM audit_log WHERE actor = 'trap'";
    database.superuser().await.expect("superuser").query_one(sql, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn a_named_transaction_stands_still_where_it_was_asked_to() {
    let database = Cluster::shared().await.unwrap().database(Variant::default()).await.unwrap();
    let proxy = CuttingProxy::start(&database).await.unwrap();
    // The point, whether it is cut, and whether the transaction stands: while it is caught, and afterwards.
    let table = [
        (Trap::BeginSent("a"), false, 0, 1),
        (Trap::CommitSent("a"), false, 0, 1),
        (Trap::CommitAnswered("a"), false, 1, 1),
        (Trap::BeginSent("a"), true, 0, 0),
        (Trap::CommitSent("a"), true, 0, 0),
        (Trap::CommitAnswered("a"), true, 1, 1),
    ];
    let mut so_far = 0;
    for (place, cut, while_caught, afterwards) in table {
        let trapped = proxy.trap(place, 2);
        let client = connect(&proxy).await;
        act(&client, "a").await.unwrap();
        act(&client, "b").await.unwrap();
        assert!(!trapped.is_hit(), "{place:?}: the second, and of this name");
        so_far += 2;
        let acting = tokio::spawn(async move { act(&client, "a").await });
        trapped.hit(PATIENCE).await.unwrap();
        assert_eq!(done(&database).await, so_far + while_caught, "{place:?}");
        assert!(!acting.is_finished(), "{place:?}");
        if cut {
            trapped.cut();
        } else {
            trapped.release();
        }
        assert_eq!(acting.await.unwrap().is_err(), cut, "{place:?}");
        so_far += afterwards;
        assert_eq!(done(&database).await, so_far, "{place:?}, cut: {cut}");
    }
}

async fn at_work(traffic: &Traffic, wires: usize) {
    let until = async {
        while traffic.at_work() != wires {
            traffic.moves_within(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until)
        .await
        .unwrap_or_else(|_| panic!("{wires}, not {}", traffic.at_work()));
}

#[tokio::test]
async fn it_is_known_for_whom_the_server_is_at_work() {
    let database = Cluster::shared().await.unwrap().database(Variant::default()).await.unwrap();
    let eyes = database.superuser().await.unwrap();
    let asleep = async || -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
        eyes.query_one(sql, &[]).await.unwrap().get(0)
    };
    let traffic = Traffic::default();
    let proxy = CuttingProxy::counted(&database, &traffic).await.unwrap();
    let client = connect(&proxy).await;
    at_work(&traffic, 0).await;
    let before = traffic.moved();
    let asking = tokio::spawn(async move {
        client.batch_execute("SELECT pg_sleep(0.2)").await.unwrap();
        client.query("SELECT 1", &[]).await.unwrap();
        client
    });
    at_work(&traffic, 1).await;
    let client = asking.await.unwrap();
    at_work(&traffic, 0).await;
    assert!(traffic.moved() > before);
    // A caught session does not keep the server at work.
    let trapped = proxy.trap(Trap::CommitSent("a"), 1);
    let acting = tokio::spawn(async move { act(&client, "a").await.map(|()| client) });
    trapped.hit(PATIENCE).await.unwrap();
    at_work(&traffic, 0).await;
    trapped.release();
    let client = acting.await.unwrap().unwrap();
    at_work(&traffic, 0).await;
    // A client that is gone does keep it at work, until the server has noticed.
    let asking = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(0.5)").await });
    while asleep().await == 0 {}
    drop(proxy);
    asking.await.unwrap().unwrap_err();
    assert_eq!((traffic.at_work(), asleep().await), (1, 1));
    at_work(&traffic, 0).await;
    assert_eq!(asleep().await, 0);
}

/// Says the dialogue, each piece after the reply to the one before, until the relay is gone or has said goodbye.
async fn dialogue(port: u16) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
    let mut stream = BufReader::new(stream);
    let mut replies = String::new();
    let pieces =
        ["", "EHLO a", "MAIL FROM:<a@x>", "RCPT TO:<b@x>", "DATA", "Subject: s\r\n\r\nt\r\n.", "QUIT"];
    for piece in pieces {
        if !piece.is_empty() && stream.write_all(format!("{piece}\r\n").as_bytes()).await.is_err() {
            break;
        }
        // "250-" goes on, "250 " ends.
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
                return replies;
            }
            replies.push_str(&line);
            if line.as_bytes().get(3) != Some(&b'-') {
                break;
            }
        }
    }
    replies
}

#[tokio::test]
async fn the_relay_stands_still_at_every_stage() {
    let relay = SmtpServer::start(SmtpOptions::default()).await.unwrap();
    // The stage, and how many mails are stored: while the session is caught, and when it was cut there.
    let table = [
        (Stage::Banner, 0),
        (Stage::Ehlo, 0),
        (Stage::Mail, 0),
        (Stage::Rcpt, 0),
        (Stage::Data, 0),
        (Stage::Body, 0),
        (Stage::Dot, 0),
        (Stage::AfterDot, 1),
        (Stage::Replied, 1),
    ];
    for (stage, stored) in table {
        for cut in [false, true] {
            let before = relay.counters().mails;
            let trapped = relay.trap(Rule::at(stage));
            let talking = tokio::spawn(dialogue(relay.port()));
            trapped.hit(PATIENCE).await.unwrap();
            assert_eq!(relay.counters().mails - before, stored, "{stage:?}");
            assert!(!talking.is_finished(), "{stage:?}");
            if cut {
                trapped.cut();
            } else {
                trapped.release();
            }
            let replies = talking.await.unwrap();
            let bye = replies.contains("221 ");
            assert_eq!(bye, !cut, "{stage:?}, cut: {cut}: {replies}");
            let expected = if cut { stored } else { 1 };
            assert_eq!(relay.counters().mails - before, expected, "{stage:?}, cut: {cut}");
        }
    }
}

#[tokio::test]
async fn an_ack_is_caught_and_can_be_forgotten() {
    let (topic, subscription) = ("projects/p/topics/trap", "projects/p/subscriptions/trap");
    let broker = Broker::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    broker.create_topic(topic).unwrap();
    broker.create_subscription(SubscriptionSpec::new(subscription, topic)).unwrap();
    let client = google_cloud_pubsub::client::Subscriber::builder()
        .with_endpoint(broker.endpoint())
        .with_credentials(google_cloud_auth::credentials::anonymous::Builder::new().build())
        .build()
        .await
        .unwrap();
    let mut stream = client.subscribe(subscription).build();
    for (cut, acked) in [(true, 0), (false, 1)] {
        let trapped = broker.trap_ack(subscription, 1);
        broker.publish(topic, "x", [("k", "v")]).unwrap();
        let (_, handler) = stream.next().await.unwrap().unwrap();
        handler.ack();
        trapped.hit(PATIENCE).await.unwrap();
        assert_eq!(broker.stats(subscription).unwrap().acked, 0);
        if cut {
            trapped.cut();
            // Forgotten: it stays out until its lease ends.
            tokio::time::sleep(Duration::from_millis(200)).await;
        } else {
            trapped.release();
            while broker.stats(subscription).unwrap().acked == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(broker.stats(subscription).unwrap().acked, acked);
    }
    // Gone and back: what it holds is kept, and the stream finds it again by itself.
    broker.down().await;
    assert!(TcpStream::connect(broker.host_port()).await.is_err());
    broker.publish(topic, "meanwhile", [("k", "v")]).unwrap();
    broker.up().await.unwrap();
    let (message, _) = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.data.as_ref(), b"meanwhile");
}
