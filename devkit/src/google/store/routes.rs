//! What a request asks for, read from its method, path and query. Pure.

use axum::http::{Method, Uri};

use super::rules::Call;
use super::uri;

/// Which of the two APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Xml,
    Json,
}

/// A request's address, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) api: Api,
    pub(super) call: Call,
    pub(super) bucket: String,
    /// Empty where a bucket is asked for.
    pub(super) object: String,
    /// Bucket and object that a rewrite leads to.
    pub(super) to: Option<(String, String)>,
    /// The store's own `host:port`, which addresses in answers lead back to: clients leave the port out of `Host`.
    pub(super) host: String,
    query: Vec<(String, String)>,
}

impl Asked {
    pub(super) fn of(method: &Method, uri: &Uri, host: String) -> Self {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let of_json = ["/storage/v1/", "/upload/storage/", "/download/storage/"];
        let query = if of_json.iter().any(|prefix| path.starts_with(prefix)) {
            // Here a plus sign is a space, as Google's Rust client writes it.
            uri::decoded_query(&query.replace('+', "%20"))
        } else {
            uri::decoded_query(query)
        };
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let has = |name: &str| query.iter().any(|(known, _)| known == name);
        let json = |call, bucket: &str, object: &str| (Api::Json, call, uri::text(bucket), uri::text(object));
        let mut to = None;
        let (api, call, bucket, object) = match segments.as_slice() {
            ["storage", "v1", "b", bucket] if method == Method::GET => json(Call::Bucket, bucket, ""),
            ["storage", "v1", "b", bucket, "iam", "testPermissions"] if method == Method::GET => {
                json(Call::Permissions, bucket, "")
            }
            ["storage", "v1", "b", bucket, "o"] if method == Method::GET => json(Call::List, bucket, ""),
            ["upload", "storage", "v1", "b", bucket, "o"] => {
                let named = query.iter().find(|(name, _)| name == "name");
                let known = [Method::POST, Method::PUT, Method::DELETE].contains(method);
                let call = if known { Call::Write } else { Call::Unknown };
                (Api::Json, call, uri::text(bucket), named.map(|(_, name)| name.clone()).unwrap_or_default())
            }
            ["storage" | "download", "storage" | "v1", ..] if of_object(&segments).is_some() => {
                let (bucket, object) = of_object(&segments).unwrap_or_default();
                let media = query.iter().any(|(name, value)| name == "alt" && value == "media");
                let call = match *method {
                    Method::GET if media => Call::Read,
                    Method::GET => Call::Metadata,
                    Method::DELETE => Call::Delete,
                    _ => Call::Unknown,
                };
                json(call, bucket, object)
            }
            ["storage", "v1", "b", bucket, "o", object, "rewriteTo", "b", bucket_to, "o", object_to]
                if method == Method::POST =>
            {
                to = Some((uri::text(bucket_to), uri::text(object_to)));
                json(Call::Rewrite, bucket, object)
            }
            ["storage" | "upload" | "download", ..] => json(Call::Unknown, "", ""),
            _ => {
                let path = uri::text(path);
                let path = path.strip_prefix('/').unwrap_or(&path);
                let (bucket, object) = path.split_once('/').unwrap_or((path, ""));
                let call = of_xml(method, object.is_empty(), has);
                (Api::Xml, call, bucket.to_owned(), object.to_owned())
            }
        };
        Self { api, call, bucket, object, to, host, query }
    }

    /// All values of a parameter.
    pub(super) fn params(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter's value.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The part's number, where one of those that may be is given.
    pub(super) fn part(&self) -> Option<u16> {
        self.param("partNumber")?.parse().ok().filter(|number| (1..=10_000).contains(number))
    }
}

/// Bucket and object of `[download/]storage/v1/b/B/o/O`.
fn of_object<'a>(segments: &[&'a str]) -> Option<(&'a str, &'a str)> {
    match segments.strip_prefix(&["download"]).unwrap_or(segments) {
        ["storage", "v1", "b", bucket, "o", object] => Some((bucket, object)),
        _ => None,
    }
}

fn of_xml(method: &Method, bucket: bool, has: impl Fn(&str) -> bool) -> Call {
    let upload = has("uploadId");
    match *method {
        Method::OPTIONS => Call::Preflight,
        Method::GET if bucket && has("uploads") => Call::ListUploads,
        _ if bucket => Call::Unknown,
        Method::GET if upload => Call::ListParts,
        Method::GET | Method::HEAD => Call::Read,
        Method::PUT if upload => Call::Part,
        Method::PUT => Call::Write,
        Method::POST if upload => Call::Complete,
        Method::POST if has("uploads") => Call::Initiate,
        Method::DELETE if upload => Call::Abort,
        Method::DELETE => Call::Delete,
        _ => Call::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_its_address_says() {
        let read = |method: Method, uri: &str| {
            let asked = Asked::of(&method, &uri.parse().unwrap(), String::new());
            (asked.api, asked.call, asked.bucket, asked.object)
        };
        let (b, o) = ("b".to_owned(), "a/o o".to_owned());
        for (method, uri, api, call) in [
            (Method::GET, "/b/a/o%20o", Api::Xml, Call::Read),
            (Method::HEAD, "/b/a/o%20o", Api::Xml, Call::Read),
            (Method::PUT, "/b/a/o%20o", Api::Xml, Call::Write),
            (Method::POST, "/b/a/o%20o?uploads", Api::Xml, Call::Initiate),
            (Method::POST, "/b/a/o%20o?uploads=", Api::Xml, Call::Initiate),
            (Method::PUT, "/b/a/o%20o?partNumber=1&uploadId=x", Api::Xml, Call::Part),
            (Method::GET, "/b/a/o%20o?uploadId=x", Api::Xml, Call::ListParts),
            (Method::POST, "/b/a/o%20o?uploadId=x", Api::Xml, Call::Complete),
            (Method::DELETE, "/b/a/o%20o?uploadId=x", Api::Xml, Call::Abort),
            (Method::DELETE, "/b/a/o%20o", Api::Xml, Call::Delete),
            (Method::OPTIONS, "/b/a/o%20o", Api::Xml, Call::Preflight),
            (Method::POST, "/b/a/o%20o", Api::Xml, Call::Unknown),
            (Method::GET, "/storage/v1/b/b/o/a%2Fo%20o", Api::Json, Call::Metadata),
            (Method::GET, "/storage/v1/b/b/o/a%2Fo%20o?alt=media", Api::Json, Call::Read),
            (Method::GET, "/download/storage/v1/b/b/o/a%2Fo%20o?alt=media", Api::Json, Call::Read),
            (Method::DELETE, "/storage/v1/b/b/o/a%2Fo%20o", Api::Json, Call::Delete),
            (Method::POST, "/storage/v1/b/b/o/a%2Fo%20o/rewriteTo/b/c/o/d", Api::Json, Call::Rewrite),
            (
                Method::POST,
                "/upload/storage/v1/b/b/o?uploadType=media&name=a%2Fo%20o",
                Api::Json,
                Call::Write,
            ),
        ] {
            assert_eq!(read(method, uri), (api, call, b.clone(), o.clone()), "{uri}");
        }
        let none = String::new();
        assert_eq!(read(Method::GET, "/b?uploads"), (Api::Xml, Call::ListUploads, b.clone(), none.clone()));
        assert_eq!(read(Method::GET, "/storage/v1/b/b/o"), (Api::Json, Call::List, b.clone(), none.clone()));
        assert_eq!(read(Method::GET, "/storage/v1/b/b"), (Api::Json, Call::Bucket, b, none));
        let asked =
            Asked::of(&Method::PUT, &"/b/o?partNumber=10001&uploadId=x".parse().unwrap(), String::new());
        assert_eq!((asked.part(), asked.param("uploadId")), (None, Some("x")));
    }
}
