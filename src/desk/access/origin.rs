//! The desk's own origin, and the two refusals that follow from it: a request under another name, and a change that another
//! page asked for. Pure.
//!
//! Cookies ignore ports: a page on another port of the same host sends ours along, and `Sec-Fetch-Site` calls it
//! `same-site`. So only `same-origin` may change anything. No tokens in forms: they cost years of lost drafts elsewhere.

use axum::http::Method;
use url::Url;

use crate::web::host::Hosts;

/// The origin under which browsers know the desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    text: String,
    hosts: Hosts,
}

/// Why a request is not ours to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its `Host` is another: a proxy's mistake, or a name that was made to lead here (DNS rebinding).
    OtherHost,
    /// It would change something, and not one of our own pages asked for it.
    CrossSite,
}

impl Origin {
    /// The origin of the configuration, which has validated it; `None` for what is no origin.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        Some(Self { text: url.origin().ascii_serialization(), hosts: Hosts::of(&url)? })
    }

    /// The origin as browsers write it, without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Refuses a request under another name. `hosts` are the values of `Host`, and the authority of an absolute target.
    ///
    /// # Errors
    /// [`Refused::OtherHost`]; also without any, or with one that is not ours beside ours.
    pub fn host<'a>(&self, hosts: impl IntoIterator<Item = &'a str>) -> Result<(), Refused> {
        if self.hosts.are(hosts) { Ok(()) } else { Err(Refused::OtherHost) }
    }

    /// Refuses a change that none of our own pages asked for. `bearer`: the request proves itself by an `Authorization` that no
    /// browser adds by itself.
    ///
    /// # Errors
    /// [`Refused::CrossSite`].
    pub fn csrf(
        &self,
        method: &Method,
        site: Option<&str>,
        origin: Option<&str>,
        bearer: bool,
    ) -> Result<(), Refused> {
        let reads = [Method::GET, Method::HEAD].contains(method);
        let ours = match (site, origin) {
            (Some(site), _) => site == "same-origin",
            (None, Some(origin)) => origin == self.text,
            (None, None) => false,
        };
        if reads || bearer || ours { Ok(()) } else { Err(Refused::CrossSite) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::new("http://desk.localhost:9465").expect("an origin")
    }

    #[test]
    fn only_our_own_name_is_answered() {
        let ours = |hosts: &[&str]| origin().host(hosts.iter().copied()).is_ok();
        assert!(ours(&["desk.localhost:9465"]) && ours(&["Desk.LocalHost:9465"]));
        assert!(ours(&["desk.localhost:9465", "desk.localhost:9465"]));
        for other in [
            &[][..],
            &[""],
            &["desk.localhost"],
            &["desk.localhost:80"],
            &["localhost:9465"],
            &["127.0.0.1:9465"],
            &["evil.example.org:9465"],
            &["desk.localhost:9465.evil.example.org"],
            &["desk.localhost:9465", "evil.example.org"],
        ] {
            assert!(!ours(other), "{other:?}");
        }
        let proxied = Origin::new("https://desk.example.org").expect("an origin");
        assert!(proxied.host(["desk.example.org"]).is_ok() && proxied.host(["desk.example.org:443"]).is_ok());
        assert!(proxied.host(["desk.example.org:80"]).is_err());
    }

    #[test]
    fn a_change_is_asked_for_by_our_own_pages() {
        let own = Some("http://desk.localhost:9465");
        let refused =
            |method: &Method, site, from, bearer| origin().csrf(method, site, from, bearer).is_err();
        let cases: &[(Option<&str>, Option<&str>, bool)] = &[
            (Some("same-origin"), own, true),
            (Some("same-origin"), None, true),
            (None, own, true),
            (Some("same-site"), own, false),
            (Some("cross-site"), own, false),
            (Some("none"), own, false),
            (Some(""), own, false),
            (Some("Same-Origin"), own, false),
            (None, None, false),
            (None, Some("null"), false),
            (None, Some(""), false),
            (None, Some("http://desk.localhost:9466"), false),
            (None, Some("https://desk.localhost:9465"), false),
            (None, Some("http://desk.localhost:9465.evil.example.org"), false),
            (None, Some("http://127.0.0.1:9465"), false),
        ];
        for (site, from, may) in cases.iter().copied() {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
                assert_eq!(refused(&method, site, from, false), !may, "{method} {site:?} {from:?}");
                assert!(!refused(&method, site, from, true), "a bearer token is no cookie");
            }
            for method in [Method::GET, Method::HEAD] {
                assert!(!refused(&method, site, from, false), "{method} {site:?} {from:?}");
            }
        }
    }
}
