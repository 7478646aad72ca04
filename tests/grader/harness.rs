//! A scripted grader with its bucket, and the clients of both endpoints.

use std::sync::Arc;
use std::time::Duration;

use devkit::grader::{MODELS, Recording, ScriptedGrader, TRANSCRIBER};
use maple_router::config::secret::Secret;
use maple_router::gateway::judge::{Answer, Judge, JudgeError, JudgeSettings, base_url};
use maple_router::gateway::transcriber::{Heard, Transcriber, TranscriberError, TranscriberSettings};
use maple_router::grading::core::assess::Sample;
use maple_router::grading::core::skill::{Skill, Task};
use maple_router::grading::grader::question::{Composed, Question};
use maple_router::ops::clock::SystemClock;

pub(crate) const NONCE: &str = "b7f0c2d94e1a4c55";
/// Long for a server on this machine, short for a test that waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

pub(crate) struct World {
    pub(crate) scripted: ScriptedGrader,
    pub(crate) judge: Judge,
    pub(crate) transcriber: Transcriber,
}

impl World {
    pub(crate) async fn new() -> Self {
        let scripted = ScriptedGrader::start().await.expect("a grader");
        let judge = judge(&scripted, scripted.key());
        let transcriber = transcriber(&scripted, scripted.key());
        Self { scripted, judge, transcriber }
    }

    pub(crate) async fn ask(&self, question: &Composed) -> Result<Answer<Sample>, JudgeError> {
        self.judge.ask(question).await
    }

    /// From a recording's address to what was heard, as a worker goes.
    pub(crate) async fn heard(&self, address: &str) -> Result<Heard, TranscriberError> {
        let audio = self.transcriber.fetch(address).await?;
        self.transcriber.transcribe(&audio).await
    }

    /// The same of what is said in a recording.
    pub(crate) async fn heard_of(&self, text: &str) -> Result<Heard, TranscriberError> {
        let address = self.scripted.keep("said.mp3", Recording::said(text));
        self.heard(&address).await
    }
}

fn api(scripted: &ScriptedGrader, section: &'static str, model: &str) -> JudgeSettings {
    JudgeSettings {
        section,
        base_url: base_url(&scripted.base_url()).expect("an address"),
        model: model.to_owned(),
        timeout: PATIENCE,
    }
}

pub(crate) fn judge(scripted: &ScriptedGrader, key: Option<&str>) -> Judge {
    let settings = api(scripted, "grading.judge", MODELS[0]);
    Judge::new(&settings, key.map(Secret::new), Arc::new(SystemClock)).expect("a client")
}

pub(crate) fn transcriber(scripted: &ScriptedGrader, key: Option<&str>) -> Transcriber {
    let settings = TranscriberSettings {
        api: api(scripted, "grading.stt", TRANSCRIBER),
        hosts: vec![scripted.authority()],
        fetch_timeout: PATIENCE,
    };
    Transcriber::new(&settings, key.map(Secret::new), Arc::new(SystemClock)).expect("a client")
}

pub(crate) fn question(work: &str) -> Question {
    Question {
        skill: Skill::Writing,
        task: Some(Task::Email),
        part: None,
        seconds: None,
        rubric: String::new(),
        prompt: "Write to Anna and tell her about your job.".to_owned(),
        work: work.to_owned(),
        nonce: NONCE.to_owned(),
    }
}

pub(crate) fn asked(work: &str) -> Composed {
    question(work).compose().expect("a question")
}
