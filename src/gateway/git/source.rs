//! Addresses of repositories: which are read, whose they are, and who is trusted.
//!
//! Pure, and decided before any connection. An address is compared as text, never resolved: HOST/OWNER/REPOSITORY in ASCII and
//! nothing beside it. What differs from what a person reads is refused instead of being made equal.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::fault::{SourceFault, UrlFault};

/// The organisations whose repositories are taken without a verdict (contract, "Trust: the seven"), on `github.com`.
pub const TRUSTED_ORGANISATIONS: [&str; 7] =
    ["anthropics", "openai", "google", "google-gemini", "vercel-labs", "supabase", "microsoft"];

/// Longest address.
const LONGEST_URL: usize = 300;
/// Longest name of an owner; of a repository.
const LONGEST_OWNER: usize = 64;
const LONGEST_REPOSITORY: usize = 100;
/// Longest path in a repository.
const LONGEST_PATH: usize = 500;

/// Where a snapshot is to be taken from.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// Address of the repository.
    pub url: Url,
    /// Branch or tag; absent: the host's own choice.
    pub reference: Option<String>,
    /// The part of the tree that is wanted, from its root; absent: all.
    pub path: Option<String>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// A source as somebody wrote it. The text itself is judged: a parser repairs much (`\`, `..`, escapes, line ends).
    ///
    /// # Errors
    /// [`UrlFault`].
    pub fn parse(text: &str, reference: Option<String>, path: Option<String>) -> Result<Self, UrlFault> {
        if text.is_empty() || text.len() > LONGEST_URL {
            return Err(UrlFault::Syntax);
        }
        let named: [(char, UrlFault); 3] =
            [('@', UrlFault::Userinfo), ('?', UrlFault::Query), ('#', UrlFault::Fragment)];
        if let Some((_, fault)) = named.into_iter().find(|(sign, _)| text.contains(*sign)) {
            return Err(fault);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/._-".contains(&byte)) {
            return Err(UrlFault::Characters);
        }
        if text.contains("..") {
            return Err(UrlFault::Dots);
        }
        let url = Url::parse(text).map_err(|_| UrlFault::Syntax)?;
        Ok(Self { url, reference, path })
    }
}

/// An owner at a host, both in lower case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Host, with a port where it is a test's.
    pub host: String,
    /// First segment of the path.
    pub name: String,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}

/// The owner of a repository, of an address that is read anywhere but on loopback.
///
/// # Errors
/// [`SourceFault::Url`], or [`SourceFault::Host`] where the host is an IP address.
pub fn owner(url: &Url) -> Result<Owner, SourceFault> {
    Place::of(url, false).map(|place| place.owner)
}

/// Owners that are trusted at one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The host, as in an address.
    pub host: String,
    /// Names of owners, in any case.
    pub owners: Vec<String>,
}

impl Default for Trust {
    fn default() -> Self {
        let owners = TRUSTED_ORGANISATIONS.map(str::to_owned).to_vec();
        Self { host: "github.com".to_owned(), owners }
    }
}

impl Trust {
    /// Returns whether this owner is trusted; ASCII letters count alike in either case, and no others.
    #[must_use]
    pub fn holds(&self, owner: &Owner) -> bool {
        self.host.eq_ignore_ascii_case(&owner.host)
            && self.owners.iter().any(|name| name.eq_ignore_ascii_case(&owner.name))
    }
}

/// A repository whose address is one that is read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) owner: Owner,
    /// What git is told; made anew of the parts.
    pub(super) url: String,
}

impl Place {
    /// Reads an address. `loopback`: http and ports are read where the host is this one.
    pub(super) fn of(url: &Url, loopback: bool) -> Result<Self, SourceFault> {
        let loopback = loopback && is_loopback(url);
        if url.as_str().len() > LONGEST_URL {
            return Err(UrlFault::Syntax.into());
        }
        if url.scheme() != "https" && !(loopback && url.scheme() == "http") {
            return Err(UrlFault::Scheme.into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlFault::Userinfo.into());
        }
        if url.port().is_some() && !loopback {
            return Err(UrlFault::Port.into());
        }
        if url.query().is_some() {
            return Err(UrlFault::Query.into());
        }
        if url.fragment().is_some() {
            return Err(UrlFault::Fragment.into());
        }
        let host = host(url, loopback)?;
        let (owner, repository) = segments(url.path())?;
        let url = format!("{}://{host}/{owner}/{repository}", url.scheme());
        Ok(Self { owner: Owner { host, name: owner.to_ascii_lowercase() }, url })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(_)) | None => false,
    }
}

fn host(url: &Url, loopback: bool) -> Result<String, SourceFault> {
    let name = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) if loopback => address.to_string(),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => return Err(SourceFault::Host),
    };
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if !plain || name.starts_with(['-', '.']) || name.ends_with(['-', '.']) {
        return Err(SourceFault::Host);
    }
    let name = name.to_ascii_lowercase();
    Ok(url.port().map_or(name.clone(), |port| format!("{name}:{port}")))
}

/// Owner and repository of a URL's path, a slash at its end aside.
fn segments(path: &str) -> Result<(&str, &str), UrlFault> {
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)) {
        return Err(UrlFault::Characters);
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some((owner, repository)) = path.split_once('/') else { return Err(UrlFault::Segments) };
    if owner.is_empty() || repository.is_empty() || repository.contains('/') {
        return Err(UrlFault::Segments);
    }
    let odd = |name: &str| name.starts_with('-') || name.ends_with('.') || name.contains("..");
    let git = repository.eq_ignore_ascii_case(".git");
    if odd(owner) || odd(repository) || git {
        return Err(UrlFault::Dots);
    }
    if owner.contains('.') {
        return Err(UrlFault::Characters);
    }
    if owner.len() > LONGEST_OWNER || repository.len() > LONGEST_REPOSITORY {
        return Err(UrlFault::Segments);
    }
    Ok((owner, repository))
}

/// A path in a repository, without a slash at its end.
pub(super) fn path(text: &str) -> Result<&str, UrlFault> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@() ".contains(&byte));
    let named = |name: &str| {
        !name.is_empty()
            && !name.starts_with('-')
            && !matches!(name, "." | "..")
            && !name.eq_ignore_ascii_case(".git")
    };
    let taken = plain && text.len() <= LONGEST_PATH && text.split('/').all(named);
    if taken { Ok(text) } else { Err(UrlFault::Path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Owner, SourceFault> {
        owner(&Source::parse(text, None, None)?.url)
    }

    #[test]
    fn an_address_is_read_or_refused_for_one_reason() {
        let fine = [
            ("https://github.com/Anthropics/skills", "anthropics"),
            ("https://github.com/o/r.git", "o"),
            ("https://GitHub.com/google-gemini/.github/", "google-gemini"),
            ("https://gitlab.example.org/some_body/a.b-c", "some_body"),
        ];
        for (text, name) in fine {
            assert_eq!(read(text).map(|owner| owner.name), Ok(name.to_owned()), "{text}");
        }
        let refused: [(&str, SourceFault); 33] = [
            ("", UrlFault::Syntax.into()),
            ("github.com/o/r", UrlFault::Syntax.into()),
            ("https:///", UrlFault::Syntax.into()),
            ("http://github.com/o/r", UrlFault::Scheme.into()),
            ("git://github.com/o/r", UrlFault::Scheme.into()),
            ("ssh://github.com/o/r", UrlFault::Scheme.into()),
            ("file:///etc/o/r", UrlFault::Scheme.into()),
            ("ext::sh/o/r", UrlFault::Scheme.into()),
            ("git@github.com:o/r", UrlFault::Userinfo.into()),
            ("https://github.com@evil.example/anthropics/r", UrlFault::Userinfo.into()),
            ("https://a:b@github.com/o/r", UrlFault::Userinfo.into()),
            ("https://@github.com/o/r", UrlFault::Userinfo.into()),
            ("https://github.com:8443/o/r", UrlFault::Port.into()),
            ("https://github.com/o/r?a=b", UrlFault::Query.into()),
            ("https://github.com/o/r#x", UrlFault::Fragment.into()),
            ("https://github.com/o%2fx/r", UrlFault::Characters.into()),
            ("https://github.com\\@evil.example/o/r", UrlFault::Userinfo.into()),
            ("https://github.com\\evil.example/o/r", UrlFault::Characters.into()),
            ("https://github.com/o/r\n", UrlFault::Characters.into()),
            ("https://github.com/o/ r", UrlFault::Characters.into()),
            ("https://g\u{456}thub.com/o/r", UrlFault::Characters.into()),
            ("https://github.com/anthrop\u{456}cs/r", UrlFault::Characters.into()),
            ("https://github.com/o/../anthropics/r", UrlFault::Dots.into()),
            ("https://github.com/-o/r", UrlFault::Dots.into()),
            ("https://github.com/o/--upload-pack=x", UrlFault::Characters.into()),
            ("https://github.com/o/.git", UrlFault::Dots.into()),
            ("https://github.com/o.p/r", UrlFault::Characters.into()),
            ("https://github.com/o", UrlFault::Segments.into()),
            ("https://github.com/o/r/tree/main", UrlFault::Segments.into()),
            ("https://github.com//o/r", UrlFault::Segments.into()),
            ("https://127.0.0.1/o/r", SourceFault::Host),
            ("https://2130706433/o/r", SourceFault::Host),
            ("https://github.com./o/r", SourceFault::Host),
        ];
        for (text, fault) in refused {
            assert_eq!(read(text), Err(fault), "{text}");
        }
        assert_eq!(read(&format!("https://github.com/o/{}", "r".repeat(300))), Err(UrlFault::Syntax.into()));
    }

    /// A `Url` that did not come through [`Source::parse`]: what a parser makes of an escape or of a letter is refused too.
    #[test]
    fn a_parsed_address_is_no_way_around() {
        let cases: [(&str, SourceFault); 6] = [
            ("https://github.com@evil.example/anthropics/r", UrlFault::Userinfo.into()),
            ("https://github.com/anthrop\u{456}cs/r", UrlFault::Characters.into()),
            ("https://github.com/o/r%00", UrlFault::Characters.into()),
            ("https://github.com/%2d-x/r", UrlFault::Characters.into()),
            ("https://[::1]/o/r", SourceFault::Host),
            ("https://0x7f.1/o/r", SourceFault::Host),
        ];
        for (text, fault) in cases {
            assert_eq!(owner(&Url::parse(text).unwrap()), Err(fault), "{text}");
        }
    }

    #[test]
    fn the_seven_are_trusted_and_no_look_alike() {
        let trust = Trust { host: "GitHub.com".to_owned(), owners: vec!["Anthropics".to_owned()] };
        let holds = |text: &str| read(text).is_ok_and(|owner| trust.holds(&owner));
        for text in ["https://github.com/anthropics/r", "https://github.com/ANTHROPICS/skills.git"] {
            assert!(holds(text), "{text}");
        }
        for text in [
            "https://github.com/anthrop\u{456}cs/r",
            "https://anthropics.evil.example/anthropics/r",
            "https://github.com.evil/anthropics/r",
            "https://github.com@evil.example/anthropics/r",
            "https://evil.example/anthropics/r",
            "https://github.com/anthropics-/r",
            "https://github.com/anthropic/r",
            "https://github.com/evil/anthropics",
            "https://www.github.com/anthropics/r",
            "https://xn--gthub-n4a.com/anthropics/r",
            "https://github.com/anthropics\u{200b}/r",
            "https://github.com/%61nthropics/r",
        ] {
            assert!(!holds(text), "{text}");
        }
        // The long s and the Kelvin sign are lower-cased into ASCII by rules that know Unicode.
        let kelvin = Trust { host: "github.com".to_owned(), owners: vec!["\u{212a}ate".to_owned()] };
        assert!(!read("https://github.com/kate/r").is_ok_and(|owner| kelvin.holds(&owner)));
        assert_eq!(Trust::default().owners.len(), 7);
    }

    #[test]
    fn ports_and_http_are_for_loopback_alone() {
        let of =
            |text: &str, loopback| Place::of(&Url::parse(text).unwrap(), loopback).map(|place| place.url);
        let local = "http://127.0.0.1:8080/o/r";
        assert_eq!(of(local, true), Ok(local.to_owned()));
        assert_eq!(of("https://localhost:1/o/r/", true), Ok("https://localhost:1/o/r".to_owned()));
        assert_eq!(of(local, false), Err(UrlFault::Scheme.into()));
        assert_eq!(of("http://github.com/o/r", true), Err(UrlFault::Scheme.into()));
        assert_eq!(of("https://github.com:1/o/r", true), Err(UrlFault::Port.into()));
        assert_eq!(of("http://10.0.0.1/o/r", true), Err(UrlFault::Scheme.into()));
        assert_eq!(of("http://localhost.evil.example/o/r", true), Err(UrlFault::Scheme.into()));
    }

    #[test]
    fn a_path_stays_inside() {
        for text in ["skills/pdf", "a b/c(1)/SKILL.md", ".claude/skills/", "a..b"] {
            assert!(path(text).is_ok(), "{text}");
        }
        for text in ["", "/", "/a", "a//b", "../a", "a/..", "./a", "-x", "a/.GIT/b", "a:b", "a*", "\u{e4}"] {
            assert_eq!(path(text), Err(UrlFault::Path), "{text}");
        }
    }
}
