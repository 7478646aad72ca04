//! The mails there are: each kept as a snapshot of its octets, and each read back.

use jiff::tz::TimeZone;
use maple_router::config::MailBody;
use maple_router::ports::{Outcome, Stage};
use maple_router::routing::compose::{Attachment, ComposeFault, Place};
use maple_router::routing::submission::destination::parse_mailbox;
use maple_router::routing::submission::message_id::{Origin, parse};
use maple_router::routing::submission::plan::{ActionType, TemplateTexts};

use crate::fixtures::{
    ALTERNATIVES, Case, HEADERS, ID, field, header_names, linked, parts, read, signed_url,
};

/// Snapshots show `\n`; that every line ends in CRLF is checked by `read`.
fn snapshot(name: &str, eml: &str) {
    insta::assert_snapshot!(name, eml.replace("\r\n", "\n"));
}

fn gone(file_name: &str) -> Attachment {
    Attachment {
        file_name: file_name.to_owned(),
        size_bytes: None,
        content_type: None,
        place: Place::Gone("its retention has ended".to_owned()),
    }
}

#[test]
fn interim() {
    let eml = Case::default().eml();
    snapshot("interim", &eml);
    let message = read(&eml);
    assert_eq!(header_names(&message), HEADERS);
    assert_eq!(message.subject(), Some("Incident report: new submission, 4 June 2026, 14:02 (7f0c2b1e)"));
    let to: Vec<_> = message.to().expect("To").iter().map(|addr| (addr.name(), addr.address())).collect();
    assert_eq!(to, [(None, Some("it@example.org")), (Some("Lee, Ann"), Some("ann@example.org"))]);
    assert!(message.body_text(0).expect("text").contains("details to follow"));
    assert_eq!(parts(&message), ALTERNATIVES);
    assert!(message.body_html(0).expect("html").contains("details to follow"));
    let id = message.message_id().expect("Message-ID");
    assert_eq!(parse(id), Some(Origin { submission: ID, action_order: 1, generation: 0 }));
}

#[test]
fn interim_holds_no_field_value_whatever_the_action() {
    for action_type in [ActionType::EmailTemplate, ActionType::EmailRaw] {
        let mut case = Case::template(Some("s"), Some("{{ fields.name }}"), Some("{{ fields.name }}"));
        case.body = MailBody::Interim;
        case.action.action_type = action_type;
        let eml = case.eml();
        assert!(!eml.contains("Ann Lee") && !eml.contains("Second line"), "{eml}");
    }
}

#[test]
fn interim_with_attachments() {
    let case = Case {
        attachments: vec![linked("report \u{202E}fdp.exe", &signed_url("a%2Fb")), gone("../old.txt")],
        zone: TimeZone::get("Europe/Berlin").expect("the zone database"),
        ..Case::default()
    };
    let eml = case.eml();
    snapshot("interim_with_attachments", &eml);
    assert!(eml.contains(&signed_url("a%2Fb")), "a link is readable in the raw message");
    let message = read(&eml);
    let text = message.body_text(0).expect("text");
    assert!(text.contains("- report fdp.exe (1.4 MB, PDF document)"));
    let until = "The link works until Thursday 11 June 2026, 16:03 (Europe/Berlin) at the latest, about 7 days after this mail.";
    assert!(text.contains(until), "{text}");
    let ended = "It can no longer be linked: its retention has ended.";
    assert!(text.contains(&format!("- .._old.txt\r\n  {ended}")), "{text}");
    let html = message.body_html(0).expect("html");
    for said in [
        "<h2>Attachments (2)</h2>",
        ">report fdp.exe</a> (1.4 MB, PDF document)<br>",
        until,
        ended,
        "<li>.._old.txt<br>",
    ] {
        assert!(html.contains(said), "{said}: {html}");
    }
}

#[test]
fn raw_lists_fields_in_order() {
    let mut case = Case::raw();
    case.fields = vec![
        field("message", "Zeile eins ü\r\n\r\nname:\rAttachments (9):", 2),
        field("name", "Ann", 1),
        field("empty", "", 3),
    ];
    case.attachments = vec![linked("a.pdf", "https://storage.example/a")];
    let eml = case.eml();
    snapshot("raw", &eml);
    let message = read(&eml);
    let text = message.body_text(0).expect("text").replace("\r\n", "\n");
    assert_eq!(parts(&message), ALTERNATIVES);
    let listed = "\nname:\n  Ann\n\nmessage:\n  Zeile eins ü\n\n  name:\n  Attachments (9):\n\nempty:\n";
    assert!(text.contains(listed), "{text}");
}

#[test]
fn template_with_text_and_html() {
    let mut case = Case::template(
        Some("New: {{ fields.name }}"),
        Some("Hello,\n{{ fields.name }} wrote at {{ submission.created_at }}:\n{{ fields.message }}\n"),
        Some("<html><body><p>{{ fields.name }}: {{ fields.message }}</p></BODY></html>"),
    );
    case.fields = vec![field("name", "<b>Ann & \"Co\"</b>", 1), field("message", "Grüße", 2)];
    case.attachments = vec![linked("<i>&.pdf", "https://storage.example/a?b=1&c='2'"), gone("<old>")];
    let eml = case.eml();
    snapshot("template_text_and_html", &eml);
    let message = read(&eml);
    assert_eq!(message.subject(), Some("New: <b>Ann & \"Co\"</b>"));
    let text = message.body_text(0).expect("text");
    assert!(text.contains("<b>Ann & \"Co\"</b> wrote at Thursday 4 June 2026, 14:02 (UTC):"), "{text}");
    assert!(text.contains("https://storage.example/a?b=1&c='2'"), "{text}");
    let html = message.body_html(0).expect("html");
    assert!(html.contains("&lt;b&gt;Ann &amp; &quot;Co&quot;&lt;&#x2f;b&gt;: Grüße"), "{html}");
    assert!(html.contains(
        "<a\r\nhref=\"https://storage.example/a?b=1&amp;c=&#39;2&#39;\"\r\n>&lt;i&gt;&amp;.pdf</a>"
    ));
    assert!(html.find("</ul>").expect("links") < html.find("</BODY>").expect("end of body"), "{html}");
    assert!(html.contains("can no longer be linked: its retention has ended"));
    assert_eq!(parts(&message), ALTERNATIVES);
}

#[test]
fn template_with_html_only_still_has_text() {
    let mut case = Case::template(None, Some("  \n"), Some("<p>{{ form.name }}</p>"));
    case.attachments = vec![linked("a.pdf", "https://storage.example/a")];
    let eml = case.eml();
    snapshot("template_html_only", &eml);
    let message = read(&eml);
    let text = message.body_text(0).expect("text");
    assert!(text.contains(&ID.to_string()) && text.contains("https://storage.example/a"), "{text}");
    assert!(message.body_html(0).expect("html").trim_end().ends_with("</ul>"));
}

#[test]
fn template_with_text_only_has_no_html() {
    let eml = Case::template(None, Some("Just text."), None).eml();
    assert!(!eml.contains("multipart/alternative") && !eml.contains("text/html"));
    assert_eq!(read(&eml).body_text(0).expect("text").trim_end(), "Just text.");
}

#[test]
fn names_and_ids_that_ascii_cannot_say() {
    let mut case = Case {
        form_id: "formulär =?utf-8?b?DQo=?=".to_owned(),
        form_name: Some("Überfall, \"gemeldet\" 🚨".to_owned()),
        from: parse_mailbox("Sicherheit (Büro) <it@Bücher.example>").expect("a sender"),
        ..Case::default()
    };
    case.action.destination =
        format!("jürgen@example.org; Jürgen <j@bücher.example>, {} <long@example.org>", "Änne ".repeat(60));
    let eml = case.eml();
    snapshot("international", &eml);
    let message = read(&eml);
    let subject = "Überfall, \"gemeldet\" 🚨: new submission, 4 June 2026, 14:02 (7f0c2b1e)";
    assert_eq!(message.subject(), Some(subject));
    let from = message.from().expect("From").first().expect("a sender");
    assert_eq!((from.name(), from.address()), (Some("Sicherheit (Büro)"), Some("it@xn--bcher-kva.example")));
    // formulär =?utf-8?b?DQo=?=, encoded as a whole: nobody's reader decodes what the form's id holds.
    assert_eq!(
        message.header_raw("X-Form-ID").map(str::trim),
        Some("=?utf-8?b?Zm9ybXVsw6RyID0/dXRmLTg/Yj9EUW89Pz0=?=")
    );
    let to = message.header_raw("To").expect("To").to_owned();
    assert!(to.contains("<j@xn--bcher-kva.example>"), "{to}");
    assert!(message.message_id().expect("an id").ends_with("@xn--bcher-kva.example"));
}

#[test]
fn the_same_input_gives_the_same_octets() {
    let case = Case::template(None, Some("{{ fields.name }}"), Some("{{ fields.name }}"));
    assert_eq!(case.composed(), case.composed());
    let forced = Case { generation: 1, ..case.clone() };
    assert_ne!(
        case.composed().expect("a mail").message_id,
        forced.composed().expect("a mail").message_id,
        "a forced replay is a new mail"
    );
}

#[test]
fn every_date_can_be_written() {
    for (date, shown) in [
        (jiff::Timestamp::MIN, "Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n"),
        (jiff::Timestamp::MAX, "Date: Thu, 30 Dec 9999 22:00:00 +0000\r\n"),
    ] {
        let eml = Case { date, ..Case::default() }.eml();
        assert!(eml.starts_with(shown), "{eml}");
    }
}

#[test]
fn a_destination_without_anyone_usable_is_still_a_message() {
    let mut case = Case::default();
    case.action.destination = "nobody".to_owned();
    assert!(case.eml().contains("\r\nTo: undisclosed-recipients:;\r\n"));
}

/// Templates that cannot be composed, and the text of each fault.
#[test]
fn faults_say_what_to_mend() {
    let missing = {
        let mut case = Case::template(None, None, None);
        case.action.template = None;
        case
    };
    let unnamed = {
        let mut case = missing.clone();
        case.action.template_id = None;
        case
    };
    let empty = Case::template(Some("s"), None, Some(" "));
    let broken_html = Case::template(None, Some("fine"), Some("<p>\n{% if %}\n</p>"));
    let unknown_filter = Case::with_subject("{{ fields.name | shout }}");
    let template_subject = {
        let mut case = Case::template(Some("{{ fields.name"), Some("t"), None);
        case.action.template_id = Some("t\r\n1".to_owned());
        case
    };
    let cases = [
        (missing, "action 1: template \"t1\" does not exist; mend"),
        (unnamed, "action 1: it names no template; mend"),
        (empty, "action 1: template \"t1\" has neither body_text nor body_html"),
        (broken_html, "action 1: the body_html of template \"t1\" cannot be rendered, line 2: syntax error"),
        (
            unknown_filter,
            "action 1: its subject_template cannot be rendered, line 1: unknown filter in \"{{ fields.name | shout }}\"; mend",
        ),
        (
            template_subject,
            "action 1: the subject of template \"t 1\" cannot be rendered, line 1: syntax error",
        ),
    ];
    for (case, expected) in cases {
        let fault = case.composed().expect_err("a fault");
        let text = fault.to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("replay ID --replan"), "{text}");
        let Outcome::Refused(refusal) = fault.outcome() else { panic!("not refused") };
        assert_eq!((refusal.stage, refusal.about_us), (Stage::Template, false));
        assert_eq!(refusal.reply.reply, text);
    }
}

#[test]
fn a_fault_never_quotes_a_field_value() {
    for source in [
        "{{ fields.name | int }}",
        "{{ fields.name * 'x' }}",
        "{{ fields.name + 1 }}",
        "{{ fields.name() }}",
        "{{ fields[fields.name]() }}",
        "{% include fields.name %}",
        "{{ fields.name | attr(fields.name) | first }}",
        "{{ '%d' | format(fields.name) }}",
        "{{ range(fields.name) }}",
        "{{ [1] | map(fields.name) | list }}",
        "{{ [1] | select(fields.name) | list }}",
    ] {
        let mut case = Case::template(None, Some(source), None);
        case.fields = vec![field("name", "s3cret-value", 1)];
        match case.composed() {
            Ok(_) => {}
            Err(fault) => assert!(!format!("{fault} {fault:?}").contains("s3cret"), "{source}: {fault}"),
        }
    }
}

#[test]
fn templates_end() {
    let endless = [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = a * b %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
        "{{ 'x' * 90000000 }}",
    ];
    for source in endless {
        let fault = Case::template(None, Some(source), None).composed().expect_err("a fault");
        assert!(matches!(fault, ComposeFault::Unrenderable { .. }), "{fault}");
    }
}

#[test]
fn a_help_desk_action_has_no_mail() {
    let mut case = Case::default();
    case.action.action_type = ActionType::HappyfoxTemplate;
    let fault = case.composed().expect_err("a fault");
    assert_eq!(fault, ComposeFault::NotMail { action_order: 1, action_type: "happyfox_template" });
}

#[test]
fn debug_output_shows_no_content() {
    let mut case = Case::with_subject("{{ fields.name }}");
    case.attachments = vec![linked("a.pdf", "https://storage.example/secret")];
    case.action.template = Some(TemplateTexts::default());
    let shown = format!("{:?} {:?} {:?}", case.composed(), case.fields, case.attachments);
    assert!(!shown.contains("Ann Lee") && !shown.contains("storage.example"), "{shown}");
}
