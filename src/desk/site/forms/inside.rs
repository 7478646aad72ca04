//! What a version has in it, and what it changes of another. The mails of its samples are composed for that, so it is asked beside
//! the desk's own thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::words;
use crate::desk::pages::version::{ActionLine, Changes, Content, Inside, PartChange};
use crate::desk::problem::Problem;
use crate::forms::checks::domain;
use crate::forms::commands::Versions;
use crate::forms::content::{self, Unreadable};
use crate::forms::definition::{Action, Definition};
use crate::forms::diff::{Diff, diff};
use crate::forms::preview::Composer;
use crate::forms::store::{Shared, VersionStore};
use crate::forms::table::Version;
use crate::kernel::rows::Row;

/// The part of an action that has addresses.
const DESTINATION: &str = "destination";

/// A version's content as a page has it, and the form's name in it.
///
/// # Errors
/// [`Problem`]: the database is away.
pub(super) async fn content(
    versions: &Versions,
    row: &Row<Version>,
    base: Option<&Row<Version>>,
    (shown, may_show): (bool, bool),
) -> Result<(Option<String>, Content), Problem> {
    let store = &versions.store;
    let after = match definition(store, row).await? {
        Ok(definition) => definition,
        Err(error) => return Ok((None, Content::Unreadable(error.to_string()))),
    };
    let name = Some(after.name.clone()).filter(|name| *name != after.id);
    let before = match base {
        None => None,
        Some(base) => match definition(store, base).await? {
            Ok(definition) => Some(definition),
            Err(error) => {
                let why = format!("of version {}, {error}", base.columns.number);
                return Ok((name, Content::Unreadable(why)));
            }
        },
    };
    let shared = shared(store, &after).await?;
    let composer = Arc::clone(&versions.composer);
    let made = spawn_blocking(move || {
        let diff = diff(before.as_ref(), &after, &shared, &*composer);
        inside(before.as_ref(), &after, diff, (&*composer, shown, may_show))
    });
    let inside = made.await.map_err(|_| Problem::internal())?;
    Ok((name, Content::Read(Box::new(inside))))
}

async fn definition(
    store: &VersionStore,
    row: &Row<Version>,
) -> Result<Result<Definition, Unreadable>, Problem> {
    let entries = store.entries(row.id).await?;
    Ok(content::definition(&row.columns.form_id, &entries))
}

async fn shared(store: &VersionStore, of: &Definition) -> Result<Vec<Shared>, Problem> {
    let templates: Vec<&str> = of.templates.keys().map(String::as_str).collect();
    let pool = store.pool();
    Ok(pool.transaction("desk_form", async |tx| store.shared(&tx, &of.id, &templates).await).await?)
}

fn inside(
    before: Option<&Definition>,
    after: &Definition,
    diff: Diff,
    (composer, shown, may_show): (&dyn Composer, bool, bool),
) -> Inside {
    let to = |action: &Action| {
        if shown { in_full(action) } else { domains(composer, action) }
    };
    let mut changes: Changes = words::changes(diff);
    if !shown {
        for change in changes.actions.iter_mut().filter(|change| change.part == DESTINATION) {
            hide(
                change,
                |definition, order| {
                    let action = definition?.actions.iter().find(|action| action.order == order)?;
                    Some(domains(composer, action).join(", "))
                },
                (before, after),
            );
        }
    }
    let line = |action: &Action| ActionLine {
        order: action.order,
        kind: action.kind.clone(),
        to: to(action),
        template: action.template.clone(),
        subject: action.subject.clone(),
        category: action.category.clone(),
    };
    Inside { actions: after.actions.iter().map(line).collect(), shown, may_show, changes }
}

/// An action's destination as it is written, an entry each.
fn in_full(action: &Action) -> Vec<String> {
    let entries = action.destination.split([',', ';']).map(str::trim);
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// How many people an action writes to, by their domains; what is no address, in words without it.
fn domains(composer: &dyn Composer, action: &Action) -> Vec<String> {
    if action.destination.trim().is_empty() {
        return Vec::new();
    }
    let mut people: BTreeMap<String, u64> = BTreeMap::new();
    let mut unusable = Vec::new();
    for recipient in composer.recipients(action) {
        match recipient {
            Ok(address) => *people.entry(domain(&address).to_owned()).or_default() += 1,
            Err(why) => unusable.push(why),
        }
    }
    let told = people.into_iter().map(|(domain, count)| match count {
        1 => format!("somebody at {domain}"),
        _ => format!("{count} at {domain}"),
    });
    told.chain(unusable).collect()
}

/// Replaces addresses by their domains. Other addresses of the same domains are said to be others.
fn hide<'a>(
    change: &mut PartChange,
    of: impl Fn(Option<&'a Definition>, i32) -> Option<String>,
    (before, after): (Option<&'a Definition>, &'a Definition),
) {
    let order = change.order;
    let old = change.before.take().and_then(|_| of(before, order));
    let new = change.after.take().and_then(|_| of(Some(after), order));
    change.after = match (&old, new) {
        (Some(old), Some(new)) if *old == new => Some(format!("{new}, another address")),
        (_, new) => new,
    };
    change.before = old;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::definition::tests::contact;

    /// Takes every entry for an address but `nobody`.
    #[derive(Debug)]
    struct Plain;

    impl Composer for Plain {
        fn recipients(&self, action: &Action) -> Vec<Result<String, String>> {
            let entry = |entry: String| {
                if entry == "nobody" { Err("it is no address".to_owned()) } else { Ok(entry) }
            };
            in_full(action).into_iter().map(entry).collect()
        }

        fn allows(&self, _: &str) -> bool {
            true
        }

        fn preview(
            &self,
            _: &Definition,
            _: &Action,
            _: &crate::forms::definition::Sample,
        ) -> Result<crate::forms::preview::Preview, String> {
            Err("none".to_owned())
        }
    }

    fn told(before: &str, after: &str, shown: bool) -> (Vec<String>, Vec<PartChange>) {
        let (mut old, mut new) = (contact(), contact());
        before.clone_into(&mut old.actions[0].destination);
        after.clone_into(&mut new.actions[0].destination);
        let diff = diff(Some(&old), &new, &[], &Plain);
        let inside = inside(Some(&old), &new, diff, (&Plain, shown, true));
        (inside.actions[0].to.clone(), inside.changes.actions)
    }

    #[test]
    fn who_does_not_ask_sees_domains_and_that_an_address_is_another() {
        let (to, changes) = told("a@x.test, b@x.test; c@y.test", "d@x.test, nobody", false);
        assert_eq!(to, ["somebody at x.test", "it is no address"]);
        assert_eq!(changes[0].before.as_deref(), Some("2 at x.test, somebody at y.test"));
        assert_eq!(changes[0].after.as_deref(), Some("somebody at x.test, it is no address"));
        let (_, changes) = told("a@x.test", "b@x.test", false);
        assert_eq!(changes[0].after.as_deref(), Some("somebody at x.test, another address"));
        assert!(!format!("{changes:?}").contains('@'), "{changes:?}");
        let (to, changes) = told("a@x.test", "b@x.test, c@y.test", true);
        assert_eq!(to, ["b@x.test", "c@y.test"]);
        assert_eq!(changes[0].before.as_deref(), Some("a@x.test"));
    }
}
