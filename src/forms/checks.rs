//! The built-in checks: what no policy can allow. Pure; what a mail looks like is the composer's to say.
//!
//! Reasons name actions by their order, templates and samples by their names, and no recipient: they are kept with the decision.

use super::definition::{Action, Definition, Sample};
use super::preview::Composer;

/// What the database knows of a definition's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Its name in the definition.
    pub name: String,
    /// Whether it was uploaded for this form, and is kept.
    pub is_there: bool,
    /// The scanner's verdict.
    pub verdict: String,
    /// What its first bytes show.
    pub shown_type: Option<String>,
    /// Its length in bytes.
    pub length: u64,
}

/// Why a definition cannot be published, each reason a sentence; none: nothing stands against it.
#[must_use]
pub fn reasons(definition: &Definition, files: &[FileState], composer: &dyn Composer) -> Vec<String> {
    let mut reasons = definition.faults();
    for action in &definition.actions {
        if action.kind.starts_with("email_") {
            recipients(action, composer, &mut reasons);
        }
        if definition.samples.is_empty() {
            // Without a sample a text is at least read as a template; its gaps say nothing.
            let none = Sample { name: String::new(), fields: [].into(), attachments: Vec::new() };
            if let Err(why) = composer.preview(definition, action, &none) {
                reasons.push(format!("action {}: {why}", action.order));
            }
        }
        for sample in &definition.samples {
            match composer.preview(definition, action, sample) {
                Err(why) => reasons.push(format!("action {}, sample {:?}: {why}", action.order, sample.name)),
                Ok(preview) if !preview.missing.is_empty() => reasons.push(format!(
                    "action {}, sample {:?}: it prints what the sample does not have: {}; guard it with `if` or `default`, or give \
                     the sample a value",
                    action.order,
                    sample.name,
                    preview.missing.join(", ")
                )),
                Ok(_) => {}
            }
        }
    }
    for file in files {
        let name = &file.name;
        if !file.is_there {
            reasons.push(format!(
                "asset {name:?}: no upload of this form has these bytes; maple-router upload FILE --form {}",
                definition.id
            ));
        } else if file.verdict != "clean" {
            reasons.push(format!("asset {name:?}: the scanner says {}, not clean", file.verdict));
        }
    }
    reasons.dedup();
    reasons
}

fn recipients(action: &Action, composer: &dyn Composer, reasons: &mut Vec<String>) {
    let order = action.order;
    for (place, entry) in (1_usize..).zip(composer.recipients(action)) {
        match entry {
            Err(why) => reasons.push(format!("action {order}, recipient {place}: {why}")),
            Ok(address) if !composer.allows(&address) => reasons.push(format!(
                "action {order}, recipient {place}: its domain {} is not in mail.allowed_destination_domains",
                domain(&address)
            )),
            Ok(_) => {}
        }
    }
}

/// The domain of an address; it may be said where the address may not.
#[must_use]
pub fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::forms::definition::tests::contact;
    use crate::forms::preview::Preview;

    /// A composer that knows one rule: `nobody` is no address, `evil.test` is not allowed, `broken` does not render, and `phone` is
    /// missing where the text asks for it.
    #[derive(Debug)]
    pub(crate) struct Plain;

    impl Composer for Plain {
        fn recipients(&self, action: &Action) -> Vec<Result<String, String>> {
            let entry = |entry: &str| match entry.trim() {
                "nobody" => Err("it is no address".to_owned()),
                address => Ok(address.to_owned()),
            };
            action.destination.split(',').map(entry).collect()
        }

        fn allows(&self, address: &str) -> bool {
            domain(address) != "evil.test"
        }

        fn preview(&self, form: &Definition, action: &Action, sample: &Sample) -> Result<Preview, String> {
            let template = action.template.as_ref().and_then(|id| form.templates.get(id));
            let text = template.map(|template| template.body_text.clone()).unwrap_or_default();
            if text.contains("broken") {
                return Err("line 1: it is broken".to_owned());
            }
            let missing = text.contains("phone") && !sample.fields.contains_key("phone");
            let missing = if missing { vec!["phone".to_owned()] } else { Vec::new() };
            Ok(Preview { subject: sample.name.clone(), text, html: None, missing })
        }
    }

    fn clean() -> Vec<FileState> {
        vec![FileState {
            name: "logo.png".to_owned(),
            is_there: true,
            verdict: "clean".to_owned(),
            shown_type: None,
            length: 1,
        }]
    }

    #[test]
    fn nothing_stands_against_what_is_right() {
        assert_eq!(reasons(&contact(), &clean(), &Plain), Vec::<String>::new());
    }

    #[test]
    fn each_check_refuses_what_it_is_for_and_names_no_recipient() {
        let body = |text: &str| {
            let mut form = contact();
            form.templates.get_mut("contact-mail").expect("there").body_text = text.to_owned();
            form
        };
        let to = |destination: &str| {
            let mut form = contact();
            form.actions[1].destination = destination.to_owned();
            form
        };
        let mut without_samples = body("broken");
        without_samples.samples.clear();
        for (form, expected) in [
            (to("nobody"), "action 5, recipient 1: it is no address"),
            (
                to("a@example.org, secret@evil.test"),
                "action 5, recipient 2: its domain evil.test is not in mail.allowed",
            ),
            (body("broken"), "action 1, sample \"plain\": line 1: it is broken"),
            (body("phone"), "action 1, sample \"plain\": it prints what the sample does not have: phone"),
            (without_samples, "action 1: line 1: it is broken"),
        ] {
            let reasons = reasons(&form, &clean(), &Plain);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(expected) && !reasons[0].contains("secret"), "{reasons:?}");
        }
    }

    #[test]
    fn a_file_has_to_be_there_and_clean() {
        for (is_there, verdict, expected) in
            [(false, "clean", "no upload of this form"), (true, "infected", "the scanner says infected")]
        {
            let mut files = clean();
            (files[0].is_there, files[0].verdict) = (is_there, verdict.to_owned());
            let reasons = reasons(&contact(), &files, &Plain);
            assert!(reasons.len() == 1 && reasons[0].contains(expected), "{reasons:?}");
        }
    }

    #[test]
    fn a_definition_without_an_action_is_the_policys_business() {
        let mut form = contact();
        (form.actions, form.templates) = (Vec::new(), [].into());
        assert_eq!(reasons(&form, &clean(), &Plain), Vec::<String>::new());
    }
}
