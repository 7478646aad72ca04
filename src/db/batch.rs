//! Many rows written by one statement, and the search for the row that makes it fail: halves are tried, and halves of these,
//! until the row is alone (protocol, "Rows set aside").
//!
//! If we die in the middle, written rows stay and the rest was not started. A statement that may be committed is never
//! repeated, and a failure of the connection, the session or the contract, no row's fault, never divides a batch.

use std::collections::VecDeque;

use super::error::DbError;

/// A row that refused its write although it was alone.
#[derive(Debug, Clone)]
pub struct Refused<K> {
    /// The row.
    pub id: K,
    /// The database's error.
    pub error: DbError,
}

/// The result of a batch.
#[derive(Debug, Clone)]
pub struct Batch<K, T> {
    /// The answers for the parts that were written, in order.
    pub done: Vec<T>,
    /// Rows that refuse the write.
    pub refused: Vec<Refused<K>>,
    /// The error that ended the batch early; rows not tried by then are not among `refused`.
    pub fault: Option<DbError>,
}

impl<K, T> Batch<K, T> {
    /// Returns the batch unless nothing came of it.
    ///
    /// # Errors
    /// The error that ended it early, where no row was written or refused: otherwise the caller must report those first.
    pub fn unless_nothing(self) -> Result<Self, DbError> {
        match self {
            Self { done, refused, fault: Some(error) } if done.is_empty() && refused.is_empty() => Err(error),
            Self { .. } => Ok(self),
        }
    }
}

/// Writes `all` by one call of `write`; where a row may be to blame, by two calls for a half each, and so on. Each bad row
/// costs about twice the logarithm of the batch's size.
pub async fn divided<K, T, Write, Writing>(all: &[K], write: Write) -> Batch<K, T>
where
    K: Copy,
    Write: Fn(Vec<K>) -> Writing,
    Writing: Future<Output = Result<T, DbError>>,
{
    let mut batch = Batch { done: Vec::new(), refused: Vec::new(), fault: None };
    let mut parts = VecDeque::from([all.to_vec()]);
    while let Some(part) = parts.pop_front().filter(|part| !part.is_empty()) {
        match write(part.clone()).await {
            Ok(answer) => batch.done.push(answer),
            Err(error) if !error.may_be_of_a_row() => {
                batch.fault = Some(error);
                break;
            }
            Err(error) => match part.as_slice() {
                [id] => batch.refused.push(Refused { id: *id, error }),
                several => {
                    let (first, second) = several.split_at(several.len() / 2);
                    parts.push_front(second.to_vec());
                    parts.push_front(first.to_vec());
                }
            },
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn said(code: &str) -> DbError {
        DbError::Server { code: code.to_owned(), message: "no".to_owned(), object: String::new() }
    }

    /// A table that refuses some rows with a code; returns the rows it took, and the number of statements.
    async fn written(rows: u32, bad: &[u32], code: &str) -> (Vec<u32>, Vec<u32>, bool, u32) {
        let (taken, statements) = (RefCell::new(Vec::new()), Cell::new(0));
        let all: Vec<u32> = (0..rows).collect();
        let batch = divided(&all, |part: Vec<u32>| {
            statements.set(statements.get() + 1);
            let answer = if part.iter().any(|row| bad.contains(row)) {
                Err(said(code))
            } else {
                taken.borrow_mut().extend(part.iter().copied());
                Ok(part.len())
            };
            std::future::ready(answer)
        })
        .await;
        let refused = batch.refused.iter().map(|refused| refused.id).collect();
        (taken.into_inner(), refused, batch.fault.is_some(), statements.get())
    }

    #[tokio::test]
    async fn bad_rows_are_found_and_all_others_written_once_in_order() {
        for (rows, bad) in
            [(0, vec![]), (1, vec![]), (1, vec![0]), (7, vec![0, 3, 6]), (500, vec![499]), (64, vec![5, 6])]
        {
            let (taken, refused, stopped, statements) = written(rows, &bad, "P0001").await;
            let others: Vec<u32> = (0..rows).filter(|row| !bad.contains(row)).collect();
            assert_eq!((taken, refused, stopped), (others, bad.clone(), false), "{rows} {bad:?}");
            assert!(
                statements <= 1 + 20 * u32::try_from(bad.len()).expect("few"),
                "{rows} {bad:?}: {statements}"
            );
        }
        let all: Vec<u32> = (0..9).collect();
        assert_eq!(written(9, &all, "23514").await, (vec![], all, false, 17), "however many there are");
    }

    #[tokio::test]
    async fn what_is_no_rows_fault_blames_nobody_and_divides_nothing() {
        for code in ["08006", "42501", "42P01", "40001", "53300", "57014", "0A000", "26000", "XX000", "25006"]
        {
            assert_eq!(written(8, &[3], code).await, (vec![], vec![], true, 1), "{code}");
        }
    }
}
