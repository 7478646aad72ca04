//! Signing by a key file: what is wrong is named and never shown.

use devkit::google::GoogleFake;
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::signed_url::{SignError, UrlSigner};
use serde_json::json;

use crate::harness::{by_key_file, by_metadata, key_file_config, request};

#[tokio::test]
async fn a_wrong_key_file_is_named_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("missing.json", None, "cannot be read"),
        ("text.json", Some("SECRET-not-json".to_owned()), "is not JSON"),
        (
            "user.json",
            Some(json!({"type": "authorized_user", "refresh_token": "SECRET"}).to_string()),
            "not a service",
        ),
        (
            "parts.json",
            Some(
                json!({"type": "service_account", "client_email": "a@b", "private_key": "SECRET"})
                    .to_string(),
            ),
            "lacks parts",
        ),
        (
            "pem.json",
            Some(
                json!({"type": "service_account", "client_email": "a@b", "private_key": "SECRET",
                       "private_key_id": "1", "project_id": "p"})
                .to_string(),
            ),
            "does not sign",
        ),
    ];
    for (name, content, what) in cases {
        let path = dir.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error =
            UrlSigner::new(&key_file_config(&path, "https://storage.googleapis.com"), None).unwrap_err();
        assert!(matches!(error, SignError::Misconfigured { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(&path.display().to_string()), "{name}: {text}");
        assert!(!format!("{error:?}{text}").contains("SECRET"), "{name}: {text}");
    }
    let nothing = SignedUrl { signer: SignerKind::KeyFile, ..SignedUrl::default() };
    assert!(UrlSigner::new(&nothing, None).unwrap_err().to_string().contains("[signed_url] key_file"));
}

#[tokio::test]
async fn wrong_endpoints_are_refused_at_once() {
    let refused = |config: SignedUrl| UrlSigner::new(&config, None).unwrap_err().to_string();
    let clear = SignedUrl { endpoint: "http://iam.example.org".to_owned(), ..SignedUrl::default() };
    assert!(refused(clear).contains("[signed_url] endpoint would carry access tokens in the clear"));
    let bare = SignedUrl { storage_endpoint: "localhost:4443".to_owned(), ..SignedUrl::default() };
    assert!(refused(bare).contains("[signed_url] storage_endpoint"));
}

#[tokio::test]
async fn nothing_secret_is_shown_by_debug() {
    let fake = GoogleFake::start().await.unwrap();
    let (by_file, dir) = by_key_file(&fake);
    let key: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("key.json")).unwrap()).unwrap();
    let pem = key["private_key"].as_str().unwrap();
    let by_iam = by_metadata(&fake);
    let link = by_iam.sign(&request("o", "o")).await.unwrap();
    let shown = format!("{by_file:?} {by_iam:?} {link:?}");
    for line in pem.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!shown.contains(line), "{shown}");
    }
    for secret in ["PRIVATE", "ya29", "Signature"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
