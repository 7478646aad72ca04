//! The files of an instance: its configuration, and signatures made when it starts. Pure.

use std::path::Path;

use super::ClamdOptions;

/// The EICAR test file, 68 bytes. The halves are written backwards: whole, it would make scanners take this file, or a
/// program that has it, for an infected one.
#[must_use]
pub fn eicar() -> Vec<u8> {
    const FIRST: &[u8; 34] = br"-RACIE$}7)CC7)^P(45XZP\4[PA@%P!O5X";
    const SECOND: &[u8; 34] = b"*H+H$!ELIF-TSET-SURIVITNA-DRADNATS";
    FIRST.iter().rev().chain(SECOND.iter().rev()).copied().collect()
}

/// Name under which clamd reports [`eicar`], wherever it is found, but for the suffix that says whose the signature is.
pub const EICAR_NAME: &str = "Maple.Eicar.Test";
/// Name under which clamd reports an instance's own marker, likewise.
pub const MARKER_NAME: &str = "Maple.Marker.Test";

/// Signatures of whole files: MD5, length, name.
pub(super) fn hashes() -> String {
    // The published MD5 of the test file.
    format!("44d88612fea8a8f36de82e1278abb02f:68:{EICAR_NAME}\n")
}

/// Signatures of bytes anywhere in any file.
pub(super) fn bodies(marker: &str) -> String {
    let lines = [(EICAR_NAME, eicar()), (MARKER_NAME, marker.as_bytes().to_vec())];
    lines.map(|(name, bytes)| format!("{name}:0:*:{}\n", hex::encode(bytes))).concat()
}

/// clamd.conf of an instance in this directory.
pub(super) fn clamd_conf(root: &Path, port: Option<u16>, options: &ClamdOptions) -> String {
    let root = root.display();
    let reload = if options.concurrent_reload { "yes" } else { "no" };
    let mut text = format!(
        "Foreground yes
LogFile {root}/work/clamd.log
LogTime yes
PidFile {root}/work/clamd.pid
TemporaryDirectory {root}/work/tmp
DatabaseDirectory {root}/work/db
LocalSocket {root}/work/clamd.sock
LocalSocketMode 666
FixStaleSocket yes
MaxThreads {}
MaxQueue 64
StreamMaxLength {}
MaxFileSize {}
MaxScanSize {}
AlertExceedsMax yes
AlertEncrypted yes
ConcurrentDatabaseReload {reload}
SelfCheck 0
",
        options.max_threads, options.stream_max_length, options.max_file_size, options.max_scan_size,
    );
    if let Some(port) = port {
        text.push_str(&format!("TCPAddr 127.0.0.1\nTCPSocket {port}\n"));
    }
    for (name, value) in &options.settings {
        text.push_str(&format!("{name} {value}\n"));
    }
    text
}
