//! Pauses: an operator's order to leave submissions alone for a while, and its scope (interfaces, `pause`).
//!
//! Invariant: no I/O here; database time is an argument. A pause spends no attempt, ever: a paused submission is either
//! not claimed, or given back unspent.

mod board;
pub mod presence;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::submission::destination::domain_of;
use super::submission::text::shell_word;

pub use board::PauseBoard;

/// Scope of a pause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "scope", content = "value", rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    All,
    /// One form, by its id.
    Form(String),
    /// One destination domain, in lower case.
    Destination(String),
}

impl Scope {
    /// Makes the scope of a domain as people write it.
    #[must_use]
    pub fn destination(domain: &str) -> Self {
        Self::Destination(domain.trim().trim_start_matches('@').trim_end_matches('.').to_lowercase())
    }

    /// Label stored and shown.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Form(_) => "form",
            Self::Destination(_) => "destination",
        }
    }

    /// Value stored beside the label; empty for everything.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::All => "",
            Self::Form(value) | Self::Destination(value) => value,
        }
    }

    /// Makes the scope of a stored pair.
    #[must_use]
    pub fn of(label: &str, value: &str) -> Option<Self> {
        match label {
            "all" => Some(Self::All),
            "form" => Some(Self::Form(value.to_owned())),
            "destination" => Some(Self::Destination(value.to_owned())),
            _ => None,
        }
    }

    /// The arguments of `pause` and `resume` for this scope.
    #[must_use]
    pub fn arguments(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Form(form) => format!("--form {} ", shell_word(form)),
            Self::Destination(domain) => format!("--destination-domain {} ", shell_word(domain)),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everything"),
            Self::Form(form) => write!(f, "form {form}"),
            Self::Destination(domain) => write!(f, "destination domain {domain}"),
        }
    }
}

/// One pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Scope of the pause.
    #[serde(flatten)]
    pub scope: Scope,
    /// Start, database time.
    pub since: Timestamp,
    /// End, database time; absent: the pause lasts until it is resumed.
    pub until: Option<Timestamp>,
    /// Reason given by the operator.
    pub reason: String,
    /// Operator who made the pause.
    pub actor: String,
}

impl Pause {
    /// Whether the pause is in force at `now`, database time.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The command that ends the pause.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("maple-router resume {}--reason TEXT", self.scope.arguments())
    }
}

/// The pauses in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses(Vec<Pause>);

impl Pauses {
    /// Keeps the pauses of `all` in force at `now`, database time, by scope.
    #[must_use]
    pub fn in_force(all: impl IntoIterator<Item = Pause>, now: Timestamp) -> Self {
        let mut pauses: Vec<Pause> = all.into_iter().filter(|pause| pause.is_in_force(now)).collect();
        pauses.sort_by(|a, b| a.scope.cmp(&b.scope).then(a.since.cmp(&b.since)));
        Self(pauses)
    }

    /// Every pause in force.
    pub fn iter(&self) -> impl Iterator<Item = &Pause> {
        self.0.iter()
    }

    /// The pause of everything.
    #[must_use]
    pub fn of_all(&self) -> Option<&Pause> {
        self.find(|scope| *scope == Scope::All)
    }

    /// The pause of a form.
    #[must_use]
    pub fn of_form(&self, form_id: &str) -> Option<&Pause> {
        self.find(|scope| matches!(scope, Scope::Form(form) if form == form_id))
    }

    /// The pause of a delivery, by its key.
    #[must_use]
    pub fn of_delivery(&self, key: &str) -> Option<&Pause> {
        let domain = domain_of(key)?;
        self.find(|scope| matches!(scope, Scope::Destination(paused) if paused == domain))
    }

    /// The pause that leaves nothing to do for a submission of `form_id` with these open deliveries: of everything, of its
    /// form, or of every one of them.
    pub fn of_submission<'k>(
        &self,
        form_id: &str,
        open: impl IntoIterator<Item = &'k str>,
    ) -> Option<&Pause> {
        if let Some(pause) = self.of_all().or_else(|| self.of_form(form_id)) {
            return Some(pause);
        }
        let mut pauses = open.into_iter().map(|key| self.of_delivery(key));
        let first = pauses.next()??;
        pauses.all(|pause| pause.is_some()).then_some(first)
    }

    /// Ids of the paused forms, which a sweep skips.
    #[must_use]
    pub fn form_ids(&self) -> Vec<String> {
        let forms = self.0.iter().filter_map(|pause| match &pause.scope {
            Scope::Form(form) => Some(form.clone()),
            Scope::All | Scope::Destination(_) => None,
        });
        forms.collect()
    }

    fn find(&self, wanted: impl Fn(&Scope) -> bool) -> Option<&Pause> {
        self.0.iter().find(|pause| wanted(&pause.scope))
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn pause(scope: Scope, until: Option<&str>) -> Pause {
        let (reason, actor) = ("why".to_owned(), "operator:alice".to_owned());
        Pause { scope, since: at("2026-11-01T00:00:00Z"), until: until.map(at), reason, actor }
    }

    fn pauses(scopes: &[Scope]) -> Pauses {
        let all = scopes.iter().map(|scope| pause(scope.clone(), None));
        Pauses::in_force(all, at("2026-11-01T10:00:00Z"))
    }

    #[test]
    fn whom_a_pause_holds_up() {
        let (all, form) = (Scope::All, Scope::Form("f".to_owned()));
        let x = Scope::destination(" @X.Test. ");
        let y = Scope::destination("y.test");
        let table: &[(&[Scope], &[&str], Option<&Scope>)] = &[
            (&[], &["1|a@x.test"], None),
            (slice::from_ref(&all), &["1|a@x.test"], Some(&all)),
            (slice::from_ref(&form), &["1|a@x.test"], Some(&form)),
            (&[form.clone(), all.clone()], &[], Some(&all)),
            (&[Scope::Form("g".to_owned())], &["1|a@x.test"], None),
            (slice::from_ref(&x), &["1|a@x.test"], Some(&x)),
            (slice::from_ref(&x), &["1|a@x.test", "1|b@x.test", "2|a@x.test"], Some(&x)),
            (slice::from_ref(&x), &["1|a@x.test", "2|a@y.test"], None),
            (&[x.clone(), y], &["1|a@x.test", "2|a@y.test"], Some(&x)),
            (slice::from_ref(&x), &["1|a@sub.x.test"], None),
            (slice::from_ref(&x), &["1|a@x.test", "2|"], None),
            (slice::from_ref(&x), &["1|!2"], None),
            (slice::from_ref(&x), &[], None),
        ];
        for (scopes, open, expected) in table {
            let pauses = pauses(scopes);
            let found = pauses.of_submission("f", open.iter().copied()).map(|pause| &pause.scope);
            assert_eq!(found, *expected, "{scopes:?} {open:?}");
        }
    }

    #[test]
    fn a_pause_ends_when_the_database_says_so() {
        let until = pause(Scope::All, Some("2026-11-01T10:00:00Z"));
        for (now, in_force) in [
            ("2026-11-01T09:59:59.999Z", true),
            ("2026-11-01T10:00:00Z", false),
            ("2027-01-01T00:00:00Z", false),
        ] {
            assert_eq!(Pauses::in_force([until.clone()], at(now)).of_all().is_some(), in_force, "{now}");
        }
    }

    #[test]
    fn scopes_are_stored_and_read_back() {
        for scope in [Scope::All, Scope::Form("f".to_owned()), Scope::destination("x.test")] {
            assert_eq!(Scope::of(scope.label(), scope.value()), Some(scope.clone()));
            let stored = serde_json::to_string(&pause(scope.clone(), None)).expect("JSON");
            assert_eq!(serde_json::from_str::<Pause>(&stored).expect(&stored).scope, scope);
        }
        assert_eq!(Scope::of("planet", "mars"), None);
        assert_eq!(pauses(&[Scope::Form("f".to_owned()), Scope::All]).form_ids(), ["f"]);
    }
}
