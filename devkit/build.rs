//! Compiles `proto/pubsub.proto` into the broker's messages and server traits, and keeps its descriptors for the JSON
//! half. The compiler is a Rust crate, so that nobody needs `protoc`. Dying in the middle leaves cargo to run it again.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

#[allow(clippy::print_stdout, reason = "cargo reads its instructions from there")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/pubsub.proto");
    let descriptors = protox::compile(["pubsub.proto"], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("pubsub.descriptors"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".google.pubsub.v1.PubsubMessage.data")
        .compile_fds(descriptors)?;
    Ok(())
}
