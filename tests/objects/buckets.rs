//! Buckets as `check` will see them.

use std::time::Duration;

use devkit::google::{Bucket, Cors, Lifecycle};
use maple_router::gateway::objects::store::{BucketFacts, CorsRule, LifecycleRule, StoreError};

use crate::world::{CONTENT, STAGING, World};

#[tokio::test]
async fn a_bucket_is_shown_as_it_is_configured() {
    let world = World::new().await;
    let plain = BucketFacts {
        location: "EUROPE-WEST1".to_owned(),
        storage_class: "STANDARD".to_owned(),
        soft_delete: Duration::from_secs(7 * 86_400),
        has_versions: false,
        lifecycle: vec![],
        cors: vec![],
    };
    assert_eq!(world.store.bucket(CONTENT).await.unwrap(), plain);
    world.google.declare_bucket(
        STAGING,
        Bucket {
            location: "US".to_owned(),
            storage_class: "NEARLINE".to_owned(),
            soft_delete: Duration::ZERO,
            lifecycle: vec![Lifecycle::Delete(2), Lifecycle::AbortUploads(1)],
            cors: vec![Cors::uploads_from("https://forms.example.org")],
        },
    );
    let rule = |action: &str, age| LifecycleRule {
        action: action.to_owned(),
        age_days: Some(age),
        has_other_conditions: false,
    };
    let expected = BucketFacts {
        location: "US".to_owned(),
        storage_class: "NEARLINE".to_owned(),
        soft_delete: Duration::ZERO,
        has_versions: false,
        lifecycle: vec![rule("Delete", 2), rule("AbortIncompleteMultipartUpload", 1)],
        cors: vec![CorsRule {
            origins: vec!["https://forms.example.org".to_owned()],
            methods: vec!["PUT".to_owned()],
            headers: vec!["Content-Type".to_owned(), "Content-MD5".to_owned()],
            max_age: 3600,
        }],
    };
    assert_eq!(world.store.bucket(STAGING).await.unwrap(), expected);
    assert_eq!(world.store.bucket("nowhere").await.unwrap_err(), StoreError::NoBucket);
}
