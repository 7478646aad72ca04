//! The mail of a gated form waits for its grade, and says it; a mail that is let go has none, and neither has one where nothing is graded. What
//! is told of a work reaches its reader, and no log.

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::Variant;
use devkit::stage::StageOptions;
use uuid::Uuid;

use crate::harness::{Scene, binary, mail_text};

const ON: &str = "[mail]\nbody = \"template\"\n[grading]\nmode = \"on\"";
const OFF: &str = "[mail]\nbody = \"template\"";
/// Something that stands in a grade, and nowhere else.
const PLANTED: &str = "planted-words-of-a-grade";

fn form(id: &str) -> Form {
    let text = r#"
id: ID
name: Exam
templates:
  - id: ID-mail
    subject: "{% if grading %}{{ grading.overallScore }} {{ grading.band }}{% else %}no grade{% endif %}"
    body_text: "{% if grading %}{{ grading.overallScore }} {% for one in grading.feedback.strengths %}{{ one }}{% endfor %}{% else %}no grade{% endif %}"
    body_html: ""
actions:
  - {type: email_template, template: ID-mail, destination: a@x.test}
"#;
    Form::from_yaml(&text.replace("ID", id)).expect("a form")
}

async fn scene() -> Scene {
    let variant = Variant { router: true, grading: true, audit_readable: true, ..Variant::default() };
    let forms = [form("listening"), form("reading"), form("writing"), form("free")];
    let scene = Scene::with(StageOptions { variant, ..StageOptions::default() }, &forms, ON).await;
    let set = r#"INSERT INTO assessment.questions (id, skill, prompt, answer_key, set_by) VALUES
            ('heard', 'listening', '', '{"1": ["B"], "2": ["colour", "color"], "3": ["C"]}', 'test'),
            ('read', 'reading', '', NULL, 'test'), ('write', 'writing', 'Write to Anna.', NULL, 'test');
        INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, gate, sla, since, set_by) VALUES
            ('listening', 'listening', 'heard', NULL, NULL, true, '1 hour', now() - interval '1 minute', 'test'),
            ('reading', 'reading', 'read', NULL, NULL, true, '1 hour', now() - interval '1 minute', 'test'),
            ('writing', 'writing', 'write', 'letter', 'email', true, '1 hour', now() - interval '1 minute', 'test'),
            ('free', 'listening', 'heard', NULL, NULL, false, '1 hour', now() - interval '1 minute', 'test')"#;
    let loader = scene.stage.database.client_as("forms_loader").await.expect("the publisher");
    loader.batch_execute(set).await.expect("what is graded");
    scene
}

impl Scene {
    /// A submission whose attempt has come to this state.
    async fn graded(&self, seed: &SubmissionSeed, state: &str) -> Uuid {
        let id = seed.insert(&self.backend).await.expect("a row").id;
        let sql = "SELECT EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = $1 AND a.current AND a.state = $2)";
        self.until(state, async || self.eyes.query_one(sql, &[&id, &state]).await.expect("a row").get(0))
            .await;
        id
    }

    async fn told_of(&self, id: Uuid) -> String {
        let verb = ["explain", &id.to_string()];
        let answer = self.stage.ask(binary(), self.router.config(), &verb).await.expect("the verb runs");
        answer.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Subjects and texts of its mails, in their order.
    fn mails_of(&self, id: Uuid) -> Vec<(String, String)> {
        let mails = self.stage.relay.mails();
        let of_it = mails.iter().filter(|mail| mail.submission_id.as_ref() == Some(&id.to_string()));
        of_it.map(|mail| mail_text(mail)).map(|(subject, text)| (subject, text.trim().to_owned())).collect()
    }

    /// Subject and text of its one mail.
    async fn mailed(&self, id: Uuid) -> (String, String) {
        assert_eq!(self.ended(id).await.status, "routed");
        let [mail] = self.mails_of(id).try_into().expect("one mail");
        mail
    }

    /// Waits until no row that tells of a grade is left to be sent.
    async fn told_of_grades(&self) {
        let sql = "SELECT NOT EXISTS (SELECT FROM router.outbox WHERE kind = 'grading.result' AND state <> 'delivered')";
        self.until("told", async || self.eyes.query_one(sql, &[]).await.expect("a row").get(0)).await;
    }
}

#[tokio::test]
async fn a_gated_forms_mail_has_its_score() {
    let scene = scene().await;
    let seed = SubmissionSeed::of("listening").field("1", "b").field("2", "Color").field("3", "A");
    let id = scene.graded(&seed, "COMPLETED").await;
    let (subject, text) = scene.mailed(id).await;
    assert_eq!((subject.as_str(), text.as_str()), ("6.7 B2", "6.7"));
    scene.stop().await;
}

#[tokio::test]
async fn a_mail_that_waits_for_no_grade_goes_again_with_it_once() {
    let scene = scene().await;
    let seed = SubmissionSeed::of("free").field("1", "b").field("2", "Color").field("3", "A");
    let id = scene.submit(&seed).await.id;
    let mail = |subject: &str, text: &str| (subject.to_owned(), text.to_owned());
    let both = [mail("no grade", "no grade"), mail("6.7 B2", "6.7")];
    let is_routed = async || scene.row(id).await.status == "routed";
    scene.until("two mails", async || scene.mails_of(id).len() == both.len() && is_routed().await).await;
    assert_eq!(scene.mails_of(id), both);
    scene.told_of_grades().await;
    // A row that comes again, as after a crash before its end was recorded.
    let again = "INSERT INTO router.outbox (kind, payload)
        SELECT kind, payload FROM router.outbox WHERE kind = 'grading.result'";
    scene.eyes.batch_execute(again).await.expect("told again");
    scene.told_of_grades().await;
    // A third one would have been ordered before the row was settled.
    scene.until("routed", is_routed).await;
    assert_eq!(scene.mails_of(id), both);
    scene.stop().await;
}

#[tokio::test]
async fn a_mail_that_is_let_go_has_no_grade_and_waits_until_then() {
    let scene = scene().await;
    let id = scene.graded(&SubmissionSeed::of("reading").field("1", "B"), "FAILED").await;
    let said = scene.told_of(id).await;
    for words in
        ["its mail waits for a grade", "failed (no_answer_key)", "grading regrade", "grading release"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(scene.row(id).await.status, "received", "it is held");
    assert!(scene.stage.relay.mails().is_empty());
    let release = "SELECT assessment.release($1, 'test', 'it is late')";
    let released: String = scene.backend.query_one(release, &[&id]).await.expect("an answer").get(0);
    assert_eq!(released, "done");
    assert_eq!(scene.mailed(id).await, ("no grade".to_owned(), "no grade".to_owned()));
    scene.stop().await;
}

#[tokio::test]
async fn what_is_told_of_a_work_reaches_its_reader_and_no_log() {
    let scene = scene().await;
    let seed = SubmissionSeed::of("writing").field("letter", "Dear Anna, I like tea.");
    let id = scene.graded(&seed, "QUEUED").await;
    assert!(scene.told_of(id).await.contains("grading goes on (QUEUED since"));
    // The grader is a process of its own, which is not here: its end is written.
    let end = format!(
        "SET session_replication_role = replica;
         INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor)
         SELECT a.id, 'final', 1, '{{\"overallScore\": 7.0, \"band\": \"B2\", \"feedback\": {{\"strengths\": [\"{PLANTED}\"]}}}}', repeat('0', 64), 7, 'B2',
           'test' FROM assessment.submissions a WHERE a.subject = '{id}';
         UPDATE assessment.submissions a SET state = 'COMPLETED', ended_at = now() WHERE a.subject = '{id}'"
    );
    scene.eyes.batch_execute(&end).await.expect("a grade");
    scene.publish(id);
    assert_eq!(scene.mailed(id).await, ("7.0 B2".to_owned(), format!("7.0 {PLANTED}")));
    assert!(!scene.router.log().contains(PLANTED));
    scene.stop().await;
}

#[tokio::test]
async fn where_nothing_is_graded_no_grade_is_looked_for() {
    let scene = Scene::with(StageOptions::default(), &[form("plain")], OFF).await;
    let id = scene.submit(&SubmissionSeed::of("plain")).await.id;
    assert_eq!(scene.mailed(id).await, ("no grade".to_owned(), "no grade".to_owned()));
    scene.stop().await;
}
