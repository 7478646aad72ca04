//! What is said of a version to the policy, and the canaries that a policy is tried on first. Pure; the shape is the policy's
//! ([`policy::document`]).

use serde_json::{Map, Value};

use super::checks::FileState;
use super::content::{Blobs, Entry, Kind, entries};
use super::definition::{Action, Definition, Sample, Template};
use super::policy::document::{Changes, Counts, Destination, Limits, SharedTemplate};
use super::policy::{self, Canaries, Document};
use super::preview::{Composer, Preview};
use super::signing::Signed;
use super::store::{Shared, Source};
use super::table::Command;

/// What is said of a version beside its content.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The command that is judged.
    pub command: Command,
    /// The version's number.
    pub number: u32,
    /// Its digest, in hexadecimal digits.
    pub digest: &'a str,
    /// Where it comes from.
    pub source: Source,
    /// Whoever loaded it.
    pub author: &'a str,
    /// Whoever gives the command.
    pub actor: &'a str,
    /// What is known of its files.
    pub files: &'a [FileState],
    /// Other forms that use its templates.
    pub shared: &'a [Shared],
    /// What the form follows now.
    pub current: Option<&'a Definition>,
    /// `mail.allowed_destination_domains`.
    pub allowed_domains: &'a [String],
    /// Signatures that count.
    pub signed: &'a [Signed],
}

/// The document of a definition.
#[must_use]
pub fn document(definition: &Definition, about: &About<'_>, composer: &dyn Composer) -> Value {
    let template = |(id, template): (&String, &Template)| {
        let users = definition.actions.iter().filter(|action| action.template.as_ref() == Some(id));
        policy::document::Template {
            id: id.clone(),
            subject: template.subject.clone(),
            body_text: template.body_text.clone(),
            body_html: template.body_html.clone(),
            used_by: users.map(|action| action.order).collect(),
        }
    };
    let asset = |file: &FileState| policy::document::Asset {
        name: file.name.clone(),
        content_type: file.shown_type.clone().unwrap_or_default(),
        length: file.length,
        verdict: file.is_there.then(|| file.verdict.clone()),
    };
    let document = Document {
        command: match about.command {
            Command::Promote => policy::document::Command::Promote,
            Command::Restore => policy::document::Command::Restore,
            // The others are not judged.
            Command::Publish | Command::Load | Command::Discard | Command::Tombstone | Command::Forget => {
                policy::document::Command::Publish
            }
        },
        form: policy::document::Form { id: definition.id.clone(), name: definition.name.clone() },
        version: policy::document::Version {
            number: about.number.into(),
            digest: about.digest.to_owned(),
            source: about.source.to_string(),
            author: about.author.to_owned(),
        },
        actor: about.actor.to_owned(),
        actions: definition.actions.iter().map(|action| self::action(action, composer)).collect(),
        templates: definition.templates.iter().map(template).collect(),
        assets: about.files.iter().map(asset).collect(),
        settings: Map::new(),
        samples: definition
            .samples
            .iter()
            .map(|sample| policy::document::Sample { name: sample.name.clone() })
            .collect(),
        limits: Limits { allowed_destination_domains: about.allowed_domains.to_vec() },
        changes: changes(about.current, definition),
        shared_templates: about
            .shared
            .iter()
            .map(|shared| SharedTemplate {
                template_id: shared.template_id.clone(),
                form_id: shared.form_id.clone(),
            })
            .collect(),
        signatures: about
            .signed
            .iter()
            .map(|signed| policy::document::Signature {
                signer: signed.signer.clone(),
                key: signed.key.clone(),
            })
            .collect(),
    };
    document.value()
}

fn action(action: &Action, composer: &dyn Composer) -> policy::document::Action {
    // What is no address is the built-in checks' business, and of no policy's.
    let addresses: Vec<String> = if action.kind.starts_with("email_") {
        composer.recipients(action).into_iter().flatten().collect()
    } else {
        Vec::new()
    };
    let destinations = addresses.into_iter().map(|address| {
        let (local, domain) = address.rsplit_once('@').unwrap_or((&address, ""));
        Destination { local: local.to_owned(), domain: domain.to_owned(), address: address.clone() }
    });
    policy::document::Action {
        action_order: action.order,
        action_type: action.kind.clone(),
        template_id: action.template.clone(),
        destinations: destinations.collect(),
        happyfox_category: action.category.clone(),
        subject_template: action.subject.clone(),
    }
}

/// What a version changes of the one that its form follows.
fn changes(before: Option<&Definition>, after: &Definition) -> Changes {
    let of = |definition: &Definition| entries(definition, &Blobs::new());
    let (before, after) = (before.map(of).unwrap_or_default(), of(after));
    let (mut actions, mut templates) = (Counts::default(), Vec::new());
    for entry in &after {
        let old = before.iter().find(|old| (old.kind, &old.key) == (entry.kind, &entry.key));
        if old.is_some_and(|old| old.content == entry.content) {
            continue;
        }
        match entry.kind {
            Kind::Action if old.is_some() => actions.changed += 1,
            Kind::Action => actions.added += 1,
            Kind::Template => templates.push(entry.key.clone()),
            Kind::Asset | Kind::Settings => {}
        }
    }
    let is_gone = |old: &&Entry| !after.iter().any(|entry| (old.kind, &old.key) == (entry.kind, &entry.key));
    let gone = before.iter().filter(is_gone).filter(|old| old.kind == Kind::Action).count();
    actions.removed = u32::try_from(gone).unwrap_or(u32::MAX);
    Changes { actions, templates }
}

/// The documents that every policy is tried on before it is believed: a form that any policy allows, and one that no policy may.
#[must_use]
pub fn canaries() -> Canaries {
    let action = |destination: &str| Action {
        order: 1,
        kind: "email_template".to_owned(),
        template: Some("canary".to_owned()),
        destination: destination.to_owned(),
        subject: None,
        category: None,
    };
    let template = |html: &str| Template {
        subject: "A message".to_owned(),
        body_text: "{{ fields.message }}".to_owned(),
        body_html: html.to_owned(),
    };
    let definition = |actions, html: &str, samples| Definition {
        id: "canary".to_owned(),
        name: "Canary".to_owned(),
        actions,
        templates: [("canary".to_owned(), template(html))].into(),
        assets: [].into(),
        samples,
    };
    let sample = Sample {
        name: "plain".to_owned(),
        fields: [("message".to_owned(), "Hello".to_owned())].into(),
        attachments: Vec::new(),
    };
    let domains = ["example.org".to_owned()];
    // A policy may ask for two people's.
    let signed = ["a", "b"]
        .map(|name| Signed { signer: format!("{name}@example.org"), key: format!("SHA256:{name}") });
    let about = |author, files, signed| About {
        command: Command::Publish,
        number: 1,
        digest: "",
        source: Source::Yaml,
        author,
        actor: author,
        files,
        shared: &[],
        current: None,
        allowed_domains: &domains,
        signed,
    };
    let good = definition(vec![action("a@example.org")], "<p>{{ fields.message }}</p>", vec![sample]);
    // Everything is wrong with it at once: a policy that has a rule has one against this.
    let many: Vec<String> = (0..200).map(|at| format!("{at}@attacker.invalid")).collect();
    let bad = definition(
        vec![action(&many.join(","))],
        "<script src=\"http://attacker.invalid/\"></script>",
        Vec::new(),
    );
    let infected = [FileState {
        name: "invoice.exe".to_owned(),
        is_there: false,
        verdict: "infected".to_owned(),
        shown_type: Some("application/x-msdownload".to_owned()),
        length: 1 << 40,
    }];
    Canaries {
        good: document(&good, &about("canary", &[], &signed), &Commas),
        bad: document(&bad, &about("", &infected, &[]), &Commas),
    }
}

/// The canaries' composer: their destinations are plain addresses.
#[derive(Debug)]
struct Commas;

impl Composer for Commas {
    fn recipients(&self, action: &Action) -> Vec<Result<String, String>> {
        action.destination.split(',').map(|address| Ok(address.to_owned())).collect()
    }

    fn allows(&self, _: &str) -> bool {
        true
    }

    fn preview(&self, _: &Definition, _: &Action, _: &Sample) -> Result<Preview, String> {
        Ok(Preview { subject: String::new(), text: String::new(), html: None, missing: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::forms::checks::tests::Plain;
    use crate::forms::definition::tests::contact;

    fn about<'a>(current: Option<&'a Definition>) -> About<'a> {
        About {
            command: Command::Promote,
            number: 2,
            digest: "ab",
            source: Source::Yaml,
            author: "zoe",
            actor: "adam",
            files: &[],
            shared: &[],
            current,
            allowed_domains: &[],
            signed: &[],
        }
    }

    #[test]
    fn every_key_is_there_whatever_the_form_has() {
        let full = document(&contact(), &about(None), &Plain);
        let mut empty = contact();
        (empty.actions, empty.templates, empty.assets, empty.samples) =
            (Vec::new(), [].into(), [].into(), Vec::new());
        let empty = document(&empty, &about(None), &Plain);
        let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&full), keys(&empty));
        assert_eq!(full["actions"][0]["destinations"][1]["domain"], "example.org");
        assert_eq!(full["templates"][0]["used_by"], json!([1]));
    }

    #[test]
    fn what_changes_is_counted() {
        let (before, mut after) = (contact(), contact());
        after.actions.remove(1);
        after.actions[0].destination = "x@example.org".to_owned();
        after.templates.get_mut("contact-mail").expect("there").subject.push('!');
        let changes = document(&after, &about(Some(&before)), &Plain)["changes"].clone();
        let expected =
            json!({"actions": {"added": 0, "removed": 1, "changed": 1}, "templates": ["contact-mail"]});
        assert_eq!(changes, expected);
    }
}
