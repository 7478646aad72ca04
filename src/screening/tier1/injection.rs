//! Text that addresses the judge or an agent instead of saying something. Of both profiles.
//!
//! A marker is a bar: a model that reads it may obey, so a person looks. It never blocks by itself in fields.

use super::finding::Severity::Review;
use super::pattern::Pattern;

/// The one that blocks in a file that an agent takes as its instructions.
pub(super) const IGNORE: &str = "injection-ignore-instructions";

/// To keep something from the user.
pub(super) const CONCEAL: &str = "injection-conceal";

/// The rules.
pub(super) const PATTERNS: [Pattern; 12] = [
    Pattern {
        id: IGNORE,
        severity: Review,
        keywords: &[
            "ignore",
            "disregard",
            "forget",
            "override",
            "bypass",
            "ignorier",
            "vergiss",
            "ignora",
            "olvida",
            "oublie",
            "忽略",
            "无视",
            "無視",
            "игнорируй",
            "забудь",
            "Игнорируй",
            "Забудь",
        ],
        regex: concat!(
            r"(?:\b(?:ignore|disregard|forget|override|bypass)\s+(?:(?:all|any|every|the|of|these|those|your|my|about)\s+){0,3}",
            r"(?:(?:previous|prior|above|earlier|preceding|foregoing|system|safety|original|initial|existing|other|current|developer)\s+(?:\w+\s+){0,2}|(?:your|all)\s+(?:\w+\s+)?)?",
            r"(?:instructions?|prompts?|guidelines|directives?|guardrails?|system\s+rules)\b",
            r"|ignore\s+(?:everything|anything|all)\s+(?:above|before|previous|you\s+(?:were|have\s+been)\s+told)",
            r"|(?:ignorier\w*|vergiss)\s+(?:\w+\s+){0,3}(?:anweisung|instruktion|vorgabe)\w*",
            r"|(?:ignora|olvida)\w*\s+(?:\w+\s+){0,3}(?:instrucciones|indicaciones)",
            r"|(?:ignore[zr]?|oublie[zr]?)\s+(?:\w+\s+){0,3}(?:consignes|instructions\s+pr)",
            r"|(?:忽略|无视|無視)[^\n]{0,60}?(?:指令|指示|规则|規則|提示)|(?:игнорируй|забудь|Игнорируй|Забудь)\S{0,4}\s[^\n]{0,80}?(?:инструкци|указани))",
        ),
    },
    Pattern {
        id: "injection-role",
        severity: Review,
        keywords: &[
            "you are",
            "you're",
            "dear ",
            "attention",
            "note to",
            "message to",
            "message for",
            "hey ",
            "du bist",
        ],
        regex: concat!(
            r"\b(?:you(?:\s+are|'re)\s+(?:now\s+)?(?:the|an?)\s+(?:\w+\s+){0,2}(?:reviewer|judge|grader|evaluator|moderator|classifier|screener|auditor)\b",
            r"|you(?:\s+are|'re)\s+now\s+(?:dan\b|in\s+(?:developer|debug|admin|maintenance)\s+mode|unrestricted|jailbroken|free\s+(?:of|from))",
            r"|(?:dear|attention|note\s+to|message\s+(?:to|for)|hey)[\s,:]+(?:the\s+|any\s+|all\s+)?(?:\w+\s+)?(?:ai|llm|language\s+model|reviewer|judge|grader|evaluator|classifier|chatgpt|claude|gpt)s?\b",
            r"|du\s+bist\s+(?:jetzt\s+)?(?:der|die|ein|eine)\s+(?:\w+\s+)?(?:gutachter|pr\S{1,2}fer|richter|moderator)\w*)",
        ),
    },
    Pattern {
        id: "injection-score",
        severity: Review,
        keywords: &[
            "score", "verdict", "rating", "grade", "approve", "mark", "classify", "label", "treat", "rate ",
        ],
        regex: concat!(
            r"\b(?:(?:give|assign|return|respond\s+with|reply\s+with|output|set|award|report)\b[^.\n]{0,40}\b(?:score|rating|verdict|grade)\b[^.\n]{0,20}\b(?:100|9\d|highest|maximum|safe|approved?|pass(?:ed)?|benign|clean)\b",
            r"|(?:mark|classify|label|rate|treat|consider|approve|score)\s+(?:this|the)\s+(?:\w+\s+)?(?:submission|message|skill|content|repository|form|entry|request)\b[^.\n]{0,20}\b(?:as|at|with)?\s*(?:safe|approved|harmless|benign|clean|legitimate|trusted|100|passed)\b",
            r"|(?:auto-?|immediately\s+|always\s+)approve\s+(?:this|the)\s+(?:submission|skill|message|content|request)\b",
            r"|(?:this|the)\s+(?:submission|skill|content|message)\s+(?:has\s+been|was|is)\s+(?:already\s+|pre-?)(?:approved|verified|reviewed|screened|cleared)\b)",
        ),
    },
    Pattern {
        id: "injection-role-marker",
        severity: Review,
        keywords: &["<|", "[inst]", "[/inst]", "<<sys>>", "system", "assistant", "developer"],
        regex: concat!(
            r"(?:<\|(?:im_start|im_end|system|assistant|user|endoftext|eot_id|start_header_id|end_header_id|end_of_turn)\|>",
            r"|\[/?INST\]|<</?SYS>>",
            r"|</?(?:system|assistant)(?:[_-](?:prompt|reminder|message|instructions?))?>",
            r"|(?m:^)[\s#>*\[]*(?:system|assistant|developer)(?:[\s_-](?:prompt|message|override|note|notice|instruction)s?)?[\]*]*\s*:[\s*]*(?:you|ignore|disregard|this|new|override|from\s+now|approve|score|the\s+(?:submission|user|reviewer|previous|above|following|skill)))",
        ),
    },
    Pattern {
        id: "injection-fake-verdict",
        severity: Review,
        keywords: &["\"score\"", "\\\"score\\\""],
        regex: concat!(
            r#"(?:"(?:nonce|concerns|injection|verdict)\\?"\s*:[^{}]{0,200}"score\\?"\s*:"#,
            r#"|"score\\?"\s*:[^{}]{0,200}"(?:nonce|concerns|injection|verdict)\\?"\s*:)"#,
        ),
    },
    Pattern {
        id: "injection-fence",
        severity: Review,
        keywords: &["end", "begin", "start", "nonce", "</"],
        regex: concat!(
            r"(?:(?m:^)[^\S\n]*(?:[-=#*~<]{2,}|\[)[^\S\n]*(?:end|begin|start)(?:[\s_-]+of)?(?:[\s_-]+(?:the|this))?[\s_-]+(?:untrusted|submission|content|user[\s_-]*(?:input|data|content)|submitted|nonce|system|evaluation|prompt|instructions?)\b",
            r"|</(?:content|submission|untrusted\w*|user_?(?:input|content|data)|submitted\w*)[-_:a-z0-9]*>",
            r"|\bnonce\s*[:=]\s*[0-9a-z-]{8,}[^\n]{0,60}\b(?:end|score|verdict|submission)\b)",
        ),
    },
    Pattern {
        id: CONCEAL,
        severity: Review,
        keywords: &["not", "don't", "without", "silently", "secretly", "covertly", "never"],
        regex: concat!(
            r"\b(?:(?:do\s+not|don't|never)\s+(?:tell|inform|mention|notify|alert|reveal|disclose)\s+(?:\w+\s+){0,2}?(?:(?:to\s+)?the\s+)?(?:user|human|reviewer|operator|owner)s?\b(?:'s)?[^\n]{0,30}",
            r"|without\s+(?:telling|informing|notifying|alerting)\s+(?:the\s+|a\s+|your\s+)?(?:user|human|operator|owner)",
            r"|(?:silently|secretly|covertly|quietly)\s+(?:\w+\s+)?(?:send|upload|exfiltrate|post|copy|collect|forward|transmit|read)\b)",
        ),
    },
    Pattern {
        id: "injection-new-instructions",
        severity: Review,
        keywords: &["instructions", "prompt", "from now on", "override", "jailbreak", "directive"],
        regex: concat!(
            r"(?:\b(?:new|updated|real|actual|hidden|secret|true)\s+(?:system\s+)?(?:instructions?|prompt|directives?)\s*(?:[:=]|are\b)",
            r"|\bfrom\s+now\s+on,?\s+(?:you|act|respond|answer|always|treat)\b",
            r"|\b(?:reveal|print|repeat|show|output|leak)\s+(?:me\s+)?(?:your|the)\s+(?:hidden\s+|full\s+|original\s+)?system\s+(?:prompt|instructions)\b",
            r"|\bsystem\s+override\b|\binstruction\s+override\b)",
        ),
    },
    Pattern {
        id: "injection-take-over",
        severity: Review,
        keywords: &[
            "your task is",
            "your new",
            "your only",
            "your real",
            "your job is",
            "as an ai",
            "as a language model",
            "if you are an",
        ],
        regex: concat!(
            r"\b(?:your\s+(?:new|only|real|true)\s+(?:task|goal|job|role|objective|instructions?)\b",
            r"|your\s+(?:task|job)\s+is\s+(?:now\s+)?to\s+(?:approve|score|rate|mark|pass|accept)\b",
            r"|as\s+an?\s+(?:ai|llm|language\s+model)\b[^.\n]{0,40}\b(?:must|should|will|approve|score|output|reply)\b",
            r"|if\s+you\s+are\s+an?\s+(?:\w+\s+)?(?:ai|llm|language\s+model|bot|assistant|agent)\b[^.\n]{0,60}\b(?:must|should|approve|score|output|reply|ignore|respond|send|say)\b)",
        ),
    },
    Pattern {
        id: "injection-memory",
        severity: Review,
        keywords: &["claude.md", "agents.md", "memory", "settings.json", ".cursorrules"],
        regex: r"\b(?:add|write|append|save|store|copy|insert|put)\b[^.\n]{0,80}?\b(?:to|into|in)\b[^.\n]{0,30}?(?:\bCLAUDE\.md|\bAGENTS\.md|\bMEMORY\.md|\byour\s+(?:long-term\s+|persistent\s+)?memory\b|\bmemory\s+files?\b|\bsettings\.json|\.cursorrules)",
    },
    Pattern {
        id: "injection-carrier",
        severity: Review,
        keywords: &["![", "decode", "base64", "rot13"],
        regex: concat!(
            // A picture whose address is filled in by the model, and text that is decoded to be followed.
            r"(?:!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}[?&][\w-]{1,30}=(?:\{|\$\{?|<|%s|\[|(?-i:[A-Z_]{3,})\))",
            r"|\b(?:decode|un-?base64|rot13)\b[^.\n]{0,80}?\b(?:and|then)\s+(?:\w+\s+)?(?:follow|execute|obey|carry\s+out|do)\b)",
        ),
    },
    Pattern {
        id: "injection-role-play",
        severity: Review,
        keywords: &[
            "pretend",
            "imagine",
            "role-play",
            "roleplay",
            "act as",
            "persona",
            "in character",
            "character",
        ],
        regex: r"\b(?:pretend|imagine|role-?play\w*|act\s+as|persona|character)\b[^\n]{0,160}?\b(?:no|without|free\s+(?:of|from)|ignor\w+|not\s+bound\s+by)\s+(?:\w+\s+){0,3}?(?:limit\w*|restriction\w*|rules|filters?|guardrails|safety|polic\w+)\b",
    },
];
