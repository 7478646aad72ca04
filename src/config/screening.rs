//! `[screening]`: rules, a judge and people before a submission is ready, where schema `screening` is there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::s;
use super::size::Size;

/// Whether the routing asks what screening says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScreeningMode {
    /// It does not know of it. What an enforced form waits for is claimed by nobody then: the schema refuses it.
    #[default]
    Off,
    /// A submission of an enforced form is ready when its run is published.
    On,
}

/// What of a submission's fields leaves the host for the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Send {
    /// Names, addresses, numbers as tags in their place.
    #[default]
    Tags,
    /// Everything as it was entered.
    Full,
}

section! {
    /// `[screening]`
    Screening {
        /// Whether the routing asks ([`ScreeningMode`]).
        mode: ScreeningMode = ScreeningMode::Off,
        /// Connection string of the screener's role, `maple_screener`; `MAPLE_ROUTER_SCREENER_URL` instead where it has a password.
        screener_url: Option<String> = None,
        /// Time for which the judge is waited for; then a person decides.
        #[serde(with = "humantime_serde")] patience: Duration = s(4 * 3600),
        /// Whether whoever escalated a run may not approve it.
        four_eyes: bool = true,
        /// Runs of the first tier at once, and fetches of repositories.
        slots: usize = 4,
        /// Domains that others imitate: ours.
        protected_domains: Vec<String> = Vec::new(),
        /// Domains that look like ours and are known: they imitate nothing.
        known_domains: Vec<String> = Vec::new(),
        /// File of further rules, in TOML: `[severity]` by rule, and `[[rules]]` as gitleaks writes them.
        rules_file: Option<PathBuf> = None,
        /// `[screening.judge]`
        judge: ScreeningJudge = ScreeningJudge::default(),
        /// `[screening.git]`
        git: ScreeningGit = ScreeningGit::default(),
        /// `[screening.forms.FORM]`
        forms: BTreeMap<String, ScreeningForm> = BTreeMap::new(),
    }
}

section! {
    /// `[screening.judge]`: an endpoint as OpenAI's; without one a person decides about what the rules let through.
    ScreeningJudge {
        /// Its address, up to `/chat/completions`; absent: no judge.
        base_url: Option<String> = None,
        /// The model.
        model: String = String::new(),
        /// File holding the key; absent: systemd's credential `judge-key`, else none.
        key_file: Option<PathBuf> = None,
        /// Limit of an answer.
        #[serde(with = "humantime_serde")] timeout: Duration = s(25),
        /// Time for which a judge that is away is not asked.
        #[serde(with = "humantime_serde")] pause: Duration = s(30),
        /// Questions at once.
        slots: usize = 8,
        /// Tokens a day.
        tokens_per_day: u64 = 2_000_000,
        /// Tokens a day of one form.
        tokens_per_form: u64 = 500_000,
        /// What leaves the host ([`Send`]).
        send: Send = Send::Tags,
        /// Let a scripted stand-in approve: for tests and the demo.
        allow_scripted: bool = false,
    }
}

section! {
    /// `[screening.git]`: repositories.
    ScreeningGit {
        /// Hosts that are asked.
        hosts: Vec<String> = vec!["github.com".to_owned()],
        /// Owners that are trusted once it is proven that the code lies with them: `owner` on github.com, `host/owner` elsewhere.
        trusted: Vec<String> =
            ["anthropics", "openai", "google", "google-gemini", "vercel-labs", "supabase", "microsoft"].map(str::to_owned).to_vec(),
        /// Limit of a fetch.
        #[serde(with = "humantime_serde")] timeout: Duration = s(20),
        /// Most bytes of a repository.
        max_bytes: Size = Size::mebibytes(64),
        /// Most files of a repository.
        max_files: usize = 2_000,
        /// Topic on which registries hear of publications, by its short or full name; absent: nobody is told, and what was published
        /// stands in `screening.published`.
        topic: Option<String> = None,
        /// File of certificates that are trusted beside the system's.
        ca_file: Option<PathBuf> = None,
        /// Hosts, with their port, that are asked without TLS: for tests on loopback.
        insecure_hosts: Vec<String> = Vec::new(),
    }
}

section! {
    /// `[screening.forms.FORM]`
    ScreeningForm {
        /// Fields that people do not see, and programs fill in.
        honeypot_fields: Vec<String> = Vec::new(),
        /// Column of `submissions` in which the backend names the caller that it has authenticated.
        origin_column: Option<String> = None,
        /// Callers that are trusted.
        trusted: Vec<String> = Vec::new(),
        /// How often the same may come in an hour.
        same_per_hour: u32 = 5,
        /// Field that names the repository.
        url_field: String = "repo_url".to_owned(),
        /// Field that names the folder in it.
        path_field: String = "skill_path".to_owned(),
        /// Field that names the branch or tag.
        reference_field: String = "reference".to_owned(),
    }
}
