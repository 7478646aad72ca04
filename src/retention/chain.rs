//! The chain of receipts, judged: each number follows the one before, each digest is of the one before and the text. Pure.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::store::receipts::Receipt;

/// Where a chain stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Receipts that were judged.
    pub length: i64,
    /// The last digest, in hexadecimal digits; empty: there is none.
    pub head: String,
}

/// What is wrong with a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A number is missing, or stands twice.
    #[error("receipt {0} does not follow: one was taken out before it, or put in")]
    Order(i64),
    /// The digest is not of the one before and the text.
    #[error("receipt {0} or one before it was changed: its digest is not theirs")]
    Digest(i64),
    /// The text is not that of a receipt with this number.
    #[error("receipt {0} says something else than its row")]
    Text(i64),
}

impl Chain {
    /// Judges the next receipt.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn follow(&mut self, receipt: &Receipt) -> Result<(), Broken> {
        let id = self.length + 1;
        if receipt.id != id {
            return Err(Broken::Order(receipt.id));
        }
        let digest = hex::encode(Sha256::digest(format!("{}{}", self.head, receipt.body)));
        if digest != receipt.digest {
            return Err(Broken::Digest(id));
        }
        let said = serde_json::from_str::<Value>(&receipt.body).ok();
        if said.and_then(|said| said["id"].as_i64()) != Some(id) {
            return Err(Broken::Text(id));
        }
        *self = Self { length: id, head: digest };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(n: i64) -> Vec<Receipt> {
        let mut head = String::new();
        (1..=n)
            .map(|id| {
                let body = format!("{{\"id\": {id}}}");
                head = hex::encode(Sha256::digest(format!("{head}{body}")));
                Receipt { id, body, digest: head.clone() }
            })
            .collect()
    }

    fn judged(receipts: &[Receipt]) -> Result<Chain, Broken> {
        let mut chain = Chain::default();
        receipts.iter().try_for_each(|receipt| chain.follow(receipt)).map(|()| chain)
    }

    #[test]
    fn whatever_is_changed_taken_out_or_put_in_is_seen() {
        let whole = chain(5);
        assert_eq!(judged(&whole).expect("whole").length, 5);
        for n in 0..4 {
            let mut without = whole.clone();
            without.remove(n);
            assert!(matches!(judged(&without), Err(Broken::Order(_))), "{n} taken out");
            for receipt in &mut without[n..] {
                receipt.id -= 1;
            }
            assert!(matches!(judged(&without), Err(Broken::Digest(_))), "{n} taken out and renumbered");
        }
        for n in 0..5 {
            let mut other = whole.clone();
            other[n].body = other[n].body.replace('}', ", \"x\": 1}");
            assert_eq!(judged(&other), Err(Broken::Digest(n as i64 + 1)));
            let mut twice = whole.clone();
            twice.insert(n, whole[n].clone());
            assert!(judged(&twice).is_err());
        }
        // The end of a chain can be cut off unseen: so each run says its head in the journal.
        assert_eq!(judged(&whole[..3]).expect("a chain").head, whole[2].digest);
    }
}
