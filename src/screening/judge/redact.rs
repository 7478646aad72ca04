//! What may leave for a judge: values of a form without what is personal in them. Pure.
//!
//! A field whose name says that it is personal leaves as a tag alone. In every other one addresses, numbers and the words of
//! such a name become tags; of links the hosts stay, because they are evidence. It errs on the side of hiding. A name in free
//! text that no field gives is not found.

use std::collections::BTreeSet;

use super::addresses::without_addresses;
use super::spans::{self, Number};
use crate::kernel::words;

words! {
    /// Kind of personal value, and its tag.
    Kind {
        /// An e-mail address.
        Email = "email",
        /// A telephone number.
        Phone = "phone",
        /// A bank account.
        Iban = "iban",
        /// A number like a payment card's.
        Card = "card",
        /// Any other long number.
        Digits = "digits",
        /// A person's name.
        Name = "name",
        /// A postal address.
        Address = "address",
        /// A date of birth, an age.
        Birth = "birth",
        /// A number by which an authority knows somebody.
        Identity = "identity",
        /// User, path and query of a link.
        Link = "link",
    }
}

/// Longest value of a personal field that is taken for one, in characters; an address has several lines.
const USUAL: usize = 80;
/// The same of an address.
const USUAL_ADDRESS: usize = 200;
/// Longest name, in words, that is looked for in other fields: no more of them can be hidden by what stands in one.
const WORDS_OF_A_NAME: usize = 4;

/// Parts of field names that say what a field holds, wherever they stand in it.
const PARTS: [(&str, Kind); 24] = [
    ("email", Kind::Email),
    ("e_mail", Kind::Email),
    ("phone", Kind::Phone),
    ("telefon", Kind::Phone),
    ("mobile", Kind::Phone),
    ("whatsapp", Kind::Phone),
    ("iban", Kind::Iban),
    ("account", Kind::Iban),
    ("creditcard", Kind::Card),
    ("credit_card", Kind::Card),
    ("birth", Kind::Birth),
    ("geburt", Kind::Birth),
    ("passport", Kind::Identity),
    ("social_security", Kind::Identity),
    ("national_id", Kind::Identity),
    ("address", Kind::Address),
    ("adresse", Kind::Address),
    ("street", Kind::Address),
    ("strasse", Kind::Address),
    ("straße", Kind::Address),
    ("postcode", Kind::Address),
    ("postal", Kind::Address),
    ("name", Kind::Name),
    ("signature", Kind::Name),
];

/// Whole words of field names that say it.
const WORDS: [(&str, Kind); 27] = [
    ("mail", Kind::Email),
    ("tel", Kind::Phone),
    ("cell", Kind::Phone),
    ("handy", Kind::Phone),
    ("mobil", Kind::Phone),
    ("fax", Kind::Phone),
    ("bic", Kind::Iban),
    ("konto", Kind::Iban),
    ("card", Kind::Card),
    ("dob", Kind::Birth),
    ("born", Kind::Birth),
    ("age", Kind::Birth),
    ("ssn", Kind::Identity),
    ("taxid", Kind::Identity),
    ("zip", Kind::Address),
    ("zipcode", Kind::Address),
    ("plz", Kind::Address),
    ("city", Kind::Address),
    ("town", Kind::Address),
    ("ort", Kind::Address),
    ("county", Kind::Address),
    ("first", Kind::Name),
    ("last", Kind::Name),
    ("contact", Kind::Name),
    ("author", Kind::Name),
    ("sender", Kind::Name),
    ("from", Kind::Name),
];

/// The values, name and text, without what is personal by these kinds.
#[must_use]
pub fn redact(values: &[(String, String)], kinds: &[Kind]) -> Vec<(String, String)> {
    let known = if kinds.contains(&Kind::Name) { Known::of(values) } else { Known::default() };
    let redactor = Redactor { kinds, known };
    let redacted = |(name, value): &(String, String)| {
        // No name, number or address is longer: that is a text, which is to be judged, whatever its field is called.
        let length = value.chars().take(USUAL_ADDRESS + 1).count();
        let usual = |kind| if kind == Kind::Address { USUAL_ADDRESS } else { USUAL };
        let own = kind_of(name).filter(|kind| length <= usual(*kind) && kinds.contains(kind));
        (name.clone(), own.map_or_else(|| redactor.text(value), |kind| redactor.whole(value, kind)))
    };
    values.iter().map(redacted).collect()
}

/// The kind of value that a field's name promises.
#[must_use]
pub fn kind_of(field: &str) -> Option<Kind> {
    let words = words_of(field);
    let joined = words.join("_");
    let part = PARTS.iter().find(|(part, _)| joined.contains(part));
    let word = || WORDS.iter().find(|(word, _)| words.iter().any(|other| other == word));
    part.or_else(word).map(|(_, kind)| *kind)
}

/// The words of a field's name, in lower case: `billingFirst_name` has three.
fn words_of(field: &str) -> Vec<String> {
    let (mut words, mut before) = (vec![String::new()], ' ');
    for c in field.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

/// Words of the names that fields give.
#[derive(Default)]
struct Known {
    /// In lower case.
    long: BTreeSet<String>,
    /// Of two letters, as they were written: many languages have such words.
    short: BTreeSet<String>,
}

impl Known {
    fn of(values: &[(String, String)]) -> Self {
        let mut known = Self::default();
        for (_, value) in values.iter().filter(|(name, _)| kind_of(name) == Some(Kind::Name)) {
            let words: Vec<&str> =
                value.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
            if words.len() > WORDS_OF_A_NAME || value.chars().count() > USUAL {
                continue;
            }
            for word in words {
                match word.chars().count() {
                    0 | 1 => {}
                    2 => {
                        known.short.insert(word.to_owned());
                    }
                    _ => {
                        known.long.insert(word.to_lowercase());
                    }
                }
            }
        }
        known
    }

    fn has(&self, word: &str) -> bool {
        self.short.contains(word) || self.long.contains(&word.to_lowercase())
    }
}

struct Redactor<'a> {
    kinds: &'a [Kind],
    known: Known,
}

impl Redactor<'_> {
    /// The tag instead of a value; links in it are evidence even there.
    fn whole(&self, value: &str, kind: Kind) -> String {
        if value.trim().is_empty() {
            return String::new();
        }
        let tag = tag(kind);
        let links = spans::links(value).into_iter().map(|link| link.shown);
        [tag].into_iter().chain(links).collect::<Vec<_>>().join(" ")
    }

    fn text(&self, value: &str) -> String {
        value.split('\n').map(|line| self.line(line)).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, line: &str) -> String {
        if !self.kinds.contains(&Kind::Link) {
            return self.words(line);
        }
        let (mut out, mut kept) = (String::with_capacity(line.len()), 0);
        for link in spans::links(line) {
            out.push_str(&self.words(&line[kept..link.range.start]));
            out.push_str(&link.shown);
            kept = link.range.end;
        }
        out.push_str(&self.words(&line[kept..]));
        out
    }

    /// What stands between links.
    fn words(&self, text: &str) -> String {
        let mut out = text.to_owned();
        if self.kinds.contains(&Kind::Email) {
            out = without_addresses(&out, &tag(Kind::Email));
        }
        out = self.without_numbers(&out);
        if self.known.long.is_empty() && self.known.short.is_empty() { out } else { self.without_names(&out) }
    }

    fn without_numbers(&self, text: &str) -> String {
        let (mut out, mut kept) = (String::with_capacity(text.len()), 0);
        for (range, number) in spans::numbers(text) {
            let kind = match number {
                Number::Iban => Kind::Iban,
                Number::Card => Kind::Card,
                Number::Phone => Kind::Phone,
                Number::Digits => Kind::Digits,
            };
            if self.kinds.contains(&kind) {
                out.push_str(&text[kept..range.start]);
                out.push_str(&tag(kind));
                kept = range.end;
            }
        }
        out.push_str(&text[kept..]);
        out
    }

    fn without_names(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let ends = |inside: char| inside.is_alphabetic() != c.is_alphabetic();
            let (run, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            // A tag of ours stays one.
            let tagged = out.ends_with('<') && Kind::parse(run).is_some();
            if !tagged && self.known.has(run) {
                out.push_str(&tag(Kind::Name));
            } else {
                out.push_str(run);
            }
            rest = behind;
        }
        out
    }
}

fn tag(kind: Kind) -> String {
    format!("<{kind}>")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(values: &[(&str, &str)]) -> Vec<String> {
        let values: Vec<_> =
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        redact(&values, Kind::ALL).into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn field_names_say_what_they_hold() {
        for (name, expected) in [
            ("email", Some(Kind::Email)),
            ("contactEMail", Some(Kind::Email)),
            ("E-Mail-Adresse", Some(Kind::Email)),
            ("your_mail", Some(Kind::Email)),
            ("phone_number", Some(Kind::Phone)),
            ("Tel.", Some(Kind::Phone)),
            ("first_name", Some(Kind::Name)),
            ("lastName", Some(Kind::Name)),
            ("Nachname", Some(Kind::Name)),
            ("username", Some(Kind::Name)),
            ("street2", Some(Kind::Address)),
            ("billing address", Some(Kind::Address)),
            ("plz", Some(Kind::Address)),
            ("date_of_birth", Some(Kind::Birth)),
            ("DOB", Some(Kind::Birth)),
            ("iban", Some(Kind::Iban)),
            ("passportNo", Some(Kind::Identity)),
            ("message", None),
            ("subject", None),
            ("topic", None),
            ("page", None),
            ("mailing_list", None),
            ("", None),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }

    #[test]
    fn personal_fields_are_tags_and_so_is_what_others_repeat() {
        let found = all(&[
            ("first_name", "Ada"),
            ("last_name", "Lovelace-Li"),
            ("email", "ada@example.org"),
            ("phone", ""),
            (
                "message",
                "Dear all,\nI am ADA Lovelace (Li), not li.\nada@example.org, +49 171 1234567\nBye, Adam",
            ),
        ]);
        assert_eq!(found[..4], ["<name>", "<name>", "<email>", ""]);
        assert_eq!(found[4], "Dear all,\nI am <name> <name> (<name>), not li.\n<email>, <phone>\nBye, Adam");
    }

    #[test]
    fn numbers_and_links_leave_as_their_kind() {
        let found = all(&[(
            "message",
            "DE89370400440532013000 4111 1111 1111 1111. No 123456.\r\nhttps://a:b@evil.example/u/ada?mail=ada@example.org#x",
        )]);
        assert_eq!(found[0], "<iban> <card>. No <digits>.\r\nhttps://<userinfo>@evil.example/<path>");
    }

    #[test]
    fn a_personal_field_hides_neither_a_link_nor_a_page_of_text() {
        let long = format!("win money {}", "now ".repeat(30));
        let found = all(&[
            ("name", "WIN https://evil.example/x NOW"),
            ("last_name", &long),
            ("message", "win money now"),
        ]);
        assert_eq!(found[0], "<name> https://evil.example/<path>");
        assert_eq!(found[1], long, "a text is judged, whatever its field is called");
        assert_eq!(found[2], "win money now", "neither is a name to be looked for");
    }

    #[test]
    fn only_what_is_asked_for_is_hidden() {
        let values = [
            ("name".to_owned(), "Ada".to_owned()),
            ("message".to_owned(), "Ada a@b.example 123456".to_owned()),
        ];
        assert_eq!(redact(&values, &[]), values);
        assert_eq!(redact(&values, &[Kind::Email])[1].1, "Ada <email> 123456");
        assert_eq!(redact(&values, &[Kind::Email])[0].1, "Ada");
    }

    proptest! {
        #[test]
        fn no_planted_value_survives(
            before in "[ a-z.,;:()\\[\\]/?#=&'-]{0,12}",
            behind in "[ a-z.,;:()\\[\\]/?#=&'-]{0,12}",
            local in "[a-z][a-z0-9]{6,10}",
            number in "[1-9][0-9]{8,14}",
            word in "[A-Z][a-z]{5,9}",
        ) {
            let address = format!("qq{local}zz@example.org");
            let text = format!("{before} {address} {behind} {number} {before} {word} {behind}");
            let (name, mail) = (word.clone(), address.clone());
            let found = all(&[("surname", &name), ("reply_email", &mail), ("message", &text)]).join("\n");
            prop_assert!(!found.contains(&local), "{found}");
            prop_assert!(!found.contains(&number), "{found}");
            prop_assert!(!found.contains(&word), "{found}");
        }

        #[test]
        fn hosts_stay_and_paths_go(host in "[a-z]{3,8}\\.example", path in "[a-zA-Z0-9_~%&=?/.-]{8,20}") {
            let found = all(&[("message", &format!("see https://{host}/q{path} there"))]).remove(0);
            prop_assert!(found.contains(&host) && !found.contains(&path), "{found}");
        }

        #[test]
        fn anything_can_be_redacted(text in any::<String>()) {
            let lines = all(&[("message", &text)])[0].split('\n').count();
            prop_assert_eq!(lines, text.split('\n').count());
        }
    }
}
