//! `[happyfox]`: the help desk, and what of a form goes into which field of a ticket. Rules of nested sections, which need a
//! name each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::attachments::Attachments;
use super::problem::Problem;
use super::s;

/// Path of the API below an account's address.
const API: &str = "/api/1.1/json/";

section! {
    /// `[happyfox.forms.FORM]`
    HappyFoxForm {
        /// Field with the contact's address, instead of the one for all forms.
        contact_email_field: Option<String> = None,
        /// Field with the contact's name, instead of the one for all forms.
        contact_name_field: Option<String> = None,
        /// The way of this form's attachments ([`Attachments`]).
        attachments: Attachments = Attachments::Link,
        /// Custom fields of the ticket: id in the API's list, and an expression for the value.
        custom_fields: BTreeMap<String, String> = BTreeMap::new(),
        /// Custom fields of the contact, likewise.
        contact_custom_fields: BTreeMap<String, String> = BTreeMap::new(),
    }
}

section! {
    /// `[happyfox]`: the help desk; without an address, actions that want a ticket stay not implemented.
    HappyFox {
        /// Address of the account; absent: off.
        base_url: Option<String> = None,
        /// File holding the API key; absent: systemd's credential `happyfox-api-key`.
        api_key_file: Option<PathBuf> = None,
        /// File holding the auth code; absent: systemd's credential `happyfox-auth-code`.
        auth_code_file: Option<PathBuf> = None,
        /// Field with the contact's address.
        contact_email_field: Option<String> = None,
        /// Field with the contact's name.
        contact_name_field: Option<String> = None,
        /// Address of the contact where a submission has none that can be used.
        fallback_contact_email: Option<String> = None,
        /// Name of that contact.
        fallback_contact_name: String = "Web form".to_owned(),
        /// Tickets a minute at most, of all daemons of the database.
        max_per_minute: u32 = 120,
        /// Time over which a ticket that may exist is looked for, before it is sent again or held.
        #[serde(with = "humantime_serde")] doubt_window: Duration = s(120),
        /// Name look-up, TCP and TLS.
        #[serde(with = "humantime_serde")] connect_timeout: Duration = s(5),
        /// Silence of a connection.
        #[serde(with = "humantime_serde")] read_timeout: Duration = s(30),
        /// One request, from connect to the last byte of its answer.
        #[serde(with = "humantime_serde")] timeout: Duration = s(60),
        /// `[happyfox.forms.FORM]`
        forms: BTreeMap<String, HappyFoxForm> = BTreeMap::new(),
    }
}

impl HappyFox {
    /// Whether there is a help desk.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.base_url.is_some()
    }

    /// Field with the address of this form's contact.
    #[must_use]
    pub fn contact_email_field(&self, form: &str) -> Option<&str> {
        let own = self.forms.get(form).and_then(|form| form.contact_email_field.as_deref());
        own.or(self.contact_email_field.as_deref())
    }

    /// Field with the name of this form's contact.
    #[must_use]
    pub fn contact_name_field(&self, form: &str) -> Option<&str> {
        let own = self.forms.get(form).and_then(|form| form.contact_name_field.as_deref());
        own.or(self.contact_name_field.as_deref())
    }

    /// The way of this form's attachments.
    #[must_use]
    pub fn attachments(&self, form: &str) -> Attachments {
        self.forms.get(form).map_or(Attachments::Link, |form| form.attachments)
    }

    /// The page on which agents see a ticket.
    #[must_use]
    pub fn ticket_url(&self, id: u64) -> Option<String> {
        let mut url = happyfox_api(self.base_url.as_deref()?).ok()?;
        url.set_path(&format!("/staff/ticket/{id}"));
        Some(url.into())
    }
}

/// The API's address for an account's, with a slash at its end.
///
/// # Errors
/// What is wrong with the address.
pub fn happyfox_api(address: &str) -> Result<Url, &'static str> {
    let mut url = Url::parse(address.trim()).map_err(|_| "is no URL")?;
    let own_machine = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err("has no host"),
    };
    // The help desk takes a POST by plain http for a GET, and the credentials would travel in the clear.
    if url.scheme() != "https" && !(url.scheme() == "http" && own_machine) {
        return Err("must be https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have credentials in it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither ? nor #");
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.is_empty() && path != API.trim_end_matches('/') {
        return Err("must have no path but /api/1.1/json");
    }
    url.set_path(API);
    Ok(url)
}

/// What keeps the help desk, or forms' tickets, from being what the file says.
pub(super) fn problems(config: &HappyFox) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(address) = &config.base_url
        && let Err(rule) = happyfox_api(address)
    {
        // Whoever puts the credentials into the address does not want them on a screen.
        let shown = if address.contains('@') { "<not shown>".to_owned() } else { format!("{address:?}") };
        found.push(Problem {
            keys: vec![("happyfox.base_url".to_owned(), shown)],
            rule: rule.to_owned(),
            remedy: "set it to the account's address, e.g. https://ACCOUNT.happyfox.com (.happyfox.net in the EU), or \
                     leave it out for no help desk"
                .to_owned(),
        });
    }
    for (name, form) in &config.forms {
        let section = format!("happyfox.forms.{name}");
        let mut add = |key: &str, value: &str, rule: &str, remedy: &str| {
            found.push(Problem {
                keys: vec![(format!("{section}{key}"), value.to_owned())],
                rule: rule.to_owned(),
                remedy: remedy.to_owned(),
            });
        };
        if name.trim().is_empty() {
            add("", "the name", "must name a form", "rename the section, e.g. [happyfox.forms.contact]");
        }
        let fields = [
            (".contact_email_field", &form.contact_email_field),
            (".contact_name_field", &form.contact_name_field),
        ];
        for (key, field) in fields {
            if field.as_deref().is_some_and(|field| field.trim().is_empty()) {
                add(key, "\"\"", "must be the key of a field", "leave it out for the one of all forms");
            }
        }
        let tables =
            [("custom_fields", &form.custom_fields), ("contact_custom_fields", &form.contact_custom_fields)];
        for (table, entries) in tables {
            for (id, expression) in entries {
                let (key, value) = (format!(".{table}.{id}"), format!("{expression:?}"));
                if !id.parse::<u64>().is_ok_and(|number| number > 0) {
                    add(
                        &key,
                        &value,
                        "must have the id of a custom field as its key",
                        "take the id from the API's ticket_custom_fields/ or user_custom_fields/, e.g. 12 = \
                         \"fields.region\"",
                    );
                }
                if let Err(error) = minijinja::Environment::empty().compile_expression(expression) {
                    add(
                        &key,
                        &value,
                        &format!("is no expression ({})", error.kind()),
                        "write it as between {{ and }} in a template, e.g. \"fields.region\"",
                    );
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::validate::problems as all;
    use crate::config::validate::tests::sound;

    #[test]
    fn an_address_is_the_accounts_with_or_without_the_apis_path() {
        for (address, expected) in [
            ("https://acme.happyfox.com", "https://acme.happyfox.com/api/1.1/json/"),
            ("https://acme.happyfox.net/", "https://acme.happyfox.net/api/1.1/json/"),
            (" https://Help.Example.org/api/1.1/json ", "https://help.example.org/api/1.1/json/"),
            ("https://acme.happyfox.com//api/1.1/json//", ""),
            ("https://acme.happyfox.com/api/1.1/json/", "https://acme.happyfox.com/api/1.1/json/"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/api/1.1/json/"),
            ("http://[::1]:8080/", "http://[::1]:8080/api/1.1/json/"),
            ("http://localhost", "http://localhost/api/1.1/json/"),
            ("http://acme.happyfox.com", ""),
            ("http://localhost.example.org", ""),
            ("acme.happyfox.com", ""),
            ("ftp://localhost", ""),
            ("https://key:code@acme.happyfox.com", ""),
            ("https://acme.happyfox.com/api/1.0/json/", ""),
            ("https://acme.happyfox.com/?x=1", ""),
            ("https://acme.happyfox.com/#x", ""),
            ("", ""),
        ] {
            let found = happyfox_api(address).map(String::from).unwrap_or_default();
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn a_form_overrides_what_is_for_all() {
        let config = HappyFox {
            base_url: Some("https://acme.happyfox.com/api/1.1/json".to_owned()),
            contact_email_field: Some("email".to_owned()),
            contact_name_field: Some("name".to_owned()),
            forms: BTreeMap::from([(
                "tips".to_owned(),
                HappyFoxForm {
                    contact_email_field: Some("reach_me".to_owned()),
                    attachments: Attachments::Inline,
                    ..HappyFoxForm::default()
                },
            )]),
            ..HappyFox::default()
        };
        let of = |form| {
            (config.contact_email_field(form), config.contact_name_field(form), config.attachments(form))
        };
        assert_eq!(of("tips"), (Some("reach_me"), Some("name"), Attachments::Inline));
        assert_eq!(of("other"), (Some("email"), Some("name"), Attachments::Link));
        assert_eq!(config.ticket_url(7).as_deref(), Some("https://acme.happyfox.com/staff/ticket/7"));
        assert_eq!(HappyFox::default().ticket_url(7), None);
    }

    #[test]
    fn what_a_form_names_is_told_by_its_key() {
        type Break = fn(&mut HappyFoxForm);
        let cases: &[(&str, Break)] = &[
            ("happyfox.forms.tips.contact_email_field", |f| f.contact_email_field = Some(" ".to_owned())),
            ("happyfox.forms.tips.contact_name_field", |f| f.contact_name_field = Some(String::new())),
            ("happyfox.forms.tips.custom_fields.region", |f| {
                f.custom_fields.insert("region".to_owned(), "fields.region".to_owned());
            }),
            ("happyfox.forms.tips.custom_fields.0", |f| {
                f.custom_fields.insert("0".to_owned(), "fields.region".to_owned());
            }),
            ("happyfox.forms.tips.contact_custom_fields.3", |f| {
                f.contact_custom_fields.insert("3".to_owned(), "fields.(".to_owned());
            }),
            ("happyfox.forms.tips.custom_fields.3", |f| {
                f.custom_fields.insert("3".to_owned(), String::new());
            }),
        ];
        for (key, change) in cases {
            let mut config = sound();
            let form = config.happyfox.forms.entry("tips".to_owned()).or_default();
            form.custom_fields.insert("12".to_owned(), "fields.region | default('none')".to_owned());
            assert_eq!(all(&config), vec![]);
            change(config.happyfox.forms.get_mut("tips").expect("there"));
            let told = all(&config);
            let keys: Vec<_> = told.iter().map(|problem| problem.keys[0].0.as_str()).collect();
            assert_eq!(keys, [*key], "{told:?}");
        }
        let mut config = sound();
        config.happyfox.forms.entry(" ".to_owned()).or_default();
        assert_eq!(all(&config).len(), 1);
    }

    #[test]
    fn credentials_in_the_address_are_refused_and_not_shown() {
        let address = "https://s3cret:s3cret@acme.happyfox.com".to_owned();
        let told = problems(&HappyFox { base_url: Some(address), ..HappyFox::default() });
        let [told] = &told[..] else { panic!("one: {told:?}") };
        assert!(told.to_string().contains("must not have credentials in it"), "{told}");
        assert!(!told.to_string().contains("s3cret"), "{told}");
    }
}
