//! What commands about versions of forms need: schema content, the shipped policy, and versions in the states in which an operator
//! would type them.

use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use devkit::stage::Stage;
use maple_router::config::{Config, Database};
use maple_router::db::{Pool, PoolOptions};
use maple_router::forms::commands::{By, Judged, Versions};
use maple_router::forms::definition::Definition;
use maple_router::forms::signing;
use maple_router::forms::store::Source;
use maple_router::forms::table::{Command, PUBLISHER};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::parts;
use uuid::Uuid;

use crate::scene::FORM;

const POLICY: &str = include_str!("../../contrib/policy/publish.rego");
/// The file that an operator loads.
pub(crate) const FILE: &str = "form.yaml";

/// Whether a command is about versions of forms.
pub(crate) fn concerns(command: &str) -> bool {
    [" forms ", " policy ", "ssh-keygen "].iter().any(|verb| command.contains(verb))
}

/// A key, whose it is, and what is signed with it.
const KEY_FILE: &str = "key";
const STATEMENT: &str = "statement";

/// Makes the key and the list of signers, and signs a version's statement. Returns the setting that names the list.
fn sign(stage: &Stage, digest: &str, is_signed: bool) -> String {
    let (key, list, statement) =
        (stage.dir().join(KEY_FILE), stage.dir().join("allowed"), stage.dir().join(STATEMENT));
    let run = |command: &mut Process| {
        let ended = command.output().expect("ssh-keygen runs (Debian: openssh-client)");
        assert!(ended.status.success(), "{ended:?}");
    };
    run(Process::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let public = std::fs::read_to_string(key.with_extension("pub")).expect("a public key");
    std::fs::write(&list, format!("anna@example.org {public}")).expect("a list");
    std::fs::write(&statement, signing::statement(FORM, 3, digest)).expect("a statement");
    if is_signed {
        run(Process::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", signing::NAMESPACE, "-f"])
            .arg(&key)
            .arg(&statement));
    }
    format!("allowed_signers = \"{}\"\n", list.display())
}

/// Versions before a command, its configuration, and the digest of the newest version.
pub(crate) async fn beside(stage: &Stage, command: &str) -> (String, String) {
    let policy = stage.dir().join("policy");
    std::fs::create_dir_all(&policy).expect("a directory");
    std::fs::write(policy.join("publish.rego"), POLICY).expect("a policy");
    std::fs::write(stage.dir().join(FILE), yaml(9)).expect("a file");
    let url = stage.database.url_as("forms_loader");
    let mut extra = format!("[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{url}\"\n", policy.display());
    let mut config = Config::default();
    config.mail.from = "forms@example.org".to_owned();
    config.forms.policy_dir = Some(policy);
    let database = Database { url, max_connections: 2, ..Database::default() };
    let pool = Pool::new(&database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
    let operator = Operator {
        versions: parts::versions(&config, pool).expect("versions"),
        by: By { who: PUBLISHER, name: "operator:test".to_owned() },
    };
    let says = |verb: &str| command.contains(verb);
    if says(" adopt ") {
        return (extra, String::new());
    }
    operator.promoted(1).await;
    if says("@2") {
        let (second, _) = operator.published(2).await;
        if says(" restore ") {
            let day = Duration::from_secs(86_400);
            let done = operator.versions.bury(second, Command::Tombstone, "r", day, &operator.by).await;
            done.expect("out of use");
        }
        return (extra, String::new());
    }
    operator.promoted(2).await;
    let digest = if says(" promote ") { operator.published(3).await.1 } else { operator.draft(3).await.1 };
    if says(" sign ") {
        extra.push_str(&sign(stage, &digest, says(" forms ")));
    }
    (extra, digest)
}

struct Operator {
    versions: Versions,
    by: By,
}

impl Operator {
    async fn draft(&self, number: u32) -> (Uuid, String) {
        let definition = Definition::from_yaml(&yaml(number)).expect("valid");
        let id = Rng::from_system().uuid();
        let loaded = self.versions.load(&definition, Source::Yaml, id, &self.by).await.expect("loaded");
        (loaded.id, loaded.digest)
    }

    async fn published(&self, number: u32) -> (Uuid, String) {
        let (id, digest) = self.draft(number).await;
        let judged = self.versions.publish(id, &digest, &self.by).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        (id, digest)
    }

    async fn promoted(&self, number: u32) {
        let (id, _) = self.published(number).await;
        let current =
            self.versions.store.current(FORM).await.expect("answered").map(|current| current.version);
        let judged = self.versions.promote(id, current, None, &self.by).await.expect("judged");
        assert_eq!(judged, Judged::Done);
    }
}

/// The file of a version.
fn yaml(number: u32) -> String {
    format!(
        "id: {FORM}\nname: Contact\nactions:\n  - {{type: email_raw, destination: v{number}@example.org}}\nsamples:\n  - {{name: usual}}\n"
    )
}
