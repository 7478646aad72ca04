//! Domains that look like a protected one.

use unicode_security::{MixedScript, skeleton};

use crate::screening::tier1::fault::RulesetError;

/// How a host is like a protected domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// It is one, or is known.
    Known,
    /// It is not.
    None,
    /// It looks the same.
    Confusable,
    /// It is a slip of the keys away; sure where the name is long.
    Spelling { sure: bool },
    /// It has the protected domain before its own.
    Subdomain,
    /// Its own name has the protected one, and perhaps a word that lures.
    Name { lures: bool },
    /// It has the name under another suffix.
    Suffix,
}

/// Protected domains, and known ones.
pub(super) struct Domains {
    protected: Vec<Protected>,
    known: Vec<String>,
}

/// A protected domain.
struct Protected {
    domain: String,
    label: String,
    skeleton: String,
    label_skeleton: String,
}

/// What a host looks like.
struct Looks<'h> {
    whole: String,
    label: String,
    parts: Vec<(&'h str, String)>,
}

/// Shortest name that a name one slip away is surely meant for.
const LONG: usize = 7;
/// Shortest name that is compared by spelling.
const SHORT: usize = 5;
/// Words beside a name that ask for something.
const LURES: [&str; 28] = [
    "account",
    "bonus",
    "billing",
    "claim",
    "confirm",
    "donate",
    "donation",
    "donations",
    "gift",
    "help",
    "id",
    "login",
    "my",
    "pay",
    "payment",
    "prize",
    "refund",
    "secure",
    "security",
    "signin",
    "sso",
    "support",
    "unlock",
    "update",
    "verify",
    "verification",
    "wallet",
    "winner",
];

impl Domains {
    /// Reads the lists.
    ///
    /// # Errors
    ///
    /// A protected domain that is none below a public suffix.
    pub(super) fn new(protected: &[String], known: &[String]) -> Result<Self, RulesetError> {
        let read = |key, domain: &String| {
            let (unicode, result) = idna::domain_to_unicode(domain);
            let unicode = unicode.to_lowercase();
            let whole = psl::domain_str(&unicode) == Some(unicode.as_str());
            if result.is_ok() && whole { Ok(unicode) } else { Err(RulesetError::Domain { key }) }
        };
        let protected = protected
            .iter()
            .map(|domain| {
                let domain = read("protected_domains", domain)?;
                let label = label(&domain).to_owned();
                Ok(Protected { skeleton: look(&domain), label_skeleton: look(&label), domain, label })
            })
            .collect::<Result<Vec<_>, RulesetError>>()?;
        let known = known
            .iter()
            .map(|domain| read("known_domains", domain))
            .collect::<Result<Vec<_>, RulesetError>>()?;
        Ok(Self { protected, known })
    }

    /// How a host is like a protected domain: the gravest likeness.
    pub(super) fn likeness(&self, host: &str) -> Likeness {
        let registered = registered(host);
        if self.known.iter().any(|known| known == registered)
            || self.protected.iter().any(|protected| protected.domain == registered)
        {
            return Likeness::Known;
        }
        if self.protected.is_empty() {
            return Likeness::None;
        }
        let label = label(registered);
        let looks = Looks {
            whole: look(registered),
            label: look(label),
            parts: label.split('-').map(|part| (part, look(part))).collect(),
        };
        let before = host.strip_suffix(registered).unwrap_or_default();
        self.protected
            .iter()
            .map(|protected| protected.likeness(before, label, &looks))
            .min_by_key(|likeness| weight(*likeness))
            .unwrap_or(Likeness::None)
    }
}

impl Protected {
    /// How a domain is like this one: `before` is what stands before it in the host.
    fn likeness(&self, before: &str, label: &str, looks: &Looks<'_>) -> Likeness {
        let Looks { whole, label: of_label, parts } = looks;
        if *whole == self.skeleton || (*of_label == self.label_skeleton && label != self.label) {
            return Likeness::Confusable;
        }
        if is_before(before, &self.domain) {
            return Likeness::Subdomain;
        }
        if label == self.label {
            return Likeness::Suffix;
        }
        let length = self.label.chars().count();
        // As they look, so that a slip and a look-alike letter together are still one slip.
        let near = length >= SHORT
            && label.chars().count().abs_diff(length) <= 1
            && (strsim::osa_distance(label, &self.label) == 1
                || (length >= LONG && strsim::osa_distance(of_label, &self.label_skeleton) == 1));
        if near {
            return Likeness::Spelling { sure: length >= LONG };
        }
        let named = length >= SHORT
            && parts.iter().any(|(part, look)| *part == self.label || *look == self.label_skeleton);
        if named {
            return Likeness::Name { lures: parts.iter().any(|(part, _)| LURES.contains(part)) };
        }
        let joined = length >= SHORT
            && [label.strip_prefix(self.label.as_str()), label.strip_suffix(self.label.as_str())]
                .into_iter()
                .flatten()
                .any(|rest| LURES.contains(&rest));
        if joined { Likeness::Name { lures: true } } else { Likeness::None }
    }
}

/// Whether the labels before a registered domain have the protected domain.
fn is_before(before: &str, domain: &str) -> bool {
    before.match_indices(domain).any(|(at, _)| {
        (at == 0 || before[..at].ends_with(['.', '-'])) && before[at + domain.len()..].starts_with(['.', '-'])
    }) || {
        let dashed = domain.replace('.', "-");
        before.split('.').any(|label| label == dashed)
    }
}

/// Order of likenesses: the gravest first.
fn weight(likeness: Likeness) -> u8 {
    match likeness {
        Likeness::Known => 0,
        Likeness::Confusable => 1,
        Likeness::Subdomain => 2,
        Likeness::Name { lures: true } => 3,
        Likeness::Spelling { sure: true } => 4,
        Likeness::Spelling { sure: false } => 5,
        Likeness::Name { lures: false } => 6,
        Likeness::Suffix => 7,
        Likeness::None => 8,
    }
}

/// The domain that was registered: the public suffix and a label. The host itself where that cannot be told.
pub(super) fn registered(host: &str) -> &str {
    psl::domain_str(host).unwrap_or(host)
}

/// The label that was registered.
fn label(registered: &str) -> &str {
    registered.split('.').next().unwrap_or_default()
}

/// What a name looks like: its skeleton, as Unicode's TS 39 has it, in lower case, with the digits that stand for letters.
fn look(name: &str) -> String {
    if name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-') {
        return plain_look(name);
    }
    let folded: String = name.chars().map(letter).collect();
    let seen: String = skeleton(&folded).collect();
    seen.to_lowercase().chars().map(letter).collect()
}

/// The same of a name in plain letters, of which the skeleton changes only `m`.
fn plain_look(name: &str) -> String {
    let mut seen = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        match c {
            'm' => seen.push_str("rn"),
            c => seen.push(letter(c)),
        }
    }
    seen
}

/// The letter that a digit stands for.
fn letter(c: char) -> char {
    match c {
        '0' => 'o',
        '1' | '|' | 'i' => 'l',
        '3' => 'e',
        '5' => 's',
        c => c,
    }
}

/// Whether a label of a host mixes scripts that no language mixes.
pub(super) fn mixes_scripts(host: &str) -> bool {
    !host.is_ascii() && host.split('.').any(|label| !label.is_single_script())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str) -> Likeness {
        let domains = Domains::new(
            &["greenpeace.org".to_owned(), "bank.example".to_owned()],
            &["greenpeace.de".to_owned()],
        );
        domains.unwrap().likeness(host)
    }

    #[test]
    fn look_alikes_are_told() {
        for (host, expected) in [
            ("gr\u{435}\u{435}npeace.org", Likeness::Confusable),
            ("greenpeace.org.evil.example", Likeness::Subdomain),
            ("login.greenpeace.org-secure.evil.com", Likeness::Subdomain),
            ("greenpeace-org.evil.com", Likeness::Subdomain),
            ("gr33npeace.org", Likeness::Confusable),
            ("greenpaece.org", Likeness::Spelling { sure: true }),
            ("greenpeacee.com", Likeness::Spelling { sure: true }),
            ("grenpeace.org", Likeness::Spelling { sure: true }),
            ("greenpeace-login.com", Likeness::Name { lures: true }),
            ("greenpeacedonations.net", Likeness::Name { lures: true }),
            ("greenpeace-fans.com", Likeness::Name { lures: false }),
            ("greenpeace.fr", Likeness::Suffix),
        ] {
            assert_eq!(of(host), expected, "{host}");
        }
    }

    #[test]
    fn near_misses_are_not() {
        for host in ["greenpeace.org", "act.greenpeace.org", "www.greenpeace.de"] {
            assert_eq!(of(host), Likeness::Known, "{host}");
        }
        for host in
            ["greenhouse.org", "peace.org", "green.org", "tank.example.org", "example.org", "bänke.de"]
        {
            assert_eq!(of(host), Likeness::None, "{host}");
        }
    }

    #[test]
    fn a_plain_name_looks_as_its_skeleton() {
        let name = "abcdefghijklmnopqrstuvwxyz-0123456789.";
        let folded: String = name.chars().map(letter).collect();
        let seen: String = skeleton(&folded).collect();
        let slow: String = seen.to_lowercase().chars().map(letter).collect();
        assert_eq!(plain_look(name), slow);
    }

    #[test]
    fn scripts_are_mixed_or_not() {
        assert!(mixes_scripts("p\u{430}ypal.com"));
        assert!(!mixes_scripts("münchen.de"));
        assert!(!mixes_scripts("пример.com"));
    }

    #[test]
    fn a_protected_domain_is_a_registered_one() {
        for domain in ["org", "www.greenpeace.org", "", "co.uk"] {
            assert!(Domains::new(&[domain.to_owned()], &[]).is_err(), "{domain}");
        }
    }
}
