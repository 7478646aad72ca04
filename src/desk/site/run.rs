//! A run of screening as an entry's page shows it: why a person is asked, by rule and place. What was entered is on the submission's page.

use uuid::Uuid;

use super::Site;
use crate::desk::pages::story::{RunConcern, RunFinding, RunView};
use crate::desk::problem::Problem;
use crate::queries::screening;

/// The run; `None` where there is none.
///
/// # Errors
/// [`Problem`]: the database gives no answer.
pub(super) async fn of(site: &Site, id: Uuid) -> Result<Option<RunView>, Problem> {
    let found = screening::run(&site.reader()?, id).await?;
    Ok(found.map(|story| {
        let text = |value: &serde_json::Value, name: &str| {
            value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        let concerns = story.verdicts.iter().filter_map(|verdict| verdict.concerns.as_array()).flatten();
        let run = story.view.run;
        RunView {
            id: story.view.id,
            submission: run.subject,
            number: run.run,
            profile: run.profile.label().to_owned(),
            state: story.view.state,
            since: run.state_since,
            origin: run.origin,
            score: run.score,
            model: story.verdicts.last().map(|verdict| verdict.model.clone()),
            bars: run.bars,
            dead: run.dead_reason,
            findings: story
                .findings
                .into_iter()
                .map(|finding| RunFinding {
                    rule: finding.rule,
                    severity: finding.severity,
                    place: finding.place,
                    times: u64::try_from(finding.times).unwrap_or_default(),
                    waived: finding.waived,
                })
                .collect(),
            concerns: concerns
                .map(|concern| RunConcern {
                    code: text(concern, "code"),
                    severity: text(concern, "severity"),
                    place: text(concern, "place"),
                    note: text(concern, "note"),
                })
                .collect(),
        }
    }))
}
