//! The envelope of an answer, whatever it says.

use serde_json::{Value, json};

/// Bytes of a token, here.
const BYTES_OF_A_TOKEN: usize = 4;

/// A completion before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Completion {
    pub(crate) choices: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) message: Value,
    pub(crate) finish_reason: &'static str,
}

/// Tokens of a text.
pub(crate) fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_OF_A_TOKEN)
}

impl Choice {
    /// A text.
    pub(crate) fn said(text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self {
            message: json!({"role": "assistant", "content": text, "refusal": null}),
            finish_reason: "stop",
        }
    }

    /// A text that was cut; it is whole by chance.
    pub(crate) fn cut(text: impl Into<String>) -> Self {
        Self { finish_reason: "length", ..Self::said(text) }
    }

    /// The call of a function with these arguments.
    pub(crate) fn called(function: &str, arguments: &str) -> Self {
        Self {
            message: json!({
                "role": "assistant",
                "content": null,
                "refusal": null,
                "tool_calls": [{
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": function, "arguments": arguments},
                }],
            }),
            finish_reason: "tool_calls",
        }
    }

    /// No text, and these words of refusal, if any.
    pub(crate) fn refused(words: Option<&str>) -> Self {
        Self {
            message: json!({"role": "assistant", "content": null, "refusal": words}),
            finish_reason: "stop",
        }
    }

    /// The same, no longer than so many tokens.
    pub(crate) fn within(self, most: Option<u64>) -> Self {
        let (Some(text), Some(most)) = (self.message["content"].as_str(), most) else { return self };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if tokens(text) <= most {
            return self;
        }
        let cut: String = text.chars().take(most.saturating_mul(BYTES_OF_A_TOKEN)).collect();
        Self::cut(cut)
    }
}

impl Completion {
    /// So many answers of these choices, none longer than asked for.
    pub(crate) fn asked_for(self, n: usize, max_tokens: Option<u64>) -> Self {
        let mut choices: Vec<_> = self.choices.into_iter().map(|choice| choice.within(max_tokens)).collect();
        if let [only] = &choices[..] {
            choices = vec![only.clone(); n];
        }
        Self { choices }
    }

    /// The document, and its tokens of the answer.
    pub(crate) fn document(&self, model: &str, number: u64, prompt: usize) -> (Value, usize) {
        let choices: Vec<Value> = self
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                json!({
                    "index": index,
                    "message": choice.message,
                    "logprobs": null,
                    "finish_reason": choice.finish_reason,
                })
            })
            .collect();
        let spent = self.choices.iter().map(|choice| tokens(&choice.message.to_string())).sum::<usize>();
        let document = json!({
            "id": format!("chatcmpl-scripted-{number}"),
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": choices,
            "usage": {"prompt_tokens": prompt, "completion_tokens": spent, "total_tokens": prompt + spent},
            "system_fingerprint": "fp_devkit_scripted",
        });
        (document, spent)
    }
}
