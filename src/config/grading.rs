//! `[grading]`: an answer is assessed in time, or a person is told, where schema `assessment` is there.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;
use super::screening::Send;

/// Whether the routing asks what grading says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradingMode {
    /// It does not know of it. What a gated form waits for is claimed by nobody then: the schema refuses it.
    #[default]
    Off,
    /// A submission of a gated form is ready when it is graded, or released.
    On,
}

/// What a final result is made of, where a person has reviewed the grader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradingMerge {
    /// Both, where they agree: four parts of the grader's, six of the person's.
    #[default]
    Hybrid,
    /// The person's alone.
    Human,
}

/// The way of messages between the main side and the grader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradingTransport {
    /// The queues of the one database.
    #[default]
    Postgres,
    /// A topic each way, between the queues of one database, or of two.
    Pubsub,
}

section! {
    /// `[grading]`
    Grading {
        /// Whether the routing asks ([`GradingMode`]).
        mode: GradingMode = GradingMode::Off,
        /// Connection string of the grader's role, `maple_grader`, to the same database, or with `transport = "pubsub"` to one of its own; `MAPLE_ROUTER_GRADER_URL` instead where it has a password.
        grader_url: Option<String> = None,
        /// Loopback address of the grader's own `/metrics`, `/-/healthy` and `/-/ready`; absent: it has none.
        metrics_listen: Option<String> = None,
        /// The way of messages between the sides ([`GradingTransport`]); the same on both.
        transport: GradingTransport = GradingTransport::Postgres,
        /// How often a work is graded before the results are compared.
        samples: u8 = 3,
        /// What a final result is made of ([`GradingMerge`]).
        merge: GradingMerge = GradingMerge::Hybrid,
        /// Whether reviewers see the grader's result after their own only.
        blind: bool = false,
        /// Percent of the results that need no review and have one all the same.
        spot_check: u8 = 5,
        /// Time for which the grader keeps what was written and said, after a job's end.
        #[serde(with = "humantime_serde")] keep: Duration = s(24 * 3600),
        /// `[grading.thresholds]`
        thresholds: GradingThresholds = GradingThresholds::default(),
        /// `[grading.bands]`
        bands: GradingBands = GradingBands::default(),
        /// `[grading.sla]`
        sla: GradingSla = GradingSla::default(),
        /// `[grading.judge]`
        judge: GradingJudge = GradingJudge::default(),
        /// `[grading.stt]`
        stt: GradingStt = GradingStt::default(),
        /// `[grading.pubsub]`
        pubsub: GradingPubsub = GradingPubsub::default(),
    }
}

section! {
    /// `[grading.pubsub]`: names with `transport = "pubsub"`, short, or full; project, endpoint and limits are those of `[pubsub]`.
    GradingPubsub {
        /// The topic to the grader.
        request_topic: String = "grading-request".to_owned(),
        /// The grader's subscription to it.
        request_subscription: String = "grading-request".to_owned(),
        /// The topic from the grader.
        callback_topic: String = "grading-callback".to_owned(),
        /// The main side's subscription to it.
        callback_subscription: String = "grading-callback".to_owned(),
    }
}

section! {
    /// `[grading.thresholds]`: confidence from which on a result goes which way.
    GradingThresholds {
        /// Nobody looks.
        auto: u8 = 90,
        /// Nobody has to look; it is marked for an audit.
        audit: u8 = 85,
        /// A person looks, with priority Medium.
        medium: u8 = 70,
        /// With priority High; below it, Critical.
        high: u8 = 50,
    }
}

section! {
    /// `[grading.bands]`: scores from which on a band begins; A1 is below all of them.
    GradingBands {
        /// C1.
        c1: f64 = 8.5,
        /// B2.
        b2: f64 = 6.0,
        /// B1.
        b1: f64 = 4.0,
        /// A2.
        a2: f64 = 2.0,
    }
}

section! {
    /// `[grading.sla]`: time until an attempt fails, for forms that are enabled from now on.
    GradingSla {
        /// Writing.
        #[serde(with = "humantime_serde")] writing: Duration = s(20 * 60),
        /// Speaking.
        #[serde(with = "humantime_serde")] speaking: Duration = s(60 * 60),
        /// Listening.
        #[serde(with = "humantime_serde")] listening: Duration = s(60),
        /// Reading.
        #[serde(with = "humantime_serde")] reading: Duration = s(60),
    }
}

section! {
    /// `[grading.judge]`: an endpoint as OpenAI's; without one nothing is graded but listening and reading.
    GradingJudge {
        /// Its address, up to `/chat/completions`.
        base_url: Option<String> = None,
        /// The models: the first sample is the first's, and so on, from the beginning again.
        models: Vec<String> = Vec::new(),
        /// File holding the key; absent: systemd's credential `grader-key`, else none.
        key_file: Option<PathBuf> = None,
        /// Limit of an answer.
        #[serde(with = "humantime_serde")] timeout: Duration = s(60),
        /// Time for which a judge that is away is not asked.
        #[serde(with = "humantime_serde")] pause: Duration = s(30),
        /// Works at once.
        slots: usize = 8,
        /// Tokens a day.
        tokens_per_day: u64 = 5_000_000,
        /// What leaves the host ([`Send`]); a work cannot be graded without its words, so nothing is sent but with `full`.
        send: Send = Send::Tags,
        /// Let a scripted stand-in grade without a person: for tests and the demo.
        allow_scripted: bool = false,
    }
}

section! {
    /// `[grading.stt]`: an endpoint as OpenAI's for speech; without one nothing that is spoken is graded.
    GradingStt {
        /// Its address, up to `/audio/transcriptions`.
        base_url: Option<String> = None,
        /// The model.
        model: String = String::new(),
        /// File holding the key; absent: systemd's credential `stt-key`, else none.
        key_file: Option<PathBuf> = None,
        /// Limit of a transcription.
        #[serde(with = "humantime_serde")] timeout: Duration = s(5 * 60),
        /// Hosts from which audio is fetched.
        audio_hosts: Vec<String> = vec!["storage.googleapis.com".to_owned()],
    }
}
