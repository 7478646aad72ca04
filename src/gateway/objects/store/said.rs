//! What the store's two APIs say: XML documents and JSON resources, read strictly. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::Permission;
use super::fault::Finding;

/// A part that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 1.
    pub number: u32,
    /// What a completion names it by; without quotes.
    pub etag: String,
    /// Its length in bytes.
    pub size: u64,
}

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Number of its generation; each write makes another.
    pub generation: i64,
    /// Its length in bytes, as stored.
    pub length: u64,
    /// CRC-32C of its bytes.
    pub crc32c: u32,
}

/// An XML document whose root has this name.
pub(super) fn document<T: DeserializeOwned>(body: &[u8], root: &str) -> Option<T> {
    let text = std::str::from_utf8(body).ok()?;
    (root_of(text)? == root).then(|| quick_xml::de::from_str(text).ok())?
}

/// The name of a document's root, where the whole document is well-formed.
fn root_of(text: &str) -> Option<String> {
    let mut reader = Reader::from_str(text);
    let (mut root, mut depth) = (None, 0_u32);
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) => {
                depth += 1;
                root = root.or_else(|| Some(tag.local_name().as_ref().to_owned()));
            }
            Event::End(_) => depth = depth.checked_sub(1)?,
            Event::Empty(tag) if root.is_none() => {
                root = Some(tag.local_name().as_ref().to_owned());
            }
            Event::Eof => return root.filter(|_| depth == 0),
            Event::Empty(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => {}
        }
    }
}

/// The answer to an initiation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Initiated {
    pub(super) upload_id: String,
}

/// A page of parts.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PartsPage {
    #[serde(default)]
    pub(super) is_truncated: bool,
    pub(super) next_part_number_marker: Option<u32>,
    #[serde(rename = "Part", default)]
    parts: Vec<SaidPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SaidPart {
    part_number: u32,
    #[serde(rename = "ETag")]
    etag: String,
    size: u64,
}

impl PartsPage {
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        self.parts.into_iter().map(|part| Part {
            number: part.part_number,
            etag: part.etag.trim_matches('"').to_owned(),
            size: part.size,
        })
    }
}

/// The list of parts that a completion names.
pub(super) fn completion(parts: &[(u32, String)]) -> String {
    let part = |(number, etag): &(u32, String)| {
        let etag = quick_xml::escape::escape(etag.as_str());
        format!("<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

/// What a completion answers: an object, or an error that was found after the answer had begun. `None`: neither.
pub(super) fn completed(body: &[u8]) -> Option<Result<(), Finding>> {
    let root = std::str::from_utf8(body).ok().and_then(root_of)?;
    match root.as_str() {
        "CompleteMultipartUploadResult" => Some(Ok(())),
        "Error" => Some(Err(refusal(200, body))),
        _ => None,
    }
}

/// An object's resource of the JSON API. Numbers come as text.
#[derive(Deserialize)]
pub(super) struct Resource {
    generation: String,
    size: String,
    crc32c: String,
}

impl Resource {
    pub(super) fn stat(&self) -> Option<Stat> {
        let crc32c: [u8; 4] = BASE64.decode(&self.crc32c).ok()?.try_into().ok()?;
        Some(Stat {
            generation: self.generation.parse().ok()?,
            length: self.size.parse().ok()?,
            crc32c: u32::from_be_bytes(crc32c),
        })
    }
}

/// One round of a rewrite.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Round {
    pub(super) done: bool,
    pub(super) rewrite_token: Option<String>,
    pub(super) resource: Option<Resource>,
}

#[derive(Deserialize)]
#[serde(rename = "Error", rename_all = "PascalCase")]
struct XmlError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: String,
}

#[derive(Deserialize)]
struct JsonRefusal {
    error: JsonError,
}

#[derive(Deserialize)]
struct JsonError {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<JsonReason>,
}

#[derive(Deserialize)]
struct JsonReason {
    #[serde(default)]
    reason: String,
}

/// What a refusal of either API says. The JSON API has one reason for a missing bucket and a missing object, and tells them
/// apart in its message alone.
pub(super) fn refusal(status: u16, body: &[u8]) -> Finding {
    let (word, text) = if let Some(said) = document::<XmlError>(body, "Error") {
        (said.code, format!("{} {}", said.message, said.details))
    } else if let Ok(JsonRefusal { error }) = serde_json::from_slice(body) {
        let reason = error.errors.into_iter().next().map(|first| first.reason).unwrap_or_default();
        let bucket = status == 404 && error.message.contains("bucket does not exist");
        (if bucket { "NoSuchBucket".to_owned() } else { reason }, error.message)
    } else {
        Default::default()
    };
    Finding::Answer { status, word, permission: Permission::told(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: &str = "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'";

    #[test]
    fn documents_are_read_by_their_root() {
        let page = format!(
            "<?xml version='1.0' encoding='UTF-8'?>\n<ListPartsResult {NS}><Bucket>b</Bucket><IsTruncated>true\
             </IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker><Part><PartNumber>1</PartNumber>\
             <LastModified>x</LastModified><ETag>\"a\"</ETag><Size>5</Size></Part><Part><PartNumber>2</PartNumber>\
             <ETag>&quot;b&amp;&quot;</ETag><Size>0</Size></Part></ListPartsResult>"
        );
        let read: PartsPage = document(page.as_bytes(), "ListPartsResult").unwrap();
        assert_eq!((read.is_truncated, read.next_part_number_marker), (true, Some(2)));
        let parts: Vec<Part> = read.parts().collect();
        let expected = [(1, "a", 5), (2, "b&", 0)].map(|(number, etag, size)| Part {
            number,
            etag: etag.to_owned(),
            size,
        });
        assert_eq!(parts, expected);
        let empty = format!("<ListPartsResult {NS}><IsTruncated>false</IsTruncated></ListPartsResult>");
        let empty: PartsPage = document(empty.as_bytes(), "ListPartsResult").unwrap();
        assert_eq!(empty.parts().count(), 0);
        for bad in [
            page.replace("ListPartsResult", "Other"),
            page.replace("</ListPartsResult>", ""),
            page.replace("<Size>0", "<Size>many"),
            page.replace("<PartNumber>2</PartNumber>", ""),
            String::new(),
            "<html>".to_owned(),
        ] {
            assert!(document::<PartsPage>(bad.as_bytes(), "ListPartsResult").is_none(), "{bad}");
        }
        let begun = format!(
            "<InitiateMultipartUploadResult {NS}><UploadId>AB-c_</UploadId></InitiateMultipartUploadResult>"
        );
        let begun: Initiated = document(begun.as_bytes(), "InitiateMultipartUploadResult").unwrap();
        assert_eq!(begun.upload_id, "AB-c_");
    }

    #[test]
    fn a_completion_may_be_an_error_inside() {
        let error = |word: &str| Finding::Answer { status: 200, word: word.to_owned(), permission: None };
        for (body, expected) in [
            (
                format!("<CompleteMultipartUploadResult {NS}><ETag>x</ETag></CompleteMultipartUploadResult>"),
                Some(Ok(())),
            ),
            ("  \n<Error><Code>InternalError</Code></Error>".to_owned(), Some(Err(error("InternalError")))),
            ("<Error/>".to_owned(), Some(Err(error("")))),
            ("<CompleteMultipartUploadResult>".to_owned(), None),
            ("<Other/>".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(completed(body.as_bytes()), expected, "{body}");
        }
        let list = completion(&[(1, "a".to_owned()), (2, "<&\"".to_owned())]);
        assert!(list.contains("<PartNumber>2</PartNumber><ETag>\"&lt;&amp;&quot;\"</ETag>"), "{list}");
    }

    #[test]
    fn refusals_keep_a_word_and_a_permission() {
        let json = |reason: &str, message: &str| {
            serde_json::json!({"error": {"code": 1, "message": message, "errors": [{"reason": reason}]}})
                .to_string()
        };
        let xml = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access denied.</Message><Details>a@b \
                   does not have storage.multipartUploads.create access.</Details></Error>";
        for (status, body, word, permission) in [
            (403, xml.to_owned(), "AccessDenied", Some(Permission::CreateUpload)),
            (
                403,
                json("forbidden", "a@b does not have storage.objects.get access"),
                "forbidden",
                Some(Permission::Get),
            ),
            (404, json("notFound", "The specified bucket does not exist."), "NoSuchBucket", None),
            (404, json("notFound", "No such object: bucket/o"), "notFound", None),
            (502, "<html>Bad gateway</html>".to_owned(), "", None),
            (500, String::new(), "", None),
        ] {
            let expected = Finding::Answer { status, word: word.to_owned(), permission };
            assert_eq!(refusal(status, body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn a_resource_is_whole_or_nothing() {
        let resource = |generation: &str, size: &str, crc32c: &str| {
            Resource { generation: generation.to_owned(), size: size.to_owned(), crc32c: crc32c.to_owned() }
                .stat()
        };
        let stat = Stat { generation: 17, length: 32, crc32c: 0x8a91_36aa };
        assert_eq!(resource("17", "32", "ipE2qg=="), Some(stat));
        for (generation, size, crc32c) in
            [("x", "32", "ipE2qg=="), ("17", "-1", "ipE2qg=="), ("17", "32", "ipE2")]
        {
            assert_eq!(resource(generation, size, crc32c), None);
        }
    }
}
