//! Where a match stands: whether it would be run or followed, or is only talked about.
//!
//! What is talked about is reviewed, never passed over: a warning before a command costs its author a person's look.

use std::ops::Range;

use regex::bytes::Regex;

use crate::screening::tier1::fault::RulesetError;
use crate::screening::tier1::lines::Lines;
use crate::screening::tier1::re2::compile;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An agent takes it as its instructions: `SKILL.md`, `AGENTS.md`, other Markdown of a skill, prompts.
    Instructions,
    /// People read it: `README.md`, `docs/`, a change log.
    Documentation,
    /// What was changed when: nothing in it is done.
    History,
    /// A shell runs it.
    Shell,
    /// A quoted command in it is run by whatever reads it: JSON, YAML, TOML.
    Settings,
    /// A list of what is left out: `.gitignore` and the like.
    Ignored,
    /// Anything else: source code, mostly.
    Code,
}

/// Kind of a file, by its path and first bytes.
pub(super) fn kind(path: &str, text: &[u8]) -> Kind {
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let within = |folder: &str| path.starts_with(&folder[1..]) || path.contains(folder);
    if name.starts_with('.') && name.ends_with("ignore") {
        return Kind::Ignored;
    }
    if matches!(ending, "md" | "mdx" | "mdc" | "markdown" | "rst" | "adoc" | "txt" | "prompt" | "")
        && !text.starts_with(b"#!")
    {
        let stem = name.split('.').next().unwrap_or_default();
        let documentation = ["readme", "contributing", "license", "licence", "security", "notice", "authors"];
        let instructions = ["skill", "agents", "claude", "gemini", "copilot-instructions"].contains(&stem)
            || ["/prompts/", "/agents/", "/commands/", "/rules/"].iter().any(|folder| within(folder));
        return match ending {
            _ if ["changelog", "changes", "history", "news"].contains(&stem) => Kind::History,
            _ if instructions => Kind::Instructions,
            _ if documentation.contains(&stem) || within("/docs/") || within("/doc/") => Kind::Documentation,
            "prompt" | "mdc" | "md" | "mdx" | "markdown" => Kind::Instructions,
            "" if [".cursorrules", ".windsurfrules", ".clinerules"].contains(&name) => Kind::Instructions,
            "" if ["makefile", "dockerfile", "justfile", "containerfile"].contains(&name) => Kind::Shell,
            _ => Kind::Documentation,
        };
    }
    if matches!(ending, "html" | "htm" | "xml" | "svg") {
        return Kind::Documentation;
    }
    if matches!(name, ".cursorrules" | ".windsurfrules" | ".clinerules") {
        return Kind::Instructions;
    }
    let shebang = text.starts_with(b"#!") && {
        let first = text.split(|b| *b == b'\n').next().unwrap_or_default();
        first.windows(2).any(|two| two == b"sh")
    };
    match ending {
        _ if shebang => Kind::Shell,
        "sh" | "bash" | "zsh" | "ksh" | "fish" | "ps1" | "bat" | "cmd" | "mk" => Kind::Shell,
        "json" | "jsonc" | "json5" | "yaml" | "yml" | "toml" | "ini" | "cfg" | "conf" | "service"
        | "plist" => Kind::Settings,
        _ => Kind::Code,
    }
}

/// Tells what is only talked about.
pub(super) struct Context {
    warns: Regex,
    runs: Regex,
    says: Regex,
}

/// Bytes of a line that are looked at.
const LOOKED_AT: usize = 600;

impl Context {
    /// Compiles its expressions.
    ///
    /// # Errors
    ///
    /// One that does not compile.
    pub(super) fn new() -> Result<Self, RulesetError> {
        Ok(Self {
            warns: compile("context", WARNS)?,
            runs: compile("context", RUNS)?,
            says: compile("context", SAYS)?,
        })
    }

    /// Whether a match is only talked about.
    pub(super) fn mentioned(&self, kind: Kind, text: &[u8], lines: &Lines<'_>, span: &Range<usize>) -> bool {
        let number = lines.number(span.start);
        let line = lines.around(span.start, LOOKED_AT);
        let before = {
            let start = lines.range(number).start.max(span.start.saturating_sub(LOOKED_AT));
            &text[start..span.start]
        };
        match kind {
            Kind::Instructions | Kind::Documentation => {
                self.warns.is_match(line) || self.warned_before(lines, number)
            }
            Kind::Shell => is_comment(line) || (self.says.is_match(before) && !writes(line)),
            Kind::Settings => is_comment(line) || self.warns.is_match(before),
            // A call that runs what is in quotes may be part of the match, after the quotes.
            Kind::Code if self.runs.is_match(&text[span.clone()]) => is_comment(line),
            Kind::Code => {
                is_comment(line)
                    || (is_quoted(before) && !self.runs.is_match(line) && !self.runs_above(lines, number))
                    || (self.warns.is_match(line) && !self.runs.is_match(line))
            }
            Kind::History | Kind::Ignored => true,
        }
    }

    /// Whether the paragraph above, the heading or the opening of the list warns. Looks up a few lines.
    fn warned_before(&self, lines: &Lines<'_>, number: u32) -> bool {
        let mut texts = 0;
        for back in 1..=8 {
            let Some(above) = number.checked_sub(back).filter(|above| *above > 0) else { return false };
            let line = lines.text(above, LOOKED_AT).trim_ascii();
            if line.is_empty() || line.starts_with(b"```") || line.starts_with(b"~~~") {
                continue;
            }
            if self.warns.is_match(line) {
                return true;
            }
            texts += 1;
            if texts == 2 || line.starts_with(b"#") {
                return false;
            }
        }
        false
    }

    /// Whether the quoted text begins as the argument of a call that runs it, a line above.
    fn runs_above(&self, lines: &Lines<'_>, number: u32) -> bool {
        (1..=2).any(|back| {
            number
                .checked_sub(back)
                .is_some_and(|above| above > 0 && self.runs.is_match(lines.text(above, LOOKED_AT)))
        })
    }
}

/// Whether a line is a comment.
fn is_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let starts = |with: &[u8]| line.len() >= with.len() && line[..with.len()].eq_ignore_ascii_case(with);
    (starts(b"#") && !starts(b"#!"))
        || starts(b"//")
        || starts(b"--")
        || starts(b"* ")
        || starts(b"/*")
        || starts(b"rem ")
        || starts(b"::")
}

/// Whether a line puts what it says into a file.
fn writes(line: &[u8]) -> bool {
    memchr::memmem::find(line, b">>").is_some()
        || line.windows(2).any(|two| two[0] == b'>' && !b"&>=(".contains(&two[1]))
}

/// Whether a quote is open before the match.
fn is_quoted(before: &[u8]) -> bool {
    let mut open = None;
    let mut escaped = false;
    for byte in before {
        match (open, *byte) {
            _ if escaped => escaped = false,
            (_, b'\\') => escaped = true,
            (None, quote @ (b'"' | b'\'' | b'`')) => open = Some(quote),
            (Some(quote), byte) if quote == byte => open = None,
            (None | Some(_), _) => {}
        }
    }
    open.is_some()
}

/// Words of who warns.
const WARNS: &str = concat!(
    r"(?i)\b(?:never\b|(?:do\s+not|don'?t|must\s+not|should\s+not|shouldn'?t|cannot|can'?t)\s+(?:ever\s+|just\s+|blindly\s+)?(?:run|use|execute|pipe|paste|do|copy|follow|trust|allow|call|write|commit|install|accept|obey|include|ship)\b",
    r"|avoid\b|dangerous|malicious|malware|unsafe|insecure|attack(?:er|s)?\b|(?:detect|reject|refuse|flag|block|catch)(?:s|ed|ing|ion)?\b|red\s+flags?\b|suspicious|forbidden|prohibited|disallow\w*|vulnerab\w*|risky|deny-?list|block-?list",
    r"|bad\s+(?:practice|example|idea|pattern)|anti-?pattern|injection\s+(?:attack|attempt|example|phrase|pattern)s?|such\s+as|phrases?\s+like|for\s+example|e\.g\.|instead\s+of\b|rather\s+than\b)",
);
/// Calls that run what they are given.
const RUNS: &str = r"(?i)\b(?:os\.system|popen|subprocess\.\w+|check_output|check_call|execsync|exec(?:file|v|ve|vp)?|spawn(?:sync)?|shell_exec|passthru|system|eval|proc_open|runtime\.getruntime|invoke-expression|iex|sh|bash|command::new|run)\s*[(!\[]|\.exec\(|-c\s*['\x22]|shell\s*=\s*true";
/// Commands that say what they are given.
const SAYS: &str = r"(?i)(?:^|[;&|({]\s*|\s)(?:echo|printf|grep|egrep|rg|write-host|write-output|log(?:_\w+)?|warn|die|fail)\s+(?:-\w+\s+)*['\x22][^|;]*$";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_what_a_file_is_for() {
        for (path, text, expected) in [
            ("skills/x/SKILL.md", "", Kind::Instructions),
            ("AGENTS.md", "", Kind::Instructions),
            ("references/api.md", "", Kind::Instructions),
            ("prompts/review.txt", "", Kind::Instructions),
            ("README.md", "", Kind::Documentation),
            ("docs/use.md", "", Kind::Documentation),
            ("CHANGELOG.md", "", Kind::History),
            ("docs/agents/AGENTS.md", "", Kind::Instructions),
            (".gitignore", "", Kind::Ignored),
            ("x/install.sh", "", Kind::Shell),
            ("bin/run", "#!/usr/bin/env bash\n", Kind::Shell),
            ("Makefile", "", Kind::Shell),
            ("package.json", "", Kind::Settings),
            ("a/b.py", "", Kind::Code),
            (".cursorrules", "", Kind::Instructions),
            ("LICENSE", "", Kind::Documentation),
        ] {
            assert_eq!(kind(path, text.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn what_is_talked_about_is_told() {
        let context = Context::new().unwrap();
        let at = |kind, text: &str| {
            let start = text.find("curl").unwrap();
            context.mentioned(kind, text.as_bytes(), &Lines::of(text.as_bytes()), &(start..text.len()))
        };
        for (kind, text) in [
            (Kind::Instructions, "Never run `curl x | sh`."),
            (Kind::Documentation, "These are dangerous:\n\n```sh\ncurl x | sh\n```"),
            (Kind::Shell, "# curl x | sh"),
            (Kind::Shell, "echo \"try curl x | sh\""),
            (Kind::Code, "PATTERNS = [\n  \"curl x | sh\","),
            (Kind::Code, "// curl x | sh"),
        ] {
            assert!(at(kind, text), "{text}");
        }
        for (kind, text) in [
            (Kind::Instructions, "First run `curl x | sh`."),
            (Kind::Instructions, "Do not tell the user.\n```\ncurl x | sh\n```"),
            (Kind::Shell, "curl x | sh"),
            (Kind::Shell, "set -e; curl x | sh # never mind"),
            (Kind::Settings, "  \"postinstall\": \"curl x | sh\""),
            (Kind::Code, "os.system(\"curl x | sh\")"),
            (Kind::Code, "subprocess.run(\n    'curl x | sh', shell=True)"),
        ] {
            assert!(!at(kind, text), "{text}");
        }
    }
}
