//! The one classifier of the help desk's answers: what became of a creation, or of a question (help-desk contract, "Outcomes").
//!
//! Pure. Only a clear word refuses a ticket, only an id proves one; whatever was lost after the content was written is
//! unknown. Silence is never "not found".

use std::time::Duration;

use jiff::Timestamp;

use super::answer;
use super::words::{is_page, of_ours, said};
use crate::ports::{Creation, Fault, Reply, Stage, Unanswered};

/// What came back for a request, or did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// An answer.
    Answer(Answer),
    /// Nothing of the content was written: no connection, or it ended before. The text is ours.
    NotBegun(String),
    /// The content was begun, and no answer came. The text is ours.
    Lost(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    /// HTTP status.
    pub(super) status: u16,
    /// Its own `Date`.
    pub(super) date: Option<Timestamp>,
    /// Requests that are left until the limit, where it says so.
    pub(super) limit_left: Option<u64>,
    /// The wait that header and words ask for.
    pub(super) wait: Option<Duration>,
    /// Host of the place a redirect names.
    pub(super) elsewhere: Option<String>,
    /// The body, as much of it as is read.
    pub(super) body: String,
    /// Whether that is all of it.
    pub(super) whole: bool,
}

/// The outcome of a creation. [`Creation::Throttled`] has the wait that was asked for, zero for none: the pace knows how long it
/// is then.
#[must_use]
pub(super) fn creation(heard: Heard) -> Creation {
    let answer = match heard {
        Heard::Answer(answer) => answer,
        Heard::NotBegun(why) => return Creation::AboutUs(of_ours(Stage::Post, &why)),
        Heard::Lost(why) => return Creation::Unknown(of_ours(Stage::Post, &why)),
    };
    let evidence = |lead: &str, about_us| Fault {
        stage: Stage::Post,
        reply: said(answer.status, lead, &answer.body),
        about_us,
    };
    let status = answer.status;
    match status {
        200..=299 => match answer::ticket(&answer.body, answer.whole) {
            Ok(ticket) => Creation::Created(ticket),
            Err(why) => {
                let what =
                    if is_page(&answer.body) { "it sent a page (HTML) instead of a ticket" } else { why };
                let words = format!("the help desk answered {status}, but {what}");
                let reply = Reply { code: Some(status), ..of_ours(Stage::Post, &words).reply };
                Creation::Unknown(Fault { stage: Stage::Post, reply, about_us: true })
            }
        },
        // "See other" is how a server shows the result of what it has carried out (RFC 9110 §15.4.4).
        303 => Creation::Unknown(evidence(&redirected(&answer), true)),
        // Every other redirect says that the request is to be made elsewhere, so it was not carried out here. It is not
        // followed: the credentials are for the configured host alone, and most clients would make a GET of it.
        300..=399 => {
            let words = redirected(&answer);
            let reply = Reply { code: Some(status), ..of_ours(Stage::Post, &words).reply };
            Creation::AboutUs(Fault { stage: Stage::Post, reply, about_us: true })
        }
        401 | 403 => Creation::AboutUs(evidence(&denied(status), true)),
        // Whoever waited in vain for a request may have had all of it.
        408 => Creation::Unknown(evidence("the help desk gave up waiting for the request (408)", true)),
        413 => Creation::TooLarge(evidence("the help desk finds the ticket too large (413)", false)),
        429 => Creation::Throttled {
            fault: evidence("the help desk throttles us (429)", true),
            wait: answer.wait.unwrap_or_default(),
        },
        // The lists were read with the same address and credentials just before, so these are about this ticket.
        400 | 404 | 409 | 422 => {
            Creation::Refused(evidence(&format!("the help desk refused the ticket ({status})"), false))
        }
        // About the account, the address or this client: every other ticket would meet the same.
        400..=499 => Creation::AboutUs(evidence(&format!("the help desk takes no tickets ({status})"), true)),
        _ => Creation::Unknown(evidence(&format!("the help desk is in trouble ({status})"), true)),
    }
}

/// The answer to a question, or why there is none.
///
/// # Errors
/// [`Unanswered`]; a throttle has the wait that was asked for, zero for none.
pub(super) fn question(heard: Heard) -> Result<Answer, Unanswered> {
    let answer = match heard {
        Heard::Answer(answer) => answer,
        Heard::NotBegun(why) | Heard::Lost(why) => return Err(unanswered(of_ours(Stage::Get, &why))),
    };
    let status = answer.status;
    let lead = match status {
        200..=299 if !answer.whole => {
            format!("the answer of the help desk ({status}) is too long or was cut off")
        }
        200..=299 if is_page(&answer.body) => format!("the help desk answered {status}"),
        200..=299 => return Ok(answer),
        300..=399 => redirected(&answer),
        401 | 403 => denied(status),
        404 => "the help desk's API is not at [happyfox] base_url (404)".to_owned(),
        429 => "the help desk throttles us (429)".to_owned(),
        _ => format!("the help desk answers no questions ({status})"),
    };
    // A list that was cut off says nothing about the fault, and is full of other people's words.
    let body = if (200..=299).contains(&status) && !is_page(&answer.body) { "" } else { &answer.body };
    let fault = Fault { stage: Stage::Get, reply: said(status, &lead, body), about_us: true };
    let wait = (status == 429).then(|| answer.wait.unwrap_or_default());
    Err(Unanswered { fault, wait })
}

/// A question that was answered with something else than what was asked for.
#[must_use]
pub(super) fn unreadable(status: u16, why: &str) -> Unanswered {
    let words = format!("the help desk answered {status}, but {why}");
    let reply = Reply { code: Some(status), ..of_ours(Stage::Get, &words).reply };
    unanswered(Fault { stage: Stage::Get, reply, about_us: true })
}

/// A question that cannot be asked.
#[must_use]
pub(super) fn unasked(why: &str) -> Unanswered {
    unanswered(of_ours(Stage::Get, why))
}

fn unanswered(fault: Fault) -> Unanswered {
    Unanswered { fault, wait: None }
}

fn denied(status: u16) -> String {
    format!("the help desk refused the credentials happyfox-api-key and happyfox-auth-code ({status})")
}

fn redirected(answer: &Answer) -> String {
    let to = answer.elsewhere.as_deref().map_or_else(String::new, |host| format!(" to {host}"));
    format!(
        "the help desk sends us elsewhere{to} ({}), which is never followed: correct [happyfox] base_url",
        answer.status
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.to_owned(), whole: true, ..Answer::default() }
    }

    fn short(creation: &Creation) -> (&'static str, bool) {
        (creation.label(), creation.fault().is_some_and(|fault| fault.about_us))
    }

    #[test]
    fn the_contracts_outcome_table() {
        let (page, words) = ("<!DOCTYPE html><p>Log in</p>", r#"{"error": "Invalid category"}"#);
        for (status, body, expected, shown) in [
            (200, r#"{"id": 7, "display_id": "DC7"}"#, ("created", false), ""),
            (201, r#"{"id": 7}"#, ("created", false), ""),
            (
                200,
                r#"{"id": "7"}"#,
                ("unknown", true),
                "answered 200, but the id of the ticket it sent is no number",
            ),
            (200, r#"{"page_info": {}, "data": []}"#, ("unknown", true), "has no id"),
            (200, words, ("unknown", true), "has no id"),
            (200, page, ("unknown", true), "answered 200, but it sent a page (HTML) instead of a ticket"),
            (204, "", ("unknown", true), "no ticket"),
            (301, page, ("about_us", true), "sends us elsewhere"),
            (302, page, ("about_us", true), "sends us elsewhere"),
            (303, "", ("unknown", true), "sends us elsewhere"),
            (307, "", ("about_us", true), "base_url"),
            (308, "", ("about_us", true), "base_url"),
            (400, words, ("refused", false), "refused the ticket (400): error: Invalid category"),
            (404, page, ("refused", false), "refused the ticket (404): a page (HTML) instead of JSON"),
            (409, words, ("refused", false), "Invalid category"),
            (422, r#"{"t-cf-3": ["required"]}"#, ("refused", false), "t-cf-3: required"),
            (401, "", ("about_us", true), "credentials happyfox-api-key and happyfox-auth-code (401)"),
            (403, page, ("about_us", true), "credentials happyfox-api-key and happyfox-auth-code (403)"),
            (402, words, ("about_us", true), "takes no tickets (402)"),
            (405, "", ("about_us", true), "takes no tickets (405)"),
            (410, "", ("about_us", true), "takes no tickets (410)"),
            (415, "", ("about_us", true), "takes no tickets (415)"),
            (408, "", ("unknown", true), "gave up waiting"),
            (413, page, ("too_large", false), "too large (413)"),
            (429, "", ("throttled", true), "throttles us (429)"),
            (500, page, ("unknown", true), "in trouble (500)"),
            (502, page, ("unknown", true), "in trouble (502)"),
            (503, "", ("unknown", true), "in trouble (503)"),
            (504, "", ("unknown", true), "in trouble (504)"),
            (599, "", ("unknown", true), "in trouble (599)"),
            (700, "", ("unknown", true), "in trouble (700)"),
        ] {
            let found = creation(Heard::Answer(answer(status, body)));
            assert_eq!(short(&found), expected, "{status} {body}: {found:?}");
            let Some(fault) = found.fault() else { continue };
            assert_eq!((fault.stage, fault.reply.code), (Stage::Post, Some(status)), "{found:?}");
            assert!(fault.reply.reply.contains(shown), "{status} {body}: {found:?}");
        }
        let found = creation(Heard::NotBegun("refused".to_owned()));
        assert_eq!(short(&found), ("about_us", true));
        assert_eq!(found.fault().expect("a fault").reply.code, None);
        assert_eq!(short(&creation(Heard::Lost("gone".to_owned()))), ("unknown", true));
    }

    #[test]
    fn a_creation_is_believed_by_the_top_of_its_answer() {
        let cut = |body: &str| Heard::Answer(Answer { whole: false, ..answer(200, body) });
        assert_eq!(short(&creation(cut(r#"{"id": 7, "text": "long"#))), ("created", false));
        assert_eq!(short(&creation(cut(r#"{"text": "long"#))), ("unknown", true));
    }

    #[test]
    fn a_question_is_answered_or_the_help_desk_is_out() {
        let page = "<html>";
        for (status, body, whole, expected) in [
            (200, "[]", true, None),
            (200, page, true, Some("answered 200: a page (HTML)")),
            (200, "[{\"subject\": \"s3cret\"}", false, Some("too long or was cut off")),
            (302, "", true, Some("sends us elsewhere")),
            (401, "", true, Some("credentials")),
            (403, "", true, Some("credentials")),
            (404, page, true, Some("is not at [happyfox] base_url")),
            (400, "", true, Some("answers no questions (400)")),
            (500, "", true, Some("answers no questions (500)")),
        ] {
            let found = question(Heard::Answer(Answer { whole, ..answer(status, body) }));
            match (found, expected) {
                (Ok(answer), None) => assert_eq!(answer.body, body),
                (Err(Unanswered { fault, wait }), Some(words)) => {
                    assert!(fault.reply.reply.contains(words), "{status}: {fault:?}");
                    assert!(!fault.reply.reply.contains("s3cret"), "{fault:?}");
                    assert_eq!((fault.stage, fault.about_us, wait), (Stage::Get, true, None));
                }
                (found, _) => panic!("{status} {body}: {found:?}"),
            }
        }
        let throttled = Answer { wait: Some(Duration::from_secs(9)), ..answer(429, "") };
        let wait = question(Heard::Answer(throttled)).expect_err("throttled").wait;
        assert_eq!(wait, Some(Duration::from_secs(9)));
        for heard in [Heard::NotBegun("refused".to_owned()), Heard::Lost("gone".to_owned())] {
            assert!(question(heard).expect_err("no answer").fault.about_us);
        }
    }

    #[test]
    fn a_redirect_names_the_other_host_and_nothing_more() {
        let elsewhere = Some("login.example.org".to_owned());
        let found = creation(Heard::Answer(Answer { elsewhere, ..answer(302, "") }));
        let words = &found.fault().expect("a fault").reply.reply;
        assert!(words.contains("elsewhere to login.example.org (302)"), "{words}");
    }
}
