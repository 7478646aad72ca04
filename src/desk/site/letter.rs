//! A dead letter as an entry's page shows it. Its payload only for whoever may see it and asks, and then the access log has it
//! before.

use uuid::Uuid;

use super::Site;
use super::showing::{may_show, record};
use crate::desk::access::Visitor;
use crate::desk::pages::story::LetterView;
use crate::desk::problem::Problem;
use crate::desk::store::access_log::What;
use crate::queries::letter::letter;
use crate::scrub::scrub;

/// Largest part of a payload that is shown, in bytes.
const LONGEST: usize = 64 * 1024;

/// The letter; `None` where there is none.
///
/// # Errors
/// [`Problem`]: also where its payload is asked for by somebody who may not see it, or that cannot be recorded.
pub(super) async fn of(
    site: &Site,
    visitor: &Visitor,
    id: Uuid,
    payload: bool,
) -> Result<Option<LetterView>, Problem> {
    if payload {
        record(site, visitor, id, What::DeadLetter).await?;
    }
    let found = letter(&site.reader()?, id).await?;
    Ok(found.map(|letter| LetterView {
        id: letter.id,
        kind: letter.kind.to_owned(),
        source: letter.source.to_owned(),
        at: letter.at,
        error: scrub(&letter.reason),
        submission: letter.submission,
        redriven_at: letter.redriven_at,
        size: u64::try_from(letter.payload.len()).unwrap_or(u64::MAX),
        may_show: may_show(visitor),
        payload: payload.then(|| {
            let shown = letter.payload.get(..LONGEST).unwrap_or(&letter.payload);
            String::from_utf8_lossy(shown).into_owned()
        }),
    }))
}
