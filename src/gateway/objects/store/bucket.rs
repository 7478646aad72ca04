//! Buckets as they are configured, and what we may do in them: for `check`. Changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::call::{Call, Permission};
use super::fault::StoreError;
use super::{ObjectStore, garbled, parsed};

/// A bucket's configuration, as far as uploads rely on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFacts {
    /// E.g. `EUROPE-WEST1`. A copy to a bucket of another location moves its bytes, in rounds.
    pub location: String,
    /// E.g. `STANDARD`.
    pub storage_class: String,
    /// Time for which deleted objects can be had back; zero where they cannot.
    pub soft_delete: Duration,
    /// Whether old generations are kept.
    pub has_versions: bool,
    /// What the store does by itself.
    pub lifecycle: Vec<LifecycleRule>,
    /// Which pages may speak to it.
    pub cors: Vec<CorsRule>,
}

/// A rule of a bucket's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleRule {
    /// As the API says it: `Delete`, `AbortIncompleteMultipartUpload`, `SetStorageClass`.
    pub action: String,
    /// Days after which it acts, where that is a condition.
    pub age_days: Option<u32>,
    /// Whether it has other conditions, so that it does not act on everything of that age.
    pub has_other_conditions: bool,
}

/// One entry of a bucket's CORS configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CorsRule {
    /// Origins, or `*`.
    #[serde(rename = "origin", default)]
    pub origins: Vec<String>,
    /// Methods, or `*`.
    #[serde(rename = "method", default)]
    pub methods: Vec<String>,
    /// Headers that a page may send and read.
    #[serde(rename = "responseHeader", default)]
    pub headers: Vec<String>,
    /// Seconds for which a browser need not ask again.
    #[serde(rename = "maxAgeSeconds", default)]
    pub max_age: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    location: String,
    storage_class: String,
    soft_delete_policy: Option<SoftDelete>,
    #[serde(default)]
    versioning: Versioning,
    #[serde(default)]
    lifecycle: Lifecycle,
    #[serde(default)]
    cors: Vec<CorsRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SoftDelete {
    retention_duration_seconds: String,
}

#[derive(Deserialize, Default)]
struct Versioning {
    #[serde(default)]
    enabled: bool,
}

#[derive(Deserialize, Default)]
struct Lifecycle {
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    action: Action,
    #[serde(default)]
    condition: Map<String, Value>,
}

#[derive(Deserialize)]
struct Action {
    #[serde(rename = "type")]
    kind: String,
}

impl Rule {
    fn said(self) -> LifecycleRule {
        let age = self.condition.get("age").and_then(Value::as_u64);
        LifecycleRule {
            action: self.action.kind,
            age_days: age.and_then(|age| age.try_into().ok()),
            has_other_conditions: self.condition.keys().any(|name| name != "age"),
        }
    }
}

#[derive(Deserialize)]
struct Held {
    #[serde(default)]
    permissions: Vec<String>,
}

impl ObjectStore {
    /// A bucket's configuration. Needs `storage.buckets.get`.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::NoBucket`] where there is none.
    pub async fn bucket(&self, bucket: &str) -> Result<BucketFacts, StoreError> {
        let call = Call::Bucket;
        let body = self.answer(call, self.request(Method::GET, self.json([bucket], &[]))).await?;
        let said: Resource = parsed(call, &body)?;
        let soft_delete = match said.soft_delete_policy {
            None => Duration::ZERO,
            Some(policy) => {
                let seconds = policy.retention_duration_seconds.parse().map_err(|_| garbled(call))?;
                Duration::from_secs(seconds)
            }
        };
        Ok(BucketFacts {
            location: said.location,
            storage_class: said.storage_class,
            soft_delete,
            has_versions: said.versioning.enabled,
            lifecycle: said.lifecycle.rule.into_iter().map(Rule::said).collect(),
            cors: said.cors,
        })
    }

    /// Those of some permissions that we have in a bucket. The question itself needs none.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::NoBucket`] where there is none.
    pub async fn permissions(
        &self,
        bucket: &str,
        wanted: &[Permission],
    ) -> Result<BTreeSet<Permission>, StoreError> {
        let query: Vec<_> = wanted.iter().map(|permission| ("permissions", permission.name())).collect();
        let url = self.json([bucket, "iam", "testPermissions"], &query);
        let body = self.answer(Call::Permissions, self.request(Method::GET, url)).await?;
        let held: Held = parsed(Call::Permissions, &body)?;
        Ok(held.permissions.iter().filter_map(|name| Permission::named(name)).collect())
    }
}
