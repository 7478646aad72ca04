//! A scripted judge, its client, and the way from a question to a decision.

use std::sync::Arc;
use std::time::Duration;

use devkit::judge::{MODEL, ScriptedJudge};
use maple_router::config::secret::Secret;
use maple_router::gateway::judge::{Answer, Judge, JudgeError, JudgeSettings, base_url};
use maple_router::ops::clock::SystemClock;
use maple_router::screening::judge::decide::{Decided, First, decide};
use maple_router::screening::judge::prompt::{Composed, Question};
use maple_router::screening::judge::verdict::Verdict;
use maple_router::screening::run::{Bar, Profile};

pub(crate) const NONCE: &str = "b7f0c2d94e1a4c55";
/// Long for a server on this machine, short for a test that waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

pub(crate) struct World {
    pub(crate) scripted: ScriptedJudge,
    pub(crate) judge: Judge,
}

impl World {
    pub(crate) async fn new() -> Self {
        let scripted = ScriptedJudge::start().await.expect("a judge");
        let judge = client(&scripted, scripted.key());
        Self { scripted, judge }
    }

    pub(crate) async fn ask(&self, question: &Composed) -> Result<Answer<Verdict>, JudgeError> {
        self.judge.ask(question).await
    }

    /// From a question to a decision, as a worker goes: near the line twice, and no answer is no decision.
    pub(crate) async fn decided(&self, question: &Composed, bars: &[Bar]) -> Result<Decided, JudgeError> {
        let first = self.ask(question).await?.verdict;
        let asked = match First::of(first) {
            First::Enough(asked) => asked,
            First::Again(pending) => pending.with(self.ask(question).await?.verdict),
        };
        Ok(decide(&asked, bars, true))
    }
}

pub(crate) fn client(scripted: &ScriptedJudge, key: Option<&str>) -> Judge {
    let settings = JudgeSettings {
        section: "screening.judge",
        base_url: base_url(&scripted.base_url()).expect("an address"),
        model: MODEL.to_owned(),
        timeout: PATIENCE,
    };
    Judge::new(&settings, key.map(Secret::new), Arc::new(SystemClock)).expect("a client")
}

pub(crate) fn question(blocks: &[(&str, &str)]) -> Composed {
    let blocks = blocks.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned())).collect();
    let question = Question { profile: Profile::Fields, nonce: NONCE.to_owned(), blocks, tier1: Vec::new() };
    question.compose().expect("a question")
}
