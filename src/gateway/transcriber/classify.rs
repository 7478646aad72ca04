//! The one classifier of what a transcriber and a recording's store answer: away, refused for a reason that a person mends, about
//! this recording alone. Pure.

use std::time::Duration;

use crate::gateway::judge::{Cause, JudgeError};
use crate::kernel::words;
use crate::ports::InvalidAnswer;

words! {
    /// The service that is away.
    Away {
        /// The store of recordings.
        Audio = "audio",
        /// The transcriber.
        Transcriber = "transcriber",
    }
}

words! {
    /// Why there is no recording. Asking again changes nothing.
    AudioFault {
        /// The address is no URL, or neither https nor this machine's, or has credentials in it.
        Address = "address",
        /// The host is none of those that recordings are fetched from.
        Host = "host",
        /// There is none at this address (404, 410).
        NotFound = "not_found",
        /// The address is not allowed to be read, or not any more (401, 403).
        Forbidden = "forbidden",
        /// Another answer than a recording: a redirect, or a refusal of another kind.
        Status = "status",
        /// More bytes than a transcriber takes.
        TooLarge = "too_large",
        /// No byte.
        Empty = "empty",
        /// No sound by its content type, or of no format that a transcriber takes.
        ContentType = "content_type",
    }
}

/// Why there is no transcript. Shows neither address, nor content, nor a server's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TranscriberError {
    /// Nobody answered; the same recording may be transcribed later.
    #[error("the {who} cannot be asked now ({cause}); it is asked again")]
    Unavailable {
        /// Who.
        who: Away,
        /// Why.
        cause: Cause,
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The transcriber answers no request of ours: address, key, model or parameters. A person has to act.
    #[error("the transcriber refuses our requests ({status}); check base_url, model and key of [{section}]")]
    Refused {
        /// The configuration's section.
        section: &'static str,
        /// The status.
        status: u16,
    },
    /// The recording has more bytes than this transcriber takes.
    #[error("the recording is larger than the transcriber takes; a person has to listen to it")]
    TooLarge,
    /// The recording lasts longer than may be transcribed.
    #[error("the recording lasts longer than is transcribed; a person has to listen to it")]
    TooLong,
    /// An answer that says nothing.
    #[error("the transcriber's answer is none ({0})")]
    Invalid(InvalidAnswer),
    /// There is no recording to transcribe.
    #[error("the recording cannot be had ({0})")]
    Audio(AudioFault),
}

/// The transcriber's own answers are those of any endpoint of the API.
impl From<JudgeError> for TranscriberError {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Unavailable { cause, retry_after } => {
                Self::Unavailable { who: Away::Transcriber, cause, retry_after }
            }
            JudgeError::Refused { section, status } => Self::Refused { section, status },
            JudgeError::TooLarge => Self::TooLarge,
            JudgeError::Invalid(reason) => Self::Invalid(reason),
        }
    }
}

/// A recording's store that broke off.
pub(super) fn broken(error: JudgeError) -> TranscriberError {
    match TranscriberError::from(error) {
        TranscriberError::Unavailable { cause, retry_after, .. } => {
            TranscriberError::Unavailable { who: Away::Audio, cause, retry_after }
        }
        other @ (TranscriberError::Refused { .. }
        | TranscriberError::TooLarge
        | TranscriberError::TooLong
        | TranscriberError::Invalid(_)
        | TranscriberError::Audio(_)) => other,
    }
}

/// The meaning of a status of a recording's store that is not 200.
pub(super) fn refusal(status: u16, wait: Option<Duration>) -> TranscriberError {
    let away = |cause| TranscriberError::Unavailable { who: Away::Audio, cause, retry_after: wait };
    match status {
        429 => away(Cause::Throttled),
        408 | 425 | 500..=599 => away(Cause::Trouble),
        401 | 403 => TranscriberError::Audio(AudioFault::Forbidden),
        404 | 410 => TranscriberError::Audio(AudioFault::NotFound),
        _ => TranscriberError::Audio(AudioFault::Status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_of_a_store_means_one_thing() {
        let wait = Some(Duration::from_secs(7));
        let away = |cause| TranscriberError::Unavailable { who: Away::Audio, cause, retry_after: wait };
        for (status, expected) in [
            (404, TranscriberError::Audio(AudioFault::NotFound)),
            (410, TranscriberError::Audio(AudioFault::NotFound)),
            (401, TranscriberError::Audio(AudioFault::Forbidden)),
            (403, TranscriberError::Audio(AudioFault::Forbidden)),
            (204, TranscriberError::Audio(AudioFault::Status)),
            (206, TranscriberError::Audio(AudioFault::Status)),
            (302, TranscriberError::Audio(AudioFault::Status)),
            (400, TranscriberError::Audio(AudioFault::Status)),
            (700, TranscriberError::Audio(AudioFault::Status)),
            (429, away(Cause::Throttled)),
            (408, away(Cause::Trouble)),
            (500, away(Cause::Trouble)),
            (503, away(Cause::Trouble)),
        ] {
            assert_eq!(refusal(status, wait), expected, "{status}");
        }
    }

    #[test]
    fn the_transcribers_own_answers_are_classed_as_a_judges() {
        let throttled = JudgeError::Unavailable { cause: Cause::Throttled, retry_after: None };
        let away = |who| TranscriberError::Unavailable { who, cause: Cause::Throttled, retry_after: None };
        assert_eq!(TranscriberError::from(throttled), away(Away::Transcriber));
        assert_eq!(broken(throttled), away(Away::Audio));
        let refused = TranscriberError::from(JudgeError::Refused { section: "grading.stt", status: 401 });
        assert!(refused.to_string().contains("[grading.stt]"), "{refused}");
    }
}
