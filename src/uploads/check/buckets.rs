//! Line `upload_buckets`: whether the store has both buckets, as alike as they must be, and gives this account what uploads need and
//! no more.
//!
//! The content bucket keeps what was proven: whoever may delete there may overwrite. The staging bucket forgets by itself what we
//! could not remove, and a page of another origin may send parts to it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::config::Config;
use crate::gateway::objects::store::{
    BucketFacts, CorsRule, LifecycleRule, ObjectStore, Patience, Permission, StoreError,
};
use crate::ports::CheckLine;

pub(super) const NAME: &str = "upload_buckets";
const REMEDY: &str = "rb-011-uploads.md, \"The buckets\", has the commands";
/// Limits of the store's answers, shorter than the daemon's: a person waits at the terminal.
const CONNECT: Duration = Duration::from_secs(3);
const CALL: Duration = Duration::from_secs(6);
/// Permissions that are needed in the content bucket.
const OF_CONTENT: [Permission; 2] = [Permission::Create, Permission::Get];
/// Permissions that are needed in the staging bucket. Without `List` the store says the same of a missing object and of one that is
/// kept from us.
const OF_STAGING: [Permission; 7] = [
    Permission::CreateUpload,
    Permission::ListParts,
    Permission::AbortUpload,
    Permission::Create,
    Permission::Get,
    Permission::Delete,
    Permission::List,
];
const DAY: Duration = Duration::from_secs(86_400);

/// A bucket as we see it.
struct Seen {
    name: String,
    facts: Result<BucketFacts, StoreError>,
    held: BTreeSet<Permission>,
}

/// What is wrong, by its weight.
#[derive(Debug, Default)]
struct Findings {
    /// Uploads do not work.
    broken: Vec<String>,
    /// They do, and something is not as it should be.
    odd: Vec<String>,
}

/// Asks the store.
pub(super) async fn line(config: &Config) -> CheckLine {
    if config.uploads.listen.is_none() {
        return CheckLine::ok(NAME, "off: uploads.listen is not set");
    }
    let patience = Patience { connect: CONNECT, call: CALL, ..Patience::default() };
    let host = config.surroundings.metadata_host.as_deref();
    let Ok(store) = ObjectStore::with_patience(&config.signed_url, host, patience) else {
        return not_tried("the store's client cannot be made");
    };
    let (content, staging) =
        futures::join!(look(&store, &config.uploads.bucket), look(&store, &config.uploads.staging_bucket),);
    match (content, staging) {
        (Ok(content), Ok(staging)) => told(config, &content, &staging),
        (Err(error), _) | (_, Err(error))
            if matches!(error.1, StoreError::Signing(_) | StoreError::TokenRefused) =>
        {
            not_tried("the service account has no access token")
        }
        (Err((name, error)), _) | (_, Err((name, error))) => {
            CheckLine::fail(NAME, format!("{name}: {error}"), remedy_of(&error))
        }
    }
}

fn not_tried(why: &str) -> CheckLine {
    CheckLine::warn(NAME, format!("not tried: {why}"), "see line signing")
}

fn remedy_of(error: &StoreError) -> &'static str {
    if matches!(error, StoreError::NoBucket | StoreError::Forbidden { .. }) {
        return REMEDY;
    }
    "see to signed_url.storage_endpoint, to the network, and to the store's own status page; then look again"
}

/// A bucket's configuration may be kept from us: that is told, and the rest is looked at.
async fn look(store: &ObjectStore, bucket: &str) -> Result<Seen, (String, StoreError)> {
    let named = |error| (bucket.to_owned(), error);
    let held = store.permissions(bucket, &Permission::ALL).await.map_err(named)?;
    let facts = match store.bucket(bucket).await {
        Ok(facts) => Ok(facts),
        Err(error @ StoreError::Forbidden { .. }) => Err(error),
        Err(error) => return Err(named(error)),
    };
    Ok(Seen { name: bucket.to_owned(), facts, held })
}

fn told(config: &Config, content: &Seen, staging: &Seen) -> CheckLine {
    let mut found = Findings::default();
    rights(content, &OF_CONTENT, &mut found);
    rights(staging, &OF_STAGING, &mut found);
    if content.held.contains(&Permission::Delete) {
        found.odd.push(format!(
            "{}: the daemon may overwrite and delete what was proven ({}), and should not",
            content.name,
            Permission::Delete
        ));
    }
    for seen in [content, staging] {
        if let Err(error) = &seen.facts {
            found.odd.push(format!("{}: {error}, so nobody knows how it is set up", seen.name));
        }
    }
    if let (Ok(one), Ok(other)) = (&content.facts, &staging.facts) {
        alike(one, other, &mut found);
    }
    if let Ok(facts) = &content.facts {
        kept(&content.name, facts, &mut found);
    }
    if let Ok(facts) = &staging.facts {
        forgotten(&staging.name, facts, config.uploads.session_ttl, &mut found);
        let origins = std::iter::once(&config.uploads.origin).chain(&config.uploads.allowed_origins);
        let shut: Vec<&str> =
            origins.filter(|origin| !speaks(&facts.cors, origin)).map(String::as_str).collect();
        if !shut.is_empty() {
            found.odd.push(format!("{}: CORS lets no page of {} send a part", staging.name, shut.join(", ")));
        }
    }
    if !found.broken.is_empty() {
        return CheckLine::fail(
            NAME,
            found.broken.into_iter().chain(found.odd).collect::<Vec<_>>().join("; "),
            REMEDY,
        );
    }
    if !found.odd.is_empty() {
        return CheckLine::warn(NAME, found.odd.join("; "), REMEDY);
    }
    let place = content.facts.as_ref().map_or_else(
        |_| String::new(),
        |facts| format!(", both {} in {}", facts.storage_class, facts.location),
    );
    CheckLine::ok(NAME, format!("{} and {} are there{place}; rights as needed", content.name, staging.name))
}

fn rights(seen: &Seen, needed: &[Permission], found: &mut Findings) {
    let lacking: Vec<&str> =
        needed.iter().filter(|one| !seen.held.contains(one)).map(|permission| permission.name()).collect();
    if !lacking.is_empty() {
        found.broken.push(format!("{}: the service account lacks {}", seen.name, lacking.join(", ")));
    }
}

/// Within one location and class, a blob gets its name without its bytes being moved.
fn alike(content: &BucketFacts, staging: &BucketFacts, found: &mut Findings) {
    let place = |facts: &BucketFacts| format!("{} in {}", facts.storage_class, facts.location);
    let (content, staging) = (place(content), place(staging));
    if content != staging {
        found.odd.push(format!(
            "content is {content}, staging {staging}: every file is moved between them, in rounds, and paid for"
        ));
    }
}

/// The content bucket keeps what it has.
fn kept(name: &str, facts: &BucketFacts, found: &mut Findings) {
    if facts.soft_delete.is_zero() {
        found.odd.push(format!("{name}: no soft delete, so what is deleted by mistake is gone at once"));
    }
    if let Some(rule) = facts.lifecycle.iter().find(|rule| rule.action == "Delete") {
        let after = rule.age_days.map_or_else(String::new, |days| format!(" after {days} days"));
        found.odd.push(format!("{name}: a lifecycle rule deletes{after} what submissions still need"));
    }
}

/// The staging bucket forgets: nothing stays there that somebody sent and nobody wants.
fn forgotten(name: &str, facts: &BucketFacts, session: Duration, found: &mut Findings) {
    if !facts.soft_delete.is_zero() || facts.has_versions {
        let what = if facts.has_versions { "old versions are kept" } else { "soft delete is on" };
        found.odd.push(format!("{name}: {what}, so what was removed is kept and paid for"));
    }
    for (action, what) in [
        ("Delete", "objects that nobody removed"),
        ("AbortIncompleteMultipartUpload", "parts that nobody completed"),
    ] {
        match age(&facts.lifecycle, action) {
            None => found.odd.push(format!("{name}: no lifecycle rule {action}, so {what} stay for ever")),
            Some(age) if age < session => found.odd.push(format!(
                "{name}: lifecycle rule {action} acts before a session ends (uploads.session_ttl = {})",
                humantime::format_duration(session)
            )),
            Some(_) => {}
        }
    }
}

/// The age at which a rule acts on everything.
fn age(rules: &[LifecycleRule], action: &str) -> Option<Duration> {
    let acts = rules.iter().filter(|rule| rule.action == action && !rule.has_other_conditions);
    acts.filter_map(|rule| rule.age_days).map(|days| DAY * days).min()
}

/// Whether a page of this origin may send a part, with its digest.
fn speaks(cors: &[CorsRule], origin: &str) -> bool {
    let has = |known: &[String], wanted: &str| {
        known.iter().any(|one| one == "*" || one.eq_ignore_ascii_case(wanted))
    };
    cors.iter().any(|rule| {
        has(&rule.origins, origin) && has(&rule.methods, "PUT") && has(&rule.headers, "Content-MD5")
    })
}
