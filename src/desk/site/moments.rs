//! What happened to a submission, in every lifecycle: its own events, those of its routing events in the outbox, and each
//! transition of its entries.

use uuid::Uuid;

use super::Site;
use crate::desk::pages::story::Moment;
use crate::desk::problem::Problem;
use crate::queries::explain::Page;

/// Entries whose history is told; each page of an entry has its own whole.
const ENTRIES: usize = 10;

/// The moments of the submission and of its events. Recipients are named as far as `page` names them.
pub(super) fn of(page: &Page) -> Vec<Moment> {
    let own = page.timeline.iter().map(|moment| Moment {
        at: moment.at,
        lifecycle: "submission".to_owned(),
        what: moment.what.clone(),
        who: moment.actor.clone(),
        words: moment.words.clone(),
    });
    let events = page.events.iter().flatten().flat_map(|event| {
        let told = |at, what: &str, words: String| Moment {
            at,
            lifecycle: "outbox".to_owned(),
            what: what.to_owned(),
            who: None,
            words,
        };
        let reason = event.reason.as_deref().unwrap_or("event");
        let written = told(event.written_at, "written", format!("row {}, {reason}", event.outbox_row));
        let delivered =
            event.delivered_at.map(|at| told(at, "delivered", format!("row {}", event.outbox_row)));
        [Some(written), delivered].into_iter().flatten()
    });
    own.chain(events).collect()
}

/// The transitions of the latest entries about it; none where the review queue is not installed.
///
/// # Errors
/// [`Problem`]: the database is away.
pub(super) async fn reviewed(site: &Site, submission: Uuid) -> Result<Vec<Moment>, Problem> {
    let store = &site.commands().store;
    if !store.is_there().await? {
        return Ok(Vec::new());
    }
    let mut moments = Vec::new();
    for entry in store.about(submission).await?.into_iter().take(ENTRIES) {
        moments.extend(store.history(entry.id).await?.into_iter().map(|moved| Moment {
            at: moved.at,
            lifecycle: "grey_queue".to_owned(),
            what: moved.command,
            who: Some(moved.by),
            words:
                moved.reason.map_or_else(|| moved.to.to_string(), |reason| format!("{}: {reason}", moved.to)),
        }));
    }
    Ok(moments)
}
