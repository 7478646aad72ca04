//! `[scan]`: the clamd that uploads are scanned by.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;

section! {
    /// `[scan]`: the virus scanner of uploads; without a socket there is none.
    Scan {
        /// Socket of clamd: a path, or `host:port`; absent: off. [`scan_socket`] reads it.
        socket: Option<String> = None,
        /// Limit of a verdict, from the last byte of a file on.
        #[serde(with = "humantime_serde")] timeout: Duration = s(180),
        /// Age from which the verdict of a file is not taken for another upload of it any more.
        #[serde(with = "humantime_serde")] rescan_after: Duration = s(7 * 86_400),
    }
}

/// Address of clamd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanSocket {
    /// A unix socket.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl fmt::Display for ScanSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// Reads an address of clamd.
///
/// # Errors
/// What is wrong with it.
pub fn scan_socket(text: &str) -> Result<ScanSocket, &'static str> {
    let text = text.trim();
    if text.starts_with('/') {
        // sun_path of unix(7) has 108 bytes, the last of them zero.
        let fits = text.len() < 108 && !text.contains('\0') && !text.ends_with('/');
        return if fits { Ok(ScanSocket::Unix(text.into())) } else { Err("is no path of a socket") };
    }
    let (host, port) = text.rsplit_once(':').ok_or("is neither an absolute path nor HOST:PORT")?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let named = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let numbered = bare.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    let plain = port.bytes().all(|b| b.is_ascii_digit());
    if !(named || numbered) || !plain || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("is neither an absolute path nor HOST:PORT");
    }
    Ok(ScanSocket::Tcp(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_host_with_its_port() {
        for good in
            ["/run/clamav/clamd.ctl", "localhost:3310", "127.0.0.1:3310", "[::1]:3310", "scan.example.org:1"]
        {
            assert_eq!(scan_socket(&format!(" {good}\n")).expect(good).to_string(), good);
        }
        assert_eq!(scan_socket("/x").expect("a path"), ScanSocket::Unix("/x".into()));
        let longest = format!("/{}", "x".repeat(106));
        assert!(scan_socket(&longest).is_ok());
        let too_long = format!("{longest}x");
        for bad in [
            "",
            "/",
            "/run/clamav/",
            &too_long,
            "run/clamd.ctl",
            "localhost",
            "localhost:",
            ":3310",
            "localhost:0",
            "localhost:65536",
            "localhost:+1",
            "::1:3310",
            "[::1]",
            "[localhost]:1",
            "tcp://localhost:3310",
            "a b:1",
        ] {
            assert!(scan_socket(bad).is_err(), "{bad}");
        }
    }
}
