//! The lifecycles, as the rooms' cards describe them; and how programs speak to the desk.

use axum::extract::State;
use axum::response::Html;

use super::{Shared, Site, html};
use crate::desk::access::Visitor;
use crate::desk::input::Path;
use crate::desk::pages::lifecycles::{ApiPage, LifecyclePage, LifecyclesPage};
use crate::desk::problem::Problem;
use crate::kernel::describe::Described;

impl Site {
    fn lifecycles(&self) -> Vec<Described> {
        self.parts.rooms.iter().flat_map(|room| room.lifecycles).map(|describe| describe()).collect()
    }
}

pub(super) async fn all(State(site): Shared, visitor: Visitor) -> Result<Html<String>, Problem> {
    let now = site.commands().store.time().await?;
    html(&LifecyclesPage { frame: Site::frame(&visitor, now), lifecycles: site.lifecycles() })
}

pub(super) async fn one(
    State(site): Shared,
    visitor: Visitor,
    Path(name): Path<String>,
) -> Result<Html<String>, Problem> {
    let lifecycle = site.lifecycles().into_iter().find(|lifecycle| lifecycle.name == name);
    let lifecycle = lifecycle.ok_or_else(|| Problem::not_found("lifecycle of this name"))?;
    let now = site.commands().store.time().await?;
    html(&LifecyclePage { frame: Site::frame(&visitor, now), lifecycle })
}

pub(super) async fn api(State(site): Shared, visitor: Visitor) -> Result<Html<String>, Problem> {
    let now = site.commands().store.time().await?;
    html(&ApiPage { frame: Site::frame(&visitor, now), origin: site.config().desk.origin.clone() })
}
