//! The version that somebody saw: `ETag` on the way out, `If-Match`, `If-None-Match` or a member `version` on the way in. Pure.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::desk::problem::Problem;

/// The version that a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// The version; no entry's where the tag is none of ours.
    pub(super) version: i64,
    /// Whether `If-Match` said so: then a stale one is answered with 412, else with 409.
    pub(super) by_header: bool,
}

/// A version that no entry has.
const NEVER: i64 = 0;

/// The tag of a version.
pub(super) fn etag(version: i64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Returns the version that a request is about.
///
/// # Errors
/// [`Problem`] 428: it says none; 400: it says two, or something that is no tag.
pub(super) fn seen(headers: &HeaderMap, body: Option<i64>) -> Result<Seen, Problem> {
    let header = match tags(headers, &header::IF_MATCH)? {
        None => None,
        Some(Tags::Any) => {
            return Err(Problem::bad_request("If-Match: * does not say which version was seen."));
        }
        Some(Tags::These(tags)) => match tags.as_slice() {
            [tag] => Some(tag.strong()),
            _ => {
                return Err(Problem::bad_request(
                    "If-Match has several tags: name the version that was seen.",
                ));
            }
        },
    };
    match (header, body) {
        (Some(header), Some(body)) if header != body => {
            Err(Problem::bad_request("If-Match and version differ: send the one that was seen."))
        }
        (Some(version), _) => Ok(Seen { version, by_header: true }),
        (None, Some(version)) => Ok(Seen { version, by_header: false }),
        (None, None) => Err(Problem::precondition_required()),
    }
}

/// Whether `If-None-Match` has the tag of this version, so that nothing need be sent.
///
/// # Errors
/// [`Problem`] 400: it is no list of tags.
pub(super) fn is_known(headers: &HeaderMap, version: i64) -> Result<bool, Problem> {
    Ok(match tags(headers, &header::IF_NONE_MATCH)? {
        None => false,
        Some(Tags::Any) => true,
        Some(Tags::These(tags)) => tags.iter().any(|tag| tag.version == version),
    })
}

enum Tags {
    Any,
    These(Vec<Tag>),
}

struct Tag {
    version: i64,
    weak: bool,
}

impl Tag {
    /// `If-Match` compares strongly: a weak tag matches nothing.
    fn strong(&self) -> i64 {
        if self.weak { NEVER } else { self.version }
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let refused = || Problem::bad_request(format!("{name} is no list of tags, such as \"7\"."));
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| refused())?.trim();
        if text == "*" {
            return Ok(Some(Tags::Any));
        }
        for tag in text.split(',').map(str::trim) {
            let (weak, opaque) = tag.strip_prefix("W/").map_or((false, tag), |opaque| (true, opaque));
            let inner = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let inner = inner.filter(|inner| !inner.contains('"')).ok_or_else(refused)?;
            all.push(Tag { version: number(inner).unwrap_or(NEVER), weak });
        }
    }
    Ok((!all.is_empty()).then_some(Tags::These(all)))
}

/// A version as we write it: `7`, and neither `+7` nor `07`.
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|version: &i64| version.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::problem::Kind;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
    }

    #[test]
    fn the_version_seen_is_said_by_header_or_by_content_and_by_one_voice() {
        let header =
            |value: &str, body| seen(&with(header::IF_MATCH, value), body).map_err(|problem| problem.kind());
        assert_eq!(header("\"7\"", None), Ok(Seen { version: 7, by_header: true }));
        assert_eq!(header("\"7\"", Some(7)), Ok(Seen { version: 7, by_header: true }));
        assert_eq!(header("\"7\"", Some(8)), Err(Kind::BadRequest));
        for never in ["W/\"7\"", "\"abc\"", "\"07\"", "\"+7\"", "\"\""] {
            assert_eq!(header(never, None), Ok(Seen { version: NEVER, by_header: true }), "{never}");
        }
        for bad in ["*", "7", "\"7\", \"8\"", "\"7", "", "\"a\"b\""] {
            assert_eq!(header(bad, None), Err(Kind::BadRequest), "{bad}");
        }
        let none = |body| seen(&HeaderMap::new(), body).map_err(|problem| problem.kind());
        assert_eq!(none(Some(7)), Ok(Seen { version: 7, by_header: false }));
        assert_eq!(none(None), Err(Kind::PreconditionRequired));
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        let known = |value: &str| is_known(&with(header::IF_NONE_MATCH, value), 7).ok();
        for yes in ["\"7\"", "W/\"7\"", "*", "\"6\", \"7\""] {
            assert_eq!(known(yes), Some(true), "{yes}");
        }
        for no in ["\"6\"", "\"77\"", "\"x\""] {
            assert_eq!(known(no), Some(false), "{no}");
        }
        assert_eq!(known("7"), None);
        assert_eq!(is_known(&HeaderMap::new(), 7), Ok(false));
        assert_eq!(etag(7), "\"7\"");
    }
}
