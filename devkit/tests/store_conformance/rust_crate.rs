//! Google's storage crate, as the product depends on it.

use google_cloud_auth::credentials::{Credentials, mds, service_account};
use google_cloud_gax::retry_policy::RetryPolicyExt as _;
use google_cloud_storage::client::Storage;
use google_cloud_storage::read_resume_policy::Recommended;
use google_cloud_storage::retry_policy::RetryableErrors;

use anyhow::{Context as _, Result, ensure};
use devkit::google::{Act, Call, Right, Rule, Stage};

use crate::world::{CONTENT, STAGING, World, bytes};

async fn storage(world: &World, credentials: Credentials) -> Storage {
    let builder =
        Storage::builder().with_endpoint(world.google.storage_endpoint()).with_credentials(credentials);
    builder.with_retry_policy(RetryableErrors.with_attempt_limit(3)).build().await.expect("a client")
}

/// By tokens of the metadata server, as on a VM.
async fn by_metadata(world: &World) -> Storage {
    let credentials =
        mds::Builder::default().with_endpoint(format!("http://{}", world.google.metadata_host())).build();
    storage(world, credentials.expect("credentials")).await
}

fn bucket(name: &str) -> String {
    format!("projects/_/buckets/{name}")
}

async fn read(storage: &Storage, bucket_name: &str, object: &str, generation: i64) -> Result<Vec<u8>> {
    let mut response =
        storage.read_object(bucket(bucket_name), object).set_generation(generation).send().await?;
    let mut whole = Vec::new();
    while let Some(piece) = response.next().await.transpose()? {
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

#[tokio::test]
async fn it_writes_reads_and_holds_preconditions() -> Result<()> {
    let world = World::new().await;
    let storage = by_metadata(&world).await;
    // In one request, and by a session, as the crate chooses by size.
    for (object, content) in [("a/small", bytes(100_000, 1)), ("a/large ü", bytes(20 << 20, 2))] {
        let write = || {
            let write = storage.write_object(bucket(STAGING), object, bytes::Bytes::from(content.clone()));
            write.set_if_generation_match(0_i64).set_content_type("image/png")
        };
        let written = write().send_unbuffered().await?;
        ensure!(
            written.size == i64::try_from(content.len())? && written.content_type == "image/png",
            "{written:?}"
        );
        let seen = world.google.object(STAGING, object).context("stored")?;
        ensure!(i64::try_from(seen.generation)? == written.generation, "{seen:?}");
        ensure!(world.google.object_bytes(STAGING, object)? == content, "byte for byte");
        for again in [write().send_unbuffered().await, write().send_buffered().await] {
            let status = again.as_ref().err().and_then(google_cloud_storage::Error::http_status_code);
            ensure!(status == Some(412), "{object}: {again:?}");
        }
        ensure!(read(&storage, STAGING, object, written.generation).await? == content, "read back");
        let other =
            read(&storage, STAGING, object, written.generation + 1).await.err().context("another one")?;
        let other: google_cloud_storage::Error = other.downcast()?;
        ensure!(other.http_status_code() == Some(404), "{other:?}");
    }
    Ok(())
}

#[tokio::test]
async fn it_goes_on_where_a_download_was_cut_and_sees_a_flipped_bit() -> Result<()> {
    let world = World::new().await;
    let storage = by_metadata(&world).await;
    let content = bytes(3 << 20, 4);
    world.google.put_object(CONTENT, "blobs/1", "image/png", content.clone());
    let generation = i64::try_from(world.google.object(CONTENT, "blobs/1").context("stored")?.generation)?;
    world.google.rule(Rule::at(Stage::After).call(Call::Read).times(2).act(Act::Truncated));
    let mut response = storage
        .read_object(bucket(CONTENT), "blobs/1")
        .set_generation(generation)
        .with_read_resume_policy(Recommended)
        .send()
        .await?;
    let mut whole = Vec::new();
    while let Some(piece) = response.next().await.transpose()? {
        whole.extend_from_slice(&piece);
    }
    ensure!(whole == content && world.google.calls(Call::Read) == 3, "resumed twice");
    world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(Act::Flipped));
    let flipped = read(&storage, CONTENT, "blobs/1", generation).await;
    ensure!(flipped.is_err(), "a flipped bit went unseen");
    Ok(())
}

#[tokio::test]
async fn an_account_of_its_own_by_a_key_file() -> Result<()> {
    let world = World::new().await;
    let account = "reader@maple-dev.iam.gserviceaccount.com";
    world.google.add_account(account)?;
    world.google.grant(account, CONTENT, &[Right::Get]);
    world.google.put_object(CONTENT, "o", "text/plain", "x");
    let key = serde_json::from_slice(&std::fs::read(world.key_file(account))?)?;
    let storage = storage(&world, service_account::Builder::new(key).build()?).await;
    let generation = i64::try_from(world.google.object(CONTENT, "o").context("stored")?.generation)?;
    ensure!(read(&storage, CONTENT, "o", generation).await? == b"x");
    let refused = storage.write_object(bucket(CONTENT), "p", "x").send_unbuffered().await;
    ensure!(
        refused.as_ref().err().and_then(google_cloud_storage::Error::http_status_code) == Some(403),
        "{refused:?}"
    );
    Ok(())
}
