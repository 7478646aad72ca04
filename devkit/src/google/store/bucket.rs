//! A bucket's configuration, as a test declares it and the JSON API shows it.

use std::time::Duration;

use serde_json::{Value, json};

/// A bucket. What the service makes where nobody asks for anything else: one region, STANDARD, soft delete for 7 days, no
/// lifecycle rule, no CORS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// As the API says it, e.g. `EUROPE-WEST1`.
    pub location: String,
    /// E.g. `STANDARD`.
    pub storage_class: String,
    /// Time for which deleted and overwritten objects can be had back; zero where they cannot.
    pub soft_delete: Duration,
    /// What happens by itself, after days. Only shown: no rule is ever carried out.
    pub lifecycle: Vec<Lifecycle>,
    /// Which pages may speak to it.
    pub cors: Vec<Cors>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            location: "EUROPE-WEST1".to_owned(),
            storage_class: "STANDARD".to_owned(),
            soft_delete: Duration::from_secs(7 * 24 * 3600),
            lifecycle: Vec::new(),
            cors: Vec::new(),
        }
    }
}

/// A lifecycle rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// Objects are deleted after so many days.
    Delete(u32),
    /// Multipart uploads are aborted after so many days.
    AbortUploads(u32),
}

/// One entry of a bucket's CORS configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins, or `*`.
    pub origins: Vec<String>,
    /// Methods, or `*`.
    pub methods: Vec<String>,
    /// Headers that a page may send and read.
    pub headers: Vec<String>,
    /// Seconds for which a browser need not ask again.
    pub max_age: u32,
}

impl Cors {
    /// A page of this origin that PUTs, and reads no header of the answer.
    #[must_use]
    pub fn uploads_from(origin: &str) -> Self {
        Self {
            origins: vec![origin.to_owned()],
            methods: vec!["PUT".to_owned()],
            headers: vec!["Content-Type".to_owned(), "Content-MD5".to_owned()],
            max_age: 3600,
        }
    }
}

impl Bucket {
    /// The resource of the JSON API.
    pub(super) fn resource(&self, name: &str) -> Value {
        let mut resource = json!({
            "kind": "storage#bucket", "id": name, "name": name, "projectNumber": "100000000001",
            "metageneration": "1", "location": self.location, "locationType": "region",
            "storageClass": self.storage_class, "etag": "CAE=",
            "softDeletePolicy": {"retentionDurationSeconds": self.soft_delete.as_secs().to_string()},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": true}, "publicAccessPrevention": "enforced",
            },
        });
        if !self.lifecycle.is_empty() {
            resource["lifecycle"] = json!({"rule": self.lifecycle.iter().map(rule).collect::<Vec<_>>()});
        }
        if !self.cors.is_empty() {
            resource["cors"] = self.cors.iter().map(entry).collect();
        }
        resource
    }
}

fn rule(rule: &Lifecycle) -> Value {
    let (kind, age) = match rule {
        Lifecycle::Delete(age) => ("Delete", age),
        Lifecycle::AbortUploads(age) => ("AbortIncompleteMultipartUpload", age),
    };
    json!({"action": {"type": kind}, "condition": {"age": age}})
}

fn entry(cors: &Cors) -> Value {
    json!({
        "origin": cors.origins, "method": cors.methods, "responseHeader": cors.headers, "maxAgeSeconds": cors.max_age,
    })
}
