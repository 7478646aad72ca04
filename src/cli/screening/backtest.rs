//! `screening backtest`: the rules alone, on a labelled corpus. Reads files only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::corpus::{self, Item};
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::parts;
use crate::screening::judge::calibration::Label;
use crate::screening::run::Profile;
use crate::screening::tier1::{Finding, Ruleset, Verdict, scan};
use crate::screening::worker::Rulesets;

/// Fewest of what is blocked that has to be blocked rightly.
const PRECISION: f64 = 0.98;

/// Arguments of `screening backtest`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Rules of this profile: fields, or git
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    profile: Profile,
    /// With the settings of this form ([screening.forms.FORM])
    #[arg(long, value_name = "FORM", default_value = "")]
    form: String,
    /// File of further rules, instead of screening.rules_file
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The corpus
    #[arg(value_name = "CORPUS.jsonl")]
    corpus: PathBuf,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// What the rules did to a corpus.
#[derive(Debug, Default, Serialize)]
struct Figures {
    profile: &'static str,
    form: Option<String>,
    ruleset: String,
    items: usize,
    harmless: usize,
    /// Items that are to be stopped without a person.
    wanted: usize,
    blocked: usize,
    /// Of what was blocked, the share that is not harmless; absent where nothing was.
    precision: Option<f64>,
    /// Of what was wanted, the share that was blocked.
    recall: Option<f64>,
    rules: Vec<RuleHits>,
    wrongly_blocked: Vec<String>,
    /// Wanted, and let through.
    missed: Vec<String>,
}

/// Items in which a rule found something.
#[derive(Debug, Serialize)]
struct RuleHits {
    rule: String,
    severity: &'static str,
    harmless: usize,
    bad: usize,
}

/// Runs the rules over a corpus.
pub(super) fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let mut config = ctx.read_config()?.config;
    if args.rules.is_some() {
        config.screening.rules_file.clone_from(&args.rules);
    }
    let rulesets: Rulesets = parts::rulesets(&config).map_err(setup::part)?;
    let form = Some(args.form.clone()).filter(|form| !form.is_empty());
    if let Some(form) = form.as_ref().filter(|form| !config.screening.forms.contains_key(*form)) {
        output::note(&format!("there are no settings [screening.forms.{form}]: the default ones are used"))?;
    }
    let rules = rulesets.of(&args.form, args.profile);
    let items = corpus::read(&args.corpus, args.profile)?;
    if items.is_empty() {
        let empty = anyhow::anyhow!("{} has no items", args.corpus.display());
        return Err(CliError::new(Exit::FoundWanting, empty));
    }
    let figures = Figures { profile: args.profile.label(), form, ..figures(&items, &rules)? };
    output::either(args.json, &figures, || text(&figures))?;
    let good = figures.precision.is_none_or(|precision| precision >= PRECISION);
    Ok(if good { Exit::Done } else { Exit::FoundWanting })
}

fn figures(items: &[Item], rules: &Ruleset) -> Result<Figures, CliError> {
    let mut figures =
        Figures { ruleset: rules.version().to_owned(), items: items.len(), ..Figures::default() };
    let mut hits: BTreeMap<(&'static str, String), (usize, usize)> = BTreeMap::new();
    let (mut right, mut reached) = (0, 0);
    for Item { id, label, block, content } in items {
        let report = scan(content, rules, 1)?;
        let (harmless, blocked) = (*label == Label::Harmless, report.verdict() == Verdict::Fail);
        figures.harmless += usize::from(harmless);
        figures.wanted += usize::from(*block);
        figures.blocked += usize::from(blocked);
        right += usize::from(blocked && !harmless);
        reached += usize::from(blocked && *block);
        if blocked && harmless {
            figures.wrongly_blocked.push(id.clone());
        }
        if *block && !blocked {
            figures.missed.push(id.clone());
        }
        let mut found: Vec<(&'static str, String)> = report
            .findings
            .iter()
            .map(|Finding { rule, severity, .. }| (severity.label(), rule.to_string()))
            .collect();
        found.sort_unstable();
        found.dedup();
        for rule in found {
            let counts = hits.entry(rule).or_default();
            *(if harmless { &mut counts.0 } else { &mut counts.1 }) += 1;
        }
    }
    (figures.precision, figures.recall) = (share(right, figures.blocked), share(reached, figures.wanted));
    figures.rules = hits
        .into_iter()
        .map(|((severity, rule), (harmless, bad))| RuleHits { rule, severity, harmless, bad })
        .collect();
    figures.rules.sort_by(|a, b| b.harmless.cmp(&a.harmless).then_with(|| a.rule.cmp(&b.rule)));
    Ok(figures)
}

fn share(part: usize, whole: usize) -> Option<f64> {
    let exact = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    (whole > 0).then(|| exact(part) / exact(whole))
}

fn text(figures: &Figures) -> String {
    let Figures { items, harmless, wanted, blocked, wrongly_blocked, missed, .. } = figures;
    let shown = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}"));
    let mut text = format!(
        "rules {} of profile {} on {items} items, {harmless} of them harmless, {wanted} to be blocked\n  \
         blocked     {blocked}\n  precision   {} (at least {PRECISION})\n  recall      {}\n",
        figures.ruleset,
        figures.profile,
        shown(figures.precision),
        shown(figures.recall),
    );
    for (name, ids) in [("wrongly blocked", wrongly_blocked), ("not blocked", missed)] {
        if !ids.is_empty() {
            text.push_str(&format!("{name}: {}\n", ids.join(", ")));
        }
    }
    let columns =
        [("RULE", Side::Left), ("SEVERITY", Side::Left), ("HARMLESS", Side::Right), ("BAD", Side::Right)];
    let mut table = Table::new(&columns);
    for hits in &figures.rules {
        let counts = [hits.harmless.to_string(), hits.bad.to_string()];
        table.row([vec![hits.rule.clone(), hits.severity.to_owned()], counts.to_vec()].concat());
    }
    text.push_str(&table.text(output::columns()));
    text
}
