//! Links and mail addresses of a text, as a browser would follow them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use linkify::{LinkFinder, LinkKind};
use url::Url;

/// Links of a text that are looked at.
const LINKS: usize = 1_000;
/// Longest link that is parsed, in bytes; of a longer one, this much.
const LONGEST: usize = 2_048;

/// Endings of programs, and of archives that they come in.
const PROGRAMS: [&str; 19] = [
    ".docm", ".xlsm", ".apk", ".bat", ".cmd", ".exe", ".hta", ".img", ".iso", ".jar", ".lnk", ".msi", ".ps1",
    ".rar", ".scr", ".vbs", ".zip", ".7z", ".wsf",
];
/// Endings of documents that run something, and of scripts that nobody sends another: nobody links these to a form's owner.
const MACROS: [&str; 8] = [".docm", ".xlsm", ".hta", ".lnk", ".scr", ".vbs", ".wsf", ".iso"];
/// Words of a path that ask who one is.
const LOGINS: [&str; 9] =
    ["login", "signin", "sign-in", "logon", "verify", "account", "secure", "password", "wallet"];

/// A link.
pub(super) struct Link {
    /// Where it is.
    pub(super) span: Range<usize>,
    /// Where it leads.
    pub(super) host: Host,
    /// Whether it is a mail address.
    pub(super) mail: bool,
    /// Whether something is before the host that looks like one.
    pub(super) userinfo: bool,
    /// Whether it runs something instead of leading somewhere.
    pub(super) script: bool,
    /// Whether it leads to a program, or to what hides one.
    pub(super) program: bool,
    /// Whether it leads to a document that runs something, or a script.
    pub(super) macros: bool,
    /// Whether its path or host speaks of logging in.
    pub(super) login: bool,
    /// Whether it asks for rights in an account, as OAuth does.
    pub(super) consent: bool,
}

/// Host of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// None that could be told.
    None,
    /// An address of the Internet, however it is written.
    Public,
    /// An address of a network at home.
    Private,
    /// A name, in Unicode and lower case.
    Name(String),
}

/// Links of a text: those that a finder sees, in order, then those that it does not.
pub(super) fn of(text: &str) -> Vec<Link> {
    let mut finder = LinkFinder::new();
    finder.url_must_have_scheme(false);
    let found = finder.links(text).map(|link| read(link.as_str(), link.start()..link.end(), link.kind()));
    found.take(LINKS).chain(odd(text).take(LINKS)).collect()
}

/// Links that a browser follows and the finder does not see: to a number, an address in brackets, behind an encoded name.
fn odd(text: &str) -> impl Iterator<Item = Link> + '_ {
    /// Longest link of this kind.
    const ODD: usize = 300;
    text.match_indices("://").filter_map(|(at, _)| {
        let before = &text.as_bytes()[at.saturating_sub(5)..at];
        let scheme = [&b"https"[..], b"http"].into_iter().find(|scheme| {
            before.len() >= scheme.len() && before[before.len() - scheme.len()..].eq_ignore_ascii_case(scheme)
        })?;
        let rest = &text.as_bytes()[at + 3..(at + 3 + ODD).min(text.len())];
        let ends = |b: &u8| b.is_ascii_whitespace() || b"\"'<>|".contains(b);
        let rest = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
        let authority = &rest[..rest.iter().position(|b| b"/?#".contains(b)).unwrap_or(rest.len())];
        let user = memchr::memrchr(b'@', authority);
        let host = &authority[user.map_or(0, |user| user + 1)..];
        let encoded = user.is_some_and(|user| authority[..user].contains(&b'%'));
        let number = host.first().is_some_and(u8::is_ascii_digit)
            && (!host.contains(&b'.') || host[1..].starts_with(b"x"));
        if !encoded && !number && host.first() != Some(&b'[') {
            return None;
        }
        let span = at - scheme.len()..text.floor_char_boundary(at + 3 + rest.len());
        let mut link = read(&text[span.clone()], span, &LinkKind::Url);
        link.userinfo |= encoded;
        // Nobody but who hides an address writes it as one number.
        link.login |= number;
        Some(link)
    })
}

/// Reads one.
fn read(link: &str, span: Range<usize>, kind: &LinkKind) -> Link {
    let link = &link[..link.floor_char_boundary(LONGEST)];
    let mail = matches!(kind, LinkKind::Email)
        || link.len() >= 7 && link.as_bytes()[..7].eq_ignore_ascii_case(b"mailto:");
    if mail {
        let domain = link.rsplit('@').next().unwrap_or_default().split(['?', '>']).next().unwrap_or_default();
        return Link { host: name(domain), mail, ..Link::at(span) };
    }
    let scheme =
        link.split("://").next().filter(|scheme| scheme.len() < link.len()).map(str::to_ascii_lowercase);
    let (parsed, with_scheme) = match &scheme {
        Some(_) => (Url::parse(link), true),
        None => (Url::parse(&format!("http://{link}")), false),
    };
    let script = matches!(scheme.as_deref(), Some("javascript" | "data" | "vbscript"));
    let Ok(url) = parsed else { return Link { script, ..Link::at(span) } };
    // A name and a password of an intranet are no disguise; a dot before the `@` is.
    let userinfo = with_scheme
        && matches!(scheme.as_deref(), Some("http" | "https"))
        && (url.username().contains('.') || url.username().contains("%2E") || url.password().is_some());
    let host = match url.host() {
        // Without a scheme, four numbers are a version as often as an address.
        Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) if !with_scheme => Host::None,
        Some(url::Host::Ipv4(address)) => address_kind(IpAddr::V4(address)),
        Some(url::Host::Ipv6(address)) => address_kind(IpAddr::V6(address)),
        Some(url::Host::Domain(domain)) => name(domain),
        None => Host::None,
    };
    let path = url.path().to_ascii_lowercase();
    let program = PROGRAMS.iter().any(|ending| path.ends_with(ending));
    let macros = MACROS.iter().any(|ending| path.ends_with(ending));
    let named = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let login = LOGINS.iter().any(|word| path.contains(word) || named.contains(word));
    let asks = |key: &str| url.query_pairs().any(|(name, _)| name == key);
    let consent = path.contains("authorize") && asks("client_id") && asks("scope");
    Link { host, userinfo, script, program, macros, login, consent, ..Link::at(span) }
}

impl Link {
    /// A link that nothing is known of.
    fn at(span: Range<usize>) -> Self {
        Self {
            span,
            host: Host::None,
            mail: false,
            userinfo: false,
            script: false,
            program: false,
            macros: false,
            login: false,
            consent: false,
        }
    }
}

/// A name in Unicode.
fn name(domain: &str) -> Host {
    let (unicode, _) = url_name(domain);
    if unicode.contains('.') { Host::Name(unicode) } else { Host::None }
}

/// The name in Unicode and lower case, as far as it can be told, and whether it could.
fn url_name(domain: &str) -> (String, bool) {
    let (unicode, result) = idna::domain_to_unicode(domain.trim_end_matches('.'));
    (unicode.to_lowercase(), result.is_ok())
}

/// Whether an address is of the Internet.
fn address_kind(address: IpAddr) -> Host {
    let private = match address {
        IpAddr::V4(v4) => is_private(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| is_local(v6), is_private),
    };
    if private { Host::Private } else { Host::Public }
}

fn is_private(address: Ipv4Addr) -> bool {
    address.is_private() || address.is_loopback() || address.is_link_local() || address.is_unspecified()
}

fn is_local(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Link {
        of(text).into_iter().next().unwrap_or_else(|| panic!("a link in {text}"))
    }

    #[test]
    fn a_host_is_told_as_a_browser_does() {
        for (text, expected) in [
            ("see https://Example.ORG/a.", Host::Name("example.org".to_owned())),
            ("see example.org/a", Host::Name("example.org".to_owned())),
            ("http://xn--mnchen-3ya.example/", Host::Name("münchen.example".to_owned())),
            ("http://203.0.113.9/login", Host::Public),
            ("http://3405803785/", Host::Public),
            ("http://0xcb.0x00.0x71.0x09/", Host::Public),
            ("http://[2001:db8::1]/", Host::Public),
            ("http://192.168.1.1/admin", Host::Private),
        ] {
            assert_eq!(one(text).host, expected, "{text}");
        }
    }

    #[test]
    fn a_user_before_the_host_is_told_from_a_path() {
        assert!(one("https://bank.example@evil.example/login").userinfo);
        assert!(one("https://user:pw@evil.example/").userinfo);
        assert!(!one("https://social.example/@someone.else").userinfo);
        assert!(!one("write to me@example.org").userinfo);
        assert!(one("write to me@example.org").mail);
    }

    #[test]
    fn a_version_is_no_host() {
        assert!(of("version 1.2.3.4 of it").iter().all(|link| link.host == Host::None));
    }
}
