//! The router's statements to PostgreSQL about one submission, word for word, and the same said again for many at once.
//!
//! One submission is routed while the server logs every statement of the role with its parameters. The replay replaces its
//! id by another and gives each transaction to a whole batch: statements that take arrays of ids become one, the others
//! follow each other without waiting, and the batch is committed once. So this is the work of exactly the router's
//! statements, whatever they are by then, at what the server can do without anything to decide between them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use futures::future::{BoxFuture, FutureExt as _, try_join_all};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// A statement and its parameters as text, NULL as `None`.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    sql: String,
    values: Vec<Option<String>>,
}

/// Statements between a BEGIN and a COMMIT, as logged; without the two where there were none.
#[derive(Debug, Clone, PartialEq, Default)]
struct Together {
    frame: Option<(String, String)>,
    said: Vec<Said>,
}

/// Everything about one submission, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transcript {
    id: Uuid,
    parts: Vec<Together>,
}

impl Transcript {
    /// Reads what the server's log says of this submission, from this position on.
    ///
    /// # Errors
    /// No log, or nothing about it in there.
    pub(super) fn read(log: &Path, from: u64, id: Uuid) -> Result<Self> {
        let text = std::fs::read(log).with_context(|| format!("reading {}", log.display()))?;
        let text = text.get(usize::try_from(from)?..).unwrap_or_default();
        let parts = parts(&String::from_utf8_lossy(text), id);
        ensure!(!parts.is_empty(), "the server's log says nothing of {id}");
        Ok(Self { id, parts })
    }

    /// The same statements prepared on a connection.
    pub(super) async fn prepare<'a>(&'a self, client: &'a Client) -> Result<Prepared<'a>> {
        let mut parts = Vec::new();
        for part in &self.parts {
            let mut prepared = Vec::new();
            for said in &part.said {
                prepared.push((client.prepare(&said.sql).await?, said));
            }
            parts.push((part.frame.as_ref(), prepared));
        }
        Ok(Prepared { client, id: self.id.to_string(), parts })
    }
}

/// Ready to be said again.
pub(super) struct Prepared<'a> {
    client: &'a Client,
    id: String,
    parts: Vec<PreparedPart<'a>>,
}

/// A part's BEGIN and COMMIT, where it is a transaction, and its statements.
type PreparedPart<'a> = (Option<&'a (String, String)>, Vec<(Statement, &'a Said)>);

impl Prepared<'_> {
    /// Says everything about a batch of submissions, each transaction once for all of them.
    pub(super) async fn say(&self, batch: &[Uuid]) -> Result<()> {
        for (frame, said) in &self.parts {
            let values = said.iter().flat_map(|(statement, said)| self.rounds(statement, said, batch));
            let values: Vec<(&Statement, Vec<Text>)> = values.collect();
            let borrowed: Vec<(&Statement, Vec<&(dyn ToSql + Sync)>)> = values
                .iter()
                .map(|(statement, row)| (*statement, row.iter().map(|v| v as &(dyn ToSql + Sync)).collect()))
                .collect();
            let mut all: Vec<BoxFuture<'_, Result<(), tokio_postgres::Error>>> = Vec::new();
            all.extend(frame.map(|(begin, _)| self.client.batch_execute(begin).boxed()));
            all.extend(borrowed.iter().map(|(statement, row)| {
                async move { self.client.query(*statement, row).await.map(drop) }.boxed()
            }));
            all.extend(frame.map(|(_, commit)| self.client.batch_execute(commit).boxed()));
            // Polled in this order, and what is polled first is on the wire first.
            try_join_all(all).await?;
        }
        Ok(())
    }

    /// The parameters for a batch: one row for all of them where the statement takes ids as an array, else one for each.
    fn rounds<'s>(
        &self,
        statement: &'s Statement,
        said: &Said,
        batch: &[Uuid],
    ) -> Vec<(&'s Statement, Vec<Text>)> {
        let own = |id: &Uuid| -> Vec<Option<String>> {
            let id = id.to_string();
            said.values.iter().map(|value| value.as_ref().map(|text| text.replace(&self.id, &id))).collect()
        };
        let rows = batch.iter().map(own);
        if statement.params().contains(&Type::UUID_ARRAY) {
            let arrays: Vec<bool> =
                statement.params().iter().map(|t| matches!(t.kind(), Kind::Array(_))).collect();
            return vec![(statement, together(rows, &arrays).into_iter().map(Text).collect())];
        }
        rows.map(|row| (statement, row.into_iter().map(Text).collect())).collect()
    }
}

/// Arrays one after the other; of everything else the first row's.
fn together(rows: impl Iterator<Item = Vec<Option<String>>>, arrays: &[bool]) -> Vec<Option<String>> {
    let mut all: Vec<Option<String>> = Vec::new();
    for row in rows {
        if all.is_empty() {
            all = row;
            continue;
        }
        for ((whole, more), _) in all.iter_mut().zip(row).zip(arrays).filter(|(_, is_array)| **is_array) {
            if let (Some(whole), Some(more)) = (whole, more) {
                // Without the outermost braces, which are the first and the last character.
                let (head, tail) = (&whole[..whole.len() - 1], &more[1..]);
                let comma = if head.len() > 1 && tail.len() > 1 { "," } else { "" };
                *whole = format!("{head}{comma}{tail}");
            }
        }
    }
    all
}

/// A parameter as the log shows it.
#[derive(Debug)]
struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Names of the statements, a transaction a line.
impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            f.write_str(if part.frame.is_some() { "in a transaction:" } else { "alone:" })?;
            for said in &part.said {
                let name = said.sql.lines().next().unwrap_or_default().trim_start_matches("-- ");
                write!(f, " {name}({})", said.values.len())?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// The parts of a log (`log_statement = 'all'`, prefix `%m [%p] `) that name a submission.
fn parts(log: &str, id: Uuid) -> Vec<Together> {
    let id = id.to_string();
    let mut done: Vec<Together> = Vec::new();
    let mut open: BTreeMap<String, Together> = BTreeMap::new();
    let mut single: BTreeMap<String, Said> = BTreeMap::new();
    // A line with a leading tab continues the one before.
    for record in log.replace("\n\t", "\u{b}").lines().map(|line| line.replace('\u{b}', "\n")) {
        let Some((pid, level, text)) = record_of(&record) else { continue };
        if let Some(values) = text.strip_prefix("parameters: ").filter(|_| level == "DETAIL") {
            let last = match open.get_mut(&pid) {
                Some(part) => part.said.last_mut(),
                None => single.get_mut(&pid),
            };
            if let Some(said) = last {
                said.values = parameters(values);
            }
            continue;
        }
        // A statement is complete when anything follows it on its connection.
        if let Some(said) = single.remove(&pid) {
            done.push(Together { frame: None, said: vec![said] });
        }
        if let Some(sql) = text.strip_prefix("statement: ") {
            let has = |word: &str| sql.split(';').any(|one| one.trim().split(' ').next() == Some(word));
            if has("BEGIN") {
                open.insert(pid, Together { frame: Some((sql.to_owned(), String::new())), said: Vec::new() });
            } else if let Some(mut part) = open.remove(&pid) {
                if has("COMMIT") {
                    part.frame.iter_mut().for_each(|(_, commit)| sql.clone_into(commit));
                    done.push(part);
                } else if !has("ROLLBACK") {
                    open.insert(pid, part);
                }
            }
        } else if let Some((_, sql)) = text.strip_prefix("execute ").and_then(|rest| rest.split_once(": ")) {
            let said = Said { sql: sql.to_owned(), values: Vec::new() };
            match open.get_mut(&pid) {
                Some(part) => part.said.push(said),
                None => drop(single.insert(pid, said)),
            }
        }
    }
    done.extend(single.into_values().map(|said| Together { frame: None, said: vec![said] }));
    let names_it = |said: &Said| said.values.iter().flatten().any(|value| value.contains(&id));
    done.retain(|part| part.said.iter().any(names_it));
    done
}

/// Process id, level and text of a record.
fn record_of(record: &str) -> Option<(String, &str, &str)> {
    let (head, rest) = record.split_once("] ")?;
    let (level, text) = rest.split_once(":  ")?;
    Some((head.rsplit_once('[')?.1.to_owned(), level, text))
}

/// `$1 = 'it''s', $2 = NULL` as values.
fn parameters(text: &str) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let mut rest = text;
    while let Some((_, value)) = rest.split_once(" = ") {
        let Some(quoted) = value.strip_prefix('\'') else {
            values.push(None);
            rest = value.strip_prefix("NULL").unwrap_or_default();
            continue;
        };
        let mut end = 0;
        while let Some(at) = quoted[end..].find('\'') {
            end += at;
            if !quoted[end + 1..].starts_with('\'') {
                break;
            }
            end += 2;
        }
        values.push(Some(quoted[..end].replace("''", "'")));
        rest = &quoted[end + 1..];
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_were_written() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parameters("$1 = 'it''s', $2 = NULL, $3 = ''"), [some("it's"), None, some("")]);
        assert_eq!(parameters("$1 = 'a = b, $2 = ''''', $2 = 't'"), [some("a = b, $2 = ''"), some("t")]);
    }

    #[test]
    fn what_names_the_submission_is_kept_with_its_transaction() {
        let id = Uuid::from_u128(7);
        let log = format!(
            "2026-11-22 10:00:00.000 UTC [11] LOG:  statement: BEGIN; SET LOCAL x = 'y'\n\
             2026-11-22 10:00:00.000 UTC [12] LOG:  execute s9: -- other\n\tSELECT $1\n\
             2026-11-22 10:00:00.000 UTC [12] DETAIL:  parameters: $1 = 'z'\n\
             2026-11-22 10:00:00.000 UTC [11] LOG:  execute s1: -- lock\n\tSELECT $1\n\
             2026-11-22 10:00:00.000 UTC [11] DETAIL:  parameters: $1 = '{id}'\n\
             2026-11-22 10:00:00.000 UTC [11] LOG:  statement: SELECT 1; COMMIT\n\
             2026-11-22 10:00:00.000 UTC [12] LOG:  execute s2: -- content\n\tSELECT $1\n\
             2026-11-22 10:00:00.000 UTC [12] DETAIL:  parameters: $1 = '{id}'\n"
        );
        let found = parts(&log, id);
        let names: Vec<&str> = found.iter().map(|part| part.said[0].sql.as_str()).collect();
        assert_eq!(names, ["-- lock\nSELECT $1", "-- content\nSELECT $1"]);
        let frame = ("BEGIN; SET LOCAL x = 'y'".to_owned(), "SELECT 1; COMMIT".to_owned());
        assert_eq!((&found[0].frame, &found[1].frame), (&Some(frame), &None));
    }

    #[test]
    fn arrays_are_put_together_and_the_rest_is_the_first_rows() {
        let row = |id: &str, doc: &str| {
            vec![Some(format!("{{{id}}}")), Some(doc.to_owned()), Some("me".to_owned())]
        };
        let rows = [row("a", r#"{"{\"v\": {}}"}"#), row("b", r#"{"{\"w\": {}}"}"#)];
        let all = together(rows.into_iter(), &[true, true, false]);
        let expected = ["{a,b}", r#"{"{\"v\": {}}","{\"w\": {}}"}"#, "me"];
        assert_eq!(all, expected.map(|text| Some(text.to_owned())));
    }
}
