//! Paths and queries as the service reads them: a plus sign is a plus sign, and only RFC 3986's unreserved characters stay
//! as they are. Pure.

/// `name=value` pairs, decoded. A plus sign is a plus sign: this is a URI, not a form.
pub(super) fn decoded_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (text(name), text(value))
        })
        .collect()
}

/// Undoes percent-encoding, and reads the rest as UTF-8.
pub(super) fn text(part: &str) -> String {
    String::from_utf8_lossy(&decode(part)).into_owned()
}

/// Undoes percent-encoding; a stray `%` stays.
pub(super) fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex_digits = bytes.get(at + 1..at + 3).and_then(|pair| hex::decode(pair).ok());
        match (bytes[at], hex_digits) {
            (b'%', Some(byte)) => {
                decoded.extend(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// Percent-encodes all but the unreserved characters (and `/` in paths).
pub(super) fn encode(bytes: &[u8], keep_slash: bool) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slash && byte == b'/') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}
