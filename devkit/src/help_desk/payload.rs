//! A request's body as fields and files, from JSON or from `multipart/form-data`.
//!
//! In a form every value is text, so fields are read leniently there ([`Payload::is_form`]) and strictly in JSON. Documented:
//! both formats, files only in a form and only as `attachments` (knowledge base, article 1039). Form-urlencoded, which older
//! articles name as well, and lists of up to 100 tickets in one request are not spoken here.

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// The part that files come in.
const ATTACHMENTS: &str = "attachments";

/// A file of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name as the request had it.
    pub name: String,
    /// The content type of its part; none where the part had none.
    pub content_type: Option<String>,
    /// Its content.
    pub bytes: Bytes,
}

/// A request's fields and files.
#[derive(Debug, Default)]
pub(super) struct Payload {
    /// Fields by name; each is text where `is_form`.
    pub(super) fields: Map<String, Value>,
    /// In the order of the request.
    pub(super) files: Vec<File>,
    /// Whether it came as a form.
    pub(super) is_form: bool,
}

impl Payload {
    /// Reads a body.
    pub(super) async fn read(headers: &HeaderMap, body: Bytes) -> Result<Self, Refusal> {
        let content_type =
            headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media_type.as_str() {
            "application/json" => Self::from_json(&body),
            "multipart/form-data" => {
                let boundary = multer::parse_boundary(content_type)
                    .map_err(|error| Refusal::whole(400, &format!("multipart/form-data: {error}")))?;
                Self::from_form(boundary, body).await
            }
            _ => Err(Refusal::whole(415, "JSON or multipart/form-data, please")),
        }
    }

    fn from_json(body: &[u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self { fields, ..Self::default() }),
            Ok(Value::Array(_)) => Err(Refusal::whole(400, "this stand-in makes one ticket a request")),
            Ok(_) => Err(Refusal::whole(400, "not a JSON object")),
            Err(error) => Err(Refusal::whole(400, &format!("not JSON: {error}"))),
        }
    }

    async fn from_form(boundary: String, body: Bytes) -> Result<Self, Refusal> {
        let broken = |error: multer::Error| Refusal::whole(400, &format!("multipart/form-data: {error}"));
        let whole = futures::stream::once(std::future::ready(Ok::<_, std::convert::Infallible>(body)));
        let mut form = multer::Multipart::new(whole, boundary);
        let mut payload = Self { is_form: true, ..Self::default() };
        while let Some(part) = form.next_field().await.map_err(broken)? {
            let Some(name) = part.name().map(str::to_owned) else {
                return Err(Refusal::whole(400, "a part without a name"));
            };
            if let Some(file) = part.file_name().map(str::to_owned) {
                if name != ATTACHMENTS || file.is_empty() {
                    return Err(Refusal::of_field(&name, "files come as attachments, and with names"));
                }
                let content_type = part.content_type().map(ToString::to_string);
                let bytes = part.bytes().await.map_err(broken)?;
                payload.files.push(File { name: file, content_type, bytes });
                continue;
            }
            if name == ATTACHMENTS {
                return Err(Refusal::of_field(
                    &name,
                    "No file was submitted. Check the encoding type on the form.",
                ));
            }
            let bytes = part.bytes().await.map_err(broken)?;
            let Ok(text) = String::from_utf8(bytes.to_vec()) else {
                return Err(Refusal::of_field(&name, "not UTF-8"));
            };
            if payload.fields.insert(name.clone(), Value::String(text)).is_some() {
                return Err(Refusal::of_field(&name, "given twice"));
            }
        }
        Ok(payload)
    }

    /// The text of a field; none where there is no such field, it is null, or it is another thing than text.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// The tags of the request, before anything is judged.
    pub(super) fn tags(&self) -> Vec<String> {
        split(self.text("tags").unwrap_or_default())
    }
}

/// The entries of a list separated by commas; blank ones do not count.
pub(super) fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(content_type: &str, body: &str) -> Result<Payload, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        Payload::read(&headers, Bytes::copy_from_slice(body.as_bytes())).await
    }

    #[tokio::test]
    async fn json_is_an_object() {
        let payload = read("application/json; charset=utf-8", r#"{"tags": " a ,,b"}"#).await.unwrap();
        assert_eq!((payload.tags(), payload.is_form), (vec!["a".to_owned(), "b".to_owned()], false));
        for body in ["[{}]", "7", "{\"a\":", ""] {
            assert_eq!(read("application/json", body).await.unwrap_err().status, 400, "{body}");
        }
        assert_eq!(read("application/x-www-form-urlencoded", "a=b").await.unwrap_err().status, 415);
        assert_eq!(read("text/plain", "{}").await.unwrap_err().status, 415);
    }

    #[tokio::test]
    async fn a_form_has_texts_and_files() {
        let form = "--x\r\nContent-Disposition: form-data; name=\"subject\"\r\n\r\nGrüße\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"attachments\"; filename=\"a.pdf\"\r\n\
                    Content-Type: application/pdf\r\n\r\n%PDF\r\n-\r\n--x--\r\n";
        let payload = read("multipart/form-data; boundary=x", form).await.unwrap();
        assert_eq!((payload.text("subject"), payload.is_form), (Some("Grüße"), true));
        let file = File {
            name: "a.pdf".to_owned(),
            content_type: Some("application/pdf".to_owned()),
            bytes: Bytes::from_static(b"%PDF\r\n-"),
        };
        assert_eq!(payload.files, [file]);
    }

    #[tokio::test]
    async fn a_careless_form_is_refused() {
        let part = |head: &str| format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\nv\r\n");
        let cases = [
            ("multipart/form-data", String::new()),
            ("multipart/form-data; boundary=x", "no parts".to_owned()),
            ("multipart/form-data; boundary=x", part("name=\"a\"")),
            ("multipart/form-data; boundary=x", part("filename=\"a\"") + "--x--\r\n"),
            ("multipart/form-data; boundary=x", part("name=\"file\"; filename=\"a\"") + "--x--\r\n"),
            ("multipart/form-data; boundary=x", part("name=\"attachments\"") + "--x--\r\n"),
            ("multipart/form-data; boundary=x", part("name=\"a\"") + &part("name=\"a\"") + "--x--\r\n"),
        ];
        for (content_type, body) in cases {
            let refused = read(content_type, &body).await.expect_err(&body);
            assert_eq!(refused.status, 400, "{body}");
        }
    }
}
