//! The demo's part of grading: a scripted grader, which says so, the grader's own process, and the sections of a configuration that name
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::process::{Child, Command};

use crate::forms::{Action, Form, Template};
use crate::grader::{MODELS, ScriptedGrader};
use crate::postgres::TestDatabase;

/// A form whose mail waits for the grade of an essay.
pub(super) const ESSAYS: (&str, &str) = ("essays", "learner@example.org");
/// The same, of an examination that allows its grader next to no time.
pub(super) const EXAMS: (&str, &str) = ("exams", "candidate@example.org");

/// What grades, running but for the process.
pub(super) struct Grader {
    /// Answers by markers in the text.
    pub(super) scripted: ScriptedGrader,
    /// Sections of the configuration.
    pub(super) settings: String,
    process: Option<Child>,
}

impl Grader {
    /// Starts whoever is asked.
    ///
    /// # Errors
    /// No port.
    pub(super) async fn open(dir: &Path, database: &TestDatabase) -> Result<Self> {
        let scripted = ScriptedGrader::start().await?;
        let key = dir.join("grader-key");
        fs::write(&key, scripted.key().context("the grader's key")?)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        // Nobody is drawn for a second look, so that the demo ends in the same way each time.
        let settings = format!(
            "[grading]\nmode = \"on\"\ngrader_url = \"{}\"\nspot_check = 0\n\
             [grading.judge]\nbase_url = \"{}\"\nmodels = [{}]\nkey_file = \"{}\"\nsend = \"full\"\nallow_scripted = true\n\
             timeout = \"30s\"\npause = \"1s\"\n",
            database.url_as("maple_grader"),
            scripted.base_url(),
            MODELS.map(|model| format!("\"{model}\"")).join(", "),
            key.display(),
        );
        Ok(Self { scripted, settings, process: None })
    }

    /// Starts the process, with the router's configuration; it ends with this value.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&mut self, binary: &Path, config: &Path) -> Result<()> {
        let log = fs::File::create(config.with_file_name("grader.log"))?;
        let mut command = Command::new(binary);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("--config").arg(config).arg("grade");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        self.process = Some(command.spawn().context("the grader cannot be started")?);
        Ok(())
    }
}

/// The forms, whose mails say the grade, or that there is none.
pub(super) fn forms() -> [Form; 2] {
    [ESSAYS, EXAMS].map(|(form, to)| {
        let template = format!("{form}-mail");
        let told = "{% if grading %}graded {{ grading.overallScore }} ({{ grading.band }}){% else %}not graded{% endif %}";
        Form {
            templates: vec![Template {
                id: template.clone(),
                subject: format!("Your essay: {told}"),
                body_text: format!("Your essay is {told}."),
                body_html: String::new(),
            }],
            actions: vec![Action {
                kind: "email_template".to_owned(),
                template: Some(template),
                destination: to.to_owned(),
                subject: None,
                category: None,
            }],
            ..Form::new(form)
        }
    })
}
