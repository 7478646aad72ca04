//! A transcriber behind an OpenAI-compatible HTTP API: a recording is fetched, sent once, and its text read.
//!
//! A recording comes from a host of the configuration alone, over https (or from this machine), by a client that follows no
//! redirect and carries no key of ours; it is held in memory until it was sent and is never written anywhere. `classify` alone
//! says what a status is, `reading` what a 200 says. Nothing is repeated: if we die in the middle, the call was made for nothing
//! and nothing depends on it. Neither address, nor content, nor a server's words are in an error, a log or `Debug`.

mod classify;
mod form;
mod reading;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderName, RETRY_AFTER};
use reqwest::{Client, Response};
use url::Url;

pub use self::classify::{AudioFault, Away, TranscriberError};
pub use self::reading::{LONGEST, Transcript, read};

use crate::config::secret::Secret;
use crate::gateway::judge::{self, JudgeSettings, JudgeSetupError};
use crate::ports::Clock;

/// One call, from connect to the last byte of its answer.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Fetching one recording, likewise.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest recording, in bytes: what the API takes.
pub const LARGEST: usize = 25 * 1024 * 1024;
/// Most that is read of an answer, in bytes: fifteen minutes of words with their times.
const ANSWER_LIMIT: usize = 2 * 1024 * 1024;

/// The configuration of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriberSettings {
    /// Section, address, model and time of the API; usually [`TIMEOUT`].
    pub api: JudgeSettings,
    /// Hosts that recordings are fetched from, exactly so, with the port where it is not the scheme's own.
    pub hosts: Vec<String>,
    /// Time for fetching one; usually [`FETCH_TIMEOUT`].
    pub fetch_timeout: Duration,
}

/// A recording, in memory alone.
pub struct Audio {
    bytes: Vec<u8>,
    ending: &'static str,
}

impl Audio {
    /// Its bytes, for a digest.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Audio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audio")
            .field("bytes", &self.bytes.len())
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

/// A transcript, and the time that the call took.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// The transcript.
    pub transcript: Transcript,
    /// Time from the request to the last byte of its answer.
    pub took: Duration,
}

/// The one client of a transcriber. Safe to use from many tasks at once; connects to nothing before it is asked.
pub struct Transcriber {
    section: &'static str,
    client: Client,
    fetching: Client,
    url: Url,
    model: String,
    key: Option<Secret>,
    hosts: Vec<String>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Transcriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        f.debug_struct("Transcriber").field("host", &host).field("model", &self.model).finish_non_exhaustive()
    }
}

impl Transcriber {
    /// A client; connects to nothing. A proxy of the environment is used as elsewhere, but never for this machine.
    ///
    /// # Errors
    /// [`JudgeSetupError`].
    pub fn new(
        settings: &TranscriberSettings,
        key: Option<Secret>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JudgeSetupError> {
        let TranscriberSettings { api, hosts, fetch_timeout } = settings;
        let section = api.section;
        let url = judge::endpoint(api, "audio/transcriptions")?;
        let model = api.model.trim().to_owned();
        // It is written into a form: a line break would begin another part.
        if model.is_empty() || model.chars().any(char::is_control) {
            return Err(JudgeSetupError::Model { section });
        }
        let key = judge::sendable(section, key)?;
        let client = judge::client(section, api.timeout, judge::is_own_machine(&url))?;
        let hosts: Vec<String> = hosts.iter().map(|host| host.trim().to_ascii_lowercase()).collect();
        let is_local = hosts.iter().all(|host| is_this_machine(host));
        let fetching = judge::client(section, *fetch_timeout, is_local)?;
        Ok(Self { section, client, fetching, url, model, key, hosts, clock })
    }

    /// The model that is asked for. A transcript does not name its own.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Fetches a recording, once. The address may be signed: it is shown nowhere.
    ///
    /// # Errors
    /// [`TranscriberError::Audio`], and [`TranscriberError::Unavailable`] of [`Away::Audio`].
    pub async fn fetch(&self, address: &str) -> Result<Audio, TranscriberError> {
        let fault = |fault| TranscriberError::Audio(fault);
        let url = allowed(address, &self.hosts).map_err(fault)?;
        let request = self.fetching.get(url.clone()).header(ACCEPT, "audio/*, application/octet-stream");
        let away = |error| classify::broken(judge::broken(error));
        let mut response = request.send().await.map_err(away)?;
        let status = response.status().as_u16();
        if status != 200 {
            let wait = judge::classify::wait(text(&response, &RETRY_AFTER), text(&response, &DATE));
            return Err(classify::refusal(status, wait));
        }
        let media = text(&response, &CONTENT_TYPE).unwrap_or_default();
        let ending =
            form::ending(media, url.path()).ok_or(TranscriberError::Audio(AudioFault::ContentType))?;
        let promised = response.content_length().and_then(|length| usize::try_from(length).ok());
        if promised.is_some_and(|length| length > LARGEST) {
            return Err(fault(AudioFault::TooLarge));
        }
        match judge::body(&mut response, LARGEST).await.map_err(classify::broken)? {
            (_, false) => Err(fault(AudioFault::TooLarge)),
            (bytes, true) if bytes.is_empty() => Err(fault(AudioFault::Empty)),
            (bytes, true) => Ok(Audio { bytes, ending }),
        }
    }

    /// Transcribes a recording, once.
    ///
    /// # Errors
    /// [`TranscriberError`]: there is no transcript then.
    pub async fn transcribe(&self, audio: &Audio) -> Result<Heard, TranscriberError> {
        let began = self.clock.monotonic();
        let (media, body) = form::form(
            &[
                ("model", &self.model),
                ("response_format", "verbose_json"),
                ("temperature", "0"),
                ("timestamp_granularities[]", "word"),
                // Segments say where nobody speaks.
                ("timestamp_granularities[]", "segment"),
            ],
            audio,
        );
        let request = self.client.post(self.url.clone()).header(ACCEPT, "application/json");
        let mut request = request.header(CONTENT_TYPE, media).body(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let response = request.send().await.map_err(judge::broken)?;
        let transcript = read(&judge::read(response, self.section, ANSWER_LIMIT).await?)?;
        let took = self.clock.monotonic().saturating_duration_since(began);
        Ok(Heard { transcript, took })
    }
}

fn text<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A recording's address, if it may be fetched.
fn allowed(address: &str, hosts: &[String]) -> Result<Url, AudioFault> {
    let url = Url::parse(address).map_err(|_| AudioFault::Address)?;
    let is_clear = url.scheme() == "http" && judge::is_own_machine(&url);
    if url.scheme() != "https" && !is_clear || !url.username().is_empty() || url.password().is_some() {
        return Err(AudioFault::Address);
    }
    let host = url.host_str().ok_or(AudioFault::Address)?;
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    if hosts.contains(&host) { Ok(url) } else { Err(AudioFault::Host) }
}

fn is_this_machine(host: &str) -> bool {
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| judge::is_own_machine(&url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::judge::base_url;
    use crate::ops::clock::SystemClock;

    #[test]
    fn recordings_come_from_the_hosts_of_the_list_alone() {
        let hosts = ["storage.example.org", "127.0.0.1:8080"].map(str::to_owned);
        for (address, expected) in [
            ("https://storage.example.org/b/a.mp3?X-Goog-Signature=1", Ok(())),
            ("https://STORAGE.example.org:443/b/a.mp3", Ok(())),
            ("http://127.0.0.1:8080/a.mp3", Ok(())),
            ("https://storage.example.org:8443/a.mp3", Err(AudioFault::Host)),
            ("https://storage.example.org./a.mp3", Err(AudioFault::Host)),
            ("https://evil.example/storage.example.org", Err(AudioFault::Host)),
            ("https://storage.example.org.evil.example/", Err(AudioFault::Host)),
            ("https://x.storage.example.org/", Err(AudioFault::Host)),
            ("http://127.0.0.1/a.mp3", Err(AudioFault::Host)),
            ("http://127.1:8080/a.mp3", Ok(())),
            ("http://storage.example.org/a.mp3", Err(AudioFault::Address)),
            ("https://storage.example.org@evil.example/", Err(AudioFault::Address)),
            ("https://a:b@storage.example.org/", Err(AudioFault::Address)),
            ("file:///etc/passwd", Err(AudioFault::Address)),
            ("a.mp3", Err(AudioFault::Address)),
            ("", Err(AudioFault::Address)),
        ] {
            assert_eq!(allowed(address, &hosts).map(|_| ()), expected, "{address}");
        }
        assert_eq!(allowed("https://storage.example.org/", &[]), Err(AudioFault::Host));
    }

    #[test]
    fn a_setup_is_refused_in_words_and_nothing_is_shown() {
        let settings = |model: &str| TranscriberSettings {
            api: JudgeSettings {
                section: "grading.stt",
                base_url: base_url("https://api.example.org/v1/").expect("an address"),
                model: model.to_owned(),
                timeout: TIMEOUT,
            },
            hosts: vec!["storage.example.org".to_owned()],
            fetch_timeout: FETCH_TIMEOUT,
        };
        let new = |model: &str| {
            Transcriber::new(&settings(model), Some(Secret::new("s3cr3t")), Arc::new(SystemClock))
        };
        for model in [" ", "a\r\nb"] {
            assert_eq!(new(model).map(|_| ()), Err(JudgeSetupError::Model { section: "grading.stt" }));
        }
        let transcriber = new("whisper-1").expect("a client");
        assert_eq!(transcriber.url.as_str(), "https://api.example.org/v1/audio/transcriptions");
        let audio = Audio { bytes: b"planted".to_vec(), ending: "mp3" };
        let shown = format!("{transcriber:?} {audio:?}");
        assert!(!shown.contains("s3cr3t") && !shown.contains("planted"), "{shown}");
    }
}
