//! Mails in the hands of their readers: pages that every reader can use, and answers that find their way.

use maple_router::config::MailBody;
use maple_router::ports::SignedLink;
use maple_router::routing::compose::{Attachment, Place, ReplyTo};

use crate::fixtures::{ALTERNATIVES, Case, at, field, linked, parts, read, signed_url};

/// A mail of each kind that we write ourselves, with all that they can have in them.
pub(crate) fn own_mails() -> Vec<(&'static str, Case)> {
    let attachments = vec![
        linked("Report on the <harbour> & more.pdf", &signed_url("a%2Fb")),
        Attachment {
            file_name: "photo.jpg".to_owned(),
            content_type: Some("image/jpeg".to_owned()),
            place: Place::Linked(SignedLink {
                url: signed_url("c"),
                valid_until: at("2026-06-05T17:00:00Z"),
            }),
            ..linked("", "")
        },
        Attachment {
            place: Place::Gone("its retention period has ended".to_owned()),
            ..linked("old.txt", "")
        },
    ];
    let mut raw = Case { attachments: attachments.clone(), ..Case::raw() };
    raw.fields = vec![
        field("Your name", "Ann <b>Lee</b>", 1),
        field("E-mail", "ann@example.org", 2),
        field("Message", "First line\n\nThird line, \"quoted\" & more\n<script>alert(1)</script>", 3),
        field("Comment", "", 4),
        field("Address", &format!("https://example.org/{}", "x".repeat(300)), 5),
        field("שם", "שלום עולם", 6),
    ];
    vec![
        ("interim", Case::default()),
        ("interim with attachments", Case { attachments, ..Case::default() }),
        ("list of fields", raw),
        ("list of no fields", Case { fields: Vec::new(), ..Case::raw() }),
    ]
}

#[test]
fn our_own_pages_say_what_the_text_says_and_load_nothing() {
    for (name, case) in own_mails() {
        let eml = case.eml();
        let message = read(&eml);
        assert_eq!(parts(&message), ALTERNATIVES, "{name}");
        let (text, html) = (message.body_text(0).expect("text"), message.body_html(0).expect("html"));
        for said in
            ["Incident report", "Thursday 4 June 2026, 14:02 (UTC)", "7f0c2b1e-5d3a-4c6f-8e9d-0a1b2c3d4e5f"]
        {
            assert!(text.contains(said) && html.contains(said), "{name}: {said}");
        }
        for part in
            ["<html lang=\"en\">", "<title>New submission: Incident report</title>", "<h1>", "<dl>", "<main>"]
        {
            assert_eq!(
                html.matches(part).count(),
                if part == "<dl>" { html.matches("</dl>").count() } else { 1 },
                "{part}"
            );
        }
        for remote in ["<img", "<script", "<link", "<iframe", "src=", "url(", "@import", "<form", "onload"] {
            assert!(!html.contains(remote), "{name}: {remote}");
        }
        let links = html.matches("href=").count();
        assert_eq!(
            links,
            case.attachments.iter().filter(|one| matches!(one.place, Place::Linked(_))).count(),
            "{name}"
        );
    }
}

#[test]
fn values_are_shown_and_never_become_markup() {
    let (_, case) = own_mails().remove(2);
    let eml = case.eml();
    let message = read(&eml);
    let html = message.body_html(0).expect("html").replace("\r\n", "\n");
    for shown in [
        "<dt dir=\"auto\">Your name</dt>\n<dd dir=\"auto\">Ann &lt;b&gt;Lee&lt;/b&gt;</dd>",
        "First line<br>\n<br>\nThird line, &quot;quoted&quot; &amp; more<br>\n&lt;script&gt;alert(1)&lt;/script&gt;</dd>",
        "<dt dir=\"auto\">Comment</dt>\n<dd dir=\"auto\">(empty)</dd>",
        ">Report on the &lt;harbour&gt; &amp; more.pdf</a> (1.4 MB, PDF document)<br>",
        "about 1 day and 2 hours after this mail.",
    ] {
        assert!(html.contains(shown), "{shown}\n{html}");
    }
}

/// HTML beside a text must not be what makes a mail too large for the relay.
#[test]
fn beside_a_very_long_text_there_is_no_html() {
    let mut case = Case::raw();
    case.fields = vec![field("message", &"a line of some length\n".repeat(20_000), 1)];
    let eml = case.eml();
    let message = read(&eml);
    assert_eq!(parts(&message), ["multipart/mixed", "text/plain"]);
    assert!(message.body_text(0).expect("text").len() > 400_000);
}

#[test]
fn an_answer_goes_to_whoever_the_form_was_filled_in_by() {
    type Entered<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Entered<'_>, Option<&str>, ReplyTo); 16] = [
        (&[("email", "ann@example.org")], Some("ann@example.org"), ReplyTo::Set),
        (&[("email", " Ann Lee <ann@Bücher.example> ")], Some("ann@xn--bcher-kva.example"), ReplyTo::Set),
        (&[("email", ""), ("mail", "ann@example.org")], Some("ann@example.org"), ReplyTo::Set),
        (&[("email", "nobody"), ("mail", "ann@example.org")], Some("ann@example.org"), ReplyTo::Set),
        (&[("mail", "b@example.org"), ("email", "a@example.org")], Some("a@example.org"), ReplyTo::Set),
        (&[("other", "ann@example.org")], None, ReplyTo::Absent),
        (&[], None, ReplyTo::Absent),
        (&[("email", " \n")], None, ReplyTo::Absent),
        (&[("email", "ann")], None, ReplyTo::Unusable),
        (&[("email", "a@example.org, b@example.org")], None, ReplyTo::Unusable),
        (&[("email", "a@example.org; b@example.org")], None, ReplyTo::Unusable),
        (&[("email", "a@example.org\r\nBcc: b@example.org")], None, ReplyTo::Unusable),
        (&[("email", "a@example.org>, <b@example.org")], None, ReplyTo::Unusable),
        (&[("email", "jürgen@example.org")], None, ReplyTo::Unusable),
        (&[("email", "undisclosed:a@example.org;")], None, ReplyTo::Unusable),
        (&[("email", "\"a\\\"b,c\"@example.org")], None, ReplyTo::Unusable),
    ];
    for (fields, address, became) in cases {
        let mut case =
            Case { reply_to_fields: vec!["email".to_owned(), "mail".to_owned()], ..Case::default() };
        case.fields = fields.iter().zip(1..).map(|((key, value), at)| field(key, value, at)).collect();
        let composed = case.composed().expect("a mail");
        let eml = String::from_utf8(composed.message.shown()).expect("ASCII");
        let message = read(&eml);
        let addresses =
            message.reply_to().map(|to| to.iter().filter_map(|one| one.address()).collect::<Vec<_>>());
        assert_eq!(addresses, address.map(|one| vec![one]), "{fields:?}");
        assert_eq!(composed.reply_to, became, "{fields:?}");
        assert!(message.bcc().is_none());
        assert!(!format!("{composed:?}").contains("example.org>"), "no address is shown");
    }
    let unasked =
        Case { body: MailBody::Interim, fields: vec![field("email", "a@example.org", 1)], ..Case::default() };
    let composed = unasked.composed().expect("a mail");
    assert_eq!(composed.reply_to, ReplyTo::NotConfigured);
    assert!(!unasked.eml().contains("Reply-To") && !unasked.eml().contains("a@example.org"));
}
