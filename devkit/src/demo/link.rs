//! A link out of a captured mail, followed as its reader would: with its signature, and without.

use anyhow::{Context, Result};

use crate::smtp::Mail;

/// Part of a URL that makes it a signed one.
const SIGNATURE: &str = "X-Goog-Signature=";

/// The signed links in a mail's text, as a mail reader shows it.
pub(super) fn signed_links(mail: &Mail) -> Vec<String> {
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw);
    let text = parsed.as_ref().and_then(|parsed| parsed.body_text(0)).unwrap_or_default();
    text.split_whitespace().filter(|word| word.contains(SIGNATURE)).map(str::to_owned).collect()
}

/// Answer to a GET.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Fetches a URL over plain HTTP, past any proxy.
///
/// # Errors
/// The server does not answer.
pub(super) async fn fetch(url: &str) -> Result<Fetched> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(url).send().await.context("fetching a link out of a mail")?;
    let status = answer.status().as_u16();
    Ok(Fetched { status, body: answer.bytes().await?.to_vec() })
}

/// The same object without any signature.
pub(super) fn unsigned(url: &str) -> &str {
    url.split_once('?').map_or(url, |(object, _)| object)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn links_are_found_in_whatever_way_the_text_is_encoded() {
        let url = "http://127.0.0.1:1/b/o?X-Goog-Expires=60&X-Goog-Signature=ab12";
        let quoted = format!(
            "text =C3=A9\r\n{}=\r\n{}\r\n",
            &url.replace('=', "=3D")[..30],
            &url.replace('=', "=3D")[30..]
        );
        for (encoding, body) in [("7bit", format!("see\r\n  {url}\r\n")), ("quoted-printable", quoted)] {
            let raw = format!(
                "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Transfer-Encoding: {encoding}\r\n\r\n{body}"
            );
            let mail = Mail {
                queue_id: String::new(),
                from: String::new(),
                recipients: Vec::new(),
                raw: raw.into_bytes(),
                message_id: None,
                submission_id: None,
                connection: 1,
                at: SystemTime::UNIX_EPOCH,
            };
            assert_eq!(signed_links(&mail), [url], "{encoding}");
        }
        assert_eq!(unsigned(url), "http://127.0.0.1:1/b/o");
    }
}
