//! The text of a part's URL: byte for byte what Google's Python library makes of the same key, instant and parameters.

use std::path::PathBuf;
use std::process::Stdio;

use devkit::google::GoogleFake;
use maple_router::config::{SignedUrl, SignerKind};
use maple_router::gateway::objects::store::{ObjectStore, UploadId};
use serde_json::json;

use crate::world::{STAGING, VALID, name, written};

#[tokio::test]
async fn part_urls_equal_those_of_googles_python_library() {
    let google = GoogleFake::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let key_file = dir.path().join("key.json");
    google.write_key_file(&key_file).unwrap();
    let endpoint = "https://storage.googleapis.com";
    let config = SignedUrl {
        signer: SignerKind::KeyFile,
        key_file: Some(key_file.clone()),
        storage_endpoint: endpoint.to_owned(),
        ..SignedUrl::default()
    };
    let store = ObjectStore::new(&config, None).unwrap();
    for (object, number, id, digest) in [
        ("u/0f3c", 1, "ABPnzm5k", None),
        ("u/0f3c", 10_000, "ABPnzm5k", Some([0xfb; 16])),
        ("Größe & Maß/a b~c'd(e)", 7, "VXBsb2FkIElEIGZvciBlbHZpbmcn-_.~+/=", Some([0; 16])),
    ] {
        let link =
            store.part_url(&name(STAGING, object), &UploadId::new(id), number, digest, VALID).await.unwrap();
        let date = link.url.split_once("X-Goog-Date=").unwrap().1.split('&').next().unwrap();
        let headers = digest.map_or_else(|| json!({}), |digest| json!({"Content-MD5": written(digest)}));
        let wanted = json!({
            "key": key_file, "endpoint": endpoint, "bucket": STAGING, "object": object, "method": "PUT",
            "query": {"partNumber": number.to_string(), "uploadId": id}, "headers": headers, "date": date,
        });
        assert_eq!(link.url, python(&wanted).await, "{object}");
    }
}

async fn python(wanted: &serde_json::Value) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    assert!(python.exists(), "{} is missing: run `make python`", python.display());
    let signed = tokio::process::Command::new(python)
        .arg(root.join("devkit/tests/python/storage_sign.py"))
        .arg(wanted.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    String::from_utf8(signed.stdout).unwrap().trim().to_owned()
}
