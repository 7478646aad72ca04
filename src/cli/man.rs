//! `man [VERB]`: manual pages in roff, of the same declarations that `--help` and the parser go by, so that they
//! cannot part; [`super::manual`] adds the rest. Reads no configuration.
//!
//! With `--dir` a file is written for each page, for packages: if we die in the middle, the files before it stand.

use std::io::Write;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::manual::{self, Entry, Page};
use super::{Cli, CliError, Exit, output};
use crate::ops::metrics::VERSION;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The verb whose page is wanted, e.g. explain, or dlq list [default: maple-router(1)]
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write every page into this directory, as maple-router-VERB.1
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let all = commands();
    if let Some(dir) = &args.dir {
        for command in &all {
            let path = dir.join(format!("{}.1", title(command)));
            let write = || std::fs::write(&path, page(command)?);
            write().map_err(|source| {
                let problem = anyhow::anyhow!("cannot write {}: {source}", path.display());
                CliError::new(Exit::FoundWanting, problem).remedy("name a directory that is there")
            })?;
        }
        return Ok(Exit::Done);
    }
    let wanted = args.verb.join(" ");
    let Some(command) = all.iter().find(|command| verb(command) == wanted) else {
        let problem = anyhow::anyhow!("there is no verb `{wanted}`");
        return Err(CliError::new(Exit::Usage, problem).remedy("maple-router --help lists them"));
    };
    output::text(&String::from_utf8(page(command)?)?)?;
    Ok(Exit::Done)
}

/// `maple-router` and every verb below it, as the parser knows them.
fn commands() -> Vec<Command> {
    fn below(command: &Command, all: &mut Vec<Command>) {
        all.push(command.clone());
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            below(verb, all);
        }
    }
    // Clap wraps at a known width; the viewer of a page wraps it.
    let mut root =
        Cli::command().subcommand_value_name("VERB").subcommand_help_heading("VERBS").term_width(0);
    root.build();
    let mut all = Vec::new();
    below(&root, &mut all);
    all
}

/// Title of a page: `maple-router-dlq-list`
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Name of a verb: `dlq list`; empty for maple-router itself.
fn verb(command: &Command) -> &str {
    let whole = command.get_bin_name().unwrap_or_else(|| command.get_name());
    whole.strip_prefix("maple-router").unwrap_or(whole).trim_start()
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let name = verb(command);
    let ours = manual::PAGES.iter().find(|page| page.verb == name);
    let man = Man::new(command.clone())
        .title(title(command).to_uppercase())
        .source(format!("maple-router {VERSION}"))
        .manual("MAPLE submission router");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    description(command, ours).to_writer(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut rest = Roff::default();
    entries(&mut rest, "EXIT STATUS", manual::EXIT_STATUS);
    if ours.is_none_or(Page::is_configured) {
        entries(&mut rest, "ENVIRONMENT", manual::ENVIRONMENT);
        entries(&mut rest, "FILES", manual::FILES);
    }
    examples(&mut rest, ours);
    see_also(&mut rest, command);
    rest.to_writer(&mut out)?;
    out.flush()?;
    Ok(out)
}

fn description(command: &Command, ours: Option<&Page>) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["DESCRIPTION"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    roff.text([roman(format!("{}.", about.trim_end_matches('.')))]);
    for paragraph in ours.map_or(&[][..], |page| page.text) {
        roff.control("PP", []);
        roff.text([roman(*paragraph)]);
    }
    roff
}

fn entries(roff: &mut Roff, heading: &str, entries: &[Entry]) {
    roff.control("SH", [heading]);
    for (term, meaning) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
}

fn examples(roff: &mut Roff, ours: Option<&Page>) {
    let Some(page) = ours else { return };
    roff.control("SH", ["EXAMPLES"]);
    for (command, meaning) in page.examples {
        roff.control("PP", []);
        roff.text([roman(*meaning)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(*command)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

/// The pages above, beside the program, and below.
fn see_also(roff: &mut Roff, command: &Command) {
    let mut pages: Vec<String> = command.get_subcommands().map(|verb| title(verb).to_owned()).collect();
    if let Some((above, _)) = verb(command).rsplit_once(' ') {
        pages.push(format!("maple-router-{}", above.replace(' ', "-")));
    }
    if !verb(command).is_empty() {
        pages.push("maple-router".to_owned());
    }
    pages.sort();
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for page in &pages {
        line.extend([bold(page.as_str()), roman("(1), ")]);
    }
    line.extend([bold("journalctl"), roman("(1), "), bold("systemctl"), roman("(1)")]);
    roff.text(line);
    roff.control("PP", []);
    roff.text([roman("Runbooks: "), italic("/usr/share/doc/maple-router/runbooks/")]);
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Words of a shell line, as far as our examples go: spaces separate, double quotes join.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (n, part) in line.split('"').enumerate() {
            if n % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    #[test]
    fn every_verb_has_its_text_and_examples_and_no_text_is_of_a_verb_that_is_gone() {
        let all = commands();
        let verbs: Vec<&str> = all.iter().map(verb).collect();
        let pages: Vec<&str> = manual::PAGES.iter().map(|page| page.verb).collect();
        for name in &verbs {
            assert!(pages.contains(name), "src/cli/manual.rs says nothing of `{name}`");
        }
        for name in &pages {
            assert!(verbs.contains(name), "src/cli/manual.rs tells of `{name}`, which is no verb");
        }
        for page in manual::PAGES {
            assert!(!page.text.is_empty() && !page.examples.is_empty(), "`{}` says too little", page.verb);
        }
    }

    #[test]
    fn every_example_is_a_call_that_the_parser_takes() {
        for page in manual::PAGES {
            for (example, _) in page.examples {
                // Words after a pipe are another program's.
                let ours = example.split(" | ").next().unwrap_or(example);
                let ours = ours.strip_prefix("sudo ").unwrap_or(ours);
                if let Err(error) = Cli::try_parse_from(words(ours)) {
                    assert!(!error.use_stderr(), "{example}: {error}");
                }
                let of_verb = format!("maple-router {}", page.verb);
                assert!(ours.starts_with(of_verb.trim_end()), "{example} is on the page of `{}`", page.verb);
            }
        }
    }

    #[test]
    fn everything_that_can_be_given_says_what_it_is_for() {
        for command in commands() {
            assert!(command.get_about().is_some(), "{} says nothing of itself", title(&command));
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.trim().is_empty(), "{}: {} has no help", title(&command), arg.get_id());
            }
        }
    }

    #[test]
    fn exit_codes_are_those_of_the_program() {
        let codes: Vec<&str> = manual::EXIT_STATUS.iter().map(|(code, _)| *code).collect();
        let ours = [Exit::Done, Exit::FoundWanting, Exit::Usage, Exit::Unavailable, Exit::BadConfig];
        assert_eq!(codes, ours.map(|exit| (exit as u8).to_string()));
    }
}
