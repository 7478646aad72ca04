//! The act of grading: an essay that is graded and mailed with its score, one about which a person has the last word, and one whose grader
//! takes too long: it fails in time, its result comes late and counts nowhere, and another attempt is answered by it without a call.
//!
//! Like the stories it is judged by rows and mails; what the verbs print is shown. Nobody has read a word: a grade is the number that a
//! marker in the essay asks for, and whoever answers says so.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::grader::{ESSAYS, EXAMS};
use super::narration::{Narrator, Tone};
use super::report::Report;
use super::theatre::{REVIEWER, Theatre};
use crate::forms::SubmissionSeed;
use crate::grader::{Grading, Kind};
use crate::judge::Mishap;

/// The story's name.
const LABEL: &str = "grading";
/// Announcement to the reader.
pub(super) const STORY: &str = "an essay is graded, and its mail waits for that (here a scripted stand-in grades, by a marker in the text, and says so): \
                                a person has the last word where it is not sure, and what takes too long has failed in time";
/// Time for what is graded within a second or two.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(50);
/// Time that the examination allows, and the one that its grader takes for its last answer: deadlines are looked at each quarter of a
/// minute.
const ALLOWED: &str = "2s";
const TAKEN: Duration = Duration::from_millis(18_500);
/// Questions about a work: the samples that are compared.
const SAMPLES: u64 = 3;
/// Works of the corpus on which the stand-in is tried: each half point from 0.5 on, twice.
const WORKS: u32 = 38;
/// A form's question, by its name.
const QUESTION: &str = "town-centres";
const PROMPT: &str = "Some people say that town centres should be closed to private cars. How far do you agree? Give reasons and examples, \
                      and write at least 250 words.";
/// An essay of four paragraphs, long enough.
const ESSAY: &str = include_str!("essay.txt");

/// The act.
struct Act<'a> {
    theatre: &'a Theatre,
    narrator: &'a Narrator,
    backend: Client,
    eyes: Client,
}

/// Plays it, after everything else has ended, and adds to the report what it showed and found wrong.
///
/// # Errors
/// A part of the stage is gone.
pub(super) async fn play(theatre: &Theatre, narrator: &Narrator, report: &mut Report) -> Result<()> {
    let backend = theatre.stage.database.client_as("forms_app").await?;
    let eyes = theatre.stage.database.superuser().await?;
    let act = Act { theatre, narrator, backend, eyes };
    act.enable().await?;
    // What takes longest begins first.
    let late = act.begin_late().await?;
    act.calibrate(report).await?;

    let sure = act.essay(ESSAYS.0, &format!("{ESSAY}\n[[score 7.5]]\n")).await?;
    act.comes_to(sure, "COMPLETED").await?;
    act.say("grader", "three samples say 7.5: sure enough, COMPLETED");
    act.is_mailed(report, sure, "graded 7.5 (B2)").await?;

    act.doubtful(report).await?;
    report.show(theatre, &["grading", "show", &sure.to_string()], LABEL).await?;

    act.fails_in_time(report, late).await?;
    act.answers_late(report, late).await?;
    report.show_times(theatre, &["grading", "sla"], LABEL).await?;
    let outcome =
        "1 graded, 1 graded by a person, 1 failed in time and answered by its late result; 3 mailed";
    report.act([LABEL, ESSAYS.0, "routed", "3", outcome]);
    Ok(())
}

impl Act<'_> {
    fn say(&self, teller: &'static str, text: &str) {
        self.narrator.say(teller, LABEL, Tone::Plain, text);
    }

    async fn verb(&self, arguments: &[&str]) -> Result<Value> {
        let answer = self.theatre.verb(&[arguments, &["--json"]].concat()).await?;
        ensure!(answer.code == Some(0), "maple-router {}: {answer:?}", arguments.join(" "));
        serde_json::from_str(&answer.out).context("a verb's answer")
    }

    async fn until(&self, sql: &str, with: &[&(dyn ToSql + Sync)]) -> Result<()> {
        let waiting = async {
            while !self.eyes.query_one(sql, with).await?.get::<_, bool>(0) {
                tokio::time::sleep(LOOK).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("it takes too long")?
    }

    /// Waits for a state of a submission's latest attempt.
    async fn comes_to(&self, id: Uuid, state: &str) -> Result<()> {
        let sql = "SELECT EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = $1 AND a.current AND a.state = $2)";
        self.until(sql, &[&id, &state])
            .await
            .with_context(|| format!("submission {id} does not come to {state}"))
    }

    /// Sets the question, and has both forms graded.
    async fn enable(&self) -> Result<()> {
        let file = self.theatre.router.config().with_file_name("question.json");
        fs::write(&file, json!({"skill": "writing", "prompt": PROMPT, "rubric": "1"}).to_string())?;
        self.verb(&["grading", "question", QUESTION, "--file", &file.display().to_string()]).await?;
        self.graded(ESSAYS.0, "20m").await?;
        self.graded(EXAMS.0, ALLOWED).await
    }

    /// Has a form graded, within `sla`.
    async fn graded(&self, form: &str, sla: &str) -> Result<()> {
        let of_writing =
            ["--skill", "writing", "--text-field", "essay", "--task", "essay", "--question", QUESTION];
        self.verb(&[&["grading", "enable", form, "--sla", sla][..], &of_writing].concat()).await?;
        self.say("operator", &format!("has form `{form}` graded within {sla}; its mail waits for the grade"));
        Ok(())
    }

    /// Tries the stand-in on works whose scores are known.
    async fn calibrate(&self, report: &mut Report) -> Result<()> {
        let file = self.theatre.router.config().with_file_name("essays.jsonl");
        let work = |at: u32| {
            let score = f64::from(at / 2 + 1) / 2.0;
            let text = format!("Work {at} of the corpus, about a walk in the rain. [[score {score}]]");
            format!("{}\n", json!({"prompt": PROMPT, "text": text, "score": score, "task": "essay"}))
        };
        fs::write(&file, (0..WORKS).map(work).collect::<String>())?;
        let file = file.display().to_string();
        self.say(
            "operator",
            "tries the stand-in on works with known scores: until then a person reviews each",
        );
        report
            .show(self.theatre, &["grading", "calibrate", "--skill", "writing", "--corpus", &file], LABEL)
            .await
    }

    /// A submission of `form`: an essay.
    async fn essay(&self, form: &str, text: &str) -> Result<Uuid> {
        let id = SubmissionSeed::of(form).field("essay", text).insert(&self.backend).await?.id;
        self.say("backend", &format!("finalizes {} of form `{form}`", &id.to_string()[..8]));
        Ok(id)
    }

    fn asked(&self) -> u64 {
        self.theatre.grader.scripted.calls(Kind::Grading)
    }

    /// An essay about which the samples differ: a person has the last word.
    async fn doubtful(&self, report: &mut Report) -> Result<()> {
        let paragraphs: Vec<&str> = ESSAY.trim().split("\n\n").skip(1).take(2).collect();
        let text = format!("{} [[score 6]] [[confidence low]]", paragraphs.join("\n\n"));
        let id = self.essay(ESSAYS.0, &text).await?;
        self.comes_to(id, "REVIEW_PENDING").await?;
        let sql = "SELECT a.id, a.version, a.confidence, a.priority, s.status::text FROM assessment.submissions a JOIN submissions s ON s.id = a.subject
            WHERE a.subject = $1 AND a.current";
        let row = self.eyes.query_one(sql, &[&id]).await?;
        let (confidence, priority): (i32, String) = (row.get(2), row.get(3));
        self.say("grader", &format!("three samples differ: sure to {confidence} of 100, priority {priority}; an instructor has the last word"));
        if row.get::<_, &str>(4) != "received" {
            report.fault(format!("{LABEL}: {id} was routed before its review"));
        }
        report.show(self.theatre, &["review", "list", "--cause", "grading"], LABEL).await?;
        self.review(id, row.get(1)).await?;
        self.comes_to(id, "COMPLETED").await?;
        self.narrator.say("reviewer", LABEL, Tone::Good, "gives 6.0, by the desk's API: COMPLETED");
        self.is_mailed(report, id, "graded 6.0 (B2)").await
    }

    /// Gives a grade, as a program of an instructor's does.
    async fn review(&self, id: Uuid, version: i64) -> Result<()> {
        let issued = self
            .verb(&["desk", "token", REVIEWER, "--role-cap", "admin", "--days", "1", "--label", "the demo"])
            .await?;
        let criteria = ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"];
        let given = |criterion: &str| json!({"criterion": criterion, "score": 6.0, "feedback": "As played: nobody has read it."});
        let review =
            json!({"criteriaScores": criteria.map(given), "reason": "played: a person would have read it"});
        let port = self.theatre.desk;
        let answer = reqwest::Client::new()
            .post(format!("http://127.0.0.1:{port}/api/assessments/{id}/review"))
            .header("host", format!("desk.localhost:{port}"))
            .header("if-match", format!("\"{version}\""))
            .bearer_auth(issued["token"].as_str().context("a token")?)
            .json(&review)
            .send()
            .await
            .context("the desk")?;
        let status = answer.status();
        ensure!(
            status.is_success(),
            "the desk answers {status}: {}",
            answer.text().await.unwrap_or_default()
        );
        Ok(())
    }

    /// An essay of the examination; returns when its grader is busy with the last question.
    async fn begin_late(&self) -> Result<Uuid> {
        let (scripted, before) = (&self.theatre.grader.scripted, self.asked());
        scripted.next_grades(2, Grading::ByContent);
        scripted.next_grades(1, Grading::Mishap(Mishap::Slow(TAKEN)));
        let id = self.essay(EXAMS.0, &format!("{ESSAY}\n[[score 8]]\n")).await?;
        scripted.wait_for(Kind::Grading, before + SAMPLES, PATIENCE).await?;
        let (allowed, taken) = (ALLOWED, TAKEN.as_secs_f64());
        self.say(
            "grader",
            &format!(
                "takes {taken} s for its last answer, and {allowed} are allowed; others go on meanwhile"
            ),
        );
        Ok(id)
    }

    /// The attempt fails although its grader has not answered, and somebody is told.
    async fn fails_in_time(&self, report: &mut Report, id: Uuid) -> Result<()> {
        self.comes_to(id, "FAILED").await?;
        self.narrator.say(
            "router",
            LABEL,
            Tone::Warn,
            "its time is over: FAILED, an entry for people, and no mail",
        );
        let sql = "SELECT s.status = 'received' FROM submissions s WHERE s.id = $1";
        if !self.eyes.query_one(sql, &[&id]).await?.get::<_, bool>(0) {
            report.fault(format!("{LABEL}: {id} was routed without a grade"));
        }
        report.show(self.theatre, &["review", "list", "--cause", "grading_failed"], LABEL).await?;
        report.show(self.theatre, &["explain", &id.to_string()], LABEL).await
    }

    /// The result comes after the end: it is kept and counts nowhere, and answers another attempt without a call.
    async fn answers_late(&self, report: &mut Report, id: Uuid) -> Result<()> {
        let came = "SELECT EXISTS (SELECT FROM assessment.results r JOIN assessment.submissions a ON a.id = r.request_id
            WHERE a.subject = $1 AND r.is_late AND a.state = 'FAILED')";
        self.until(came, &[&id]).await.context("no late result")?;
        self.say("grader", "answers at last: kept as late, it stays FAILED");
        report.show(self.theatre, &["grading", "list", "--late"], LABEL).await?;
        let counted = "SELECT NOT EXISTS (SELECT FROM assessment.progress p WHERE p.subject = $1)";
        if !self.eyes.query_one(counted, &[&id]).await?.get::<_, bool>(0) {
            report.fault(format!("{LABEL}: the late result of {id} counts"));
        }
        self.graded(EXAMS.0, "20m").await?;
        let before = self.asked();
        self.verb(&["grading", "regrade", &id.to_string(), "--reason", "it was too slow"]).await?;
        self.comes_to(id, "COMPLETED").await?;
        self.is_mailed(report, id, "graded 8.0 (B2)").await?;
        let calls = self.asked() - before;
        if calls > 0 {
            report.fault(format!("{LABEL}: another attempt cost {calls} calls, expected none"));
        }
        self.narrator.say(
            "grader",
            LABEL,
            Tone::Good,
            "another attempt: its answers are there already, nobody is asked",
        );
        Ok(())
    }

    /// One mail, which says this.
    async fn is_mailed(&self, report: &mut Report, id: Uuid, said: &str) -> Result<()> {
        let sql = "SELECT s.status::text = 'routed' FROM submissions s WHERE s.id = $1";
        self.until(sql, &[&id]).await.with_context(|| format!("submission {id} is not routed"))?;
        let mails = self.theatre.stage.relay.mails();
        let of_it = mails.iter().filter(|mail| mail.submission_id.as_ref() == Some(&id.to_string()));
        let parser = mail_parser::MessageParser::default();
        let subjects: Vec<String> = of_it
            .map(|mail| {
                let parsed = parser.parse(&mail.raw);
                parsed.and_then(|mail| mail.subject().map(str::to_owned)).unwrap_or_default()
            })
            .collect();
        if subjects == [format!("Your essay: {said}")] {
            self.narrator.say("relay", LABEL, Tone::Good, format!("its mail says: {}", subjects[0]));
        } else {
            report
                .fault(format!("{LABEL}: {id} was mailed as {subjects:?}, expected one that says {said:?}"));
        }
        Ok(())
    }
}
