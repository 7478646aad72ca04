//! What may be asked for, and what follows. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::problem::{Kind, Problem};
use super::session::Session;
use crate::config::UploadRules;
use crate::scrub::is_bidi_control;

/// Shortest part, but for the last one.
const SHORTEST_PART: u64 = 8 << 20;
/// Parts of the longest file, about: the store takes ten times as many.
const PARTS: u64 = 1000;
/// A part's length is a multiple of this, so that a client's buffers are even.
const EVEN: u64 = 1 << 20;
/// Longest name of a file, in bytes: what file systems take.
const LONGEST_NAME: usize = 255;
/// Longest name of an owner or a form.
const LONGEST_WORD: usize = 256;

/// What the backend says of a file that is to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The form that the file is for.
    #[schema(min_length = 1, max_length = 256)]
    pub form_id: String,
    /// Whoever brings it, as the backend names them; limits and the look for the same file count by it.
    #[schema(min_length = 1, max_length = 256)]
    pub owner: String,
    /// The file's name, as its readers will see it.
    #[schema(min_length = 1, max_length = 255)]
    pub file_name: String,
    /// Media type, without parameters.
    pub content_type: String,
    /// Length in bytes.
    #[schema(minimum = 1)]
    pub length: u64,
    /// SHA-256 in hexadecimal digits, where it is known already; at the latest it comes with `complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    pub sha256: Option<String>,
}

impl Wanted {
    /// The same with its texts as they are compared, where all of it may be taken.
    ///
    /// # Errors
    /// [`Problem`] 413, 415, 422.
    pub fn checked(mut self, rules: &UploadRules) -> Result<Self, Problem> {
        word("form_id", &self.form_id)?;
        word("owner", &self.owner)?;
        name(&self.file_name)?;
        self.content_type = self.content_type.trim().to_ascii_lowercase();
        if !rules.types.contains(&self.content_type) {
            return Err(Problem::new(
                Kind::Type,
                "The form takes no files of this type.",
                "Choose a file of one of types; parameters such as charset are not part of a type.",
            )
            .with("types", rules.types.clone()));
        }
        if self.length == 0 {
            return Err(Problem::guard("length", "An empty file is no file: length is above 0."));
        }
        let most = rules.max_file.as_bytes();
        if self.length > most {
            let what = format!("The file has {} bytes, and the form takes {most} at most.", self.length);
            return Err(Problem::new(Kind::TooLarge, what, "Choose a smaller file.").with("most", most));
        }
        self.sha256 = self.sha256.as_deref().map(sha256).transpose()?;
        Ok(self)
    }
}

/// A SHA-256 as it is written: 64 hexadecimal digits.
///
/// # Errors
/// [`Problem`] 422.
pub fn sha256(text: &str) -> Result<String, Problem> {
    let text = text.trim().to_ascii_lowercase();
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err(Problem::guard("sha256", "A SHA-256 is written in 64 hexadecimal digits."))
}

fn word(field: &'static str, text: &str) -> Result<(), Problem> {
    let plain = !text.is_empty()
        && text.len() <= LONGEST_WORD
        && text.trim() == text
        && !text.chars().any(|c| c.is_control() || is_bidi_control(c));
    // An object's name has the form in it, between slashes.
    if plain && !(field == "form_id" && (text.contains(['/', '\\']) || text.starts_with('.'))) {
        return Ok(());
    }
    Err(Problem::guard(
        field,
        format!("{field} has 1 to {LONGEST_WORD} bytes, without controls or white space around it."),
    ))
}

/// A name that no reader's program takes for a path, and that reads as it is.
fn name(text: &str) -> Result<(), Problem> {
    let why = if text.trim().is_empty() {
        "It is empty."
    } else if text.len() > LONGEST_NAME {
        "It has more than 255 bytes."
    } else if text.chars().any(char::is_control) {
        "It has a control character."
    } else if text.chars().any(is_bidi_control) {
        "It has a character that turns the direction of text, and so may hide what the file is."
    } else if text.contains(['/', '\\']) || text == "." || text == ".." {
        "It is a path."
    } else if text.trim() != text {
        "It has white space around it."
    } else {
        return Ok(());
    };
    Err(Problem::new(
        Kind::Name,
        format!("The file's name cannot be one. {why}"),
        "Send the bare name of the file.",
    ))
}

/// The length of every part but the last.
#[must_use]
pub fn part_size(length: u64) -> u64 {
    SHORTEST_PART.max(length.div_ceil(PARTS).next_multiple_of(EVEN))
}

/// What is open of an owner, beside the session that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// Sessions.
    pub sessions: u64,
    /// Their bytes, as declared.
    pub bytes: u64,
}

/// Whether an owner may have another session of `length` bytes.
///
/// # Errors
/// [`Problem`] 429.
pub fn within(open: Open, length: u64, sessions: u32, bytes: u64) -> Result<(), Problem> {
    let remedy = "Finish or end one of them first; what is not finished ends by itself.";
    if open.sessions >= u64::from(sessions) {
        let what = format!("{} uploads of this owner are open, and {sessions} may be.", open.sessions);
        return Err(Problem::new(Kind::Sessions, what, remedy).with("most", sessions).retry_after(60));
    }
    if open.bytes.saturating_add(length) > bytes {
        let what = format!(
            "The open uploads of this owner have {} bytes, with this one more than the {bytes} that may be.",
            open.bytes
        );
        return Err(Problem::new(Kind::Bytes, what, remedy).with("most", bytes).retry_after(60));
    }
    Ok(())
}

/// A part that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its number, from 1.
    pub number: u32,
    /// The store's word for its bytes.
    pub etag: String,
    /// Its length in bytes.
    pub size: u64,
}

/// The parts as intent, where the store has every one of them whole.
///
/// # Errors
/// [`Problem`] 409 with the numbers that are missing, or have another length than they should; the first hundred of each.
pub fn parts_there(session: &Session, listed: &[Listed]) -> Result<Value, Problem> {
    const SHOWN: usize = 100;
    let by_number: BTreeMap<u64, &Listed> =
        listed.iter().map(|part| (u64::from(part.number), part)).collect();
    let (mut missing, mut odd) = (Vec::new(), Vec::new());
    for number in 1..=session.parts() {
        match by_number.get(&number) {
            None => missing.push(number),
            Some(part) if part.size != session.part_length(number) => odd.push(number),
            Some(_) => {}
        }
    }
    odd.extend(by_number.keys().copied().filter(|number| !(1..=session.parts()).contains(number)));
    if missing.is_empty() && odd.is_empty() {
        let pairs: Vec<Value> = listed.iter().map(|part| json!([part.number, part.etag])).collect();
        return Ok(Value::Array(pairs));
    }
    let what = format!(
        "{} parts are missing, and {} have another length than they should.",
        missing.len(),
        odd.len()
    );
    missing.truncate(SHOWN);
    odd.truncate(SHOWN);
    let problem =
        Problem::new(Kind::PartsMissing, what, "Ask for their links again, send them, then complete.");
    Err(problem.with("missing", missing).with("wrong_length", odd))
}

/// The numbers of parts whose links are asked for.
///
/// # Errors
/// [`Problem`] 422: none, more than 100, or some that the file does not have.
pub fn numbers(session: &Session, asked: &[u32]) -> Result<(), Problem> {
    let last = session.parts();
    if asked.is_empty() || asked.len() > 100 {
        return Err(Problem::guard("numbers", "Between 1 and 100 numbers are asked for at once."));
    }
    if asked.iter().all(|number| (1..=last).contains(&u64::from(*number))) {
        return Ok(());
    }
    Err(Problem::guard("numbers", format!("The file has the parts 1 to {last}.")))
}

/// What was found when the bytes were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Length in bytes.
    pub length: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// CRC-32C.
    pub crc32c: u32,
    /// The type that the first bytes show, where they show one.
    pub shown_type: Option<&'static str>,
    /// Whether the bytes may be of the type that was declared.
    pub type_fits: bool,
}

/// Compares what was found with what was declared.
///
/// # Errors
/// [`Problem`] 422 or 415: the upload is nothing.
pub fn proven(session: &Session, found: &Found) -> Result<(), Problem> {
    let remedy = "Begin a new upload of the file as it is.";
    if found.length != session.length {
        let what = format!("{} bytes were declared, and {} came.", session.length, found.length);
        let problem = Problem::new(Kind::LengthMismatch, what, remedy);
        return Err(problem.with("declared", session.length).with("found", found.length));
    }
    if session.sha256.as_deref() != Some(found.sha256.as_str()) {
        let what = "The SHA-256 of what came is not the one that was declared.";
        return Err(Problem::new(Kind::DigestMismatch, what, remedy));
    }
    if !found.type_fits {
        let what = format!("The bytes are not of the declared type {}.", session.content_type);
        let shown = found.shown_type.unwrap_or("no type that is known");
        return Err(Problem::new(
            Kind::Type,
            what,
            "Declare the type that the file has, or choose another file.",
        )
        .with("shown", shown));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Uploads;
    use crate::uploads::session::tests::session;

    fn wanted() -> Wanted {
        Wanted {
            form_id: "contact".to_owned(),
            owner: "somebody".to_owned(),
            file_name: "r\u{e9}sum\u{e9} 1.pdf".to_owned(),
            content_type: "Application/PDF".to_owned(),
            length: 5,
            sha256: Some("AB".repeat(32)),
        }
    }

    fn refused(change: impl FnOnce(&mut Wanted)) -> Kind {
        let mut changed = wanted();
        change(&mut changed);
        changed.checked(&Uploads::default().rules("contact")).expect_err("refused").kind()
    }

    #[test]
    fn a_file_is_taken_with_its_texts_as_they_are_compared() {
        let taken = wanted().checked(&Uploads::default().rules("contact")).expect("taken");
        assert_eq!(taken.content_type, "application/pdf");
        assert_eq!(taken.sha256, Some("ab".repeat(32)));
    }

    #[test]
    fn each_member_has_its_refusal() {
        for name in [
            "",
            " ",
            "a/b",
            "a\\b",
            ".",
            "..",
            "a\nb",
            "a\u{0}b",
            "a\u{202e}fdp.exe",
            " a",
            "a ",
            &"x".repeat(256),
        ] {
            assert_eq!(refused(|w| name.clone_into(&mut w.file_name)), Kind::Name, "{name:?}");
        }
        for form in ["", "a/b", "..", " a", "a\u{7}"] {
            assert_eq!(refused(|w| form.clone_into(&mut w.form_id)), Kind::Guard, "{form:?}");
        }
        assert_eq!(refused(|w| w.owner = String::new()), Kind::Guard);
        assert_eq!(refused(|w| w.content_type = "application/x-msdownload".to_owned()), Kind::Type);
        assert_eq!(refused(|w| w.content_type = "application/pdf; x=y".to_owned()), Kind::Type);
        assert_eq!(refused(|w| w.length = 0), Kind::Guard);
        assert_eq!(refused(|w| w.length = (100 << 20) + 1), Kind::TooLarge);
        for digest in ["", "ab", &"g".repeat(64)] {
            assert_eq!(refused(|w| w.sha256 = Some(digest.to_owned())), Kind::Guard, "{digest}");
        }
    }

    #[test]
    fn parts_are_as_long_as_a_thousand_of_them_need() {
        let mebibyte = 1 << 20;
        for (length, expected) in [
            (1, 8 * mebibyte),
            (8_000 * mebibyte, 8 * mebibyte),
            (8_000 * mebibyte + 1, 9 * mebibyte),
            (20_000 * mebibyte, 20 * mebibyte),
        ] {
            assert_eq!(part_size(length), expected, "{length}");
            assert!(length.div_ceil(part_size(length)) <= PARTS);
        }
    }

    #[test]
    fn an_owner_has_so_many_sessions_and_bytes() {
        let open = |sessions, bytes| Open { sessions, bytes };
        assert!(within(open(19, 90), 10, 20, 100).is_ok());
        assert_eq!(within(open(20, 0), 1, 20, 100).expect_err("sessions").kind(), Kind::Sessions);
        assert_eq!(within(open(0, 91), 10, 20, 100).expect_err("bytes").kind(), Kind::Bytes);
    }

    #[test]
    fn a_part_is_there_when_it_is_whole() {
        let part = 8 << 20;
        let session = session(2 * part + 5);
        let listed = |number, size| Listed { number, etag: format!("\"{number}\""), size };
        let all = [listed(1, part), listed(2, part), listed(3, 5)];
        assert_eq!(
            parts_there(&session, &all).expect("all"),
            json!([[1, "\"1\""], [2, "\"2\""], [3, "\"3\""]])
        );
        let refused =
            parts_there(&session, &[listed(1, part), listed(3, 4), listed(4, 1)]).expect_err("not all");
        assert_eq!(refused.member("missing"), Some(&json!([2])));
        assert_eq!(refused.member("wrong_length"), Some(&json!([3, 4])));
        assert!(numbers(&session, &[1, 3]).is_ok());
        for odd in [&[][..], &[0], &[4], &[1; 101]] {
            assert_eq!(numbers(&session, odd).expect_err("refused").kind(), Kind::Guard, "{odd:?}");
        }
    }

    #[test]
    fn what_was_found_is_what_was_declared_or_it_is_nothing() {
        let mut session = session(5);
        session.sha256 = Some("ab".repeat(32));
        let found =
            Found { length: 5, sha256: "ab".repeat(32), crc32c: 1, shown_type: None, type_fits: true };
        assert!(proven(&session, &found).is_ok());
        let of = |found: Found| proven(&session, &found).expect_err("refused").kind();
        assert_eq!(of(Found { length: 4, ..found.clone() }), Kind::LengthMismatch);
        assert_eq!(of(Found { sha256: "ac".repeat(32), ..found.clone() }), Kind::DigestMismatch);
        assert_eq!(of(Found { type_fits: false, ..found.clone() }), Kind::Type);
        session.sha256 = None;
        assert_eq!(proven(&session, &found).expect_err("undeclared").kind(), Kind::DigestMismatch);
    }
}
