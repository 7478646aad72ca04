//! The passes that run beside the workers: sweep, alerts of failures, late infections, pauses, dead letters.

pub mod alerts;
pub mod dead_letters;
pub mod late_infection;
pub mod pauses;
pub mod sweep;
