//! Names under which a surface is asked for. A request under another one is a proxy's mistake, or comes by a name that was made to
//! lead here (DNS rebinding). Pure.

use axum::extract::Request;
use axum::http::header;
use url::Url;

use super::headers::text;

/// The `Host` of a request to an address, with and without a default port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The names of an address; `None` where it has none.
    #[must_use]
    pub fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?.to_owned();
        let default = url.port_or_known_default()?;
        Some(Self(match url.port() {
            Some(port) => vec![format!("{host}:{port}")],
            None => vec![format!("{host}:{default}"), host],
        }))
    }

    /// Whether a request that names these hosts is ours: not without any, nor with one that is not ours beside ours.
    pub fn are<'a>(&self, asked: impl IntoIterator<Item = &'a str>) -> bool {
        let mut hosts = asked.into_iter().peekable();
        let some = hosts.peek().is_some();
        let ours = |host: &str| self.0.iter().any(|known| known.eq_ignore_ascii_case(host));
        some && hosts.all(ours)
    }
}

/// The hosts that a request names: the values of `Host`, and the authority of an absolute target.
#[must_use]
pub fn asked(request: &Request) -> Vec<String> {
    let target = request.uri().authority().map(|authority| authority.as_str().to_owned());
    request.headers().get_all(header::HOST).iter().map(text).chain(target).collect()
}
