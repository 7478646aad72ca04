//! The lines `signing` and `link` of `check`: whether we can sign, and whether the signed link opens the object.
//!
//! A signed URL carries the rights of its signer: without `storage.objects.get` every mail goes out and every link in it
//! answers 403. So a probe object is fetched as a reader would fetch it. Changes nothing anywhere; shows no URL.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::object::MAX_TTL;
use super::{SignError, UrlSigner};
use crate::config::SignerKind;
use crate::ports::{CheckLine, LinkRequest};

/// Time for which Google surely honours a signature by a key it manages itself.
const SYSTEM_KEY_CERTAIN: Duration = Duration::from_secs(12 * 3600);
/// Life of the probe's link.
const PROBE_TTL: Duration = Duration::from_secs(60);
/// Signed when there is no probe object; never fetched.
const NOWHERE: (&str, &str) = ("maple-router-check", "signing");

/// Signs a link to the probe object (`bucket/object`) and fetches it. Two lines, `signing` and `link`, in this
/// order; only the line whose own part is wrong fails.
pub async fn inspect(signer: &UrlSigner, probe_object: Option<&str>, ttl: Duration) -> Vec<CheckLine> {
    let probe = probe_object.map(|text| text.split_once('/').filter(|(b, o)| !b.is_empty() && !o.is_empty()));
    let (bucket, object) = probe.flatten().unwrap_or(NOWHERE);
    let request = LinkRequest {
        bucket: bucket.to_owned(),
        object: object.to_owned(),
        file_name: "maple-router-check".to_owned(),
        ttl: PROBE_TTL,
    };
    let signed = signer.sign(&request).await;
    let (signing, link) = match (&signed, probe) {
        // The object is wrong, not the signer: another object is signed to learn about the signer.
        (Err(error @ SignError::UnsignableObject { .. }), _) => {
            let other =
                LinkRequest { bucket: NOWHERE.0.to_owned(), object: NOWHERE.1.to_owned(), ..request.clone() };
            let signing = signing_line(signer, signer.sign(&other).await.err().as_ref(), ttl).await;
            (
                signing,
                CheckLine::fail("link", format!("[signed_url] probe_object: {}", error.detail()), PROBE_FORM),
            )
        }
        (Err(error), _) => (
            signing_line(signer, Some(error), ttl).await,
            CheckLine::warn(
                "link",
                "not tried, because nothing could be signed",
                "mend the line `signing` first",
            ),
        ),
        (Ok(_), None) => (
            signing_line(signer, None, ttl).await,
            CheckLine::warn(
                "link",
                "not tried: no probe object is configured, so nobody knows whether links open",
                "put a small object into the upload bucket and name it in [signed_url] probe_object",
            ),
        ),
        (Ok(_), Some(None)) => (
            signing_line(signer, None, ttl).await,
            CheckLine::fail("link", "[signed_url] probe_object is not of the form bucket/object", PROBE_FORM),
        ),
        (Ok(link), Some(Some(_))) => (
            signing_line(signer, None, ttl).await,
            link_line(&fetch(&signer.http, &link.url).await, &format!("{bucket}/{object}")),
        ),
    };
    vec![signing, link]
}

/// Signs a link that is never fetched: the breaker's probe.
///
/// # Errors
/// [`SignError`].
pub async fn try_to_sign(signer: &UrlSigner) -> Result<(), SignError> {
    let request = LinkRequest {
        bucket: NOWHERE.0.to_owned(),
        object: NOWHERE.1.to_owned(),
        file_name: "maple-router-probe".to_owned(),
        ttl: PROBE_TTL,
    };
    signer.sign(&request).await.map(|_| ())
}

/// Clocks that differ by less sign links that work.
const CLOCKS_AGREE: Duration = Duration::from_secs(60);
const SET_CLOCK: &str = "set this host's clock (chrony or systemd-timesyncd)";
const PROBE_FORM: &str = "write it as \"bucket/object\"";

async fn signing_line(signer: &UrlSigner, error: Option<&SignError>, ttl: Duration) -> CheckLine {
    let account = match (error, signer.account().await) {
        (Some(error), _) => return CheckLine::fail("signing", error.detail(), error.remedy()),
        (None, Ok(account)) => account,
        (None, Err(error)) => return CheckLine::fail("signing", error.detail(), error.remedy()),
    };
    signing_verdict(signer.kind(), &account, ttl)
}

/// The line of a signer that signs.
fn signing_verdict(kind: SignerKind, account: &str, ttl: Duration) -> CheckLine {
    let how = match kind {
        SignerKind::Metadata => "IAM signBlob",
        SignerKind::KeyFile => "its key file",
    };
    let signs = format!("signs as {account} with {how}");
    let lives = humantime::format_duration(ttl);
    if !(Duration::from_secs(1)..=MAX_TTL).contains(&ttl) {
        return CheckLine::fail(
            "signing",
            format!("{signs}, but [signed_url] ttl is {lives}"),
            "set it to 1s to 7d",
        );
    }
    if kind == SignerKind::Metadata && ttl > SYSTEM_KEY_CERTAIN {
        return CheckLine::warn(
            "signing",
            format!(
                "{signs}; links are to live {lives}, Google is sure of about 12 h with keys it manages itself"
            ),
            "use signer = \"key-file\" or ttl = \"12h\", or live with it: \
             the mail says \"until … at the latest\" and `links` makes new ones",
        );
    }
    CheckLine::ok("signing", format!("{signs}; links live {lives}"))
}

/// Result of a GET.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fetched {
    Answer {
        status: u16,
        code: Option<String>,
        /// Lead of this host's clock over the store's; absent where the store did not give its time.
        ahead: Option<SignedDuration>,
    },
    Nothing {
        timeout: bool,
    },
}

async fn fetch(http: &reqwest::Client, url: &str) -> Fetched {
    let response = match http.get(url).send().await {
        Ok(response) => response,
        Err(error) => return Fetched::Nothing { timeout: error.is_timeout() },
    };
    let status = response.status();
    let ahead = stores_time(&response).map(|theirs| hosts_time().duration_since(theirs));
    if status.is_success() {
        // The status is the answer; the object's body is not read.
        return Fetched::Answer { status: status.as_u16(), code: None, ahead };
    }
    let code = response.text().await.ok().and_then(|body| xml_code(&body));
    Fetched::Answer { status: status.as_u16(), code, ahead }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is this host's clock that is asked about; nothing is stored"
)]
fn hosts_time() -> Timestamp {
    Timestamp::now()
}

/// Time of the object store's answer (RFC 9110, `Date`: as RFC 5322 writes a time).
fn stores_time(response: &reqwest::Response) -> Option<Timestamp> {
    let said = response.headers().get(reqwest::header::DATE)?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(said.as_bytes()).ok()
}

/// The fault of this host's clock, shown by a store that is ahead of it or behind.
fn clock_off(ahead: Option<SignedDuration>) -> Option<String> {
    let off = ahead.filter(|ahead| ahead.unsigned_abs() > CLOCKS_AGREE)?;
    let by = humantime::format_duration(Duration::from_secs(off.unsigned_abs().as_secs()));
    let way = if off.is_positive() { "ahead of" } else { "behind" };
    Some(format!("this host's clock is {by} {way} the object store's"))
}

/// The `<Code>` of the object store's XML.
fn xml_code(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() <= 63 && code.bytes().all(|b| b.is_ascii_alphanumeric())).then(|| code.to_owned())
}

/// The meaning of a GET of the probe object. The only function that gives it.
fn link_line(fetched: &Fetched, probe: &str) -> CheckLine {
    let (status, code, ahead) = match fetched {
        Fetched::Answer { status, code, ahead } => (*status, code.as_deref().unwrap_or("no code"), *ahead),
        Fetched::Nothing { timeout } => {
            let how = if *timeout { "did not answer in time" } else { "cannot be reached" };
            return CheckLine::fail(
                "link",
                format!("the object store {how}"),
                "check [signed_url] storage_endpoint and that this host may reach it",
            );
        }
    };
    let fail = |detail: String, remedy: &str| CheckLine::fail("link", detail, remedy);
    match (status, code) {
        (200..=299, _) => CheckLine::ok("link", format!("{probe} opens through a signed URL")),
        (_, "SignatureDoesNotMatch") => match clock_off(ahead) {
            Some(off) => fail(
                format!("the object store does not accept the signature ({status} {code}): {off}"),
                SET_CLOCK,
            ),
            None => fail(
                format!("the object store does not accept the signature ({status} {code})"),
                "check that the key is still listed for the service account, and that no proxy rewrites requests",
            ),
        },
        (_, "ExpiredToken" | "RequestTimeTooSkewed" | "RequestNotYetValid") => {
            let off = clock_off(ahead).map(|off| format!(": {off}")).unwrap_or_default();
            fail(
                format!("the object store finds the link outside its time ({status} {code}){off}"),
                SET_CLOCK,
            )
        }
        (401 | 403, _) => fail(
            format!("the signer may sign but not read {probe} ({status} {code}): every link would answer so"),
            "grant the service account storage.objects.get on the bucket (roles/storage.objectViewer)",
        ),
        (404, _) => fail(
            format!("the probe object {probe} does not exist ({status} {code})"),
            "store a small object there, or name another in [signed_url] probe_object",
        ),
        _ => fail(
            format!("the object store answered {status} ({code})"),
            "try again later; if it stays, check [signed_url] storage_endpoint",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::CheckLevel;

    fn answer(status: u16, code: Option<&str>) -> Fetched {
        answer_at(status, code, None)
    }

    /// An answer of a store that is `ahead` seconds behind this host.
    fn answer_at(status: u16, code: Option<&str>, ahead: Option<i64>) -> Fetched {
        let ahead = ahead.map(SignedDuration::from_secs);
        Fetched::Answer { status, code: code.map(str::to_owned), ahead }
    }

    #[test]
    fn every_answer_of_the_object_store_has_its_remedy() {
        let table = [
            (answer(200, None), CheckLevel::Ok, "", ""),
            (
                answer(403, Some("AccessDenied")),
                CheckLevel::Fail,
                "may sign but not read",
                "storage.objects.get",
            ),
            (answer(403, None), CheckLevel::Fail, "403", "storage.objects.get"),
            (answer(404, Some("NoSuchKey")), CheckLevel::Fail, "bucket/probe", "probe_object"),
            (answer(404, Some("NoSuchBucket")), CheckLevel::Fail, "bucket/probe", "probe_object"),
            (
                answer(403, Some("SignatureDoesNotMatch")),
                CheckLevel::Fail,
                "signature",
                "key is still listed",
            ),
            (
                answer_at(403, Some("SignatureDoesNotMatch"), Some(3720)),
                CheckLevel::Fail,
                "clock is 1h 2m ahead of",
                "timesyncd",
            ),
            (
                answer_at(403, Some("SignatureDoesNotMatch"), Some(-90)),
                CheckLevel::Fail,
                "clock is 1m 30s behind",
                "timesyncd",
            ),
            (
                answer_at(403, Some("SignatureDoesNotMatch"), Some(59)),
                CheckLevel::Fail,
                "signature",
                "key is still listed",
            ),
            (
                answer_at(400, Some("ExpiredToken"), Some(3720)),
                CheckLevel::Fail,
                "outside its time (400 ExpiredToken): this host's clock is 1h 2m ahead",
                "clock",
            ),
            (answer(400, Some("ExpiredToken")), CheckLevel::Fail, "outside its time", "clock"),
            (answer(503, None), CheckLevel::Fail, "503", "again later"),
            (answer(302, None), CheckLevel::Fail, "302", "storage_endpoint"),
            (Fetched::Nothing { timeout: true }, CheckLevel::Fail, "in time", "storage_endpoint"),
            (Fetched::Nothing { timeout: false }, CheckLevel::Fail, "reached", "storage_endpoint"),
        ];
        for (fetched, level, detail, remedy) in table {
            let line = link_line(&fetched, "bucket/probe");
            assert_eq!((line.name, line.level), ("link", level), "{fetched:?}");
            assert!(line.detail.contains(detail), "{fetched:?}: {}", line.detail);
            assert!(line.remedy.unwrap_or_default().contains(remedy), "{fetched:?}");
        }
    }

    #[test]
    fn twelve_hours_are_certain_with_keys_that_google_manages() {
        let hours = |count: u64| Duration::from_secs(count * 3600);
        let table = [
            (SignerKind::Metadata, hours(12), CheckLevel::Ok),
            (SignerKind::Metadata, hours(12) + Duration::from_secs(1), CheckLevel::Warn),
            (SignerKind::Metadata, hours(168), CheckLevel::Warn),
            (SignerKind::KeyFile, hours(168), CheckLevel::Ok),
            (SignerKind::KeyFile, hours(169), CheckLevel::Fail),
            (SignerKind::Metadata, Duration::ZERO, CheckLevel::Fail),
        ];
        for (kind, ttl, level) in table {
            let line = signing_verdict(kind, "a@example.org", ttl);
            assert_eq!((line.name, line.level), ("signing", level), "{kind:?} {ttl:?}");
            assert_eq!(line.remedy.is_some(), level != CheckLevel::Ok, "{kind:?} {ttl:?}");
        }
    }

    #[test]
    fn the_code_is_a_plain_word() {
        assert_eq!(xml_code("<Error><Code>NoSuchKey</Code></Error>").as_deref(), Some("NoSuchKey"));
        assert_eq!(xml_code("<Error><Code>see https://x</Code></Error>"), None);
        assert_eq!(xml_code("{}"), None);
    }
}
