//! The envelope sender of a mail: an address of ours with a token of the mail's source, so that a returned mail can be
//! believed (`[bounces]`).
//!
//! `LOCAL+TOKEN@DOMAIN`. A token consists of submission, order and generation of the action, and a truncated HMAC-SHA256
//! over them, in base32: it survives hosts that change the case of addresses, and none can be made without a secret. The
//! mail's recipients know its token and may return it: a return for one of several recipients is a claim (`status`).
//! Pure: no state is kept, so there is nothing to lose. The secrets are never shown.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};
use data_encoding::BASE32_NOPAD_NOCASE;
use uuid::Uuid;

use crate::routing::submission::message_id::Origin;

/// Separator of local part and token; Postfix's `recipient_delimiter`.
const DELIMITER: char = '+';
/// Octets of submission, order, generation.
const SAID: usize = 16 + 2 + 2;
/// Octets of the HMAC: 80 of its 256 bits; forging one takes 2^80 tries, each of them a mail.
const PROVED: usize = 10;
/// Characters of a token: 30 bytes are 48 of base32, none of them half used.
const TOKEN: usize = 48;
/// Characters of the shortest secret allowed: a shorter one could be guessed.
const SHORTEST_SECRET: usize = 16;
/// Prefix of the signed text, so that another signature of the same secrets is no token.
const PURPOSE: &[u8] = b"maple-router envelope sender 1\0";

/// Source of mails that belong to no submission: the probe, `test-send`.
pub const TRIAL: Origin = Origin { submission: Uuid::nil(), action_order: 0, generation: 0 };

/// Address to which our mails are returned. Cheap to clone.
#[derive(Clone)]
pub struct ReturnAddress {
    local: String,
    domain: String,
    /// Signing key first; all of them verify.
    keys: Vec<Key>,
}

impl fmt::Debug for ReturnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{DELIMITER}TOKEN@{} ({} secrets)", self.local, self.domain, self.keys.len())
    }
}

impl ReturnAddress {
    /// `address` is a validated `bounces.address`; `secrets` has one secret on each line.
    ///
    /// # Errors
    /// The fault of the secrets, without showing them.
    pub fn new(address: &str, secrets: &str) -> Result<Self, String> {
        let (local, domain) = address
            .rsplit_once('@')
            .ok_or_else(|| "bounces.address is not an address: set it to LOCAL@DOMAIN".to_owned())?;
        let lines: Vec<&str> = secrets.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if let Some(index) = lines.iter().position(|line| line.len() < SHORTEST_SECRET) {
            return Err(format!(
                "secret {} of the file of bounces.secret_file has fewer than {SHORTEST_SECRET} characters: put a line of \
                 `openssl rand -hex 32` there",
                index + 1
            ));
        }
        if lines.is_empty() {
            return Err(
                "the file of bounces.secret_file holds no secret: put a line of `openssl rand -hex 32` there"
                    .to_owned(),
            );
        }
        let keys = lines.iter().map(|line| Key::new(HMAC_SHA256, line.as_bytes())).collect();
        Ok(Self { local: local.to_owned(), domain: domain.to_owned(), keys })
    }

    /// The envelope sender of a mail. Numbers too large for a token (an action outside ±32,767, a generation over
    /// 65,535) give a sender without one: should that mail be returned, it is set aside.
    #[must_use]
    pub fn sender(&self, origin: Origin) -> String {
        let Self { local, domain, .. } = self;
        match self.keys.first().and_then(|key| token(key, origin)) {
            Some(token) => format!("{local}{DELIMITER}{token}@{domain}"),
            None => format!("{local}@{domain}"),
        }
    }

    /// Source of the mail returned to `address`; `None` where nothing proves it. Only the token counts: the address
    /// around it may have been another one when the mail was sent.
    #[must_use]
    pub fn origin(&self, address: &str) -> Option<Origin> {
        let (local, _) = address.rsplit_once('@')?;
        let (_, token) = local.rsplit_once(DELIMITER)?;
        if token.len() != TOKEN {
            return None;
        }
        let bytes = BASE32_NOPAD_NOCASE.decode(token.as_bytes()).ok()?;
        let (said, proof) = bytes.split_at_checked(SAID)?;
        let proved = |key: &Key| verify_slices_are_equal(&prove(key, said), proof).is_ok();
        if !self.keys.iter().any(proved) {
            return None;
        }
        Some(Origin {
            submission: Uuid::from_slice(said.get(..16)?).ok()?,
            action_order: i16::from_be_bytes(said.get(16..18)?.try_into().ok()?).into(),
            generation: u16::from_be_bytes(said.get(18..20)?.try_into().ok()?).into(),
        })
    }
}

fn token(key: &Key, origin: Origin) -> Option<String> {
    let Origin { submission, action_order, generation } = origin;
    let mut bytes = submission.as_bytes().to_vec();
    bytes.extend(i16::try_from(action_order).ok()?.to_be_bytes());
    bytes.extend(u16::try_from(generation).ok()?.to_be_bytes());
    let proof = prove(key, &bytes);
    bytes.extend(proof);
    Some(BASE32_NOPAD_NOCASE.encode(&bytes).to_ascii_lowercase())
}

fn prove(key: &Key, said: &[u8]) -> Vec<u8> {
    let tag = hmac::sign(key, &[PURPOSE, said].concat());
    tag.as_ref().iter().take(PROVED).copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "4f1c7f0d6d6e4a0c8a53d9b8b7a1c0de";
    const OTHER: &str = "00000000000000000000000000000001";
    const ORIGIN: Origin =
        Origin { submission: Uuid::from_u128(0x0123_4567_89ab_cdef), action_order: 2, generation: 1 };

    fn ours() -> ReturnAddress {
        ReturnAddress::new("maple-bounces@maple.example.org", SECRET).expect("a secret")
    }

    fn token_of(sender: &str) -> &str {
        sender
            .split_once('+')
            .and_then(|(_, rest)| rest.split_once('@'))
            .map(|(token, _)| token)
            .expect("a token")
    }

    #[test]
    fn a_sender_is_stable_short_and_read_back() {
        let sender = ours().sender(ORIGIN);
        // Written out: a token made today must be read by every later version for as long as mails may be returned.
        assert_eq!(
            sender,
            "maple-bounces+aaaaaaaaaaaaaajdivtytk6n54aaeaabjjpfnqcxmefzlflp@maple.example.org"
        );
        assert_eq!(sender, ours().sender(ORIGIN));
        assert_eq!(ours().origin(&sender), Some(ORIGIN));
        assert_eq!(token_of(&sender).len(), TOKEN);
        let longest =
            ReturnAddress::new("router-bounces1@example.org", SECRET).expect("a secret").sender(ORIGIN);
        assert_eq!(longest.split('@').next().map(str::len), Some(64), "RFC 5321's limit: {longest}");
    }

    #[test]
    fn case_delimiter_and_domain_do_no_harm() {
        let sender = ours().sender(ORIGIN);
        let token = token_of(&sender);
        for address in [
            sender.to_ascii_uppercase(),
            format!("Maple-Bounces+{token}@MAPLE.example.org"),
            format!("former-name+{token}@other.example.org"),
            format!("srs+tag+{token}@forwarder.example.net"),
        ] {
            assert_eq!(ours().origin(&address), Some(ORIGIN), "{address}");
        }
    }

    #[test]
    fn what_is_forged_cut_or_signed_by_others_is_refused() {
        let sender = ours().sender(ORIGIN);
        let token = token_of(&sender).to_owned();
        let foreign = ReturnAddress::new("maple-bounces@maple.example.org", OTHER).expect("a secret");
        let at = |token: &str| format!("maple-bounces+{token}@maple.example.org");
        for forged in [
            foreign.sender(ORIGIN),
            at(&token[..TOKEN - 1]),
            at(&token[..TOKEN - 16]),
            at(&format!("{token}a")),
            at(&format!("{token}{token}")),
            at(&"a".repeat(TOKEN)),
            at(&token.replace('a', "1")),
            at(&token.replacen('a', "\u{e4}", 1)),
            at(""),
            format!("maple-bounces-{token}@maple.example.org"),
            "maple-bounces@maple.example.org".to_owned(),
            token.clone(),
            String::new(),
        ] {
            assert_eq!(ours().origin(&forged), None, "{forged}");
        }
        // Another submission, order or generation under this proof.
        let (said, proof) = token.split_at(SAID * 8 / 5);
        for index in 0..said.len() {
            let mut changed = said.to_owned();
            let other = if &said[index..=index] == "b" { "c" } else { "b" };
            changed.replace_range(index..=index, other);
            assert_eq!(ours().origin(&at(&format!("{changed}{proof}"))), None, "{index}");
        }
    }

    #[test]
    fn the_first_secret_signs_and_all_verify() {
        let before = ours().sender(ORIGIN);
        let rotated =
            ReturnAddress::new("b@example.org", &format!("\n{OTHER}\n {SECRET} \r\n")).expect("secrets");
        assert_eq!(rotated.origin(&before), Some(ORIGIN), "on its way while the secret was changed");
        let after = rotated.sender(ORIGIN);
        assert_eq!((rotated.origin(&after), ours().origin(&after)), (Some(ORIGIN), None));
    }

    #[test]
    fn bad_secrets_are_named_and_not_shown() {
        for (secrets, named) in [
            ("", "no secret"),
            (" \n\t\n", "no secret"),
            ("short-word", "secret 1"),
            (&format!("{SECRET}\nx"), "secret 2"),
        ] {
            let shown = ReturnAddress::new("b@example.org", secrets).expect_err(named);
            assert!(shown.contains(named) && shown.contains("openssl rand -hex 32"), "{shown}");
            assert!(!shown.contains("short-word"), "{shown}");
        }
        let shown = format!("{:?}", ours());
        assert!(!shown.contains(SECRET) && shown.contains("1 secrets"), "{shown}");
    }

    #[test]
    fn numbers_without_room_go_without_a_token() {
        for origin in [
            Origin { action_order: 32_768, ..ORIGIN },
            Origin { action_order: -32_769, ..ORIGIN },
            Origin { generation: 65_536, ..ORIGIN },
        ] {
            assert_eq!(ours().sender(origin), "maple-bounces@maple.example.org");
        }
    }

    proptest! {
        #[test]
        fn every_origin_is_read_back(
            submission in any::<u128>(), action_order in any::<i16>(), generation in any::<u16>(), upper in any::<bool>(),
        ) {
            let origin = Origin {
                submission: Uuid::from_u128(submission),
                action_order: action_order.into(),
                generation: generation.into(),
            };
            let sender = ours().sender(origin);
            prop_assert!(sender.is_ascii() && sender.split('@').next().is_some_and(|local| local.len() <= 64));
            let sender = if upper { sender.to_ascii_uppercase() } else { sender };
            prop_assert_eq!(ours().origin(&sender), Some(origin));
        }

        #[test]
        fn nothing_else_is_read(address in "\\PC{0,80}", token in "[a-zA-Z2-7]{48}") {
            prop_assert_eq!(ours().origin(&address), None);
            let forged = format!("maple-bounces+{token}@maple.example.org");
            prop_assert_eq!(ours().origin(&forged), None);
        }

        #[test]
        fn one_changed_character_is_enough(index in 0..TOKEN, to in "[a-z2-7]") {
            let sender = ours().sender(ORIGIN);
            let mut token = token_of(&sender).to_owned();
            prop_assume!(token[index..=index] != to);
            token.replace_range(index..=index, &to);
            let forged = format!("maple-bounces+{token}@maple.example.org");
            prop_assert_eq!(ours().origin(&forged), None);
        }
    }
}
