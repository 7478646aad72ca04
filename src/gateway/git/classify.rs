//! The one classifier of git's ends: exit status, signal and standard error (`LC_ALL=C`) become an error of a closed set.
//!
//! Pure. Lines of the host's own (`remote: …`) are not read, nor anything behind the first `fatal:`: some of git's last words
//! quote the host, with its line ends. What a host says can choose a class, as its status can; none of it goes on.

use super::fault::{GitError, NetworkFault, OurFault, SourceFault};

/// What git was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Asking the host, or fetching from it.
    Fetch,
    /// Reading what was fetched; no host takes part.
    Read,
}

/// How git ended.
#[derive(Clone, Copy)]
pub(super) struct Ended<'a> {
    pub(super) step: Step,
    /// Signal that ended it.
    pub(super) signal: Option<i32>,
    /// Beginning of its standard error.
    pub(super) said: &'a [u8],
}

const TOO_LARGE: GitError = GitError::Source(SourceFault::TooLarge);
const MALFORMED: GitError = GitError::Source(SourceFault::Malformed);
const MISSING: GitError = GitError::Source(SourceFault::Missing);
const BROKEN: GitError = GitError::Network(NetworkFault::Broken);
const NO_CONNECTION: GitError = GitError::Network(NetworkFault::NoConnection);
const UNAVAILABLE: GitError = GitError::Network(NetworkFault::Unavailable);

/// Words of git, curl and prlimit, and what they mean. The first line that has one decides; in a line, the first row does.
/// Seen with git 2.39.5 and curl 7.88 unless "source" says that they were read in git's.
const WORDS: &[(&str, GitError)] = &[
    ("prlimit: failed to execute", GitError::Ours(OurFault::NoGit)),
    ("prlimit: failed to set", GitError::Ours(OurFault::Bounds)),
    ("remote error:", UNAVAILABLE),
    ("No space left on device", GitError::Ours(OurFault::DiskFull)),
    ("Disk quota exceeded", GitError::Ours(OurFault::DiskFull)),
    ("error setting certificate", GitError::Ours(OurFault::CaFile)),
    ("Problem with the SSL CA cert", GitError::Ours(OurFault::CaFile)),
    ("remote helper for", GitError::Ours(OurFault::NoGit)),
    ("is not a git command", GitError::Ours(OurFault::NoGit)),
    ("cannot fork", GitError::Ours(OurFault::NoProcess)),
    ("unable to fork", GitError::Ours(OurFault::NoProcess)),
    ("Permission denied", GitError::Ours(OurFault::Directory)),
    ("Read-only file system", GitError::Ours(OurFault::Directory)),
    ("Out of memory", TOO_LARGE),
    ("out of memory", TOO_LARGE),
    ("Cannot allocate memory", TOO_LARGE),
    ("File too large", TOO_LARGE),
    ("Too many open files", TOO_LARGE),
    ("could not read Username", MISSING),
    ("Authentication failed", MISSING),
    ("not found in upstream", GitError::Source(SourceFault::Reference)),
    ("Could not find remote branch", GitError::Source(SourceFault::Reference)),
    ("could not find remote ref", GitError::Source(SourceFault::Reference)),
    ("does not support shallow capabilities", MISSING),
    ("Could not resolve host", NO_CONNECTION),
    ("getaddrinfo", NO_CONNECTION),
    ("Failed to connect", NO_CONNECTION),
    ("Couldn't connect", NO_CONNECTION),
    ("SSL", NO_CONNECTION),
    ("server certificate verification failed", NO_CONNECTION),
    ("gnutls_handshake", NO_CONNECTION),
    ("TLS", NO_CONNECTION),
    ("Operation too slow", GitError::Network(NetworkFault::Silent)),
    ("timed out", GitError::Network(NetworkFault::Silent)),
    ("transfer closed", BROKEN),
    ("Empty reply", BROKEN),
    ("Connection reset", BROKEN),
    ("Recv failure", BROKEN),
    ("Send failure", BROKEN),
    ("early EOF", BROKEN),
    ("hung up unexpectedly", BROKEN),
    ("unexpected disconnect", BROKEN),
    ("RPC failed", BROKEN),
    // index-pack says why it fails, but where a signal ends it: a bound of processor time or of a file.
    ("invalid index-pack output", TOO_LARGE),
    ("fsck error", MALFORMED),
    ("bad line length", MALFORMED),
    ("protocol error", MALFORMED),
    ("invalid server response", MALFORMED),
    ("not valid: is this a git repository", MALFORMED),
    ("not valid: could not determine hash algorithm", MALFORMED),
    ("bad pack header", MALFORMED),
    ("pack signature mismatch", MALFORMED),
    ("pack is corrupted", MALFORMED),
    ("pack has", MALFORMED),
    ("inflate", MALFORMED),
    ("unresolved delta", MALFORMED),
    ("unpack-objects", MALFORMED),
    ("index-pack", MALFORMED),
    ("did not send all necessary objects", MALFORMED),
    ("not a valid object", MALFORMED),
    ("bad object", MALFORMED),
    ("corrupt", MALFORMED),
];

/// Words before the number of a signal that ended a process of git's.
const DIED: &str = "died of signal ";
/// Words before a status of HTTP.
const STATUS: &str = "returned error: ";

/// What this end means.
pub(super) fn classify(ended: &Ended<'_>) -> GitError {
    if let Some(signal) = ended.signal {
        return by_signal(signal);
    }
    let said = String::from_utf8_lossy(ended.said);
    for line in said.lines().filter(|line| !line.starts_with("remote: ")) {
        if let Some(error) = by_line(line) {
            return error;
        }
        if line.starts_with("fatal: ") {
            break;
        }
    }
    match ended.step {
        Step::Fetch => GitError::Network(NetworkFault::Unclear),
        Step::Read => MALFORMED,
    }
}

fn by_line(line: &str) -> Option<GitError> {
    if let Some(signal) = number_behind(line, DIED) {
        return Some(by_signal(signal));
    }
    if !line.contains("remote error:")
        && let Some(status) = number_behind(line, STATUS)
    {
        return Some(by_status(status));
    }
    // `not found` alone would be said of a host as well.
    if line.starts_with("fatal: repository '") && line.ends_with("' not found") {
        return Some(MISSING);
    }
    // Askpass is `/bin/false`; the line behind it says what was wanted.
    if line.contains("askpass") {
        return None;
    }
    WORDS.iter().find(|(words, _)| line.contains(words)).map(|(_, error)| *error)
}

fn number_behind(line: &str, words: &str) -> Option<i32> {
    let (_, rest) = line.split_once(words)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn by_status(status: i32) -> GitError {
    match status {
        300..=399 => GitError::Source(SourceFault::Redirect),
        401 | 403 | 404 | 410 | 451 => MISSING,
        _ => UNAVAILABLE,
    }
}

/// Signals that bounds send (processor time, size of a file), that broken content causes, and others'.
fn by_signal(signal: i32) -> GitError {
    const SIGILL: i32 = 4;
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGFPE: i32 = 8;
    const SIGSEGV: i32 = 11;
    const SIGPIPE: i32 = 13;
    const SIGXCPU: i32 = 24;
    const SIGXFSZ: i32 = 25;
    match signal {
        SIGXCPU | SIGXFSZ => TOO_LARGE,
        SIGILL | SIGABRT | SIGBUS | SIGFPE | SIGSEGV => MALFORMED,
        SIGPIPE => BROKEN,
        _ => GitError::Ours(OurFault::Killed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(said: &str) -> GitError {
        classify(&Ended { step: Step::Fetch, signal: None, said: said.as_bytes() })
    }

    #[test]
    fn words_of_git_have_one_meaning_each() {
        let at = |rest: &str| format!("fatal: unable to access 'https://github.com/o/r/': {rest}");
        let status = |code: u16| at(&format!("The requested URL returned error: {code}"));
        let cases: Vec<(String, &str)> = vec![
            (status(301), "source-redirect"),
            (status(302), "source-redirect"),
            (status(308), "source-redirect"),
            (status(403), "source-missing"),
            (status(410), "source-missing"),
            (status(451), "source-missing"),
            (status(400), "network-unavailable"),
            (status(429), "network-unavailable"),
            (status(500), "network-unavailable"),
            (status(503), "network-unavailable"),
            ("fatal: repository 'https://github.com/o/r/' not found".into(), "source-missing"),
            (
                "error: unable to read askpass response from '/bin/false'\n\
                 fatal: could not read Username for 'https://github.com': terminal prompts disabled"
                    .into(),
                "source-missing",
            ),
            ("fatal: Authentication failed for 'https://github.com/o/r/'".into(), "source-missing"),
            ("fatal: Remote branch x not found in upstream origin".into(), "source-reference"),
            (at("Could not resolve host: github.com"), "network-no-connection"),
            (
                at("Failed to connect to github.com port 443 after 1 ms: Couldn't connect to server"),
                "network-no-connection",
            ),
            (
                at("server certificate verification failed. CAfile: none CRLfile: none"),
                "network-no-connection",
            ),
            (at("gnutls_handshake() failed: Handshake failed"), "network-no-connection"),
            (
                at("Operation too slow. Less than 100 bytes/sec transferred the last 10 seconds"),
                "network-silent",
            ),
            (at("transfer closed with 487 bytes remaining to read"), "network-broken"),
            (at("Empty reply from server"), "network-broken"),
            (at("Recv failure: Connection reset by peer"), "network-broken"),
            (at("error setting certificate file: /x"), "ca-file"),
            (
                "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502\n\
                 fatal: the remote end hung up unexpectedly"
                    .into(),
                "network-unavailable",
            ),
            (
                "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\n\
                 error: 100 bytes of body are still expected\nfatal: early EOF"
                    .into(),
                "network-broken",
            ),
            ("fatal: early EOF\nfatal: fetch-pack: invalid index-pack output".into(), "network-broken"),
            ("fatal: protocol error: bad line length character: word".into(), "source-malformed"),
            (
                "error: object 11: hasDotgit: contains '.git'\nfatal: fsck error in packed object\n\
                 fatal: fetch-pack: invalid index-pack output"
                    .into(),
                "source-malformed",
            ),
            ("fatal: pack has bad object at offset 12: inflate returned -3".into(), "source-malformed"),
            ("fatal: Out of memory, realloc failed".into(), "source-too-large"),
            (
                "error: index-pack died of signal 24\nfatal: fetch-pack: invalid index-pack output".into(),
                "source-too-large",
            ),
            ("error: index-pack died of signal 25".into(), "source-too-large"),
            ("fatal: fetch-pack: invalid index-pack output".into(), "source-too-large"),
            ("error: index-pack died of signal 11".into(), "source-malformed"),
            ("error: index-pack died of signal 9".into(), "killed"),
            ("fatal: write error: File too large".into(), "source-too-large"),
            ("fatal: write error: No space left on device".into(), "disk-full"),
            ("prlimit: failed to execute /usr/bin/git: No such file or directory".into(), "no-git"),
            ("prlimit: failed to set the AS resource limit: Operation not permitted".into(), "bounds"),
            ("git: 'remote-https' is not a git command. See 'git --help'.".into(), "no-git"),
            ("fatal: unable to find remote helper for 'https'".into(), "no-git"),
            ("error: cannot fork() for remote-https: Resource temporarily unavailable".into(), "no-process"),
            ("fatal: could not create leading directories of '/x': Permission denied".into(), "directory"),
            ("fatal: something new".into(), "network-unclear"),
            (String::new(), "network-unclear"),
        ];
        for (said, label) in cases {
            assert_eq!(fetch(&said).label(), label, "{said}");
        }
    }

    #[test]
    fn a_host_cannot_put_words_into_gits_mouth() {
        for said in [
            "fatal: remote error: nope\nfatal: No space left on device",
            "fatal: remote error: The requested URL returned error: 404",
            "remote: fatal: No space left on device\nfatal: remote error: x",
        ] {
            assert_eq!(fetch(said).label(), "network-unavailable", "{said}");
        }
        let remote = "remote: No space left on device\nremote: Permission denied\n";
        assert_eq!(fetch(remote).label(), "network-unclear");
    }

    #[test]
    fn signals_and_the_step_decide_where_no_words_do() {
        let end = |step, signal| classify(&Ended { step, signal, said: b"" }).label();
        assert_eq!(end(Step::Read, None), "source-malformed");
        assert_eq!(end(Step::Read, Some(24)), "source-too-large");
        assert_eq!(end(Step::Fetch, Some(25)), "source-too-large");
        assert_eq!(end(Step::Fetch, Some(11)), "source-malformed");
        assert_eq!(end(Step::Fetch, Some(9)), "killed");
        assert_eq!(end(Step::Fetch, Some(15)), "killed");
    }
}
