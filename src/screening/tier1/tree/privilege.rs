//! What a skill asks for: Bash or every tool, hooks, MCP servers, credentials. Each is a note; together they are a bar.

use serde_json::Value;

use super::context::Kind;
use crate::screening::tier1::finding::Severity::Note;
use crate::screening::tier1::pattern::Pattern;

/// A tool list with Bash.
pub(super) const BASH: &str = "privilege-bash";
/// A tool list with every tool.
pub(super) const EVERY_TOOL: &str = "privilege-every-tool";
/// A hook of an agent, of git or of a package's installation.
pub(super) const HOOKS: &str = "privilege-hooks";
/// Settings of an MCP server.
pub(super) const MCP: &str = "privilege-mcp";
/// Front matter that is no YAML: what it asks for is not known.
pub(super) const FRONT_MATTER: &str = "front-matter-unreadable";

/// What is told by text.
pub(super) const PATTERNS: [Pattern; 4] = [
    Pattern {
        id: "privilege-credentials",
        severity: Note,
        keywords: &[".ssh", ".aws", ".env", "id_rsa", "id_ed25519", "dotenv"],
        regex: concat!(
            r#"(?:(?:~|\$\{?HOME\}?|/root|/home/[\w${}-]+|%USERPROFILE%|expanduser|homedir\(\)|Path\.home\(\))[^\n]{0,20}[/\\'"]\.(?:ssh|aws)\b|(?m:^|[\s'"`(=/<@])\.(?:ssh|aws)/\w|\bid_(?:rsa|ed25519)\b"#,
            r#"|(?m:^|[\s'"`(=/<@])\.env(?:\.(?:local|production|prod|development|dev|staging))?(?:[\s'"`);,|]|\.?\s|(?m:$))|\bload_dotenv\s*\(|require\s*\(\s*['"]dotenv['"])"#,
        ),
    },
    Pattern {
        id: "privilege-permissions",
        severity: Note,
        keywords: &[
            "bypasspermissions",
            "skip-permissions",
            "autoapprove",
            "auto_approve",
            "\"bash(*",
            "\"bash\"",
            "\"bash(:*",
        ],
        regex: r#"(?:\bbypassPermissions\b|--dangerously-skip-permissions\b|\bauto_?approve\b|"allow"\s*:\s*\[[^\]]{0,400}"Bash(?:\((?::?\*)\))?")"#,
    },
    Pattern {
        id: MCP,
        severity: Note,
        keywords: &["mcpservers", "mcp_servers", "mcp add", "\"servers\"", "mcp-server"],
        regex: r#"(?:["']mcpServers["']\s*:|\[mcp_servers\b|\bmcp_servers\s*[:=]|\bmcp\s+add(?:-json)?\s)"#,
    },
    Pattern {
        id: HOOKS,
        severity: Note,
        keywords: &[
            "hooks",
            "postinstall",
            "preinstall",
            "pretooluse",
            "posttooluse",
            "sessionstart",
            "userpromptsubmit",
            "core.hookspath",
        ],
        regex: concat!(
            r#"(?:["'](?:PreToolUse|PostToolUse|SessionStart|UserPromptSubmit|Stop|SubagentStop|PreCompact)["']\s*:\s*[\[{]|["'](?:post|pre)?install["']\s*:\s*["'][^"'\n]"#,
            r#"|["']hooks["']\s*:\s*\{|(?m:^)(?:hooks\s*:\s*(?:$|\{|\n))|\bcore\.hooksPath\b|\.git/hooks/)"#,
        ),
    },
];

/// Rule of a file that is a hook or settings of a server by its path alone.
pub(super) fn by_path(path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let in_folder = |folder: &str| path.split('/').rev().skip(1).any(|part| part == folder);
    match name {
        ".mcp.json" | "mcp.json" | "claude_desktop_config.json" => Some(MCP),
        "hooks.json" => Some(HOOKS),
        _ if [".husky", ".githooks", "hooks"].iter().any(|folder| in_folder(folder))
            && !name.ends_with(".md") =>
        {
            // `src/hooks/useThing.ts` is of a user interface.
            let of_interface =
                [".ts", ".tsx", ".js", ".jsx", ".vue", ".svelte"].iter().any(|e| name.ends_with(e));
            let of_agent = in_folder(".claude") || in_folder(".cursor");
            (!of_interface || of_agent).then_some(HOOKS)
        }
        _ => None,
    }
}

/// What the front matter of a file asks for.
pub(super) fn front_matter(kind: Kind, text: &str) -> Vec<&'static str> {
    if !matches!(kind, Kind::Instructions | Kind::Documentation) {
        return Vec::new();
    }
    let Some(matter) = matter(text) else { return Vec::new() };
    let mut found = by_line(matter);
    match serde_saphyr::from_str::<Value>(matter) {
        Ok(Value::Object(keys)) => {
            for (key, value) in &keys {
                if is_tools(key) {
                    tools(value, &mut found);
                } else if key.eq_ignore_ascii_case("hooks") && !value.is_null() {
                    found.push(HOOKS);
                } else if is_mcp(key) && !value.is_null() {
                    found.push(MCP);
                }
            }
        }
        Ok(Value::Null) => {}
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
            found.push(FRONT_MATTER);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The front matter: between the first line `---` and the next.
fn matter(text: &str) -> Option<&str> {
    /// Longest front matter that is read as one.
    const LONGEST: usize = 64 * 1024;
    let text = text.trim_start_matches('\u{FEFF}').trim_start_matches(['\n', '\r', ' ', '\t']);
    let rest = text.strip_prefix("---")?;
    let (dashes, rest) = rest.split_once('\n')?;
    if !dashes.trim().is_empty() {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some(&rest[..at]);
        }
        at += line.len();
        if at > LONGEST {
            break;
        }
    }
    None
}

/// Whether a key lists tools.
fn is_tools(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('_', "-");
    matches!(key.as_str(), "allowed-tools" | "tools" | "allowedtools" | "permissions" | "allow")
}

/// Whether a key lists MCP servers.
fn is_mcp(key: &str) -> bool {
    matches!(key.to_ascii_lowercase().replace(['_', '-'], "").as_str(), "mcpservers" | "mcp")
}

/// Tools of a value: a string with commas, a list, or a table by name.
fn tools(value: &Value, found: &mut Vec<&'static str>) {
    match value {
        Value::String(text) => found.extend(of_tools(text)),
        Value::Array(all) => all.iter().for_each(|one| tools(one, found)),
        Value::Object(all) => {
            for (key, one) in all {
                // `bash: false` takes it away.
                if *one != Value::Bool(false) {
                    found.extend(of_tools(key));
                    tools(one, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Rules of a list of tools in words.
fn of_tools(text: &str) -> impl Iterator<Item = &'static str> {
    let words = || text.split(|c: char| c.is_whitespace() || ",[]\"';(){}".contains(c));
    let bash = words().any(|word| word.eq_ignore_ascii_case("bash") || word.eq_ignore_ascii_case("shell"));
    let every = words().next().is_some_and(|_| {
        text.split(|c: char| c.is_whitespace() || ",[]\"';".contains(c))
            .any(|word| word == "*" || word.eq_ignore_ascii_case("all") || word == "**")
    });
    bash.then_some(BASH).into_iter().chain(every.then_some(EVERY_TOOL))
}

/// The same by lines, for front matter that another reader would take for YAML and ours would not.
fn by_line(matter: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut in_tools = false;
    for line in matter.lines() {
        let item = line.trim_start();
        let value = item.split_once(':').filter(|(key, _)| is_tools(key.trim().trim_matches(['"', '\''])));
        if let Some((_, value)) = value {
            found.extend(of_tools(value));
            in_tools = true;
        } else if in_tools
            && (item.starts_with('-') || item.starts_with(']') || line.starts_with([' ', '\t']))
        {
            found.extend(of_tools(item.trim_start_matches('-')));
        } else {
            in_tools = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(matter: &str) -> Vec<&'static str> {
        front_matter(Kind::Instructions, &format!("---\n{matter}\n---\nText with Bash and *.\n"))
    }

    #[test]
    fn tools_are_read_however_they_are_written() {
        for text in [
            "name: x\nallowed-tools: Read, Bash",
            "allowed-tools: [Read, Bash]",
            "allowed-tools:\n  - Read\n  - Bash(git status:*)",
            "\"allowed-tools\": \"Bash\"",
            "\"allowed\\x2dtools\": Bash",
            "allowed_tools: &a [Bash]",
            "tools:\n  bash: true",
        ] {
            assert!(asks(text).contains(&BASH), "{text}");
        }
        for text in ["allowed-tools: '*'", "allowed-tools: [\"*\"]", "allowed-tools:\n- '*'"] {
            assert!(asks(text).contains(&EVERY_TOOL), "{text}");
        }
        assert!(asks("hooks:\n  Stop: x").contains(&HOOKS));
        assert!(asks("mcpServers:\n  a: {}").contains(&MCP));
    }

    #[test]
    fn what_is_no_tool_list_asks_for_nothing() {
        for text in [
            "name: bash-style\ndescription: Formats Bash scripts, all of them",
            "allowed-tools: Read, Grep, BashOutput",
            "tools:\n  bash: false",
            "allowed-tools: Read\ndescription: Bash",
        ] {
            assert_eq!(asks(text), Vec::<&str>::new(), "{text}");
        }
        assert_eq!(
            front_matter(Kind::Instructions, "no front matter\nallowed-tools: Bash"),
            Vec::<&str>::new()
        );
        assert_eq!(asks("a: [b"), [FRONT_MATTER]);
    }

    #[test]
    fn a_path_tells_hooks_and_servers() {
        assert_eq!(by_path("x/.mcp.json"), Some(MCP));
        assert_eq!(by_path(".husky/pre-commit"), Some(HOOKS));
        assert_eq!(by_path("hooks/hooks.json"), Some(HOOKS));
        assert_eq!(by_path("src/hooks/useThing.ts"), None);
        assert_eq!(by_path("hooks"), None);
        assert_eq!(by_path("docs/hooks/README.md"), None);
    }
}
