//! Commands that outlive the skill or take what is not its own, and settings that let them.

use crate::screening::tier1::finding::Severity::{Block, Review};
use crate::screening::tier1::pattern::Pattern;

/// The rules. As those of [`super::commands`], they block only where they would be run.
pub(super) const PATTERNS: [Pattern; 8] = [
    Pattern {
        id: "persistence",
        severity: Block,
        keywords: &[
            "authorized_keys",
            "ld.so.preload",
            "/etc/sudoers",
            "crontab",
            "bashrc",
            "zshrc",
            ".profile",
            "bash_profile",
            "launchagents",
        ],
        regex: concat!(
            r#"(?:\becho\b[^\n]{1,800}?>>?\s*["']?(?:~|\$\{?HOME\}?|/root|/home/[\w$]+)/\.ssh/authorized_keys|\b(?:curl|wget)\b[^\n]{1,200}?>>?\s*["']?\S*authorized_keys"#,
            r#"|>>?\s*/etc/ld\.so\.preload|\bNOPASSWD\b[^\n]{0,80}?(?:>>?|tee)\s*(?:-a\s+)?/etc/sudoers"#,
            // A timer that fetches, or runs what is encoded.
            r#"|(?:\bcurl|\bwget|/dev/tcp|\bbase64|\bnc)\b[^\n]{0,240}?\|\s*(?:sudo\s+)?crontab\b|\bcrontab\b[^\n]{0,160}?(?:\bcurl|\bwget|/dev/tcp|\bbase64)\b[^\n]{0,240}"#,
            r#"|\b(?:curl|wget)\b(?s:.){0,500}?["']crontab["']\s*,\s*["']-["']"#,
            // A start file that changes what `sudo` is, or fetches.
            r#"|(?:alias\s+(?:sudo|ssh|su|git)=|\bcurl\b|\bwget\b|LD_PRELOAD=|/dev/tcp|PROMPT_COMMAND=)[^\n]{0,300}?>>\s*["']?(?:~|\$\{?HOME\}?)?/?\.(?:bashrc|zshrc|profile|bash_profile|zshenv)\b"#,
            r#"|\bcat\s*>>\s*["']?(?:~|\$\{?HOME\}?)?/?\.(?:bashrc|zshrc|profile|bash_profile|zshenv)["']?\s*<<(?s:.){0,400}?(?:\bsudo\s*\(\)|alias\s+(?:sudo|ssh|su)=|\bcurl\b|\bwget\b|LD_PRELOAD=))"#,
        ),
    },
    Pattern {
        id: "collect-and-send",
        severity: Block,
        keywords: &[
            "/.ssh",
            "id_rsa",
            "id_ed25519",
            ".aws",
            "keychain",
            "cookies",
            "login data",
            "/etc/shadow",
            "pbpaste",
            "xclip",
            ".gnupg",
            "wallet.dat",
            "process.env",
            "os.environ",
        ],
        regex: concat!(
            // Private keys, cookies, the keychain or the whole environment, and further down what sends it.
            r#"(?:(?:~|\$\{?HOME\}?|/root|homedir\(\)|expanduser\([^\n]{0,20}|Path\.home\(\))[^\n]{0,24}?\.(?:ssh|aws|gnupg)\b|\bid_(?:rsa|ed25519)\b|/etc/shadow|find-(?:generic|internet)-password|login\.keychain|(?:Chrome|Firefox|Chromium|Brave|Safari|Default)[^\n]{0,60}(?:Cookies|Login\s+Data)|\bpbpaste\b|\bxclip\s+-o|wallet\.dat|JSON\.stringify\(\s*process\.env\s*\)|json\.dumps\(\s*dict\(\s*os\.environ)"#,
            r#"(?s:.){0,1200}?(?:\bcurl\b(?:[^\n]|\\\n){0,200}?\s(?:-d|-F|-T|--data(?:-\w+)?|--form|--upload-file)[\s=@]|\bwget\b[^\n]{0,120}--post-|\brequests\.(?:post|put)\s*\(|\burlopen\s*\([^\n]{0,80}data|\baxios\.post\s*\(|\bfetch\s*\((?s:.){0,160}?method\s*:\s*['"]POST|\|\s*(?:nc|ncat|netcat)\s|\b(?:nslookup|dig)\b[^\n]{0,40}\$)"#,
        ),
    },
    Pattern {
        id: "hook-that-sends",
        severity: Block,
        keywords: &["\"command\"", "hookspath"],
        regex: r#"(?:"command"\s*:\s*"(?:[^"\\\n]|\\.){0,400}?\b(?:curl|wget|nc|ncat)\b(?:[^"\\\n]|\\.){0,300}?(?:\s@-|=@|\s-T\s|-d\s*@|--data(?:-\w+)?[\s=]+@|\$\(cat|\$CLAUDE|<\s*/dev/stdin|--post-file)|\bgit\s+config\s+--global\s+core\.hooksPath\b)"#,
    },
    Pattern {
        id: "miner",
        severity: Block,
        keywords: &["xmrig", "minerd", "stratum+", "cryptonight", "--donate-level", "nicehash", "ethminer"],
        regex: r#"(?:\b(?:xmrig|minerd|ethminer|nbminer|t-rex)\b[^\n]{0,120}?\s-(?:o|a|-url|-algo|-donate-level|u)\b|stratum\+(?:tcp|ssl)://|--donate-level\b)"#,
    },
    Pattern {
        id: "wipe",
        severity: Block,
        keywords: &["rm -", "no-preserve-root", "mkfs", "of=/dev/", "shutil.rmtree", "rmsync", "shred"],
        regex: r#"(?:--no-preserve-root|\brm\s+(?:-\w+\s+)*-\w*[rR]\w*\s+(?:-\w+\s+)*["']?(?:/|~|\$\{?HOME\}?|/home|/\*|~/\*)["']?\s*(?:$|(?m:$)|[;&|*]|2>)|\bmkfs(?:\.\w+)?\s+(?:-\S+\s+)*/dev/|\bdd\b[^\n]{0,80}\bof=/dev/(?:sd|nvme|vd|disk)|shutil\.rmtree\s*\(\s*(?:Path\.home\(\)|os\.path\.expanduser\(\s*["']~["']\s*\)|["']/["']))"#,
    },
    Pattern {
        id: "disguised-command",
        severity: Block,
        keywords: &["$", "postinstall", "preinstall", "new function", "eval(", "exec("],
        regex: concat!(
            // A shell or a fetch put together from pieces; what npm runs by itself, hidden or fetched; what is decoded into a function.
            r#"(?:\|\s*\$\{?\w+\}?\$\{?\w+\}?(?:\s|$)|"(?:pre|post)?install"\s*:\s*"[^"\n]{0,200}?(?:node\s+(?:-e\b|\S*/\.)|\bcurl\b|\bwget\b|https?:|\|\|\s*true)"#,
            r#"|(?:\bnew\s+)?\bFunction\s*\(\s*(?:Buffer\.from|atob)\s*\(|\b(?:const|let|var)\s+(\w+)\s*=\s*['"][A-Za-z0-9+/=]{60,}['"](?s:.){0,200}?\b(?:new\s+Function|eval)\s*\(|\bfetch\s*\((?s:.){0,200}?\b(?:execSync|exec|spawnSync)\s*\("#,
            r#"|\b\w+\s*=\s*['"][A-Za-z0-9+/=]{60,}['"](?s:.){0,300}?\bexec\s*\(\s*(?:\w+\.)*(?:b64decode|decode|decompress)\b)"#,
        ),
    },
    Pattern {
        id: "foreign-index",
        severity: Review,
        keywords: &["index-url", "config set registry", "registry=", "trusted-host"],
        regex: r#"(?:\btrusted-host\b|\bpip3?\s+config\s+(?:--\w+\s+)*set\s+\S*index-url|--(?:extra-)?index-url[\s=]+["']?http|\b(?:npm|yarn|pnpm)\s+config\s+set\s+registry|(?m:^)(?:extra-)?index-url\s*=|(?m:^)registry\s*=\s*http)"#,
    },
    Pattern {
        id: "workflow-of-strangers",
        severity: Review,
        keywords: &["pull_request_target"],
        regex: r#"\bpull_request_target\b(?s:.){0,2000}?github\.event\.pull_request\.head\b"#,
    },
];
