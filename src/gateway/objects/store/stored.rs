//! What the store says that it has. Pure.

/// A part that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 1.
    pub number: u32,
    /// What a completion names it by; without quotes.
    pub etag: String,
    /// Its length in bytes.
    pub size: u64,
}

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Number of its generation; each write makes another.
    pub generation: i64,
    /// Its length in bytes, as stored.
    pub length: u64,
    /// CRC-32C of its bytes.
    pub crc32c: u32,
}
