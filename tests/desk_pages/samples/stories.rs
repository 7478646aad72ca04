//! The story of a submission.

use super::*;

pub(super) const EXPLAIN: &str = "\
f3cf339d-347b-4b62-931f-68d7024fd410  FAILED (refused)
form      volunteer \"Volunteer\"
time      submitted 2026-11-21 16:38:02Z (3d ago), changed 3d ago
files     no attachments
attempts  1 of 5
plan      1 email_template volunteer-mail
delivery  1 example.org  failed
            RCPT 550 5.1.1 no such user
          1 example.org  accepted, 250 2.0.0, queue id 4D41504C49
            <maple.f3cf339d347b4b62931f68d7024fd410.1.0@greenpeace.org>
          1 example.org  accepted, 250 2.0.0, queue id 4D41504C49
why       1 delivery refused for good: RCPT 550 5.1.1 no such user; 2 of 3 deliveries had been
          accepted and stay so
next      it stays as it is until a person acts";

pub(super) fn story(t: Say<'_>) -> Story {
    let moment = |minutes, lifecycle, what, who: Option<&str>, words| Moment {
        at: before(minutes),
        lifecycle: t(lifecycle),
        what: t(what),
        who: who.map(t),
        words: t(words),
    };
    let delivery = |state, relay: Option<&str>, reply: Option<&str>, queue_id: Option<&str>| DeliveryLine {
        name: t("5f1c"),
        action: 1,
        recipient: None,
        domain: Some(t("example.org")),
        state: t(state),
        relay: relay.map(t),
        reply: reply.map(t),
        queue_id: queue_id.map(t),
        at: Some(before(5_332)),
    };
    Story {
        id: id(300),
        form_id: t("volunteer"),
        form_name: Some(t("Volunteer sign-up")),
        status: t("failed"),
        reason: Some(t("refused")),
        created_at: before(5_333),
        updated_at: before(5_332),
        retention_expires_at: Some(now() + SignedDuration::from_hours(24 * 86)),
        attempts: 1,
        max_attempts: 5,
        why: t(
            "1 delivery refused for good: RCPT 550 5.1.1 no such user; 2 of 3 deliveries had been accepted and stay so.",
        ),
        next: t("It stays as it is until a person acts."),
        explain: t(EXPLAIN),
        timeline: vec![
            moment(5_333, "submission", "finalized", None, "no attachments"),
            moment(5_333, "outbox", "delivered", None, "routing event, attempt 1"),
            moment(5_333, "submission", "claimed", None, "attempt 1"),
            moment(5_332, "delivery", "email_sent", None, "attempt 1, 1 example.org, 4D41504C49"),
            moment(
                5_332,
                "delivery",
                "email_failed",
                None,
                "attempt 1, 1 example.org, RCPT 550 5.1.1 no such user",
            ),
            moment(5_332, "submission", "submission_route_failed", None, "attempt 1, refused"),
            moment(5_332, "grey_queue", "open", None, "failed, refused"),
            moment(310, "submission", "replay", Some("operator:bob"), "the mailbox was made anew"),
        ],
        deliveries: vec![
            delivery("failed", None, Some("RCPT 550 5.1.1 no such user"), None),
            delivery("accepted", Some("delivered"), Some("250 2.0.0"), Some("4D41504C49")),
            DeliveryLine {
                domain: None,
                at: None,
                ..delivery("accepted", Some("unheard"), None, Some("4D41504C49"))
            },
        ],
        recipients_shown: false,
        may_show: true,
        mails: vec![
            MailLine { number: 1, action: 1, recipients: 3, sent_at: Some(before(5_332)), shown: None },
            MailLine { number: 2, action: 2, recipients: 1, sent_at: None, shown: None },
        ],
    }
}
