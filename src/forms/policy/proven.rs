//! From files to decisions: a policy compiles, is tried on its canaries, and only then decides.
//!
//! The types say so: [`Policy`] cannot decide, and [`Proven`] is made by [`Policy::proven`] alone.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{self, Decision};
use super::away::Away;
use super::bundle::Bundle;
use super::engine::Compiled;

/// Two documents whose decisions are known. Whoever asks makes them, complete, as every document is.
#[derive(Debug, Clone, PartialEq)]
pub struct Canaries {
    /// A version that must be allowed: every policy that denies it would stop all publishing.
    pub good: Value,
    /// A version that must be denied.
    pub bad: Value,
}

/// A policy that compiles, and that nobody has tried.
#[derive(Debug, Clone)]
pub struct Policy {
    compiled: Compiled,
    digest: [u8; 32],
}

impl Policy {
    /// Compiles the files of `bundle`. Each question may take as long as `limit`; [`super::LIMIT`] is the usual one.
    ///
    /// # Errors
    /// [`Away::Syntax`], [`Away::Refused`], [`Away::Failed`].
    pub fn of(bundle: &Bundle, limit: Duration) -> Result<Self, Away> {
        Ok(Self { compiled: Compiled::of(bundle, limit)?, digest: bundle.digest() })
    }

    /// The same, tried: it denies the bad canary and an empty document, and allows the good one.
    ///
    /// # Errors
    /// [`Away::CanaryAllowed`], [`Away::CanaryDenied`], and those of [`Proven::decide`].
    pub fn proven(self, canaries: &Canaries) -> Result<Proven, Away> {
        for (which, document) in [("a form that is bad", &canaries.bad), ("an empty document", &json!({}))] {
            if self.ask(document)?.allowed {
                return Err(Away::CanaryAllowed { which });
            }
        }
        let good = self.ask(&canaries.good)?;
        if !good.allowed {
            return Err(Away::CanaryDenied { reasons: good.reasons });
        }
        Ok(Proven(self))
    }

    fn ask(&self, input: &Value) -> Result<Decision, Away> {
        let answer = self.compiled.ask(input)?;
        answer::read(&answer.allow, &answer.deny, self.digest)
    }
}

/// A policy that is to be believed. Cheap to clone; asked from several threads at once.
#[derive(Debug, Clone)]
pub struct Proven(Policy);

impl Proven {
    /// What the policy says of `input`. Blocks for at most the policy's limit, or about: the engine looks at the clock between
    /// steps, and one call of a built-in function is one step.
    ///
    /// # Errors
    /// [`Away`]: there is no decision, and the caller does as if it were denied, but says why.
    pub fn decide(&self, input: &Value) -> Result<Decision, Away> {
        self.0.ask(input)
    }

    /// Digest of the bundle, as in each [`Decision`].
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.0.digest
    }
}
