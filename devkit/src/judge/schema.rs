//! Rules of a strict schema: every object closed, every key required, and no keyword that a server may not know.

use serde_json::Value;

/// Keywords that strict schemas have.
const KEYWORDS: [&str; 12] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "description",
    "title",
    "$defs",
    "$ref",
];
/// Deepest nesting.
const DEEPEST: usize = 10;

/// Checks the schema of an answer.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn strict(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the schema must be of type 'object'".to_owned());
    }
    part(schema, "", 0)
}

fn part(schema: &Value, at: &str, depth: usize) -> Result<(), String> {
    let Some(map) = schema.as_object() else {
        return Err(format!("{at}: a schema must be an object"));
    };
    if depth > DEEPEST {
        return Err(format!("{at}: nested deeper than {DEEPEST}"));
    }
    if let Some(keyword) = map.keys().find(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
        return Err(format!("{at}: '{keyword}' is not permitted"));
    }
    if map.get("type").and_then(Value::as_str) == Some("object") {
        if map.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(format!("{at}: 'additionalProperties' is required to be supplied and to be false"));
        }
        let required: Vec<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let keys =
            || map.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
        if let Some(key) = keys().find(|key| !required.contains(&key.as_str())) {
            return Err(format!("{at}: 'required' must have every key; '{key}' is missing"));
        }
        if let Some(name) = required.iter().find(|name| keys().all(|key| key != *name)) {
            return Err(format!("{at}: 'required' has an extra key '{name}'"));
        }
    }
    for keyword in ["properties", "$defs"] {
        for (key, inner) in map.get(keyword).and_then(Value::as_object).into_iter().flatten() {
            part(inner, &format!("{at}/{keyword}/{key}"), depth + 1)?;
        }
    }
    for inner in map.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        part(inner, &format!("{at}/anyOf"), depth + 1)?;
    }
    map.get("items").map_or(Ok(()), |inner| part(inner, &format!("{at}/items"), depth + 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strict_schemas_are_closed() {
        let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let open = json!({"type": "object", "properties": {}, "required": []});
        for (schema, rule) in [
            (object(json!({}), json!([])), None),
            (
                object(json!({"a": {"type": "array", "items": object(json!({}), json!([]))}}), json!(["a"])),
                None,
            ),
            (json!({"type": "string"}), Some("of type 'object'")),
            (open.clone(), Some("additionalProperties")),
            (object(json!({"a": {"type": "string"}}), json!([])), Some("'a' is missing")),
            (object(json!({}), json!(["a"])), Some("extra key 'a'")),
            (
                object(json!({"a": {"type": "string", "maxLength": 3}}), json!(["a"])),
                Some("'maxLength' is not"),
            ),
            (
                object(json!({"a": {"type": "array", "items": open}}), json!(["a"])),
                Some("/properties/a/items"),
            ),
        ] {
            let found = strict(&schema);
            match rule {
                None => assert_eq!(found, Ok(()), "{schema}"),
                Some(rule) => {
                    assert!(found.as_ref().is_err_and(|found| found.contains(rule)), "{schema}: {found:?}");
                }
            }
        }
    }
}
