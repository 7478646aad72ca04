//! Signatures: made by the real `ssh-keygen`, judged by the list of that time. What too few people signed is neither published,
//! promoted nor restored.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use maple_router::config::Forms;
use maple_router::forms::commands::{CommandError, Judged};
use maple_router::forms::policies::Signing;
use maple_router::forms::signing::{LONGEST, NAMESPACE, Unsigned, statement};
use maple_router::forms::table::Command;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::{Scene, form, zoe};

const DAY: Duration = Duration::from_secs(86_400);

/// A desk with keys, and a list of those who may sign.
struct Keys {
    dir: TempDir,
}

impl Keys {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    /// Makes a key, and returns the line of its public half.
    fn make(&self, name: &str, kind: &str) -> String {
        let key = self.path(name);
        let made = Process::new("ssh-keygen")
            .args(["-q", "-t", kind, "-N", "", "-C", name, "-f"])
            .arg(&key)
            .output();
        let made = made.expect("ssh-keygen runs (Debian: openssh-client)");
        assert!(made.status.success(), "{made:?}");
        std::fs::read_to_string(self.path(&format!("{name}.pub"))).expect("a public key").trim().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Signs a text.
    fn sign(&self, name: &str, namespace: &str, text: &str) -> String {
        let mut signer = Process::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", namespace, "-f"])
            .arg(self.path(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ssh-keygen runs");
        signer.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
        let signed = signer.wait_with_output().expect("it ends");
        assert!(signed.status.success(), "{signed:?}");
        String::from_utf8(signed.stdout).expect("text")
    }

    /// Writes the list, and requires so many people's signatures.
    fn list(&self, scene: &mut Scene, required: u32, list: &str) {
        let file = self.path("allowed_signers");
        std::fs::write(&file, list).expect("written");
        let forms = Forms { require_signatures: required, allowed_signers: Some(file), ..Forms::default() };
        scene.publisher.signing = Signing::new(&forms);
    }
}

/// The reasons of a refusal, one text.
fn reasons(judged: &Judged) -> String {
    match judged {
        Judged::Done => panic!("it was done"),
        Judged::Refused(reasons) => reasons.join("\n"),
    }
}

async fn sign(scene: &Scene, id: Uuid, signature: &str) -> Result<(String, bool), CommandError> {
    scene.publisher.sign(id, signature, &zoe()).await.map(|(signed, is_new)| (signed.signer, is_new))
}

#[tokio::test]
async fn as_many_people_sign_as_are_required_each_once_with_whatever_keys() {
    let (mut scene, keys) = (Scene::new().await, Keys::new());
    let anna = keys.make("anna", "ed25519");
    let other = keys.make("other", "ecdsa");
    let ben = keys.make("ben", "ed25519");
    let list = format!(
        "# Reviewers.\nanna@example.org {anna}\n\nanna@example.org {other}\nben@example.org namespaces=\"{NAMESPACE}\" {ben}\n"
    );
    keys.list(&mut scene, 2, &list);
    let draft = scene.draft(&form("f", "one")).await;
    let said = statement("f", draft.number, &draft.digest);
    let publish =
        async |scene: &Scene| scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    let lacks = |people: u32| format!("takes 2 people's signatures, and it has {people}");
    assert!(reasons(&publish(&scene).await).contains(&lacks(0)));
    let first = keys.sign("anna", NAMESPACE, &said);
    assert_eq!(sign(&scene, draft.id, &first).await.expect("kept"), ("anna@example.org".to_owned(), true));
    assert_eq!(sign(&scene, draft.id, &first).await.expect("kept"), ("anna@example.org".to_owned(), false));
    sign(&scene, draft.id, &keys.sign("other", NAMESPACE, &said)).await.expect("kept");
    assert!(reasons(&publish(&scene).await).contains(&lacks(1)), "two keys of one person are one person's");
    sign(&scene, draft.id, &keys.sign("ben", NAMESPACE, &said)).await.expect("kept");
    assert_eq!(publish(&scene).await, Judged::Done);

    // Whoever is taken out of the list takes his signatures with him: for promotion, and for restoration.
    let without = list.replace("ben@example.org", "# ben@example.org");
    keys.list(&mut scene, 2, &without);
    let promoted = scene.publisher.promote(draft.id, None, None, &zoe()).await.expect("judged");
    assert!(
        reasons(&promoted).contains("of 1 that count for nothing one says: its key SHA256:"),
        "{promoted:?}"
    );
    scene.publisher.bury(draft.id, Command::Tombstone, "old", DAY, &zoe()).await.expect("buried");
    let restored = scene.publisher.restore(draft.id, &zoe()).await.expect("judged");
    assert!(reasons(&restored).contains(&lacks(1)), "{restored:?}");
    keys.list(&mut scene, 2, &list);
    assert_eq!(scene.publisher.restore(draft.id, &zoe()).await.expect("judged"), Judged::Done);
    assert_eq!(scene.publisher.promote(draft.id, None, None, &zoe()).await.expect("judged"), Judged::Done);
}

#[tokio::test]
async fn a_signature_counts_for_its_version_its_purpose_its_key_and_its_time_alone() {
    let (mut scene, keys) = (Scene::new().await, Keys::new());
    let (anna, late, elsewhere) =
        (keys.make("anna", "ed25519"), keys.make("late", "ed25519"), keys.make("elsewhere", "ed25519"));
    keys.make("stranger", "ed25519");
    let old = keys.make("old", "rsa");
    let list = format!(
        "anna {anna}\nlate valid-before=\"20200101Z\" {late}\nelsewhere namespaces=\"git,file\" {elsewhere}\nold {old}\n"
    );
    keys.list(&mut scene, 1, &list);
    let (draft, another) = (scene.draft(&form("f", "one")).await, scene.draft(&form("f", "two")).await);
    let (said, of_another) =
        (statement("f", draft.number, &draft.digest), statement("f", another.number, &another.digest));
    let good = keys.sign("anna", NAMESPACE, &said);
    let broken = good.replacen("U1NIU0lH", "U1NIU0lI", 1);
    type Expected = fn(&Unsigned) -> bool;
    let of_number = keys.sign("anna", NAMESPACE, &statement("f", draft.number + 1, &draft.digest));
    let signatures: [(String, Expected); 10] = [
        (of_number, |why| *why == Unsigned::Wrong),
        (keys.sign("anna", NAMESPACE, &of_another), |why| *why == Unsigned::Wrong),
        (keys.sign("anna", NAMESPACE, &statement("g", draft.number, &draft.digest)), |why| {
            *why == Unsigned::Wrong
        }),
        (keys.sign("anna", "file", &said), |why| matches!(why, Unsigned::Namespace(of) if of == "file")),
        (keys.sign("stranger", NAMESPACE, &said), |why| matches!(why, Unsigned::NotListed(_))),
        (keys.sign("elsewhere", NAMESPACE, &said), |why| matches!(why, Unsigned::NotListed(_))),
        (keys.sign("late", NAMESPACE, &said), |why| matches!(why, Unsigned::NotNow(_))),
        (keys.sign("old", NAMESPACE, &said), |why| matches!(why, Unsigned::Algorithm(_))),
        (broken, |why| matches!(why, Unsigned::Unreadable(_))),
        (" ".repeat(LONGEST) + &good, |why| matches!(why, Unsigned::Unreadable(_))),
    ];
    for (n, (signature, expected)) in signatures.into_iter().enumerate() {
        match sign(&scene, draft.id, &signature).await {
            Err(CommandError::Unsigned(name, why)) => assert!(name == "f@1" && expected(&why), "{n}: {why}"),
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.signatures").await, 0, "none is kept");
    sign(&scene, draft.id, &good).await.expect("kept");
    let publish = async |draft: &maple_router::forms::commands::Loaded| {
        scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged")
    };
    assert_eq!(publish(&draft).await, Judged::Done);
    assert!(reasons(&publish(&another).await).contains("it has 0"), "another content, another digest");
}

#[tokio::test]
async fn a_list_that_is_not_understood_signs_nothing() {
    let (mut scene, keys) = (Scene::new().await, Keys::new());
    let anna = keys.make("anna", "ed25519");
    let draft = scene.draft(&form("f", "one")).await;
    let good = keys.sign("anna", NAMESPACE, &statement("f", draft.number, &draft.digest));
    keys.list(&mut scene, 1, &format!("anna {anna}\n"));
    sign(&scene, draft.id, &good).await.expect("kept");
    for (line, expected) in [
        (format!("* {anna}"), "line 2: its principals are not plain names"),
        (format!("anna cert-authority {anna}"), "line 2: cert-authority is not supported"),
        (format!("anna no-such-option {anna}"), "line 2: option \"no-such-option\" is not known"),
        (format!("anna valid-after=\"soon\" {anna}"), "line 2: \"soon\" is no time"),
        ("anna".to_owned(), "line 2: it has no key"),
        ("anna ssh-ed25519 AAAA".to_owned(), "line 2: its key cannot be read"),
    ] {
        keys.list(&mut scene, 1, &format!("anna {anna}\n{line}\n"));
        let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
        let said = reasons(&judged);
        assert!(said.contains("the list of signers, ") && said.contains(expected), "{line}: {said}");
        let shown = scene.publisher.signatures(&scene.row(draft.id).await).await.expect("read");
        assert!(
            matches!(&shown[0].judged, Err(Unsigned::NoList(why)) if why.contains(expected)),
            "{shown:?}"
        );
        assert!(
            matches!(sign(&scene, draft.id, &good).await, Err(CommandError::NoSigners(why)) if why.contains(expected))
        );
    }
    std::fs::remove_file(keys.path("allowed_signers")).expect("removed");
    let judged = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert!(reasons(&judged).contains("No such file"), "{judged:?}");
    keys.list(&mut scene, 1, "");
    assert!(
        matches!(sign(&scene, draft.id, &good).await, Err(CommandError::NoSigners(_))),
        "nobody may sign"
    );
}

/// An adoption publishes and promotes in one step, which nobody can have signed: it leaves the draft, and the rows as they were.
#[tokio::test]
async fn an_adoption_leaves_its_draft_to_be_signed() {
    let (mut scene, keys) = (Scene::new().await, Keys::new());
    scene.loader(&form("f", "one")).await.expect("loaded");
    let (rows, anna) = (scene.rows("f").await, keys.make("anna", "ed25519"));
    keys.list(&mut scene, 1, &format!("anna {anna}\n"));
    let (draft, judged) = scene.publisher.adopt("f", Uuid::new_v4(), &zoe()).await.expect("judged");
    assert!(reasons(&judged).contains("it has 0"), "{judged:?}");
    assert_eq!(scene.current("f").await, None, "not managed yet");
    let signature = keys.sign("anna", NAMESPACE, &statement("f", draft.number, &draft.digest));
    sign(&scene, draft.id, &signature).await.expect("kept");
    let published = scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert_eq!(published, Judged::Done);
    assert_eq!(scene.publisher.promote(draft.id, None, None, &zoe()).await.expect("judged"), Judged::Done);
    assert_eq!(scene.rows("f").await, rows);
}

/// Who has to sign what is the policy's to say, beyond the number.
#[tokio::test]
async fn a_policy_reads_who_has_signed() {
    let (mut scene, keys) = (Scene::new().await, Keys::new());
    let (anna, ben) = (keys.make("anna", "ed25519"), keys.make("ben", "ed25519"));
    keys.list(&mut scene, 0, &format!("anna {anna}\nben {ben}\n"));
    let shipped =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/policy/publish.rego"));
    let rule = "deny contains \"ben has to sign it\" if {\n\tnot input.form.id == \"canary\"\n\tnot \"ben\" in {one.signer | some one in input.signatures}\n}\n";
    scene.policy(Some(&format!("{}\n{rule}", shipped.expect("shipped"))));
    let draft = scene.draft(&form("f", "one")).await;
    let said = statement("f", draft.number, &draft.digest);
    sign(&scene, draft.id, &keys.sign("anna", NAMESPACE, &said)).await.expect("kept");
    let publish = async || scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("judged");
    assert_eq!(reasons(&publish().await), "ben has to sign it");
    sign(&scene, draft.id, &keys.sign("ben", NAMESPACE, &said)).await.expect("kept");
    assert_eq!(publish().await, Judged::Done);
}

#[tokio::test]
async fn signatures_are_added_by_the_publisher_and_never_changed() {
    let scene = Scene::new().await;
    let draft = scene.draft(&form("f", "one")).await;
    let add = format!(
        "INSERT INTO content.signatures (version_id, key, signature, actor) VALUES ('{}', 'k', 's', 'a')",
        draft.id
    );
    for (role, sql, is_allowed) in [
        ("forms_app", add.as_str(), false),
        ("forms_loader", add.as_str(), true),
        ("forms_loader", "UPDATE content.signatures SET signature = 't'", false),
        ("forms_loader", "DELETE FROM content.signatures", false),
        ("forms_app", "UPDATE content.signatures SET signature = 't'", false),
        ("forms_app", "DELETE FROM content.signatures", false),
        ("forms_app", "SELECT * FROM content.signatures", true),
    ] {
        let client = scene.db.client_as(role).await.expect("a client");
        assert_eq!(client.batch_execute(sql).await.is_ok(), is_allowed, "{role}: {sql}");
    }
}
