//! Every form, and what it follows.

use axum::extract::State;
use axum::response::Html;

use super::{absent, words};
use crate::desk::access::Visitor;
use crate::desk::pages::forms::FormsPage;
use crate::desk::problem::Problem;
use crate::desk::site::{Shared, Site, html};

pub(in crate::desk::site) async fn all(
    State(site): Shared,
    visitor: Visitor,
) -> Result<Html<String>, Problem> {
    let Some(versions) = site.versions_there().await? else { return absent(&site, &visitor).await };
    let forms = versions.store.forms().await?;
    let now = site.commands().store.time().await?;
    html(&FormsPage {
        frame: Site::frame(&visitor, now),
        forms: Some(forms.into_iter().map(words::form_line).collect()),
    })
}
