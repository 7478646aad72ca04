//! Records of `ls-tree -r -z -l`, and the paths in them.
//!
//! Pure. fsck has refused most of what is refused here; this is what holds where it errs.

use super::fault::SourceFault;
use super::limits::Limits;
use super::snapshot::Mode;

/// A record: an entry whose content is not read yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) path: String,
    pub(super) mode: Mode,
    /// Id of the blob, or of a submodule's commit.
    pub(super) id: String,
    /// Size of the blob; 0 of a submodule.
    pub(super) size: u64,
}

/// Longest part of a record before its path.
pub(super) const LONGEST_HEAD: usize = 128;

/// Records so far, within the bounds.
#[derive(Debug)]
pub(super) struct Listing {
    limits: Limits,
    records: Vec<Record>,
    total: u64,
}

impl Listing {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, records: Vec::new(), total: 0 }
    }

    /// Takes one record, without the NUL at its end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), SourceFault> {
        let record = record(bytes, &self.limits)?;
        if self.records.len() >= self.limits.files {
            return Err(SourceFault::TooManyFiles);
        }
        self.total = self.total.saturating_add(record.size);
        if self.total > self.limits.total {
            return Err(SourceFault::TooLarge);
        }
        self.records.push(record);
        Ok(())
    }

    /// All records, in the order of their paths' bytes; no two have one path.
    pub(super) fn finish(mut self) -> Result<Vec<Record>, SourceFault> {
        self.records.sort_unstable_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
        let twice = self.records.windows(2).any(|two| matches!(two, [a, b] if a.path == b.path));
        if twice { Err(SourceFault::Malformed) } else { Ok(self.records) }
    }
}

fn record(bytes: &[u8], limits: &Limits) -> Result<Record, SourceFault> {
    let text = str::from_utf8(bytes).map_err(|_| SourceFault::Malformed)?;
    let (head, path) = text.split_once('\t').ok_or(SourceFault::Malformed)?;
    let mut words = head.split_ascii_whitespace();
    let (Some(mode), Some(kind), Some(id), Some(size), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(SourceFault::Malformed);
    };
    let mode = match (mode, kind) {
        ("100644", "blob") => Mode::File,
        ("100755", "blob") => Mode::Executable,
        ("120000", "blob") => Mode::Symlink,
        ("160000", "commit") => Mode::Submodule,
        _ => return Err(SourceFault::Malformed),
    };
    let size = match mode {
        Mode::File | Mode::Executable | Mode::Symlink => size.parse().map_err(|_| SourceFault::Malformed)?,
        Mode::Submodule => 0,
    };
    if !matches!(id.len(), 40 | 64) || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(SourceFault::Malformed);
    }
    check(path, limits)?;
    Ok(Record { path: path.to_owned(), mode, id: id.to_owned(), size })
}

fn check(path: &str, limits: &Limits) -> Result<(), SourceFault> {
    if path.len() > limits.path || path.split('/').count() > limits.depth {
        return Err(SourceFault::TooLarge);
    }
    let odd = |name: &str| matches!(name, "" | "." | "..") || name.eq_ignore_ascii_case(".git");
    if path.chars().any(char::is_control) || path.split('/').any(odd) {
        return Err(SourceFault::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "45b983be36b73c0788dc9cbcb76cbb80fc7bb057";

    fn take(limits: &Limits, heads: &[(&str, &str)]) -> Result<Vec<Record>, SourceFault> {
        let mut listing = Listing::new(limits);
        for (head, path) in heads {
            listing.take(format!("{}\t{path}", head.replace("ID", ID)).as_bytes())?;
        }
        listing.finish()
    }

    #[test]
    fn records_are_read() {
        let heads = [
            ("100644 blob ID       3", "SKILL.md"),
            ("100755 blob ID      30", "a b/\u{e4}.sh"),
            ("120000 blob ID      11", "link"),
            ("160000 commit ID       -", "vendored"),
        ];
        let records = take(&Limits::default(), &heads).expect("records");
        let seen: Vec<_> = records.iter().map(|record| (record.mode.octal(), record.size)).collect();
        assert_eq!(seen, [("100644", 3), ("100755", 30), ("120000", 11), ("160000", 0)]);
    }

    #[test]
    fn what_passes_a_bound_or_cannot_be_is_refused() {
        let limits = Limits { files: 2, total: 10, path: 12, depth: 3, ..Limits::default() };
        let blob = "100644 blob ID 3";
        let cases: [(&[(&str, &str)], SourceFault); 15] = [
            (&[(blob, "a"), ("100755 blob ID 3", "a")], SourceFault::Malformed),
            (&[(blob, "a"), (blob, "b"), (blob, "c")], SourceFault::TooManyFiles),
            (&[("100644 blob ID 11", "a")], SourceFault::TooLarge),
            (&[("100644 blob ID 6", "a"), ("100644 blob ID 5", "b")], SourceFault::TooLarge),
            (&[("100644 blob ID 18446744073709551615", "a")], SourceFault::TooLarge),
            (&[(blob, "abcdefghijklm")], SourceFault::TooLarge),
            (&[(blob, "a/b/c/d")], SourceFault::TooLarge),
            (&[(blob, "a/../b")], SourceFault::Malformed),
            (&[(blob, "./b")], SourceFault::Malformed),
            (&[(blob, ".Git/config")], SourceFault::Malformed),
            (&[(blob, "a//b")], SourceFault::Malformed),
            (&[(blob, "a\nb")], SourceFault::Malformed),
            (&[("040000 tree ID -", "a")], SourceFault::Malformed),
            (&[("100644 blob ID -", "a")], SourceFault::Malformed),
            (&[("100644 blob xyz 1", "a")], SourceFault::Malformed),
        ];
        for (heads, fault) in cases {
            assert_eq!(take(&limits, heads), Err(fault), "{heads:?}");
        }
        assert_eq!(Listing::new(&limits).take(b"100644 blob \xff 1\ta"), Err(SourceFault::Malformed));
    }
}
