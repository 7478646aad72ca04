use super::*;

fn plan(destinations: &[&str]) -> Vec<PlannedAction> {
    let action = |(index, to): (usize, &&str)| json!({"action_order": index + 1, "action_type": "email_raw", "destination": to});
    let actions: Vec<Value> = destinations.iter().enumerate().map(action).collect();
    serde_json::from_value(json!(actions)).expect("a plan")
}

fn ask(
    status: Status,
    stored: &Value,
    current: &[PlannedAction],
    options: ReplayOptions<'_>,
) -> Result<Replay, ReplayRefusal> {
    ask_of(status, stored, (current, None), options)
}

fn ask_of(
    status: Status,
    stored: &Value,
    (current, version): (&[PlannedAction], Option<&FormVersion>),
    options: ReplayOptions<'_>,
) -> Result<Replay, ReplayRefusal> {
    let ledger = Ledger::read(stored);
    let view = ReplayView {
        status,
        stored,
        ledger: ledger.as_ref(),
        infected: false,
        current: Some(current),
        version,
        expansion: expand::Expansion { max_recipients: 50, tickets: false },
    };
    replay(&view, options, Timestamp::UNIX_EPOCH)
}

const PLAIN: ReplayOptions<'_> = ReplayOptions { force: None, replan: false };
const REPLAN: ReplayOptions<'_> = ReplayOptions { force: None, replan: true };

fn force_one(order: i32) -> ReplayOptions<'static> {
    ReplayOptions { force: Some(Force::Action(order)), replan: false }
}

fn force_only(key: &str) -> ReplayOptions<'_> {
    ReplayOptions { force: Some(Force::Delivery(key)), replan: false }
}

fn states(replay: &Replay) -> Vec<(String, String)> {
    let entries = replay.keys["deliveries"].as_object().expect("entries");
    let state = |(key, entry): (&String, &Value)| {
        (key.clone(), entry["state"].as_str().unwrap_or_default().to_owned())
    };
    entries.iter().map(state).collect()
}

fn partly() -> Value {
    json!({
        "v": 1, "attempts": 5, "resets": 3, "plan": plan(&["a@x.test, b@x.test", "c@x.test"]),
        "finished": {"token": "t", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": "refused"},
        "deliveries": {
            "1|a@x.test": {"state": "accepted", "nonce": "n", "queue_id": "4X", "theirs": 1},
            "1|b@x.test": {"state": "failed", "error": {"class": "refused", "stage": "RCPT", "reply": "no"}},
            "2|c@x.test": {"state": "not_implemented"},
        },
    })
}

#[test]
fn what_has_not_ended_or_cannot_be_believed_stays_as_it_is() {
    use ReplayRefusal as R;
    let none = plan(&[]);
    let cases = [
        (Status::Received, json!({}), PLAIN, R::NotEnded(Status::Received)),
        (Status::Processing, json!({}), force_one(1), R::NotEnded(Status::Processing)),
        (Status::Purged, json!({}), REPLAN, R::Purged),
        (Status::Failed, json!({"v": 9}), PLAIN, R::Ledger(LedgerFault::Newer(9))),
        (Status::Routed, partly(), PLAIN, R::Routed),
        (Status::Failed, partly(), force_one(3), R::NoSuchAction(3)),
        (Status::Failed, partly(), force_one(2), R::NothingAccepted(2)),
        (Status::Failed, partly(), REPLAN, R::NoActions),
        (Status::Received, partly(), force_only("1|a@x.test"), R::NotEnded(Status::Received)),
        (Status::Failed, partly(), force_only("1|z@x.test"), R::NoSuchDelivery),
        (Status::Failed, partly(), force_only("a@x.test"), R::NoSuchDelivery),
        (Status::Failed, partly(), force_only("1|b@x.test"), R::NotAccepted),
        (Status::Failed, partly(), force_only("2|c@x.test"), R::NotAccepted),
    ];
    for (status, stored, options, expected) in cases {
        assert_eq!(ask(status, &stored, &none, options), Err(expected), "{status} {options:?}");
    }
    let done = json!({"plan": plan(&["a@x.test"]), "deliveries": {"1|a@x.test": {"state": "accepted"}}});
    assert_eq!(ask(Status::Routed, &done, &plan(&["a@x.test"]), REPLAN), Err(R::NothingToSend));
    assert!(matches!(ask(Status::Failed, &json!([]), &none, PLAIN), Err(R::Ledger(LedgerFault::Damaged(_)))));
}

#[test]
fn a_plain_replay_opens_what_failed_and_keeps_what_was_accepted() {
    let stored = partly();
    let done = ask(Status::Failed, &stored, &[], PLAIN).expect("replayed");
    assert_eq!(done.open, ["1|b@x.test"]);
    assert_eq!(done.keys["deliveries"]["1|a@x.test"], stored["deliveries"]["1|a@x.test"]);
    assert_eq!(done.keys["deliveries"]["2|c@x.test"], stored["deliveries"]["2|c@x.test"]);
    assert_eq!(done.keys["deliveries"]["1|b@x.test"]["error"]["class"], "refused", "its history");
    assert_eq!((&done.keys["attempts"], &done.keys["resets"]), (&json!(0), &json!(0)));
    assert!(done.keys.get("plan").is_none() && done.keys.get("generations").is_none(), "{}", done.keys);
    assert_eq!(done.note["finished"]["token"], "t");
}

#[test]
fn a_version_goes_with_the_plan_that_is_taken_anew_and_with_no_other() {
    let today = FormVersion { id: uuid::Uuid::from_u128(4), number: 4, digest: "1a".repeat(32) };
    let actions = plan(&["a@x.test, b@x.test, c@x.test"]);
    let of = |version, options| {
        let replay = ask_of(Status::Failed, &partly(), (&actions, version), options).expect("replayed");
        replay.keys.get("version").cloned()
    };
    assert_eq!(of(Some(&today), REPLAN), Some(json!(today)));
    assert_eq!(of(None, REPLAN), None, "the form is not managed");
    for options in [PLAIN, force_one(1)] {
        assert_eq!(of(Some(&today), options), None, "the pinned plan stays, and what it is of");
    }
}

#[test]
fn what_was_held_is_sent_and_other_doubt_is_left_to_the_policy() {
    let entry = |class: &str| json!({"state": "failed", "doubt": true, "error": {"class": class, "stage": "dot", "reply": "lost"}});
    let stored = json!({"plan": plan(&["a@x.test, b@x.test"]),
        "deliveries": {"1|a@x.test": entry("in_doubt"), "1|b@x.test": entry("unknown")}});
    let done = ask(Status::Failed, &stored, &[], PLAIN).expect("replayed");
    let entries = &done.keys["deliveries"];
    assert_eq!(
        (&entries["1|a@x.test"]["doubt"], &entries["1|a@x.test"]["doubted"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(entries["1|b@x.test"]["doubt"], true);
}

#[test]
fn a_forced_action_is_another_mail_and_its_former_fact_is_history() {
    let stored = partly();
    let done = ask(Status::Failed, &stored, &[], force_one(1)).expect("replayed");
    assert_eq!(done.open, ["1|a@x.test", "1|b@x.test"]);
    let entry = &done.keys["deliveries"]["1|a@x.test"];
    assert_eq!(
        (&entry["nonce"], &entry["queue_id"], &entry["theirs"]),
        (&Value::Null, &Value::Null, &json!(1))
    );
    assert_eq!(
        entry["history"],
        json!([{"state": "accepted", "nonce": "n", "queue_id": "4X", "generation": 0}])
    );
    assert_eq!(done.keys["generations"], json!({"1": 1}));
    let mut lost = stored.clone();
    lost["deliveries"]["1|a@x.test"]["relay"] = json!({"status": "bounced", "at": "2026-11-01T10:00:00Z"});
    let gone = ask(Status::Failed, &lost, &[], force_one(1)).expect("replayed");
    let entry = &gone.keys["deliveries"]["1|a@x.test"];
    assert_eq!(
        (entry.get("relay"), &entry["history"][0]["relay"]["status"]),
        (None, &json!("bounced")),
        "what became of a mail goes with it"
    );
    let mut again = stored;
    again["deliveries"] = done.keys["deliveries"].clone();
    again["deliveries"]["1|a@x.test"]["state"] = json!("accepted");
    again["deliveries"]["1|a@x.test"]["generation"] = json!(1);
    again["generations"] = json!({"1": 1, "7": 3});
    let done = ask(Status::Failed, &again, &[], force_one(1)).expect("replayed");
    assert_eq!(done.keys["generations"], json!({"1": 2, "7": 3}));
    let history = done.keys["deliveries"]["1|a@x.test"]["history"].as_array().expect("history");
    assert_eq!(history.iter().map(|fact| &fact["generation"]).collect::<Vec<_>>(), [&json!(0), &json!(1)]);
}

#[test]
fn a_new_plan_keeps_every_fact_and_asks_for_what_is_new() {
    let current = plan(&["b@x.test, z@x.test", "d@x.test"]);
    let done = ask(Status::Failed, &partly(), &current, REPLAN).expect("replayed");
    let kept = |key: &str, state: &str| (key.to_owned(), state.to_owned());
    assert_eq!(
        states(&done),
        [
            kept("1|a@x.test", "accepted"),
            kept("1|b@x.test", "open"),
            kept("1|z@x.test", "open"),
            kept("2|d@x.test", "open"),
        ],
        "a's fact is what happened; c was never sent to and is not wanted any more"
    );
    assert_eq!(done.keys["plan"], json!(current));
    // Forced before, then not wanted any more: the former fact is the entry's state again, and blocks nothing.
    let forced = ask(Status::Failed, &partly(), &[], force_one(1)).expect("replayed");
    let mut stored = partly();
    stored["deliveries"] = forced.keys["deliveries"].clone();
    stored["generations"] = json!({"1": 1});
    let done = ask(Status::Failed, &stored, &current, REPLAN).expect("replayed");
    let entry = &done.keys["deliveries"]["1|a@x.test"];
    assert_eq!(
        (&entry["state"], &entry["nonce"], &entry["history"]),
        (&json!("accepted"), &json!("n"), &json!([]))
    );
    // Both options at once: recipients that the new plan still names are forced.
    let both = ReplayOptions { force: Some(Force::Action(1)), replan: true };
    let done = ask(Status::Failed, &partly(), &plan(&["a@x.test"]), both).expect("replayed");
    assert_eq!(states(&done), [kept("1|a@x.test", "open")]);
    assert_eq!(ask(Status::Failed, &partly(), &current, both), Err(ReplayRefusal::NothingAccepted(1)));
}

/// Three mails of one action, accepted, and a bounce of the second.
fn three() -> Value {
    let accepted =
        |nonce: &str| json!({"state": "accepted", "nonce": nonce, "queue_id": nonce, "generation": 0});
    let mut stored = json!({
        "v": 1, "attempts": 1, "plan": plan(&["a@x.test, b@x.test, c@x.test", "a@x.test"]),
        "finished": {"token": "t", "at": "2026-11-01T10:00:00Z", "status": "routed"},
        "deliveries": {
            "1|a@x.test": accepted("na"), "1|b@x.test": accepted("nb"), "1|c@x.test": accepted("nc"),
            "2|a@x.test": accepted("nd"),
        },
    });
    stored["deliveries"]["1|b@x.test"]["relay"] = json!({"status": "bounced", "at": "2026-11-01T10:00:00Z"});
    stored
}

#[test]
fn a_forced_delivery_is_another_mail_and_its_neighbours_keep_theirs() {
    let stored = three();
    let done = ask(Status::Routed, &stored, &[], force_only("1|b@x.test")).expect("replayed");
    assert_eq!(done.open, ["1|b@x.test"]);
    assert_eq!(done.keys["generations"], json!({"1": 1}));
    let entries = &done.keys["deliveries"];
    for key in ["1|a@x.test", "1|c@x.test", "2|a@x.test"] {
        assert_eq!(entries[key], stored["deliveries"][key], "{key}");
    }
    let history = &entries["1|b@x.test"]["history"];
    assert_eq!((&history[0]["nonce"], &history[0]["relay"]["status"]), (&json!("nb"), &json!("bounced")));
    let forced = Forced { action_order: 1, delivery: Some("2/3".to_owned()), generation: 1 };
    assert_eq!(done.forced, Some(forced));
    assert_eq!(
        (&done.note["force_action"], &done.note["force_delivery"], &done.note["generation"]),
        (&json!(1), &json!("2/3"), &json!(1))
    );
    assert!(!done.note.to_string().contains('@'), "{}", done.note);

    // Sent; then its neighbour, then the same once more, then all: each is a mail of its own.
    let mut stored = stored;
    let mut generations = Vec::new();
    for (key, generation) in [("1|b@x.test", 1), ("1|a@x.test", 2), ("1|b@x.test", 3)] {
        let done = ask(Status::Routed, &stored, &[], force_only(key)).expect("replayed");
        assert_eq!(done.open, [key]);
        assert_eq!(done.keys["generations"]["1"], generation);
        stored["deliveries"] = done.keys["deliveries"].clone();
        stored["generations"] = done.keys["generations"].clone();
        stored["deliveries"][key]["state"] = json!("accepted");
        stored["deliveries"][key]["generation"] = json!(generation);
        let ledger = Ledger::read(&stored).expect("a ledger");
        generations.push(["1|a@x.test", "1|b@x.test", "1|c@x.test"].map(|key| ledger.generation_of(key)));
    }
    assert_eq!(generations, [[0, 1, 0], [2, 1, 0], [2, 3, 0]]);
    let done = ask(Status::Routed, &stored, &[], force_one(1)).expect("replayed");
    assert_eq!((done.open.len(), &done.keys["generations"]["1"]), (3, &json!(4)));
    assert_eq!(done.forced.expect("forced").delivery, None);
    let history = &done.keys["deliveries"]["1|b@x.test"]["history"];
    let history: Vec<&Value> =
        history.as_array().expect("history").iter().map(|fact| &fact["generation"]).collect();
    assert_eq!(history, [&json!(0), &json!(1), &json!(3)]);
}

/// It would go out under the new Message-ID, although it was perhaps delivered under the present one.
#[test]
fn nothing_is_forced_beside_what_is_perhaps_sent() {
    let error = |class: &str| json!({"class": class, "stage": "dot", "reply": "lost"});
    let intent = json!({"token": "gone", "at": "2026-11-01T10:00:00Z"});
    for (neighbour, refused) in [
        (json!({"state": "failed", "doubt": true, "error": error("unknown")}), true),
        (json!({"state": "failed", "error": error("in_doubt")}), true),
        (json!({"state": "open", "begun": intent}), true),
        (json!({"state": "failed", "begun": intent}), true),
        (json!({"state": "failed", "error": error("refused")}), false),
        (json!({"state": "accepted", "doubted": true}), false),
    ] {
        let mut stored = three();
        stored["deliveries"]["1|c@x.test"] = neighbour.clone();
        for options in [force_only("1|b@x.test"), ReplayOptions { replan: true, ..force_only("1|b@x.test") }]
        {
            let current = plan(&["a@x.test, b@x.test, c@x.test", "a@x.test"]);
            let answer = ask(Status::Failed, &stored, &current, options);
            if refused {
                assert_eq!(answer, Err(ReplayRefusal::NeighbourInDoubt(1)), "{neighbour} {options:?}");
            } else {
                assert!(answer.is_ok(), "{neighbour}: {answer:?}");
            }
        }
        // Another action's mail has another Message-ID anyway.
        assert!(ask(Status::Failed, &stored, &[], force_only("2|a@x.test")).is_ok(), "{neighbour}");
    }
}

#[test]
fn a_delivery_that_the_new_plan_does_not_want_is_not_forced() {
    let both = ReplayOptions { replan: true, ..force_only("1|b@x.test") };
    let current = plan(&["a@x.test, c@x.test"]);
    assert_eq!(ask(Status::Routed, &three(), &current, both), Err(ReplayRefusal::NoSuchDelivery));
    let current = plan(&["b@x.test"]);
    let done = ask(Status::Routed, &three(), &current, both).expect("replayed");
    assert_eq!(done.open, ["1|b@x.test"]);
}
