//! Uses of a mail for its readers: answer to whoever filled in the form, and see what is missing. The journal says
//! what is not as somebody wished, without a name, a value or an address.

use devkit::forms::{Action, Form, SubmissionSeed, Template};
use devkit::stage::StageOptions;

use crate::harness::{Scene, mail_text};

fn form() -> Form {
    let mut form = Form::new("f");
    form.templates.push(Template {
        id: "t".to_owned(),
        subject: "From {{ fields.name }}".to_owned(),
        body_text: "Telephone: {{ fields.phone }}".to_owned(),
        body_html: String::new(),
    });
    form.actions.push(Action {
        kind: "email_template".to_owned(),
        template: Some("t".to_owned()),
        destination: "desk@x.test".to_owned(),
        subject: None,
        category: None,
    });
    form
}

#[tokio::test]
async fn an_answer_finds_its_way_and_a_gap_is_seen() {
    let extra = "[mail]\nbody = \"template\"\nreply_to_fields = [\"email\", \"mail\"]";
    let scene = Scene::with(StageOptions::default(), &[form()], extra).await;
    let whole = SubmissionSeed::of("f")
        .field("name", "Ann")
        .field("phone", "12345")
        .field("mail", "Ann Lee <private.ann@y.test>");
    let id = scene.submit(&whole).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let mails = scene.stage.relay.mails();
    let mail = mail_parser::MessageParser::default().parse(&mails[0].raw).expect("a mail");
    let answer = mail.reply_to().and_then(|to| to.first()).and_then(|one| one.address());
    assert_eq!(
        (answer, mails[0].recipients.as_slice()),
        (Some("private.ann@y.test"), ["desk@x.test".to_owned()].as_slice())
    );

    scene.stage.relay.forget();
    let id = scene
        .submit(
            &SubmissionSeed::of("f")
                .field("name", "Ann")
                .field("email", "private.ann@y.test\r\nBcc: b@y.test"),
        )
        .await
        .id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let mails = scene.stage.relay.mails();
    assert!(!String::from_utf8_lossy(&mails[0].raw).contains("y.test"), "no header of it, and no other");
    assert!(mail_text(&mails[0]).1.starts_with("Telephone: [missing: phone]"), "{:?}", mail_text(&mails[0]));
    let id = id.to_string();
    for (event, level, field, value) in
        [("gap", "warn", "count", "1"), ("no_reply_to", "info", "reason", "unusable")]
    {
        let line = scene.await_line(event, |line| line["event"] == event).await;
        assert_eq!((&line["submission_id"], &line["level"]), (&id.as_str().into(), &level.into()), "{line}");
        assert_eq!(line[field].to_string().trim_matches('"'), value, "{line}");
    }
    let log = scene.router.log();
    assert!(!log.contains("y.test") && !log.contains("phone"), "{log}");
    scene.stop().await;
}
