//! The signatures of links, and nothing else: what RSA costs at best on this machine. A key is read once, as a signer may
//! do it, and every processor signs without a pause.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The string to sign of a V4 URL: algorithm, instant, scope, and the digest of the request.
const STRING_TO_SIGN: &str = "GOOG4-RSA-SHA256\n20261122T100000Z\n20261122/auto/storage/goog4_request\n\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Makes so many signatures with the key of a service account's file, on all processors.
pub(super) fn make(key_file: &Path, count: usize) -> Result<()> {
    let key = read(key_file)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let signers: Vec<_> = (0..processors)
            .map(|first| (first..count).step_by(processors).len())
            .map(|share| {
                scope.spawn({
                    let key = &key;
                    move || (0..share).try_for_each(|_| sign(key))
                })
            })
            .collect();
        signers.into_iter().try_for_each(|signer| signer.join().map_err(|_| anyhow!("a signer panicked"))?)
    })
}

fn sign(key: &RsaKeyPair) -> Result<()> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), STRING_TO_SIGN.as_bytes(), &mut signature)
        .map_err(|_| anyhow!("the key does not sign"))
}

fn read(key_file: &Path) -> Result<RsaKeyPair> {
    let content: Value = serde_json::from_slice(&std::fs::read(key_file)?)?;
    let pem = content["private_key"].as_str().context("a private key")?;
    let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(der)?).map_err(|error| anyhow!("the key: {error}"))
}
