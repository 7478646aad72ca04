//! Names of a surface, as journal, incidents and threads say them. Pure.

use std::fmt;

/// How a surface is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// Within a sentence: `the desk`.
    pub within: &'static str,
    /// At the beginning of one: `The review desk`.
    pub at_first: &'static str,
    /// In a word: its thread, and its section of the configuration.
    pub short: &'static str,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.within)
    }
}
