//! Rego, compiled and asked: alone in knowing the engine.
//!
//! Compiling and asking have a thread of their own: the engine recurses as deep as rules name each other, and it has panics
//! (numbers out of range, seen). A deep stack and a thread that may die keep both away from whoever asks.

use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError};
use serde::Deserialize;
use serde_json::Value;

use super::answer::one_line;
use super::away::Away;
use super::bundle::Bundle;
use super::calls;
use super::nesting;

/// Both rules in one evaluation, so that they share the time, and what is undefined is an empty array and no error.
const QUESTION: &str = "package maple_router\n\
    asked := {\"allow\": [v | v := data.maple.publish.allow], \"deny\": [v | v := data.maple.publish.deny]}\n";
const ASKED: &str = "data.maple_router.asked";
/// Steps of the engine between two looks at the clock: some microseconds.
const STEPS: NonZeroU32 = NonZeroU32::MIN.saturating_add(63);
/// Stack, in bytes: what the most rules there may be need, each calling the next from the deepest expression there may be (seen:
/// 12 KiB for a plain call, unoptimised). Only what is used becomes memory.
const STACK: usize = 256 << 20;

/// A policy that compiles.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    engine: Engine,
    limit: Duration,
}

/// What a policy says, before anybody has looked at its types.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    /// The value of `allow`; none where it is undefined.
    pub(super) allow: Vec<Value>,
    /// The value of `deny`, a set as an array.
    pub(super) deny: Vec<Value>,
}

impl Compiled {
    /// The files of `bundle`.
    pub(super) fn of(bundle: &Bundle, limit: Duration) -> Result<Self, Away> {
        apart(|| {
            let mut engine = Engine::new();
            engine.set_strict_builtin_errors(true);
            // What a policy prints while it is written is not the daemon's to say.
            engine.set_gather_prints(true);
            engine.set_execution_timer_config(ExecutionTimerConfig { limit, check_interval: STEPS });
            for (name, text) in bundle.files() {
                nesting::bounded(name, text)?;
                engine
                    .add_policy(name.to_owned(), text.to_owned())
                    .map_err(|error| syntax(name, &error.to_string()))?;
            }
            let trees = engine.get_ast_as_json().map_err(|error| syntax("its tree", &error.to_string()))?;
            calls::looked_at(&trees)?;
            engine
                .add_policy("the question".to_owned(), QUESTION.to_owned())
                .and_then(|_| engine.compile_with_entrypoint(&ASKED.into()))
                .map_err(|error| syntax("its rules", &error.to_string()))?;
            Ok(Self { engine, limit })
        })
    }

    /// Asks about `input`.
    pub(super) fn ask(&self, input: &Value) -> Result<Answer, Away> {
        apart(|| {
            let mut engine = self.engine.clone();
            engine.set_input(input.clone().into());
            let answer = engine.eval_rule(ASKED.to_owned()).map_err(|error| {
                match error.downcast_ref::<LimitError>() {
                    Some(LimitError::TimeLimitExceeded { .. }) => Away::Slow { limit: self.limit },
                    Some(
                        LimitError::MemoryLimitExceeded { .. } | LimitError::RegexSizeLimitExceeded { .. },
                    )
                    | None => {
                        // Within a function's call the engine says it in words alone.
                        if error.to_string().contains("execution exceeded time limit") {
                            return Away::Slow { limit: self.limit };
                        }
                        let (at, what) = placed("its rules", &error.to_string());
                        Away::Failed { at, what }
                    }
                }
            })?;
            let odd = |error: serde_json::Error| failed(&error.to_string());
            serde_json::to_value(answer).and_then(serde_json::from_value).map_err(odd)
        })
    }
}

/// Runs `work` on a thread with a deep stack; its panic is a failure of the policy.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, Away> + Send) -> Result<T, Away> {
    thread::scope(|scope| {
        let named = thread::Builder::new().name("policy".to_owned()).stack_size(STACK);
        match named.spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed("the engine panicked; standard error says where")),
            Err(error) => Err(failed(&format!("no thread for it: {error}"))),
        }
    })
}

fn failed(what: &str) -> Away {
    Away::Failed { at: "its rules".to_owned(), what: one_line(what) }
}

fn syntax(whose: &str, text: &str) -> Away {
    let (at, what) = placed(whose, text);
    Away::Syntax { at, what }
}

/// Place and reason in an error of the engine, which shows the line and underlines it:
/// `--> file:line:column`, the line, `error: what`. Where it ends in a colon, other places follow.
fn placed(whose: &str, text: &str) -> (String, String) {
    let place = |line: &'_ str| line.strip_prefix("--> ").map(one_line);
    let at = text.lines().find_map(place).unwrap_or_else(|| whose.to_owned());
    let mut from = text.lines().skip_while(|line| !line.starts_with("error: "));
    let Some(what) = from.next().and_then(|line| line.strip_prefix("error: ")) else {
        return (at, one_line(text));
    };
    if !what.ends_with(':') {
        return (at, one_line(what));
    }
    let others: Vec<String> = from.filter_map(place).take(3).collect();
    (at, one_line(&format!("{what} {}", others.join(", "))))
}
