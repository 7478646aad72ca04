//! What is not text: executables by their first bytes, pictures and fonts that harm nobody, and the rest.

/// What a file is by its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// UTF-8 without NUL.
    Text,
    /// A program.
    Executable(&'static str),
    /// A picture or a font under the ending of one.
    Harmless,
    /// Anything else: another encoding, an archive, a document, a picture under another name.
    Unreadable,
}

/// Tells a file by its bytes. The path decides only whether a picture is where one belongs.
pub(super) fn look(path: &str, bytes: &[u8]) -> Bytes {
    if let Some(rule) = executable(bytes) {
        return Bytes::Executable(rule);
    }
    if memchr::memchr(0, bytes).is_none() && std::str::from_utf8(bytes).is_ok() {
        return Bytes::Text;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    if pictures(bytes).contains(&ending.as_str()) { Bytes::Harmless } else { Bytes::Unreadable }
}

/// Rule of a program.
fn executable(bytes: &[u8]) -> Option<&'static str> {
    let first: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
    let word = u32::from_be_bytes([first[0], first[1], first[2], first[3]]);
    match word {
        0x7F45_4C46 => return Some("executable-elf"),
        0xFEED_FACE | 0xFEED_FACF | 0xCEFA_EDFE | 0xCFFA_EDFE => return Some("executable-mach-o"),
        // A fat Mach-O says how many parts it has, a few; a class says its version there, 45 or more.
        0xCAFE_BABE | 0xCAFE_BABF => {
            let next = u32::from_be_bytes([first[4], first[5], first[6], first[7]]);
            return Some(if next < 45 { "executable-mach-o" } else { "executable-class" });
        }
        _ => {}
    }
    (first.starts_with(b"MZ") && is_portable(bytes)).then_some("executable-pe")
}

/// Whether the header that `MZ` points to is there, or what follows is no text.
fn is_portable(bytes: &[u8]) -> bool {
    let at = bytes.get(0x3C..0x40).and_then(|at| at.try_into().ok()).map(u32::from_le_bytes);
    let header = at
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| bytes.get(at..at.checked_add(4)?))
        .is_some_and(|header| header == b"PE\0\0" || header.starts_with(b"NE") || header.starts_with(b"LE"));
    header || memchr::memchr(0, &bytes[..bytes.len().min(64)]).is_some()
}

/// Endings of the picture or font that the bytes begin as.
fn pictures(bytes: &[u8]) -> &'static [&'static str] {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => &["png", "apng"],
        [0xFF, 0xD8, 0xFF, ..] => &["jpg", "jpeg"],
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => &["gif"],
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => &["webp"],
        [0, 0, 1 | 2, 0, ..] => &["ico", "cur"],
        [b'B', b'M', ..] => &["bmp"],
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => &["tif", "tiff"],
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => &["avif"],
        [b'w', b'O', b'F', b'F' | b'2', ..] => &["woff", "woff2"],
        [0, 1, 0, 0, ..] | [b'O', b'T', b'T', b'O', ..] => &["ttf", "otf"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        let mut pe = vec![0_u8; 256];
        pe[..2].copy_from_slice(b"MZ");
        pe[0x3C] = 0x80;
        pe[0x80..0x84].copy_from_slice(b"PE\0\0");
        for (path, bytes, expected) in [
            ("a", b"\x7fELF\x02\x01\x01\0\0".to_vec(), Bytes::Executable("executable-elf")),
            ("a.txt", pe, Bytes::Executable("executable-pe")),
            ("a", b"\xcf\xfa\xed\xfe\x07\0\0\x01".to_vec(), Bytes::Executable("executable-mach-o")),
            ("a", b"\xca\xfe\xba\xbe\0\0\0\x02".to_vec(), Bytes::Executable("executable-mach-o")),
            ("a", b"\xca\xfe\xba\xbe\0\0\0\x3d".to_vec(), Bytes::Executable("executable-class")),
            ("a.txt", b"MZ is a pair of letters, and this is a text about it".to_vec(), Bytes::Text),
            ("a.png", b"\x89PNG\r\n\x1a\n\0\0".to_vec(), Bytes::Harmless),
            ("SKILL.md", b"\x89PNG\r\n\x1a\n\0\0".to_vec(), Bytes::Unreadable),
            ("a.gif", b"GIF89a = 1; alert()".to_vec(), Bytes::Text),
            ("a.bmp", b"BM is text, too".to_vec(), Bytes::Text),
            ("a.zip", b"PK\x03\x04\0\0".to_vec(), Bytes::Unreadable),
            ("a.txt", b"\xff\xfeh\0i\0".to_vec(), Bytes::Unreadable),
            ("a.txt", b"caf\xe9".to_vec(), Bytes::Unreadable),
            ("a.txt", "café".as_bytes().to_vec(), Bytes::Text),
            ("a.txt", Vec::new(), Bytes::Text),
        ] {
            assert_eq!(look(path, &bytes), expected, "{path} {}", bytes.len());
        }
    }
}
