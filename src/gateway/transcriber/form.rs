//! The request's form: a few fields and one file. Pure.

use sha2::{Digest as _, Sha256};

use super::Audio;

/// Digits of a boundary.
const BOUNDARY_DIGITS: usize = 40;
/// Formats that a transcriber takes: content types and the ending by which it tells them.
const FORMATS: [(&str, &str); 15] = [
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/m4a", "m4a"),
    ("audio/x-m4a", "m4a"),
    ("audio/wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/vnd.wave", "wav"),
    ("audio/webm", "webm"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "ogg"),
    ("audio/flac", "flac"),
    ("audio/x-flac", "flac"),
    ("audio/mpga", "mpga"),
];

/// The ending of a recording's format, by its content type; by the ending of its path where the type says no more than that it
/// is sound, or bytes.
pub(super) fn ending(content_type: &str, path: &str) -> Option<&'static str> {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = FORMATS.iter().find(|(name, _)| *name == media).map(|(_, ending)| *ending);
    let by_path = || {
        let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
        FORMATS.iter().map(|(_, known)| *known).find(|known| ending.eq_ignore_ascii_case(known))
    };
    let is_bytes = media == "application/octet-stream" || media.starts_with("audio/");
    known.or_else(|| is_bytes.then(by_path).flatten())
}

/// The body of `multipart/form-data`, and its content type. The boundary is made of the recording's digest: nobody can write a
/// recording that contains its own.
pub(super) fn form(fields: &[(&str, &str)], audio: &Audio) -> (String, Vec<u8>) {
    let mut boundary = hex::encode(Sha256::digest(&audio.bytes));
    boundary.truncate(BOUNDARY_DIGITS);
    let mut body = Vec::with_capacity(audio.bytes.len() + 2048);
    for (name, value) in fields {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let file = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"audio.{}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n",
        audio.ending
    );
    body.extend_from_slice(file.as_bytes());
    body.extend_from_slice(&audio.bytes);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_type_and_then_by_path() {
        for (media, path, expected) in [
            ("audio/mpeg", "/a", Some("mp3")),
            ("Audio/WebM; codecs=opus", "/a.mp3", Some("webm")),
            ("application/octet-stream", "/a/b.MP3", Some("mp3")),
            ("audio/unheard-of", "/b.ogg", Some("ogg")),
            ("application/octet-stream", "/b", None),
            ("application/octet-stream", "/b.exe", None),
            ("application/octet-stream", "/b.", None),
            ("text/html", "/b.mp3", None),
            ("video/webm", "/b.webm", None),
            ("", "/b.mp3", None),
        ] {
            assert_eq!(ending(media, path), expected, "{media} {path}");
        }
    }

    #[test]
    fn a_form_is_its_fields_and_the_file() {
        let audio = Audio { bytes: b"ID3\r\n--x".to_vec(), ending: "mp3" };
        let (media, body) = form(&[("model", "m")], &audio);
        let boundary = media.strip_prefix("multipart/form-data; boundary=").expect("a boundary");
        assert_eq!(boundary.len(), BOUNDARY_DIGITS);
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"audio.mp3\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nID3\r\n--x\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8_lossy(&body), expected);
    }
}
