//! Archives, made when a test runs.

use crate::harness::made_by_python;

const ZIP: &str = "import zipfile
with zipfile.ZipFile('out', 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('content.bin', open('in', 'rb').read())
";

/// A zip with this content in one file.
pub(crate) fn zip(content: &[u8]) -> Vec<u8> {
    made_by_python(ZIP, content)
}

/// A zip with so many mebibytes of zeroes.
pub(crate) fn zeroes(mebibytes: usize) -> Vec<u8> {
    let program = format!(
        "import zipfile
with zipfile.ZipFile('out', 'w', zipfile.ZIP_DEFLATED) as archive:
    with archive.open('zeroes', 'w') as file:
        for _ in range({mebibytes}):
            file.write(bytes(1 << 20))
"
    );
    made_by_python(&program, b"")
}

/// A zip that says of its file that it is encrypted. Nobody has the password, so what is in there does not matter.
pub(crate) fn encrypted(content: &[u8]) -> Vec<u8> {
    let mut archive = zip(content);
    // APPNOTE.TXT 4.3.7, 4.3.12: the flags of the local header and of the central directory's; 4.4.4: bit 0.
    for (signature, flags) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let header = archive.windows(4).position(|window| window == signature).expect("a header");
        archive[header + flags] |= 1;
    }
    archive
}
