//! `check`, the start of `run`, and the verbs of the install, as the real binary on real parts.

mod breakage;
mod harness;
mod outages;
mod sending;
mod start;
mod uploads;
mod verbs;
