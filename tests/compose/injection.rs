//! Whichever text a form's visitors enter, the mail has the headers, recipients and parts it has without them.

use maple_router::config::MailBody;
use maple_router::routing::compose::{Attachment, Place, ReplyTo, clean_file_name};
use maple_router::routing::submission::destination::{TargetKind, parse};
use proptest::prelude::*;

use crate::fixtures::{ALTERNATIVES, Case, HEADERS, field, header_names, linked, parts, read};

/// Texts that have broken mails elsewhere, and arbitrary ones.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\r\n.\r\n".to_owned()),
        Just("\r\nBcc: victim@example.org\r\n".to_owned()),
        Just("\r\n\r\n--=_mixed_".to_owned()),
        Just("Content-Type: text/html".to_owned()),
        Just("=?utf-8?b?DQpCY2M6IHg=?=".to_owned()),
        Just("\u{202e}\u{2066}\0\u{85}\u{2028}".to_owned()),
        Just("{{ fields.a }}{% raw %}".to_owned()),
        Just("</body></html>".to_owned()),
        Just("\"<>,;:()\\".to_owned()),
        Just("a.b+c@example.org".to_owned()),
        Just("word ".to_owned()),
        Just("x".repeat(1_200)),
        Just("ß🥳".repeat(30)),
        any::<char>().prop_map(String::from),
    ];
    prop_oneof![proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat()), any::<String>()]
}

proptest! {
    #[test]
    fn no_value_adds_a_header_a_recipient_or_a_part(
        value in hostile(), key in hostile(), file in hostile(), form in hostile(), why in hostile(),
        name in hostile(), kind in 0..3,
    ) {
        let mut case = match kind {
            0 => Case::raw(),
            1 => Case::template(
                Some("{{ fields.a }}"),
                Some("{{ fields.a }}\n{{ form.name }}"),
                Some("<html><body>{{ fields.a }}</body></html>"),
            ),
            _ => Case { body: MailBody::Interim, ..Case::with_subject("{{ form.id }} {{ fields.a }}") },
        };
        case.fields = vec![field("a", &value, 1), field(&key, &value, 2)];
        case.reply_to_fields = vec!["a".to_owned()];
        case.form_id.clone_from(&form);
        case.form_name = Some(form);
        case.action.destination = format!("{name} <a@example.org>; b@example.org");
        case.attachments = vec![
            Attachment { content_type: Some(file.clone()), ..linked(&file, "https://storage.example/x") },
            Attachment { place: Place::Gone(why), ..linked(&file, "") },
        ];
        let composed = case.composed().expect("a mail");
        let eml = case.eml();
        prop_assert_eq!(&eml, &case.eml());
        let message = read(&eml);
        // An address that the field holds may be answered to; it is one address, and adds no other header.
        let mut headers: Vec<&str> = HEADERS.into();
        if composed.reply_to == ReplyTo::Set {
            headers.insert(3, "Reply-To");
            let answer = message.reply_to().expect("Reply-To");
            prop_assert_eq!(answer.iter().count(), 1);
            let answer = answer.first().and_then(|one| one.address()).expect("an address");
            prop_assert!(value.contains(answer.split('@').next().expect("a local part")), "{:?}", answer);
        }
        prop_assert_eq!(header_names(&message), headers);
        prop_assert_eq!(parts(&message), ALTERNATIVES);
        prop_assert_eq!(message.subject(), Some(composed.subject.as_str()));
        prop_assert!(!composed.subject.chars().any(char::is_control));
        // The display name may cost its own entry, and can neither add nor change another.
        let to: Vec<&str> =
            message.to().expect("To").iter().filter_map(|addr| addr.address()).collect();
        prop_assert!(to == ["a@example.org", "b@example.org"] || to.ends_with(&["b@example.org"]), "{:?}", to);
        let text = message.body_text(0).expect("text");
        prop_assert!(text.contains("https://storage.example/x"));
        prop_assert!(text.contains("can no longer be linked: "));
    }

    #[test]
    fn display_names_arrive_as_they_were(name in hostile()) {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        let mut case = Case::default();
        case.action.destination = format!("\"{quoted}\" <a@example.org>");
        let targets = parse(&case.action.destination, 1, 50);
        let eml = case.eml();
        let message = read(&eml);
        match &targets[0].kind {
            TargetKind::Usable { name: parsed, .. } => {
                let to = message.to().expect("To").first().expect("a recipient");
                prop_assert_eq!(to.address(), Some("a@example.org"));
                prop_assert_eq!(to.name(), parsed.as_deref());
            }
            unusable @ (TargetKind::Unusable { .. } | TargetKind::None | TargetKind::OverLimit { .. }) => {
                prop_assert!(name.contains(['\r', '\n']), "{:?}", unusable);
            }
        }
    }

    #[test]
    fn clean_file_names_are_clean_and_stay_so(raw in hostile()) {
        let name = clean_file_name(&raw);
        prop_assert!(!name.is_empty() && name.chars().count() <= 150);
        let forbidden = ['/', '\\', '"', '\u{202e}', '\u{2066}', '\u{2028}'];
        prop_assert!(!name.contains(forbidden));
        prop_assert!(!name.chars().any(char::is_control));
        prop_assert_eq!(clean_file_name(&name), name);
    }
}
