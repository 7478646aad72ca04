//! Lines `uploads`, `upload_buckets` and `scanner`: one fault at a time, and what each says of it.

use std::time::Duration;

use devkit::google::{Bucket, Cors, GoogleFake, Lifecycle, Right};
use devkit::stage::{Stage, StageOptions};
use devkit::uploading::{CONTENT, OF_CONTENT, OF_STAGING, STAGING, Uploading, declare, grant};

use crate::harness::{Report, check, config, options, set_up, verb};

struct Scene {
    stage: Stage,
    uploading: Uploading,
    config: String,
}

impl Scene {
    /// A set-up with uploads; without schema content where `there` says so.
    async fn new(there: bool) -> Self {
        let mut variant = options().variant;
        (variant.router, variant.content) = (true, there);
        let stage = Stage::start(StageOptions { variant, ..options() }).await.expect("a stage");
        let stage = set_up(stage).await;
        let uploading = Uploading::beside(&stage).await.expect("clamd");
        let config = format!("{}\n{}", config(&stage), uploading.settings);
        Self { stage, uploading, config }
    }

    async fn check(&self) -> Report {
        check(&self.stage, &self.config).await
    }

    fn google(&self) -> &GoogleFake {
        &self.stage.google
    }

    /// Changes the configuration of a bucket.
    fn change(&self, name: &str, change: impl FnOnce(&mut Bucket)) {
        let mut bucket = self.google().bucket(name).expect("declared");
        change(&mut bucket);
        self.google().declare_bucket(name, bucket);
    }

    fn allow(&self, bucket: &str, rights: &[Right]) {
        self.google().grant(self.google().service_account_email(), bucket, rights);
    }
}

#[tokio::test]
async fn what_is_set_up_as_the_runbook_says_is_well() {
    let scene = Scene::new(true).await;
    let report = scene.check().await;
    for (name, word) in [("uploads", "proven"), ("upload_buckets", "EUROPE-WEST1")] {
        assert_eq!(report.line(name)["level"], "ok", "{report:#?}");
        assert!(report.detail(name).contains(word), "{report:#?}");
    }
    assert!(report.detail("secrets").contains("uploads-key read from"), "{report:#?}");
    assert_eq!(report.code, 0, "{report:#?}");
}

#[tokio::test]
async fn a_key_that_is_missing_or_could_be_guessed_is_told() {
    let scene = Scene::new(true).await;
    let key = scene.stage.dir().join("uploads-key");
    for (red, word) in [(Some("short"), "could be guessed"), (None, "uploads-key")] {
        match red {
            Some(text) => std::fs::write(&key, text).expect("written"),
            None => std::fs::remove_file(&key).expect("removed"),
        }
        let report = scene.check().await;
        assert_eq!(report.line("secrets")["level"], "warn", "{report:#?}");
        assert!(report.detail("secrets").contains(word), "{report:#?}");
        assert!(report.remedy("secrets").contains("rb-011"), "{report:#?}");
    }
}

#[tokio::test]
async fn each_fault_of_a_bucket_is_named() {
    let scene = Scene::new(true).await;
    let without = |rights: &[Right], right: Right| -> Vec<Right> {
        rights.iter().copied().filter(|one| *one != right).collect()
    };
    type Red<'a> = Box<dyn Fn(&Scene) + 'a>;
    let faults: Vec<(Red<'_>, &str, &str)> = vec![
        (
            Box::new(|scene| assert!(scene.google().remove_bucket(STAGING))),
            "fail",
            "maple-staging: the store has no such bucket",
        ),
        (
            Box::new(|scene| scene.allow(CONTENT, &without(&OF_CONTENT, Right::Create))),
            "fail",
            "maple-content: the service account lacks storage.objects.create",
        ),
        (
            Box::new(|scene| scene.allow(STAGING, &without(&OF_STAGING, Right::List))),
            "fail",
            "maple-staging: the service account lacks storage.objects.list",
        ),
        (
            Box::new(|scene| scene.allow(CONTENT, &[&OF_CONTENT[..], &[Right::Delete]].concat())),
            "warn",
            "may overwrite and delete",
        ),
        (
            Box::new(|scene| scene.allow(CONTENT, &without(&OF_CONTENT, Right::Inspect))),
            "warn",
            "lacks storage.buckets.get, so nobody knows",
        ),
        (
            Box::new(|scene| scene.change(STAGING, |bucket| bucket.location = "US".to_owned())),
            "warn",
            "content is STANDARD in EUROPE-WEST1, staging STANDARD in US",
        ),
        (
            Box::new(|scene| scene.change(CONTENT, |bucket| bucket.storage_class = "NEARLINE".to_owned())),
            "warn",
            "content is NEARLINE",
        ),
        (
            Box::new(|scene| {
                scene.change(STAGING, |bucket| bucket.soft_delete = Duration::from_secs(86_400));
            }),
            "warn",
            "maple-staging: soft delete is on",
        ),
        (
            Box::new(|scene| scene.change(CONTENT, |bucket| bucket.soft_delete = Duration::ZERO)),
            "warn",
            "maple-content: no soft delete",
        ),
        (
            Box::new(|scene| scene.change(STAGING, |bucket| bucket.lifecycle.clear())),
            "warn",
            "no lifecycle rule AbortIncompleteMultipartUpload",
        ),
        (
            Box::new(|scene| {
                scene.change(STAGING, |bucket| {
                    bucket.lifecycle = vec![Lifecycle::Delete(0), Lifecycle::AbortUploads(1)];
                });
            }),
            "warn",
            "Delete acts before a session ends",
        ),
        (
            Box::new(|scene| scene.change(CONTENT, |bucket| bucket.lifecycle = vec![Lifecycle::Delete(30)])),
            "warn",
            "deletes after 30 days what submissions still need",
        ),
        (
            Box::new(|scene| {
                scene.change(STAGING, |bucket| {
                    bucket.cors = vec![Cors::uploads_from("https://other.example.org")];
                });
            }),
            "warn",
            "CORS lets no page of http://127.0.0.1:",
        ),
    ];
    for (red, level, words) in faults {
        let origin = format!("http://127.0.0.1:{}", scene.uploading.port);
        declare(scene.google(), &origin);
        grant(scene.google());
        red(&scene);
        let report = scene.check().await;
        let line = report.line("upload_buckets");
        assert_eq!(line["level"], level, "{words}: {line}");
        assert!(report.detail("upload_buckets").contains(words), "{words}: {line}");
        assert!(report.remedy("upload_buckets").contains("rb-011"), "{words}: {line}");
    }
}

#[tokio::test]
async fn a_store_without_a_token_is_the_signers_line() {
    let scene = Scene::new(true).await;
    scene.google().metadata_script().always(devkit::google::Mishap::Status(500));
    let report = scene.check().await;
    assert_eq!(report.line("upload_buckets")["level"], "warn", "{report:#?}");
    assert_eq!(report.remedy("upload_buckets"), "see line signing", "{report:#?}");
}

#[tokio::test]
async fn a_scanner_that_finds_nothing_or_does_not_answer_fails_its_line() {
    let mut scene = Scene::new(true).await;
    let report = scene.check().await;
    // It has only its own signatures.
    assert_eq!(report.line("scanner")["level"], "warn", "{report:#?}");
    assert!(report.detail("scanner").contains("no official signatures"), "{report:#?}");
    assert!(report.detail("scanner").contains("finds its test file"), "{report:#?}");
    scene.uploading.clamd.stop().await.expect("stopped");
    let report = scene.check().await;
    assert_eq!(report.line("scanner")["level"], "fail", "{report:#?}");
    assert!(report.remedy("scanner").contains("clamav-daemon"), "{report:#?}");
    assert_eq!(report.code, 1);
}

#[tokio::test]
async fn uploads_without_their_schema_fail_and_name_the_command() {
    let scene = Scene::new(false).await;
    let report = scene.check().await;
    assert_eq!(report.line("uploads")["level"], "fail", "{report:#?}");
    assert!(report.remedy("uploads").contains("migrate --content"), "{report:#?}");
    let owner = scene.stage.database.owner_url();
    let migrated = verb(&scene.stage, &scene.config, &["migrate", "--content", "--owner-url", &owner]).await;
    assert_eq!(migrated.code, 0, "{migrated:?}");
    let report = scene.check().await;
    assert_eq!(report.line("uploads")["level"], "ok", "{report:#?}");
}
