//! What makes a second request of the desk the same as the first. Pure; the keys are everybody's
//! ([`web::idempotency`](crate::web::idempotency)), the statements in [`store::idempotency`](super::store::idempotency).

use axum::http::Method;

use super::access::credential::{DeskKey, KeyedDigest};

/// The digest of a request: method, path and content. Keyed, because a content has what people wrote.
#[must_use]
pub fn request(key: &DeskKey, method: &Method, path: &str, content: &[u8]) -> KeyedDigest {
    let head = format!("{method} {path}\n");
    key.signed("request", &[head.as_bytes(), content].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_method_its_path_and_its_content() {
        let key = DeskKey::new("0123456789abcdef0123456789abcdef").expect("a key");
        let of = |method: &Method, path: &str, content: &str| request(&key, method, path, content.as_bytes());
        let one = of(&Method::POST, "/a", "{}");
        assert_eq!(one, of(&Method::POST, "/a", "{}"));
        for other in
            [of(&Method::PUT, "/a", "{}"), of(&Method::POST, "/b", "{}"), of(&Method::POST, "/a", "{ }")]
        {
            assert_ne!(one, other);
        }
    }
}
