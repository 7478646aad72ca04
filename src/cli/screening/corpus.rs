//! A labelled corpus: one JSON object a line, with `id`, `label`, and the `fields` of a form or the `files` of a repository. The marker `⁂`,
//! which keeps other scanners from alarming on the file, is removed from every text. Errors name the line, never a word of it.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::cli::{CliError, Exit};
use crate::screening::judge::calibration::Label;
use crate::screening::run::Profile;
use crate::screening::tier1::{Content, Fields, File, Mode, Tree};

/// Stands in texts where they would alarm other scanners.
const MARKER: char = '\u{2042}';
/// Labels that are not harmless.
const BAD: [&str; 6] = ["bad", "spam", "phishing", "malicious", "leak", "injection"];

/// An item.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) label: Label,
    /// Whether it is to be stopped without a person.
    pub(super) block: bool,
    pub(super) content: Content,
}

/// Reads a corpus of a profile.
pub(super) fn read(path: &Path, profile: Profile) -> Result<Vec<Item>, CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::new(Exit::FoundWanting, anyhow::anyhow!("{shown} cannot be read: {error}"))
    })?;
    parse(&text, profile).map_err(|(line, why)| {
        CliError::new(Exit::FoundWanting, anyhow::anyhow!("{shown}, line {line}: {why}")).remedy(
            "a line is a JSON object: id, label (harmless, or spam, phishing, malicious, leak, injection), block, and fields or files",
        )
    })
}

/// The items; an error is a line's number, and what is wrong with it.
fn parse(text: &str, profile: Profile) -> Result<Vec<Item>, (usize, String)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| item(line, profile).map_err(|why| (at + 1, why))).collect()
}

fn item(line: &str, profile: Profile) -> Result<Item, String> {
    let read: Result<Line, serde_json::Error> = serde_json::from_str(line);
    let line = read.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "it has another shape".to_owned(),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof => "it is no JSON".to_owned(),
    })?;
    let label = match line.label.as_str() {
        "harmless" => Label::Harmless,
        bad if BAD.contains(&bad) => Label::Bad,
        _ => return Err("its label is not known".to_owned()),
    };
    let content = match (profile, line.fields, line.files) {
        (Profile::Fields, Some(fields), _) => {
            let values = fields.0.into_iter().map(|(name, value)| (plain(&name), plain(&value))).collect();
            Content::Fields(Fields { values })
        }
        (Profile::Git, _, Some(files)) => Content::Tree(tree(files, &line.executable, line.symlinks)?),
        (Profile::Fields, None, _) => return Err("it has no fields".to_owned()),
        (Profile::Git, _, None) => return Err("it has no files".to_owned()),
    };
    Ok(Item { id: line.id, label, block: line.block.unwrap_or(label == Label::Bad), content })
}

fn tree(files: Ordered<Bytewise>, executable: &[String], symlinks: Ordered<String>) -> Result<Tree, String> {
    let mut all = Vec::with_capacity(files.0.len());
    for (path, file) in files.0 {
        let mode = if executable.contains(&path) { Mode::Executable } else { Mode::Regular };
        let bytes = match file {
            Bytewise::Text(text) => Bytes::from(plain(&text)),
            Bytewise::Encoded { base64 } => data_encoding::BASE64
                .decode(base64.as_bytes())
                .map(Bytes::from)
                .map_err(|_| "a file of it is no base64".to_owned())?,
        };
        all.push(File { path: plain(&path), mode, bytes });
    }
    for (path, target) in symlinks.0 {
        all.push(File { path: plain(&path), mode: Mode::Symlink, bytes: Bytes::from(plain(&target)) });
    }
    Ok(Tree { files: all })
}

fn plain(text: &str) -> String {
    text.replace(MARKER, "")
}

#[derive(Deserialize)]
struct Line {
    id: String,
    label: String,
    block: Option<bool>,
    fields: Option<Ordered<String>>,
    files: Option<Ordered<Bytewise>>,
    #[serde(default)]
    executable: Vec<String>,
    #[serde(default)]
    symlinks: Ordered<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Bytewise {
    Text(String),
    Encoded { base64: String },
}

/// An object in the order in which it is written, as a form's fields are.
struct Ordered<V>(Vec<(String, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Ordered<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_lose_the_marker() {
        let line = "{\"id\":\"f1\",\"label\":\"spam\",\"fields\":{\"z\":\"a\u{2042}b\",\"a\":\"c\"}}\n\n";
        let items = parse(line, Profile::Fields).expect("a corpus");
        let Content::Fields(fields) = &items[0].content else { panic!("fields") };
        assert_eq!(fields.values, [("z".to_owned(), "ab".to_owned()), ("a".to_owned(), "c".to_owned())]);
        assert_eq!((items[0].label, items[0].block), (Label::Bad, true));
    }

    #[test]
    fn files_have_their_modes_and_bytes() {
        let line = r##"{"id":"g1","label":"harmless","block":false,"files":{"SKILL.md":"# x","b":{"base64":"AAE="}},"executable":["b"],"symlinks":{"l":"t"}}"##;
        let items = parse(line, Profile::Git).expect("a corpus");
        let Content::Tree(tree) = &items[0].content else { panic!("a tree") };
        let modes: Vec<(Mode, &[u8])> = tree.files.iter().map(|file| (file.mode, &file.bytes[..])).collect();
        assert_eq!(modes, [(Mode::Regular, &b"# x"[..]), (Mode::Executable, &[0, 1]), (Mode::Symlink, b"t")]);
    }

    #[test]
    fn an_error_names_the_line_and_no_word_of_it() {
        for (line, why) in [
            (r#"{"id":"f1","label":"odd","fields":{}}"#, "its label is not known"),
            (r#"{"id":"f1","label":"spam","files":{}}"#, "it has no fields"),
            (r#"{"id":"f1","label":"spam","fields":"odd"}"#, "it has another shape"),
            ("odd", "it is no JSON"),
        ] {
            let text = format!("\n{line}");
            assert_eq!(parse(&text, Profile::Fields).err(), Some((2, why.to_owned())), "{line}");
        }
    }
}
