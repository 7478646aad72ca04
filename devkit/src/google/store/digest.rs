//! CRC-32C and MD5: computed, as they stand in headers and JSON, and compared with what a client says they are.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::refusal::Refusal;

/// What is known of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digests {
    pub(super) crc32c: u32,
    /// None where the object was assembled of parts.
    pub(super) md5: Option<[u8; 16]>,
}

impl Digests {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { crc32c: crc32c::crc32c(bytes), md5: Some(md5::compute(bytes).0) }
    }

    /// In base64, as the APIs say it.
    pub(super) fn crc32c_text(&self) -> String {
        BASE64.encode(self.crc32c.to_be_bytes())
    }

    /// The same of the MD5.
    pub(super) fn md5_text(&self) -> Option<String> {
        self.md5.map(|md5| BASE64.encode(md5))
    }

    /// Each `x-goog-hash`.
    pub(super) fn headers(&self) -> Vec<String> {
        let md5 = self.md5_text().map(|text| format!("md5={text}"));
        std::iter::once(format!("crc32c={}", self.crc32c_text())).chain(md5).collect()
    }
}

/// What a client says the digests of its bytes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Claimed {
    crc32c: Option<u32>,
    md5: Option<[u8; 16]>,
}

impl Claimed {
    /// From `Content-MD5` and `x-goog-hash`.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut claimed = Self::default();
        if let Some(value) = headers.get("content-md5") {
            claimed.say("md5", value.to_str().unwrap_or_default(), "Content-MD5")?;
        }
        let hashes = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
        for hash in hashes.flat_map(|value| value.split(',')) {
            let (name, value) = hash.split_once('=').unwrap_or((hash, ""));
            claimed.say(name.trim(), value.trim(), "x-goog-hash")?;
        }
        Ok(claimed)
    }

    /// Adds one, in base64; two that differ are none.
    pub(super) fn say(&mut self, name: &str, value: &str, place: &str) -> Result<(), Refusal> {
        let unreadable = || Refusal::digest_unreadable(place);
        let bytes = BASE64.decode(value).map_err(|_| unreadable())?;
        match name {
            "md5" => {
                let md5 = bytes.try_into().map_err(|_| unreadable())?;
                if self.md5.replace(md5).is_some_and(|other| other != md5) {
                    return Err(unreadable());
                }
            }
            "crc32c" => {
                let crc = u32::from_be_bytes(bytes.try_into().map_err(|_| unreadable())?);
                if self.crc32c.replace(crc).is_some_and(|other| other != crc) {
                    return Err(unreadable());
                }
            }
            _ => return Err(unreadable()),
        }
        Ok(())
    }

    /// Both claims, the later one first.
    pub(super) fn and(self, earlier: Self) -> Self {
        Self { crc32c: self.crc32c.or(earlier.crc32c), md5: self.md5.or(earlier.md5) }
    }

    /// Whether the bytes are what the client says.
    pub(super) fn judge(&self, found: &Digests) -> Result<(), Refusal> {
        if let Some(said) = self.md5.filter(|said| found.md5.as_ref() != Some(said)) {
            let computed = found.md5_text().unwrap_or_default();
            return Err(Refusal::digest("MD5", &BASE64.encode(said), &computed));
        }
        match self.crc32c.filter(|said| *said != found.crc32c) {
            Some(said) => {
                Err(Refusal::digest("CRC32C", &BASE64.encode(said.to_be_bytes()), &found.crc32c_text()))
            }
            None => Ok(()),
        }
    }
}
