//! Which credential a request presents. Pure.
//!
//! One request, one proof: a bearer token where the API is asked with one, else what the configuration says, and never the
//! other. With assertions a cookie is not even read.

use axum::http::{HeaderMap, HeaderName, header};

use super::credential::{Credential, Kind};

/// Name of the cookie. Its prefix has browsers take it only with `Secure`, for one host, from that host.
pub const COOKIE: &str = "__Host-desk";
/// The paths that take bearer tokens.
pub const API: &str = "/api/";

/// The proof that a request brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// A token or a session, still to be looked up.
    Credential(Credential),
    /// A signed header, still to be verified.
    Assertion(String),
    /// Something that can be no proof.
    Unusable,
    /// Nothing.
    Nothing,
}

/// Whether the request proves itself by an `Authorization` that no browser adds: then it is exempt from the CSRF rule, and no
/// other proof counts.
#[must_use]
pub fn is_bearer(path: &str, headers: &HeaderMap) -> bool {
    path.starts_with(API)
        && bearer(headers).is_some_and(|token| Credential::presented(Kind::Token, token).is_some())
}

/// The proof of a request for `path`. `asserted` is the name of the signed header where that is how people prove themselves.
#[must_use]
pub fn presented(path: &str, headers: &HeaderMap, asserted: Option<&HeaderName>) -> Presented {
    if path.starts_with(API)
        && let Some(credential) = bearer(headers).and_then(|text| Credential::presented(Kind::Token, text))
    {
        return Presented::Credential(credential);
    }
    if let Some(name) = asserted {
        return match only(headers, name) {
            Only::None => Presented::Nothing,
            Only::One(text) => Presented::Assertion(text.to_owned()),
            Only::Several => Presented::Unusable,
        };
    }
    // A token that is none, and nothing else: its bearer is told so.
    if path.starts_with(API) && bearer(headers).is_some() {
        return Presented::Unusable;
    }
    session(headers)
}

/// The session of a request's cookies, whatever else the request has.
#[must_use]
pub fn session(headers: &HeaderMap) -> Presented {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    match (ours.next(), ours.next()) {
        (None, _) => Presented::Nothing,
        (Some(text), None) => {
            Credential::presented(Kind::Session, text).map_or(Presented::Unusable, Presented::Credential)
        }
        (Some(_), Some(_)) => Presented::Unusable,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let Only::One(value) = only(headers, &header::AUTHORIZATION) else { return None };
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The values of a header that has one meaning.
enum Only<'a> {
    None,
    One(&'a str),
    Several,
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Only<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Only::None,
        (Some(value), None) => value.to_str().map_or(Only::Several, Only::One),
        (Some(_), Some(_)) => Only::Several,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::ops::rng::Rng;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn one_request_has_one_proof() {
        let rng = Rng::seeded(1);
        let (session, token) = (Credential::new(Kind::Session, &rng), Credential::new(Kind::Token, &rng));
        let cookie = format!("theme=dark; {COOKIE}={}; x=y", session.expose());
        let both = format!("{COOKIE}={}; {COOKIE}={}", session.expose(), session.expose());
        let bearer = format!("Bearer {}", token.expose());
        let (session, token) = (Presented::Credential(session), Presented::Credential(token));
        let signed = "x-goog-iap-jwt-assertion".parse::<HeaderName>().expect("a name");
        let asserted = || Presented::Assertion("a.b.c".to_owned());
        let (c, b, a) =
            (("cookie", &*cookie), ("authorization", &*bearer), ("x-goog-iap-jwt-assertion", "a.b.c"));
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool, Presented);
        let cases: &[Case<'_>] = &[
            ("/", &[], false, Presented::Nothing),
            ("/", &[c], false, session.clone()),
            ("/api/x", &[c], false, session.clone()),
            ("/api/x", &[b], false, token.clone()),
            ("/api/x", &[b, c], false, token.clone()),
            // A bearer token opens no page.
            ("/", &[b], false, Presented::Nothing),
            ("/", &[b, c], false, session.clone()),
            ("/apix", &[b], false, Presented::Nothing),
            ("/api/x", &[("authorization", "Bearer nonsense"), c], false, Presented::Unusable),
            ("/api/x", &[("authorization", "Bearer"), c], false, Presented::Unusable),
            ("/api/x", &[("authorization", "Basic YTpi"), c], false, session.clone()),
            ("/", &[("cookie", &both)], false, Presented::Unusable),
            ("/", &[("cookie", "__Host-desk=short")], false, Presented::Unusable),
            ("/", &[("cookie", "__host-desk=x")], false, Presented::Nothing),
            // Signed headers: nothing else counts, and the header counts nowhere else.
            ("/", &[a], true, asserted()),
            ("/", &[a, c], true, asserted()),
            ("/", &[c], true, Presented::Nothing),
            ("/api/x", &[c], true, Presented::Nothing),
            ("/api/x", &[b, c], true, token.clone()),
            ("/api/x", &[("authorization", "Bearer a.proxy.s-own"), a], true, asserted()),
            ("/api/x", &[("authorization", "Bearer a.proxy.s-own"), c], true, Presented::Nothing),
            ("/", &[a, a], true, Presented::Unusable),
            ("/", &[a], false, Presented::Nothing),
        ];
        for (path, pairs, by_header, expected) in cases {
            let found = presented(path, &headers(pairs), by_header.then_some(&signed));
            assert_eq!(found, *expected, "{path} {pairs:?} {by_header}");
        }
    }

    #[test]
    fn only_a_bearer_of_the_api_is_exempt() {
        let token = Credential::new(Kind::Token, &Rng::seeded(2));
        let bearer = headers(&[("authorization", &format!("bearer {}", token.expose()))]);
        assert!(is_bearer("/api/grey-queue", &bearer));
        assert!(!is_bearer("/queue", &bearer) && !is_bearer("/api/grey-queue", &headers(&[])));
        for other in ["Bearer x", "Basic YTpi", token.expose()] {
            assert!(!is_bearer("/api/grey-queue", &headers(&[("authorization", other)])), "{other}");
        }
    }
}
