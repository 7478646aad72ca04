//! Red has the host: kills, freezes, changes files, forgets. Blue sees it, and the work goes on.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Step;
use super::world::{FASTER, Promise, World};
use crate::forms::SubmissionSeed;
use crate::postgres::Refusing;
use crate::prometheus::Prometheus;
use crate::smtp::{Rule, Stage as At};

/// Steps that end and start the daemon, and come first.
pub(super) const KILLS: &[Step] = &[
    Step { name: "worker-killed", play: |world| Box::pin(killed(world)) },
    Step { name: "crash-loop", play: |world| Box::pin(crash_loop(world)) },
    Step { name: "start-without-relay", play: |world| Box::pin(start_without_relay(world)) },
];

pub(super) const STEPS: &[Step] = &[
    Step { name: "broken-configuration", play: |world| Box::pin(broken_config(world)) },
    Step { name: "state-directory-gone", play: |world| Box::pin(state_gone(world)) },
    Step { name: "row-refuses-writes", play: |world| Box::pin(row_refuses(world)) },
    Step { name: "everything-paused", play: |world| Box::pin(all_paused(world)) },
    Step { name: "claims-stolen", play: |world| Box::pin(stolen(world)) },
    Step { name: "grant-taken", play: |world| Box::pin(grant_taken(world)) },
    Step { name: "sweep-broken", play: |world| Box::pin(sweep_broken(world)) },
    Step { name: "slow-database", play: |world| Box::pin(slow_database(world)) },
    Step { name: "heartbeat-refused", play: |world| Box::pin(heartbeat(world)) },
    Step { name: "scrape-forgotten", play: |world| Box::pin(absent(world)) },
    Step { name: "pause-forgotten", play: |world| Box::pin(paused(world)) },
];

/// The daemon dies in the middle of four mails.
async fn killed(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Dot).delay(Duration::from_secs(2)));
    let ids = world.submit("contact", 4).await?;
    world.journal("claimed", "").await?;
    tokio::time::sleep(Duration::from_millis(800)).await;
    world.router.signal("KILL").await?;
    world.router.ended().await?;
    world.alert("MapleRouterDown").await?;
    world.stage.relay.clear_rules();
    world.start_again().await?;
    world.router.ready().await?;
    world.journal("rescued", "").await?;
    world.alert("MapleRouterRescues").await?;
    world.become_all(&ids, "routed").await
}

async fn crash_loop(world: &mut World) -> Result<()> {
    for _ in 0..20 {
        world.router.signal("KILL").await?;
        world.router.ended().await?;
        world.start_again().await?;
        let answers = async || Ok(world.router.get("/metrics").await.is_ok());
        world.until("the daemon answers", answers).await?;
        // Long enough to be scraped once.
        tokio::time::sleep(Duration::from_millis(700)).await;
        if world.prometheus.firing().await?.iter().any(|name| name == "MapleRouterRestarting") {
            world.say("  alert     MapleRouterRestarting");
            return world.router.ready().await;
        }
    }
    bail!("MapleRouterRestarting does not fire")
}

async fn start_without_relay(world: &mut World) -> Result<()> {
    world.router.stop().await?;
    world.stage.relay.stop().await;
    world.start_again().await?;
    world.alert("MapleRouterBreakerOpen").await?;
    let line = format!("curl --silent http://{}/-/ready", world.router.address());
    let tells = async || Ok(world.shell(&line).await?.out.contains("relay"));
    world.until("/-/ready names the relay", tells).await?;
    world.say("  /-/ready  names the relay");
    world.stage.relay.restart().await?;
    world.router.ready().await
}

async fn broken_config(world: &mut World) -> Result<()> {
    let path = world.router.config().to_owned();
    let before = std::fs::read_to_string(&path)?;
    std::fs::write(&path, before.replace("[routing]\n", "[routing]\nmax_in_fligth = 3\n"))?;
    world.router.signal("HUP").await?;
    world.journal("reload_failed", "max_in_fligth").await?;
    world.alert("MapleRouterReloadFailed").await?;
    let answer = world.shell(&format!("maple-router --config {} check", path.display())).await?;
    anyhow::ensure!(
        answer.code == Some(78) && answer.out.contains("max_in_flight"),
        "it names the key: {answer:?}"
    );
    world.say("  pasted    maple-router check: exit 78, names the key");
    let ids = world.submit("contact", 1).await?;
    world.become_all(&ids, "routed").await?;
    std::fs::write(&path, before)?;
    world.router.signal("HUP").await?;
    world.journal("reloaded", "").await
}

/// A file replaces the state directory.
async fn state_gone(world: &mut World) -> Result<()> {
    let (dir, away) = (world.stage.dir().join("router"), world.stage.dir().join("router.away"));
    std::fs::rename(&dir, &away)?;
    std::fs::write(&dir, "red was here")?;
    world.slack("spool", Promise { failing: "config", ..Promise::default() }).await?;
    world.alert("MapleRouterFactsSpooled").await?;
    std::fs::remove_file(&dir)?;
    std::fs::rename(&away, &dir)?;
    world.slack_over("spool").await
}

/// A constraint that a ready row breaks already; nobody has announced it, or those beside it.
async fn row_refuses(world: &mut World) -> Result<()> {
    let mut ids = Vec::new();
    world.tamper("ALTER TABLE submissions DISABLE TRIGGER USER").await?;
    for _ in 0..3 {
        let old = SubmissionSeed::of("contact").age(Duration::from_secs(3600));
        ids.push(world.seed(old, false).await?);
    }
    world.tamper("ALTER TABLE submissions ENABLE TRIGGER USER").await?;
    world.stage.database.refuse(Refusing::Check, &ids[..1]).await?;
    world.journal("set_aside", "submissions_refused").await?;
    world.slack("set_aside", Promise { submissions: &ids[..1], ..Promise::default() }).await?;
    world.alert("MapleRouterRowsSetAside").await?;
    world.become_all(&ids[1..], "routed").await?;
    world.stage.database.refuse(Refusing::Check, &[]).await?;
    world.become_all(&ids, "routed").await?;
    world.slack_over("set aside").await
}

/// A stranger writes into rows that are in work.
async fn stolen(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Dot).delay(Duration::from_secs(2)));
    let ids = world.submit("contact", 5).await?;
    world.journal("claimed", "").await?;
    tokio::time::sleep(Duration::from_millis(800)).await;
    let listed: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    let sql = format!(
        "UPDATE submissions SET routing_result = jsonb_set(routing_result, '{{claim,token}}', '\"red\"')
         WHERE status = 'processing' AND id IN ({})",
        listed.join(", ")
    );
    world.tamper(&sql).await?;
    world.journal("stale_settle", "").await?;
    world.alert("MapleRouterStaleSettles").await?;
    world.stage.relay.clear_rules();
    world.become_all(&ids, "routed").await?;
    let mails = world.stage.relay.mails();
    let twice = ids.iter().filter(|id| {
        let part = format!("maple.{}.", id.simple());
        mails
            .iter()
            .filter(|mail| mail.message_id.as_deref().is_some_and(|given| given.contains(&part)))
            .count()
            > 1
    });
    anyhow::ensure!(twice.count() == 0, "what was accepted is not sent again");
    world.say("  relay     every mail once");
    Ok(())
}

/// The role may not read what says whether a submission is ready: nothing is claimed, and nobody spends an attempt.
async fn grant_taken(world: &mut World) -> Result<()> {
    world.tamper("REVOKE SELECT ON attachments FROM forms_app").await?;
    let ids = world.submit("contact", 2).await?;
    world.journal("breaker_open", "attachments").await?;
    world.slack("breaker_contract", Promise { failing: "grants", ..Promise::default() }).await?;
    world.alert("MapleRouterBreakerOpen").await?;
    world.tamper("GRANT SELECT ON attachments TO forms_app").await?;
    world.slack_over("data contract").await?;
    world.become_all(&ids, "routed").await
}

/// A search path that somebody has set leads to another function than the one that the sweep calls.
async fn sweep_broken(world: &mut World) -> Result<()> {
    let database = world.stage.database.name().to_owned();
    let shadow = format!(
        "CREATE SCHEMA red; GRANT USAGE ON SCHEMA red TO PUBLIC;
         CREATE FUNCTION red.pg_try_advisory_xact_lock(integer, integer) RETURNS boolean LANGUAGE plpgsql AS
         $$ BEGIN RAISE 'red was here'; END $$;
         ALTER ROLE forms_app IN DATABASE {database} SET search_path = red, pg_catalog, public"
    );
    world.tamper(&shadow).await?;
    world.stage.database.disconnect("forms_app").await?;
    let ids = world.submit("contact", 2).await?;
    world.become_all(&ids, "routed").await?;
    world.say("  routed    whatever an event announces");
    world.alert("MapleRouterSweepStalled").await?;
    let answer = world.shell("maple-router sweep --once").await?;
    let mended =
        format!("ALTER ROLE forms_app IN DATABASE {database} RESET search_path; DROP SCHEMA red CASCADE");
    world.tamper(&mended).await?;
    world.stage.database.disconnect("forms_app").await?;
    anyhow::ensure!(answer.code != Some(0) && answer.err.contains("red was here"), "it says why: {answer:?}");
    world.say("  pasted    maple-router sweep --once: says why");
    world.prometheus.falls_silent("MapleRouterSweepStalled", super::world::PATIENCE).await
}

async fn slow_database(world: &mut World) -> Result<()> {
    world
        .tamper(
            "CREATE FUNCTION public.red() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
             $$ BEGIN PERFORM pg_sleep(1.2); RETURN NEW; END $$;
             CREATE TRIGGER red BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION public.red()",
        )
        .await?;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.extend(world.submit("contact", 1).await?);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.alert("MapleRouterDatabaseSlow").await?;
    world.tamper("DROP TRIGGER red ON submissions; DROP FUNCTION public.red()").await?;
    world.become_all(&ids, "routed").await
}

/// Since the start nobody takes it.
async fn heartbeat(world: &mut World) -> Result<()> {
    world.alert("MapleRouterHeartbeatFailing").await
}

/// A Prometheus without the daemon among its targets.
async fn absent(world: &mut World) -> Result<()> {
    let blind = Prometheus::start(&[], FASTER).await?;
    blind.fires("MapleRouterAbsent", super::world::PATIENCE).await?;
    world.say("  alert     MapleRouterAbsent");
    Ok(())
}

/// Deliberate, and seen all the same.
async fn all_paused(world: &mut World) -> Result<()> {
    let set = world.shell("maple-router pause --reason red-was-here").await?;
    anyhow::ensure!(set.code == Some(0), "{set:?}");
    // The daemon looks for pauses every so often.
    world.alert("MapleRouterNotReady").await?;
    let ids = world.submit("contact", 1).await?;
    world.explain(ids[0], &["paused since", "red-was-here"]).await?;
    let ended = world.shell("maple-router resume --reason drill").await?;
    anyhow::ensure!(ended.code == Some(0), "{ended:?}");
    world.become_all(&ids, "routed").await
}

/// Paused before the first step.
async fn paused(world: &mut World) -> Result<()> {
    let ids = world.submit("forgotten", 1).await?;
    world.alert("MapleRouterPausedTooLong").await?;
    world.explain(ids[0], &["paused since", "red"]).await?;
    let answer = world.shell("maple-router status").await?;
    anyhow::ensure!(answer.out.contains("paused"), "status tells who: {answer:?}");
    let ended = world.shell("maple-router resume --form forgotten --reason drill").await?;
    anyhow::ensure!(ended.code == Some(0), "{ended:?}");
    world.become_all(&ids, "routed").await
}

/// Before everything else.
pub(super) async fn pause(world: &World) -> Result<()> {
    let set = world.shell("maple-router pause --form forgotten --reason red-was-here").await?;
    anyhow::ensure!(set.code == Some(0), "{set:?}");
    Ok(())
}
