//! Pages before login and after trouble.

use super::*;

pub(super) fn link(t: Say<'_>) -> LinkPage {
    LinkPage { now: now(), action: t("/login/b64d2f0c1e"), to: t("/queue?state=Pending") }
}

pub(super) fn how_to(t: Say<'_>, behind_proxy: bool) -> HowToPage {
    let because = Some(t("Your session ended: it was not used for an hour."));
    HowToPage { now: now(), host: t("maple-1.example.org"), because, behind_proxy }
}

pub(super) fn problem(t: Say<'_>, known: bool) -> ProblemPage {
    let mut frame = frame(t);
    frame.viewer = frame.viewer.filter(|_| known);
    ProblemPage {
        frame,
        status: 503,
        title: t("The database is away"),
        detail: t("Nothing of what you sent was done."),
        steps: vec![
            t("Wait a minute, then send it again: it is done once, however often you send it."),
            t("If it stays so, look at the status of the service on the host."),
        ],
        again: Some("/queue".to_owned()),
        unsent: Some(Unsent {
            action: t("/entries/1/reject"),
            typed: vec![(t("reason"), t("Sent twice by the same person."))],
            hidden: vec![(t("version"), t("3")), (t("idempotency_key"), t("5a"))],
        }),
    }
}
