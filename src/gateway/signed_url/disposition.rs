//! The header that makes a browser save an attachment under its file name: `attachment; filename="…"`.
//!
//! Pure. The name stands as UTF-8 inside the quotes, which is how browsers read it, and there is no `filename*=`
//! beside it: `google-cloud-storage` leaves `*` unencoded in query values, the object store encodes it before it
//! compares signatures, and such a link would answer 403. Little is lost by that: the mail shows the name as it is,
//! this is only the name of the saved file.

/// The value of `response-content-disposition` for a file name. Never contains `*`, an escape or a control character.
pub(super) fn attachment(file_name: &str) -> String {
    if file_name.is_empty() {
        return "attachment".to_owned();
    }
    let mut text = String::with_capacity(file_name.len() + 24);
    text.push_str("attachment; filename=\"");
    for (at, character) in file_name.char_indices() {
        let decodable = character == '%' && is_escape(&file_name.as_bytes()[at + 1..]);
        text.push(if decodable || is_unsavable(character) { '_' } else { character });
    }
    text.push('"');
    text
}

/// Two hex digits: some browsers decode `%41` here and others do not, so a sender could have a file saved under another
/// name than the mail shows. A percent sign before anything else stays.
fn is_escape(rest: &[u8]) -> bool {
    matches!(rest, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// Says whether no file name on Windows may have the character, or it would end the quotes, begin an escape or an
/// encoded word, or turn the direction of the text after it. Browsers replace these as well before they save.
fn is_unsavable(character: char) -> bool {
    character.is_control()
        || matches!(character, '"' | '*' | '/' | ':' | '<' | '>' | '?' | '\\' | '|')
        || matches!(character,
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_become_a_header() {
        let cases = [
            ("report.pdf", "report.pdf"),
            ("my report (1).pdf", "my report (1).pdf"),
            ("a;b=c+d~e'f,g.txt", "a;b=c+d~e'f,g.txt"),
            ("Grüße.pdf", "Grüße.pdf"),
            ("日本語 🍁.pdf", "日本語 🍁.pdf"),
            ("50%.txt", "50%.txt"),
            ("50% off.txt", "50% off.txt"),
            ("100%25.txt", "100_25.txt"),
            ("%%2A%e2", "%_2A_e2"),
            ("%é%4", "%é%4"),
            (r#"a"b\c.txt"#, "a_b_c.txt"),
            ("star*.txt", "star_.txt"),
            ("=?utf-8?Q?evil=2Eexe?=", "=_utf-8_Q_evil=2Eexe_="),
            (r"C:\dir/..|<x>", "C__dir_..__x_"),
            ("a\r\nX: y\u{7f}\u{85}\0", "a__X_ y___"),
            ("invoice\u{202E}fdp.exe", "invoice_fdp.exe"),
        ];
        for (name, expected) in cases {
            assert_eq!(attachment(name), format!("attachment; filename=\"{expected}\""), "{name:?}");
        }
        assert_eq!(attachment(""), "attachment");
    }

    #[test]
    fn no_name_brings_an_asterisk_or_a_second_quote_into_the_header() {
        for character in (0..=0x2fff).filter_map(char::from_u32) {
            let text = attachment(&format!("{character}2A{character}{character}41"));
            assert!(!text.contains('*') && !text.contains('\\'), "{character:?}: {text}");
            assert_eq!(text.matches('"').count(), 2, "{character:?}: {text}");
            assert!(!text.contains("%2A") && !text.contains("%41"), "{character:?}: {text}");
            assert!(!text.contains(char::is_control), "{character:?}: {text:?}");
        }
    }
}
