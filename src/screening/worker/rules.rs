//! The rules of each form, compiled once at the start: a set that does not compile ends the start, and nothing is screened by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Screening, ScreeningForm};
use crate::screening::run::Profile;
use crate::screening::tier1::{FieldsPolicy, Ruleset, RulesetError};

/// Rules and settings of all forms.
#[derive(Debug)]
pub struct Rulesets {
    forms: BTreeMap<String, (ScreeningForm, Arc<Ruleset>)>,
    others: (ScreeningForm, Arc<Ruleset>),
    git: Arc<Ruleset>,
    extra: String,
}

impl Rulesets {
    /// Compiles the rules; `extra` is the operator's own document.
    ///
    /// # Errors
    /// [`RulesetError`], which names the rule and the remedy.
    pub fn new(config: &Screening, extra: &str) -> Result<Self, RulesetError> {
        let fields = |form: &ScreeningForm| {
            let policy = FieldsPolicy {
                protected_domains: config.protected_domains.clone(),
                known_domains: config.known_domains.clone(),
                honeypot_fields: form.honeypot_fields.clone(),
                same_digest_per_hour: form.same_per_hour,
                ..FieldsPolicy::default()
            };
            Ruleset::with(Profile::Fields, &policy, extra).map(Arc::new)
        };
        let forms = config.forms.iter().map(|(name, form)| Ok((name.clone(), (form.clone(), fields(form)?))));
        let others = ScreeningForm::default();
        let compiled = fields(&others)?;
        Ok(Self {
            forms: forms.collect::<Result<_, RulesetError>>()?,
            others: (others, compiled),
            git: Arc::new(Ruleset::with(Profile::Git, &FieldsPolicy::default(), extra)?),
            extra: extra.to_owned(),
        })
    }

    /// The operator's own document.
    #[must_use]
    pub fn extra(&self) -> &str {
        &self.extra
    }

    /// The settings of a form.
    #[must_use]
    pub fn form(&self, form: &str) -> ScreeningForm {
        self.forms.get(form).map_or_else(|| self.others.0.clone(), |(settings, _)| settings.clone())
    }

    /// The rules of a form for a profile.
    #[must_use]
    pub fn of(&self, form: &str, profile: Profile) -> Arc<Ruleset> {
        match profile {
            Profile::Git => Arc::clone(&self.git),
            Profile::Fields => {
                let own = self.forms.get(form).map(|(_, rules)| rules);
                Arc::clone(own.unwrap_or(&self.others.1))
            }
        }
    }
}
