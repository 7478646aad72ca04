//! The question to a judge about a work, and the reading of its answer. Pure.
//!
//! [`question`] (one sample's question) → the gateway → [`answer`] (a sample, or none); [`texts`] are our words in it, with their
//! version, `remark` what of the judge's words is kept. **There is no default score**: an answer that is not exactly of its
//! shape, or quotes what nobody wrote, is none. The overall score is not asked for: it is counted. If we die anywhere, nothing
//! was graded.

pub mod answer;
pub mod kept;
pub mod question;
mod remark;
pub mod texts;
