//! The check of a request: every parameter is one that is known, and of its type.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::schema;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The model.
    pub(crate) model: String,
    /// Name of the answer's shape, where one is asked for.
    pub(crate) shape: Option<String>,
    /// Role and text of each message.
    pub(crate) messages: Vec<(String, String)>,
    /// Longest answer, in tokens.
    pub(crate) max_tokens: Option<u64>,
    /// Choices.
    pub(crate) n: usize,
}

/// Roles of a message.
const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];
/// Keys of a message.
const MESSAGE_KEYS: [&str; 3] = ["role", "content", "name"];
/// Most choices.
const MOST_CHOICES: u64 = 8;
/// Parameters that exist and that a scripted judge does not speak.
const UNSPOKEN: [&str; 8] =
    ["tools", "tool_choice", "functions", "function_call", "modalities", "audio", "logprobs", "store"];

/// Checks a body, which asks one of these models.
///
/// # Errors
/// [`Refusal`], which names the parameter.
pub(crate) fn check(body: &str, models: &[&str]) -> Result<Request, Refusal> {
    let document: Value = serde_json::from_str(body)
        .map_err(|_| Refusal::of(400, "We could not parse the JSON body of your request.", None))?;
    let Some(given) = document.as_object() else {
        return Err(Refusal::of(400, "The body must be a JSON object.", None));
    };
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        parameter(name, value)?;
    }
    let model = model(given, models)?;
    let messages = messages(given)?;
    if is_object_mode(given) && !messages.iter().any(|(_, text)| text.to_lowercase().contains("json")) {
        return Err(Refusal::wrong("messages", "'messages' must contain the word 'json' in some form."));
    }
    let number = |name: &str| given.get(name).and_then(Value::as_u64);
    if number("max_tokens").is_some() && number("max_completion_tokens").is_some() {
        return Err(Refusal::wrong(
            "max_tokens",
            "Only one of max_tokens and max_completion_tokens may be set.",
        ));
    }
    let max_tokens = number("max_completion_tokens").or_else(|| number("max_tokens"));
    let shape = document.pointer("/response_format/json_schema/name").and_then(Value::as_str);
    let n = number("n").and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    Ok(Request { model, shape: shape.map(str::to_owned), messages, max_tokens, n })
}

/// Checks one parameter that is not null.
fn parameter(name: &str, value: &Value) -> Result<(), Refusal> {
    let within = |low: f64, high: f64| value.as_f64().is_some_and(|number| (low..=high).contains(&number));
    let count = |most: u64| value.as_u64().is_some_and(|number| (1..=most).contains(&number));
    let is_right = match name {
        "model" | "messages" => true,
        "temperature" => within(0.0, 2.0),
        "top_p" => within(0.0, 1.0),
        "presence_penalty" | "frequency_penalty" => within(-2.0, 2.0),
        "max_tokens" | "max_completion_tokens" => count(u64::from(u32::MAX)),
        "n" => count(MOST_CHOICES),
        "seed" => value.is_i64(),
        "user" => value.is_string(),
        "stop" => value.is_string() || value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        "stream" if value == &Value::Bool(false) => true,
        "stream" => {
            return Err(Refusal::wrong(name, "A scripted judge does not stream.").code("unsupported_value"));
        }
        "response_format" => return response_format(value),
        _ if UNSPOKEN.contains(&name) => {
            let message = format!("A scripted judge does not speak '{name}'.");
            return Err(Refusal::wrong(name, message).code("unsupported_parameter"));
        }
        _ => {
            return Err(
                Refusal::wrong(name, format!("Unknown parameter: '{name}'.")).code("unknown_parameter")
            );
        }
    };
    if is_right { Ok(()) } else { Err(Refusal::wrong(name, format!("Invalid value for '{name}'."))) }
}

fn model(given: &Map<String, Value>, models: &[&str]) -> Result<String, Refusal> {
    match given.get("model").and_then(Value::as_str) {
        None => Err(Refusal::wrong("model", "You must provide a model parameter.")),
        Some(model) if models.contains(&model) => Ok(model.to_owned()),
        Some(_) => {
            let message = format!("The model does not exist; here is {}.", models.join(", "));
            Err(Refusal {
                param: Some("model".to_owned()),
                ..Refusal::of(404, message, Some("model_not_found"))
            })
        }
    }
}

fn messages(given: &Map<String, Value>) -> Result<Vec<(String, String)>, Refusal> {
    let list = given.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else {
        return Err(Refusal::wrong(
            "messages",
            "Missing required parameter: 'messages', a list that is not empty.",
        ));
    };
    list.iter().enumerate().map(|(at, message)| self::message(at, message)).collect()
}

fn message(at: usize, message: &Value) -> Result<(String, String), Refusal> {
    let wrong = |key: &str, words: &str| Err(Refusal::wrong(&format!("messages[{at}]{key}"), words));
    let Some(message) = message.as_object() else {
        return wrong("", "A message must be an object.");
    };
    if let Some(key) = message.keys().find(|key| !MESSAGE_KEYS.contains(&key.as_str())) {
        return wrong(&format!(".{key}"), "Unknown parameter of a message.");
    }
    let Some(role) = message.get("role").and_then(Value::as_str).filter(|role| ROLES.contains(role)) else {
        return wrong(".role", "The role must be system, developer, user or assistant.");
    };
    let text = |part: &Value| {
        let is_text = part.get("type").and_then(Value::as_str) == Some("text");
        part.get("text").and_then(Value::as_str).filter(|_| is_text).map(str::to_owned)
    };
    let content = match message.get("content") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => {
            parts.iter().map(text).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
        }
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    };
    match content {
        Some(content) => Ok((role.to_owned(), content)),
        None => wrong(".content", "The content must be a text, or a list of parts of type text."),
    }
}

fn is_object_mode(given: &Map<String, Value>) -> bool {
    given.get("response_format").and_then(|format| format.get("type")).and_then(Value::as_str)
        == Some("json_object")
}

fn response_format(value: &Value) -> Result<(), Refusal> {
    const NAME: &str = "response_format";
    let wrong = |key: &str, words: String| Err(Refusal::wrong(&format!("{NAME}{key}"), words));
    let Some(format) = value.as_object() else {
        return wrong("", "The response format must be an object.".to_owned());
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text" | "json_object") if format.len() == 1 => return Ok(()),
        Some("json_schema") => {}
        _ => return wrong(".type", "The type must be text, json_object or json_schema.".to_owned()),
    }
    let Some(asked) = format.get("json_schema").and_then(Value::as_object) else {
        return wrong(".json_schema", "Missing required parameter.".to_owned());
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = asked.get("name").and_then(Value::as_str);
    if !name.is_some_and(|name| (1..=64).contains(&name.len()) && name.chars().all(plain)) {
        return wrong(".json_schema.name", "The name must be 1 to 64 letters, digits, _ and -.".to_owned());
    }
    if let Some(key) =
        asked.keys().find(|key| !["name", "description", "schema", "strict"].contains(&key.as_str()))
    {
        return wrong(&format!(".json_schema.{key}"), "Unknown parameter.".to_owned());
    }
    let strict = match asked.get("strict") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(strict)) => *strict,
        Some(_) => return wrong(".json_schema.strict", "Must be true or false.".to_owned()),
    };
    match asked.get("schema") {
        Some(schema) if strict => schema::strict(schema)
            .or_else(|rule| wrong("", format!("Invalid schema for response_format: {rule}")))
            .map_err(|refusal| refusal.code("invalid_json_schema")),
        Some(Value::Object(_)) => Ok(()),
        Some(_) | None => wrong(".json_schema.schema", "Missing required parameter.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::MODEL;

    fn with(name: &str, value: Value) -> String {
        let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]});
        body[name] = value;
        body.to_string()
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let schema =
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
        let format = |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}});
        for (name, value, param) in [
            ("model", json!(7), "model"),
            ("model", json!("gpt-4o"), "model"),
            ("messages", json!([]), "messages"),
            ("messages", json!("hello"), "messages"),
            ("messages", json!(["hello"]), "messages[0]"),
            ("messages", json!([{"role": "root", "content": "x"}]), "messages[0].role"),
            ("messages", json!([{"role": "user"}]), "messages[0].content"),
            (
                "messages",
                json!([{"role": "user", "content": [{"type": "image_url"}]}]),
                "messages[0].content",
            ),
            (
                "messages",
                json!([{"role": "user", "content": "x", "tool_calls": []}]),
                "messages[0].tool_calls",
            ),
            ("temperature", json!(2.1), "temperature"),
            ("temperature", json!("0"), "temperature"),
            ("max_tokens", json!(0), "max_tokens"),
            ("max_tokens", json!(1.5), "max_tokens"),
            ("n", json!(9), "n"),
            ("seed", json!("x"), "seed"),
            ("stream", json!(true), "stream"),
            ("tools", json!([]), "tools"),
            ("wobble", json!(1), "wobble"),
            ("response_format", json!("json"), "response_format"),
            ("response_format", json!({"type": "yaml"}), "response_format.type"),
            ("response_format", json!({"type": "json_object"}), "messages"),
            ("response_format", json!({"type": "json_schema"}), "response_format.json_schema"),
            (
                "response_format",
                json!({"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}),
                "response_format.json_schema.name",
            ),
            (
                "response_format",
                json!({"type": "json_schema", "json_schema": {"name": "x"}}),
                "response_format.json_schema.schema",
            ),
            ("response_format", format(json!({"type": "object"})), "response_format"),
        ] {
            let refused = check(&with(name, value.clone()), &[MODEL]).expect_err("refused");
            assert_eq!(refused.param.as_deref(), Some(param), "{name} {value}");
        }
        for (name, value) in [
            ("temperature", json!(0)),
            ("max_tokens", json!(1)),
            ("stream", json!(false)),
            ("stop", Value::Null),
            ("response_format", format(schema)),
            ("response_format", json!({"type": "text"})),
        ] {
            assert!(check(&with(name, value.clone()), &[MODEL]).is_ok(), "{name} {value}");
        }
        assert_eq!(check("{", &[MODEL]).expect_err("refused").status, 400);
        assert_eq!(check("[]", &[MODEL]).expect_err("refused").param, None);
    }
}
