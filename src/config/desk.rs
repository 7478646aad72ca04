//! `[desk]`: the review desk, who its people are and how they prove it. Rules of nested sections, which need a name each.
//!
//! People stand in the file of the host and not in the database: whoever shares the daemon's role there makes no admins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::problem::Problem;
use crate::kernel::words;

words! {
    /// The role of a user at the desk; each may do what those before it may, but that an instructor sees no other queue than grading's.
    Role {
        /// Looks.
        Viewer = "viewer",
        /// Sees what waits in queue grading, grades it, and sees nothing else.
        Instructor = "instructor",
        /// Decides about entries of operations.
        Reviewer = "reviewer",
        /// Decides about what was escalated, and about entries of security.
        Security = "security",
        /// Assigns others, and takes over.
        Admin = "admin",
    }
}

/// Proof of who somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeskAuth {
    /// A link that `maple-router desk login` prints, then a cookie.
    #[default]
    Link,
    /// A header that a proxy before the desk signs.
    Assertion,
}

/// Signature algorithm of a proxy's header. Only what has a public key: with a shared secret, whoever checks could sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AssertionAlgorithm {
    /// ECDSA on P-256 with SHA-256: Google IAP, Pomerium.
    #[default]
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA on P-384 with SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256: Cloudflare Access.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSASSA-PSS with SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// `[desk.users.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeskUser {
    /// Address that a proxy asserts, and that what is assigned is mailed to.
    pub email: String,
    /// What the user may do; looks, where nothing else is said.
    pub role: Role,
}

impl Default for DeskUser {
    fn default() -> Self {
        Self { email: String::new(), role: Role::Viewer }
    }
}

section! {
    /// `[desk.assertion]`
    Assertion {
        /// Name of the signed header, e.g. `x-goog-iap-jwt-assertion`.
        header: String = String::new(),
        /// The only algorithm that is believed.
        algorithm: AssertionAlgorithm = AssertionAlgorithm::Es256,
        /// Claim `iss`, exactly.
        issuer: String = String::new(),
        /// Claim `aud`, exactly, or one of its members.
        audience: String = String::new(),
        /// File with the proxy's public keys (JWKS).
        keys_file: Option<PathBuf> = None,
        /// Address of the proxy's public keys (JWKS), instead of a file.
        keys_url: Option<String> = None,
        /// Claim that names the user by the address in `[desk.users]`.
        claim: String = "email".to_owned(),
    }
}

section! {
    /// `[desk]`
    Desk {
        /// Address of the desk; absent: there is none.
        listen: Option<String> = None,
        /// Origin under which browsers know the desk; any other `Host` is refused.
        origin: String = "http://desk.localhost:9465".to_owned(),
        /// Proof of who somebody is ([`DeskAuth`]).
        auth: DeskAuth = DeskAuth::Link,
        /// File holding the secret that credentials are digested with; absent: systemd's credential `desk-secret`.
        secret_file: Option<PathBuf> = None,
        /// Connection string of the desk's own role, `maple_desk`, which alone may decide about screened submissions; absent: the
        /// daemon's, which may not, because the backend shares it.
        database_url: Option<String> = None,
        /// File holding the password of that role; absent: systemd's credential `desk-database-password`, where there is one.
        database_password_file: Option<PathBuf> = None,
        /// `[desk.users.NAME]`
        users: BTreeMap<String, DeskUser> = BTreeMap::new(),
        /// `[desk.assertion]`
        assertion: Option<Assertion> = None,
    }
}

impl Desk {
    /// Whether the desk listens on this host alone.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let listen = self.listen.as_deref().and_then(|listen| listen.parse::<SocketAddr>().ok());
        listen.is_none_or(|address| address.ip().is_loopback())
    }
}

/// Longest name of a user; the database has the same rule for an assignee.
const LONGEST_NAME: usize = 40;

/// Whether this is a name of a user: `^[a-z0-9._-]{1,40}$`.
fn is_user_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain)
}

/// An origin as browsers send it: no path, no credentials. A browser keeps the cookie, which is `Secure`, only of https or of
/// its own machine.
pub(super) fn is_origin(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let own_machine = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let safe = url.scheme() == "https" || url.scheme() == "http" && own_machine;
    safe && url.origin().ascii_serialization() == text
}

/// Keys are fetched by https, or from this machine.
fn is_keys_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| is_origin(&url.origin().ascii_serialization()))
}

/// The name of a header that a proxy may sign: none that others send for other purposes.
fn is_header(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let taken = ["cookie", "authorization", "host", "origin"];
    !text.is_empty() && text.bytes().all(token) && !taken.contains(&text.to_ascii_lowercase().as_str())
}

/// What keeps the desk from being what the file says. Empty where there is no desk.
pub(super) fn problems(desk: &Desk) -> Vec<Problem> {
    let mut found = users(desk);
    if desk.listen.is_none() {
        return found;
    }
    match (desk.auth, &desk.assertion) {
        (DeskAuth::Assertion, None) => found.push(problem(
            "desk.assertion",
            "(not set)",
            "is required with desk.auth = \"assertion\"",
            "add [desk.assertion] with header, algorithm, issuer, audience and keys_url or keys_file",
        )),
        (DeskAuth::Assertion, Some(assertion)) => found.extend(assertion_problems(assertion)),
        (DeskAuth::Link, _) => {}
    }
    found
}

fn users(desk: &Desk) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut addresses = BTreeSet::new();
    for (name, user) in &desk.users {
        if !is_user_name(name) {
            found.push(problem(
                &format!("desk.users.{name}"),
                "the name",
                "must be 1 to 40 of a-z, 0-9, dot, underscore and hyphen",
                "rename the section, e.g. [desk.users.alice]",
            ));
        }
        if user.email.parse::<lettre::Address>().is_err() {
            found.push(problem(
                &format!("desk.users.{name}.email"),
                &format!("{:?}", user.email),
                "must be one e-mail address",
                "set it to the address that this person reads, e.g. alice@example.org",
            ));
        } else if !addresses.insert(user.email.to_ascii_lowercase()) {
            found.push(problem(
                &format!("desk.users.{name}.email"),
                &format!("{:?}", user.email),
                "is another user's address as well, so that it names nobody",
                "give each user an address of their own, or remove one of them",
            ));
        }
    }
    found
}

fn assertion_problems(assertion: &Assertion) -> Vec<Problem> {
    let Assertion { header, issuer, audience, keys_file, keys_url, claim, algorithm: _ } = assertion;
    let mut found = Vec::new();
    let mut require = |holds: bool, key: &str, value: &str, rule: &str, remedy: &str| {
        if !holds {
            found.push(problem(&format!("desk.assertion.{key}"), &format!("{value:?}"), rule, remedy));
        }
    };
    require(
        is_header(header),
        "header",
        header,
        "must be the name of the header that the proxy signs",
        "IAP: x-goog-iap-jwt-assertion; Cloudflare Access: cf-access-jwt-assertion; Pomerium: x-pomerium-jwt-assertion",
    );
    require(
        !issuer.trim().is_empty(),
        "issuer",
        issuer,
        "is required",
        "IAP: https://cloud.google.com/iap; Cloudflare Access: https://TEAM.cloudflareaccess.com; Pomerium: the route's host",
    );
    require(
        !audience.trim().is_empty(),
        "audience",
        audience,
        "is required, or assertions for other applications would count",
        "IAP: /projects/NUMBER/global/backendServices/ID; Cloudflare Access: the application's AUD tag; Pomerium: the route's host",
    );
    require(
        !claim.trim().is_empty(),
        "claim",
        claim,
        "must name the claim that holds the user's address",
        "leave it out for email",
    );
    require(
        keys_file.is_some() != keys_url.is_some(),
        "keys_url",
        keys_url.as_deref().unwrap_or_default(),
        "exactly one of keys_url and keys_file is required",
        "IAP: https://www.gstatic.com/iap/verify/public_key-jwk; Cloudflare Access: \
         https://TEAM.cloudflareaccess.com/cdn-cgi/access/certs; Pomerium: https://ROUTE/.well-known/pomerium/jwks.json",
    );
    if let Some(url) = keys_url {
        require(
            is_keys_url(url),
            "keys_url",
            url,
            "must be an https URL: whoever changes the keys on the way is everybody",
            "name the proxy's keys by https, or put them into a file and name it in keys_file",
        );
    }
    found
}

fn problem(key: &str, value: &str, rule: &str, remedy: &str) -> Problem {
    Problem {
        keys: vec![(key.to_owned(), value.to_owned())],
        rule: rule.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::validate::problems as all;
    use crate::config::validate::tests::sound;

    fn user(email: &str) -> DeskUser {
        DeskUser { email: email.to_owned(), role: Role::Reviewer }
    }

    fn asserted() -> Config {
        let mut config = sound();
        config.desk.listen = Some("0.0.0.0:9465".to_owned());
        config.desk.origin = "https://desk.example.org".to_owned();
        config.desk.auth = DeskAuth::Assertion;
        config.desk.assertion = Some(Assertion {
            header: "x-goog-iap-jwt-assertion".to_owned(),
            issuer: "https://cloud.google.com/iap".to_owned(),
            audience: "/projects/1/global/backendServices/2".to_owned(),
            keys_url: Some("https://www.gstatic.com/iap/verify/public_key-jwk".to_owned()),
            ..Assertion::default()
        });
        config
    }

    fn told(config: &Config) -> Vec<(String, String)> {
        all(config).iter().map(|problem| (problem.keys[0].0.clone(), problem.to_string())).collect()
    }

    #[test]
    fn an_origin_is_one_under_which_a_browser_keeps_the_cookie() {
        for good in [
            "http://desk.localhost:9465",
            "http://localhost",
            "http://127.0.0.1:8080",
            "http://[::1]:9465",
            "https://desk.example.org",
            "https://desk.example.org:8443",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "desk.localhost:9465",
            "http://desk.example.org",
            "http://localhost.example.org",
            "http://10.0.0.1:9465",
            "https://desk.example.org/",
            "https://desk.example.org/desk",
            "https://u:p@desk.example.org",
            "https://desk.example.org?x",
            "https://desk.example.org:443",
            "https://Desk.example.org",
            "ftp://localhost",
            "null",
            "",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_is_what_the_database_takes_for_an_assignee() {
        let longest = "a".repeat(40);
        for good in ["a", "alice", "a.b_c-9", &longest] {
            assert!(is_user_name(good), "{good}");
        }
        let longer = "a".repeat(41);
        for bad in ["", "Alice", "alice b", "alice@x", "\u{e4}", "a/b", &longer] {
            assert!(!is_user_name(bad), "{bad}");
        }
    }

    #[test]
    fn users_are_told_one_by_one() {
        let mut config = sound();
        config.desk.users.insert("alice".to_owned(), user("alice@example.org"));
        config.desk.users.insert("bob".to_owned(), user("bob@example.org"));
        assert_eq!(told(&config), vec![]);
        config.desk.users.insert("Carol".to_owned(), user("carol@example.org"));
        config.desk.users.insert("dave".to_owned(), user("nowhere"));
        config.desk.users.insert("erin".to_owned(), user("ALICE@example.org"));
        let told = told(&config);
        let keys: Vec<_> = told.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["desk.users.Carol", "desk.users.dave.email", "desk.users.erin.email"]);
        assert!(told[2].1.contains("another user's"), "{told:?}");
    }

    #[test]
    fn an_assertion_is_asked_for_where_it_is_used_and_whole() {
        assert_eq!(told(&asserted()), vec![]);
        let mut without = asserted();
        without.desk.assertion = None;
        assert_eq!(told(&without)[0].0, "desk.assertion");
        without.desk.listen = None;
        assert_eq!(told(&without), vec![], "there is no desk");

        type Break = fn(&mut Assertion);
        let cases: &[(&str, Break)] = &[
            ("desk.assertion.header", |a| a.header.clear()),
            ("desk.assertion.header", |a| a.header = "Cookie".to_owned()),
            ("desk.assertion.header", |a| a.header = "x y".to_owned()),
            ("desk.assertion.issuer", |a| a.issuer = " ".to_owned()),
            ("desk.assertion.audience", |a| a.audience.clear()),
            ("desk.assertion.claim", |a| a.claim.clear()),
            ("desk.assertion.keys_url", |a| a.keys_url = None),
            ("desk.assertion.keys_url", |a| a.keys_file = Some("/keys.json".into())),
            ("desk.assertion.keys_url", |a| a.keys_url = Some("http://keys.example.org/k".to_owned())),
        ];
        for (key, change) in cases {
            let mut config = asserted();
            change(config.desk.assertion.as_mut().expect("there"));
            let keys: Vec<_> = told(&config).into_iter().map(|(key, _)| key).collect();
            assert_eq!(keys, [*key]);
        }
    }
}
