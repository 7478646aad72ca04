//! What people wrote, and who may be shown it: reviewers and above, when they ask. The access log has it before anything is read, so
//! that nothing is shown of which there is no record; if we die in between, it says more than was shown.

use uuid::Uuid;

use super::Site;
use crate::desk::access::{Role, Visitor};
use crate::desk::problem::Problem;
use crate::desk::store::access_log::{self, What};

/// Whether a visitor may ask for recipients, mail and payloads.
pub(super) fn may_show(visitor: &Visitor) -> bool {
    visitor.role >= Role::Reviewer
}

/// Records that a visitor is about to be shown something of a submission, of a dead letter, or of a form's version.
///
/// # Errors
/// [`Problem`]: the visitor may not see it, or it cannot be recorded.
pub(super) async fn record(site: &Site, visitor: &Visitor, of: Uuid, what: What) -> Result<(), Problem> {
    visitor.must(Role::Reviewer)?;
    let pool = &site.parts.pool;
    pool.transaction("desk_shown", async |tx| access_log::append(&tx, &visitor.user, of, what).await).await?;
    Ok(())
}
