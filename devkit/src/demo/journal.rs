//! The router's JSON log in words for a first-time reader. Display only; nothing is judged by it.

use serde_json::Value;

use super::narration::Tone;

/// One entry in words; `None` for what would only distract. `again` says whether its event was seen before.
pub(super) fn in_words(entry: &Value, again: bool) -> Option<(Tone, String)> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| entry.get(key).and_then(Value::as_u64).unwrap_or_default();
    let message = text("message");
    let mail = || format!("action {}, mail {}", number("action_order"), text("delivery"));
    let reply = || match (number("smtp_code"), text("enhanced_code")) {
        (0, _) => after_colon(message).to_owned(),
        (code, "") => code.to_string(),
        (code, enhanced) => format!("{code} {enhanced}"),
    };
    Some(match text("event") {
        "received" => match number("delivery_attempt") {
            0 | 1 if again => (Tone::Faint, format!("another event for it ({})", text("reason"))),
            0 | 1 => return None,
            nth => (Tone::Faint, format!("its event comes again (delivery {nth})")),
        },
        "claimed" => (Tone::Plain, format!("claimed: attempt {} of 5", number("attempt"))),
        "dropped" => (Tone::Faint, format!("nothing to do now, {}", after_colon(message))),
        "begun" | "held" => return None,
        // The demo tells what the API answers; the proof of a file is the router's own.
        "upload_request" | "upload_created" => return None,
        "poison" => {
            let nth = number("delivery_attempt").max(1);
            (Tone::Warn, format!("unreadable event given back (delivery {nth} of 5)"))
        }
        "action_accepted" => {
            (Tone::Plain, format!("{}: {}, queue id {}", mail(), reply(), text("postfix_queue_id")))
        }
        "action_refused" => (Tone::Bad, format!("{}: {}, refused for good", mail(), reply())),
        "action_deferred" => (Tone::Warn, format!("{}: {}, stays open", mail(), reply())),
        "not_implemented" => {
            let order = number("action_order");
            (Tone::Plain, format!("action {order} ({}) waits for its client", text("action_type")))
        }
        "routed" => (Tone::Good, message.replacen("routed", "ROUTED", 1)),
        "failed" => {
            let message = message.split("; see `").next().unwrap_or_default();
            (Tone::Bad, format!("FAILED: {}", after_colon(message)))
        }
        "released" => (Tone::Warn, message.to_owned()),
        // Events not named above are shown in the router's own words.
        _ => match text("level") {
            "error" => (Tone::Bad, message.to_owned()),
            "warn" => (Tone::Warn, message.to_owned()),
            "info" => (Tone::Faint, message.to_owned()),
            _ => return None,
        },
    })
}

fn after_colon(message: &str) -> &str {
    message.split_once(": ").map_or(message, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_put_in_words() {
        let cases = [
            (
                json!({"event": "claimed", "attempt": 2, "level": "info", "message": "claimed with 1 deliveries"}),
                Some((Tone::Plain, "claimed: attempt 2 of 5")),
            ),
            (json!({"event": "received", "delivery_attempt": 1, "level": "debug"}), None),
            (
                json!({"event": "received", "delivery_attempt": 3, "level": "debug"}),
                Some((Tone::Faint, "its event comes again (delivery 3)")),
            ),
            (
                json!({"event": "action_refused", "action_order": 1, "delivery": "3/3", "smtp_code": 550,
                       "enhanced_code": "5.1.1", "message": "refused for good: RCPT: no such user"}),
                Some((Tone::Bad, "action 1, mail 3/3: 550 5.1.1, refused for good")),
            ),
            (
                json!({"event": "action_deferred", "action_order": 2, "delivery": "1/1",
                       "message": "stays open: connect: connection refused"}),
                Some((Tone::Warn, "action 2, mail 1/1: connect: connection refused, stays open")),
            ),
            (
                json!({"event": "failed", "level": "error",
                       "message": "failed: its form has no actions; see `maple-router explain 1`"}),
                Some((Tone::Bad, "FAILED: its form has no actions")),
            ),
            (
                json!({"level": "warn", "message": "the relay is slow"}),
                Some((Tone::Warn, "the relay is slow")),
            ),
            (json!({"event": "held", "level": "debug", "message": "deferred for 0.8 s"}), None),
            (json!({"level": "debug", "message": "event stream opened"}), None),
        ];
        for (entry, expected) in cases {
            let expected = expected.map(|(tone, text)| (tone, text.to_owned()));
            assert_eq!(in_words(&entry, false), expected, "{entry}");
        }
        let second = json!({"event": "received", "delivery_attempt": 1, "reason": "finalized"});
        assert_eq!(
            in_words(&second, true),
            Some((Tone::Faint, "another event for it (finalized)".to_owned()))
        );
    }
}
