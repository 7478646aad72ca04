//! The version of a managed form, pinned with its plan by the real statements; and what is left where schema `content` is
//! missing, comes, goes, or is not as it should be.

use devkit::managed::{self, Version};
use maple_router::routing::decide::replay::ReplayOptions;
use maple_router::routing::store::Replayed;
use maple_router::routing::submission::ledger::Ledger;
use maple_router::routing::submission::version::PlanVersion;
use serde_json::json;

use super::*;

const CONTENT: Variant = Variant {
    audit_readable: false,
    with_011: true,
    router: true,
    content: true,
    screening: false,
    grading: false,
};
const PLAIN: ReplayOptions<'_> = ReplayOptions { force: None, replan: false };
const REPLAN: ReplayOptions<'_> = ReplayOptions { force: None, replan: true };

/// The form as its version `n` has it: its destination says so.
fn nth(n: u32) -> Form {
    Form::new("f").mail_to(&destination(n))
}

fn destination(n: u32) -> String {
    format!("v{n}@x.test")
}

impl Bench {
    /// Two forms, `f` and `g`, with schema `content`.
    async fn with_content() -> Self {
        Self::on(CONTENT, &[nth(0), Form::new("g").mail_to("g@x.test")]).await
    }

    async fn promote(&self, n: u32) -> Version {
        managed::promote(&self.db, &nth(n)).await.expect("promoted")
    }

    /// A new submission's ledger after its claim.
    async fn pinned(&self) -> Value {
        let id = self.ready().await;
        self.pinned_by_claim(id).await
    }

    async fn pinned_by_claim(&self, id: Uuid) -> Value {
        let Claimed::Taken(taken) = self.claim(id, &format!("t{id}")).await else { panic!("it is free") };
        let ledger = self.row(id).await.ledger;
        let read = Ledger::read(&ledger).expect("a ledger");
        assert_eq!(
            (&taken.ledger.version, &taken.ledger.plan),
            (&read.version, &read.plan),
            "as it is written"
        );
        ledger
    }

    /// A submission that failed under its claim.
    async fn failed_as(&self, n: u32) -> Uuid {
        let id = self.claimed("t").await;
        let key = format!("1|{}", destination(n));
        let refused = entries("t", "n", &[(&key, Outcome::Refused(fault(550)))]);
        self.store.record(scope(id, "t", &BTreeSet::from([1])), &refused).await.expect("recorded");
        assert_eq!(self.row(id).await.status, "failed");
        id
    }

    async fn replayed(&self, id: Uuid, options: ReplayOptions<'_>) -> Value {
        let done = self.store.replay(id, options, OPERATOR, false).await.expect("answered");
        assert!(matches!(done, Replayed::Done { .. }), "{done:?}");
        self.row(id).await.ledger
    }
}

fn is_of(ledger: &Value, n: u32, version: Option<&Version>) {
    let plan = &ledger["plan"][0]["destination"];
    assert_eq!(
        (plan, ledger.get("version")),
        (&json!(destination(n)), version.map(Version::in_ledger).as_ref())
    );
}

#[tokio::test]
async fn the_first_claim_pins_the_version_whose_rows_it_pins() {
    let bench = Bench::with_content().await;
    is_of(&bench.pinned().await, 0, None);
    let first = bench.promote(1).await;
    // The store has seen versions since its first claim; the second knows nothing yet.
    is_of(&bench.pinned().await, 1, Some(&first));
    let fresh = Bench { store: store(&bench.db, 4), ..bench };
    is_of(&fresh.pinned().await, 1, Some(&first));
    // In one batch: a form that is managed, one that is not, one without actions.
    devkit::forms::load_into(&fresh.db, &[Form::new("h")]).await.expect("a form");
    managed::promote(&fresh.db, &Form::new("h")).await.expect("a version without actions");
    let mut ids = Vec::new();
    for form in ["f", "g", "h"] {
        ids.push(fresh.insert(&SubmissionSeed::of(form)).await);
    }
    let requests: Vec<_> = ids.iter().map(|id| ClaimRequest { id: *id, token: "batch".to_owned() }).collect();
    fresh.store.claim(&requests).await.expect("claimed");
    is_of(&fresh.row(ids[0]).await.ledger, 1, Some(&first));
    for id in &ids[1..] {
        assert_eq!(fresh.row(*id).await.ledger.get("version"), None, "not managed, or no plan");
    }
}

#[tokio::test]
async fn what_is_on_its_way_keeps_its_version() {
    let bench = Bench::with_content().await;
    let first = bench.promote(1).await;
    let id = bench.claimed("t").await;
    let deferred = entries("t", "n", &[("1|v1@x.test", Outcome::Deferred(fault(451)))]);
    bench.store.record(scope(id, "t", &BTreeSet::from([1])), &deferred).await.expect("recorded");
    let second = bench.promote(2).await;
    assert_eq!((first.number, second.number), (1, 2));
    is_of(&bench.pinned_by_claim(id).await, 1, Some(&first));
    is_of(&bench.pinned().await, 2, Some(&second));
    let open = "SELECT content.open_plans($1)";
    for version in [first, second] {
        let follow: i64 = bench.eyes.query_one(open, &[&version.id]).await.expect("counted").get(0);
        assert_eq!(follow, 1, "what guards a version from its end finds it");
    }
}

#[tokio::test]
async fn a_replay_keeps_the_version_and_a_replan_takes_todays() {
    let bench = Bench::with_content().await;
    let first = bench.promote(1).await;
    let (kept, taken, freed) = (bench.failed_as(1).await, bench.failed_as(1).await, bench.failed_as(1).await);
    let second = bench.promote(2).await;
    is_of(&bench.replayed(kept, PLAIN).await, 1, Some(&first));
    is_of(&bench.pinned_by_claim(kept).await, 1, Some(&first));
    let before = bench.row(taken).await;
    bench.store.replay(taken, REPLAN, OPERATOR, true).await.expect("answered");
    assert_eq!(bench.row(taken).await, before, "a dry run writes nothing");
    is_of(&bench.replayed(taken, REPLAN).await, 2, Some(&second));
    is_of(&bench.pinned_by_claim(taken).await, 2, Some(&second));
    managed::abandon(&bench.db, "f").await.expect("abandoned");
    is_of(&bench.replayed(freed, REPLAN).await, 2, None);
}

/// The plan and the version are of one moment, however often the form moves on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_of_its_version_while_versions_change() {
    let bench = Bench::with_content().await;
    let mut ids = vec![bench.promote(1).await.id];
    let claims = async {
        let mut ledgers = Vec::new();
        for _ in 0..150 {
            ledgers.push(bench.pinned().await);
        }
        ledgers
    };
    let promotions = async {
        for n in 2..=40 {
            ids.push(bench.promote(n).await.id);
        }
    };
    let (ledgers, ()) = tokio::join!(claims, promotions);
    let mut seen = BTreeSet::new();
    for ledger in &ledgers {
        let number =
            ledger["version"]["number"].as_u64().and_then(|n| u32::try_from(n).ok()).expect("a number");
        assert_eq!(ledger["plan"][0]["destination"], json!(destination(number)), "{ledger:#}");
        assert_eq!(ledger["version"]["id"], json!(ids[number as usize - 1]), "{ledger:#}");
        seen.insert(number);
    }
    assert!(seen.len() > 5, "the form moved on among the claims: {seen:?}");
}

/// What stands in place of a version keeps nothing from being claimed, is left alone, and goes with its plan.
#[tokio::test]
async fn a_damaged_version_damages_nothing_and_goes_with_its_plan() {
    let bench = Bench::with_content().await;
    let first = bench.promote(1).await;
    let (open, failed) = (bench.claimed("t").await, bench.failed_as(1).await);
    bench.reset(open).await;
    for id in [open, failed] {
        bench.tamper(id, "routing_result = jsonb_set(routing_result, '{version}', '[\"x\"]')").await;
    }
    let Claimed::Taken(taken) = bench.claim(open, "t2").await else { panic!("it is free") };
    assert_eq!((&taken.ledger.version, taken.ledger.plan.len()), (&PlanVersion::Unreadable, 1));
    let stays = json!(["x"]);
    assert_eq!(bench.row(open).await.ledger["version"], stays);
    let sent = entries("t2", "n2", &[("1|v1@x.test", accepted("Q"))]);
    bench.store.record(scope(open, "t2", &BTreeSet::from([1])), &sent).await.expect("recorded");
    let row = bench.row(open).await;
    assert_eq!((row.status.as_str(), &row.ledger["version"]), ("routed", &stays), "{row:?}");
    is_of(&bench.replayed(failed, REPLAN).await, 1, Some(&first));
}

/// A version without a plan is nobody's: the plan that is pinned is of its own, or of none.
#[tokio::test]
async fn a_plan_that_is_pinned_does_not_inherit_a_version() {
    let bench = Bench::with_content().await;
    let stray = json!({"version": {"id": Uuid::nil(), "number": 7, "digest": "0".repeat(64)}, "theirs": 1});
    let seed = || SubmissionSeed::of("f").ledger(stray.clone());
    let unmanaged = bench.insert(&seed()).await;
    let ledger = bench.pinned_by_claim(unmanaged).await;
    is_of(&ledger, 0, None);
    assert_eq!(ledger["theirs"], 1, "unknown keys survive");
    let first = bench.promote(1).await;
    let managed = bench.insert(&seed()).await;
    is_of(&bench.pinned_by_claim(managed).await, 1, Some(&first));
}

#[tokio::test]
async fn without_the_schema_or_the_right_to_read_it_there_is_no_version() {
    let without = Bench::of(&[nth(0)]).await;
    is_of(&without.pinned().await, 0, None);
    let failed = without.failed_as(0).await;
    is_of(&without.replayed(failed, REPLAN).await, 0, None);
    let bench = Bench::with_content().await;
    bench.promote(1).await;
    for right in ["USAGE ON SCHEMA content", "SELECT ON content.current", "SELECT ON content.versions"] {
        // Whoever has read them, and whoever has not.
        for fresh in [false, true] {
            let failed = bench.failed_as(1).await;
            bench.db.alter(&format!("REVOKE {right} FROM forms_app")).await.expect("revoked");
            let claimer = if fresh { store(&bench.db, 1) } else { bench.store.clone() };
            let id = bench.ready().await;
            assert!(matches!(claim(&claimer, id, "t").await, Claimed::Taken(_)), "{right}");
            is_of(&bench.row(id).await.ledger, 1, None);
            is_of(&bench.replayed(failed, REPLAN).await, 1, None);
            bench.db.alter(&format!("GRANT {right} TO forms_app")).await.expect("granted");
        }
    }
    assert!(bench.pinned().await.get("version").is_some(), "noticed again");
}

/// Nobody restarts for a migration, in either direction.
#[tokio::test]
async fn a_schema_that_comes_or_goes_counts_from_the_next_claim() {
    let bench = Bench::with_content().await;
    let first = bench.promote(1).await;
    is_of(&bench.pinned().await, 1, Some(&first));
    // Twice: the second claim already knows.
    bench.db.alter("ALTER SCHEMA content RENAME TO elsewhere").await.expect("gone");
    is_of(&bench.pinned().await, 1, None);
    is_of(&bench.pinned().await, 1, None);
    bench.db.alter("ALTER SCHEMA elsewhere RENAME TO content").await.expect("there again");
    is_of(&bench.pinned().await, 1, Some(&first));
    // Tables of these names that are not ours.
    bench.db.alter("ALTER TABLE content.versions RENAME digest TO fingerprint").await.expect("another");
    is_of(&bench.pinned().await, 1, None);
    is_of(&bench.pinned().await, 1, None);
    bench.db.alter("DROP SCHEMA content CASCADE").await.expect("dropped");
    is_of(&bench.pinned().await, 1, None);
}
