//! The check of a transcription's form: every field is one that is known, there once, and of its kind.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use futures::stream;

use super::TRANSCRIBER;
use crate::judge::refusal::Refusal;

/// Endings of the formats that the API takes.
const ENDINGS: [&str; 9] = ["flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "ogg", "wav", "webm"];
/// Largest recording, in bytes.
pub(super) const LARGEST: usize = 25 * 1024 * 1024;

/// What a form asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Form {
    pub(super) file: Vec<u8>,
    /// `verbose_json` instead of `json`.
    pub(super) is_verbose: bool,
    granularities: Vec<String>,
}

/// Reads and checks a form.
///
/// # Errors
/// [`Refusal`], which names the field.
pub(super) async fn check(headers: &HeaderMap, body: Bytes) -> Result<Form, Refusal> {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(stated)
        .map_err(|_| Refusal::of(400, "The Content-Type must be multipart/form-data.", None))?;
    let broken = |_| Refusal::of(400, "We could not parse the form of your request.", None);
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let (mut form, mut seen) = (Form::default(), Vec::<String>::new());
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        let name = part.name().unwrap_or_default().to_owned();
        let file_name = part.file_name().map(str::to_owned);
        if name != "timestamp_granularities[]" && seen.contains(&name) {
            return Err(Refusal::wrong(&name, format!("'{name}' is there twice.")));
        }
        seen.push(name.clone());
        if name == "file" {
            form.file = part.bytes().await.map_err(broken)?.to_vec();
            file(&form.file, file_name.as_deref())?;
            continue;
        }
        let value = part.text().await.map_err(broken)?;
        field(&mut form, &name, &value)?;
    }
    for name in ["file", "model"] {
        if !seen.iter().any(|other| other == name) {
            return Err(Refusal::wrong(name, format!("Missing required parameter: '{name}'.")));
        }
    }
    if !form.granularities.is_empty() && !form.is_verbose {
        let words = "Timestamps are in response_format verbose_json alone.";
        return Err(Refusal::wrong("timestamp_granularities[]", words));
    }
    Ok(form)
}

fn file(bytes: &[u8], name: Option<&str>) -> Result<(), Refusal> {
    let ending = name.and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending.to_ascii_lowercase());
    if !ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
        return Err(Refusal::wrong("file", format!("Unrecognized file format. Supported: {ENDINGS:?}")));
    }
    if bytes.is_empty() {
        return Err(Refusal::wrong("file", "The file is empty."));
    }
    if bytes.len() > LARGEST {
        return Err(Refusal::of(413, "Maximum content size limit exceeded.", None));
    }
    Ok(())
}

fn field(form: &mut Form, name: &str, value: &str) -> Result<(), Refusal> {
    let is_right = match name {
        "model" if value == TRANSCRIBER => true,
        "model" => {
            let message = format!("The model does not exist; here is {TRANSCRIBER}.");
            let refusal = Refusal::of(404, message, Some("model_not_found"));
            return Err(Refusal { param: Some("model".to_owned()), ..refusal });
        }
        "response_format" => {
            form.is_verbose = value == "verbose_json";
            form.is_verbose || value == "json"
        }
        "temperature" => value.parse::<f64>().is_ok_and(|number| (0.0..=1.0).contains(&number)),
        "language" => value.len() == 2 && value.bytes().all(|b| b.is_ascii_lowercase()),
        "prompt" => true,
        "timestamp_granularities[]" => {
            form.granularities.push(value.to_owned());
            ["word", "segment"].contains(&value)
        }
        _ => {
            let message = format!("Unknown parameter: '{name}'.");
            return Err(Refusal::wrong(name, message).code("unknown_parameter"));
        }
    };
    if is_right { Ok(()) } else { Err(Refusal::wrong(name, format!("Invalid value for '{name}'."))) }
}

impl Form {
    /// Whether words have their times in the answer.
    pub(super) fn has_words(&self) -> bool {
        self.granularities.iter().any(|name| name == "word")
    }

    /// Whether segments are in the answer: the default of timestamps.
    pub(super) fn has_segments(&self) -> bool {
        self.granularities.is_empty() || self.granularities.iter().any(|name| name == "segment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn checked(fields: &[(&str, &str)], file: Option<(&str, &str)>) -> Result<Form, Refusal> {
        let mut body = String::new();
        for (name, value) in fields {
            body += &format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        }
        if let Some((name, bytes)) = file {
            body += &format!(
                "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{bytes}\r\n"
            );
        }
        body += "--b--\r\n";
        let mut headers = HeaderMap::new();
        let media = "multipart/form-data; boundary=b".parse().expect("a value");
        headers.insert(header::CONTENT_TYPE, media);
        check(&headers, Bytes::from(body)).await
    }

    #[tokio::test]
    async fn a_wrong_field_is_named() {
        let (model, file) = (("model", TRANSCRIBER), Some(("a.mp3", "x")));
        let verbose = ("response_format", "verbose_json");
        let word = ("timestamp_granularities[]", "word");
        for (fields, file, param) in [
            (vec![model], None, "file"),
            (vec![], file, "model"),
            (vec![("model", "whisper-1")], file, "model"),
            (vec![model, model], file, "model"),
            (vec![model], Some(("a.exe", "x")), "file"),
            (vec![model], Some(("mp3", "x")), "file"),
            (vec![model], Some(("a.mp3", "")), "file"),
            (vec![model, ("response_format", "xml")], file, "response_format"),
            (vec![model, ("temperature", "2")], file, "temperature"),
            (vec![model, ("language", "english")], file, "language"),
            (vec![model, ("wobble", "1")], file, "wobble"),
            (vec![model, word], file, "timestamp_granularities[]"),
            (
                vec![model, verbose, ("timestamp_granularities[]", "letter")],
                file,
                "timestamp_granularities[]",
            ),
        ] {
            let refused = checked(&fields, file).await.expect_err("refused");
            assert_eq!(refused.param.as_deref(), Some(param), "{fields:?}");
        }
        let form = checked(&[model, verbose, word], file).await.expect("a form");
        assert!(form.is_verbose && form.has_words() && !form.has_segments() && form.file == b"x");
        assert!(check(&HeaderMap::new(), Bytes::new()).await.is_err_and(|refused| refused.status == 400));
    }
}
