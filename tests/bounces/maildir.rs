//! The Maildir: what is read of it, what is moved, and what is left alone.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, UNIX_EPOCH};

use maple_router::gateway::bounces::{Maildir, Pruned};
use maple_router::ports::ReturnedKind;

use crate::harness::{ORIGIN, deliver, list, sample};

#[tokio::test]
async fn it_is_made_for_the_daemons_user_alone_and_read_in_order() {
    let temporary = tempfile::tempdir().expect("a directory");
    let dir = temporary.path().join("bounces");
    let maildir = Maildir::new(&dir);
    assert!(maildir.look(None, 9).await.expect("nothing there").mails.is_empty());
    maildir.prepare().await.expect("made");
    assert_eq!(fs::metadata(&dir).expect("there").permissions().mode() & 0o777, 0o700);
    let mail = sample("postfix-failed", ORIGIN);
    for name in ["2.b.host", "1.a.host", "3.c.host", ".hidden"] {
        deliver(&dir, name, &mail);
    }
    fs::write(dir.join("tmp/4.d.host"), &mail).expect("half a delivery");
    let first = maildir.look(None, 2).await.expect("read");
    let names = |look: &maple_router::gateway::bounces::Look| -> Vec<String> {
        look.mails.iter().map(|found| found.name.to_string_lossy().into_owned()).collect()
    };
    assert_eq!((names(&first), first.more), (vec!["1.a.host".to_owned(), "2.b.host".to_owned()], true));
    assert!(matches!(first.mails[0].mail.kind, ReturnedKind::Report(_)));
    let rest = maildir.look(Some(OsString::from("2.b.host")), 2).await.expect("read");
    assert_eq!((names(&rest), rest.more), (vec!["3.c.host".to_owned()], false));

    maildir.treated(OsStr::new("1.a.host")).await.expect("moved");
    maildir.set_aside(OsStr::new("2.b.host")).await.expect("moved");
    maildir.treated(OsStr::new("9.gone.host")).await.expect("somebody was faster");
    assert_eq!(list(&dir, "new"), [".hidden", "3.c.host"]);
    assert_eq!(list(&dir, "cur"), ["1.a.host:2,S"]);
    assert_eq!(list(&dir, ".unread/new"), ["2.b.host"]);
    assert_eq!(list(&dir, "tmp"), ["4.d.host"]);
    assert_eq!(names(&maildir.kept(None, 9).await.expect("read")), ["1.a.host:2,S"]);
}

#[tokio::test]
async fn what_is_moved_never_takes_the_place_of_another() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, maildir) = (temporary.path(), Maildir::new(temporary.path()));
    maildir.prepare().await.expect("made");
    for text in ["one", "two", "three"] {
        deliver(dir, "1.a.host", text);
        maildir.set_aside(OsStr::new("1.a.host")).await.expect("moved");
    }
    let kept: Vec<String> = list(dir, ".unread/new")
        .iter()
        .map(|name| fs::read_to_string(dir.join(".unread/new").join(name)).expect("read"))
        .collect();
    assert_eq!(kept, ["one", "two", "three"]);
}

#[tokio::test]
async fn what_is_no_mail_is_not_followed_not_waited_for_and_not_lost() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, maildir) = (temporary.path(), Maildir::new(temporary.path()));
    maildir.prepare().await.expect("made");
    let new = dir.join("new");
    let secret = dir.join("secret");
    fs::write(&secret, sample("postfix-failed", ORIGIN)).expect("written");
    symlink(&secret, new.join("1.link")).expect("a link");
    symlink("/nowhere", new.join("2.dangling")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(new.join("3.pipe")).status().expect("mkfifo");
    assert!(made.success());
    fs::create_dir(new.join("4.directory")).expect("a directory");
    let _socket = std::os::unix::net::UnixListener::bind(new.join("5.socket")).expect("a socket");
    let strange = OsStr::from_bytes(b"6.\xff\n..host");
    fs::write(new.join(strange), sample("postfix-failed", ORIGIN)).expect("written");
    let look = tokio::time::timeout(Duration::from_secs(30), maildir.look(None, 99));
    let look = look.await.expect("a pipe does not hold us").expect("read");
    assert!(look.unreadable.is_none(), "{look:?}");
    for found in &look.mails {
        match &found.mail.kind {
            ReturnedKind::NotUnderstood(why) => assert_eq!(*why, "it is no regular file", "{found:?}"),
            ReturnedKind::Report(_) => assert_eq!(found.name, strange),
            ReturnedKind::AutoReply | ReturnedKind::Receipt => panic!("{found:?}"),
        }
        maildir.set_aside(&found.name).await.expect("moved");
    }
    assert_eq!((look.mails.len(), list(dir, "new").len(), list(dir, ".unread/new").len()), (6, 0, 6));
    assert!(secret.exists());
}

#[tokio::test]
async fn no_more_than_the_beginning_of_a_mail_is_read() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, maildir) = (temporary.path(), Maildir::new(temporary.path()));
    maildir.prepare().await.expect("made");
    let mut whole = sample("postfix-failed", ORIGIN);
    whole.push_str(&"what came back\r\n".repeat(4 * 1024 * 1024 / 16));
    deliver(dir, "1.large", &whole);
    let file = fs::File::create(dir.join("new/2.sparse")).expect("a file");
    file.set_len(1 << 40).expect("a terabyte of nothing");
    let look = maildir.look(None, 9).await.expect("read");
    assert!(matches!(look.mails[0].mail.kind, ReturnedKind::Report(_)), "its report stands at the beginning");
    assert!(matches!(look.mails[1].mail.kind, ReturnedKind::NotUnderstood(_)));
}

#[tokio::test]
async fn old_mails_go_and_those_a_person_must_read_stay_unless_there_are_too_many() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, maildir) = (temporary.path(), Maildir::new(temporary.path()));
    maildir.prepare().await.expect("made");
    let now = Duration::from_secs(2_000_000_000);
    for (name, age) in [("old", 8 * 86_400), ("young", 6 * 86_400), ("of tomorrow", 0)] {
        for below in ["cur", ".unread/new", "new"] {
            let path = dir.join(below).join(name);
            let file = fs::File::create(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + now - Duration::from_secs(age)).expect("its time");
        }
    }
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(maildir.prune(week, now).await.expect("pruned"), Pruned { old: 1, ..Pruned::default() });
    assert_eq!(list(dir, "cur"), ["of tomorrow", "young"]);
    assert_eq!((list(dir, ".unread/new").len(), list(dir, "new").len()), (3, 3));
    for number in 0..1_000 {
        fs::write(dir.join(".unread/new").join(format!("{number:04}")), "").expect("written");
    }
    assert_eq!(
        maildir.prune(week, now).await.expect("pruned"),
        Pruned { aside: 3, ..Pruned::default() },
        "the oldest by name"
    );
    let left = list(dir, ".unread/new");
    assert_eq!((left.len(), left[0].as_str()), (1_000, "0003"));
}

/// A flood to the address fills no disk, although its mails are young.
#[tokio::test]
async fn of_too_many_treated_mails_the_oldest_go() {
    let temporary = tempfile::tempdir().expect("a directory");
    let maildir = Maildir::new(temporary.path());
    maildir.prepare().await.expect("made");
    for number in 0..10_004 {
        fs::File::create(temporary.path().join("cur").join(format!("{number:05}:2,S"))).expect("a file");
    }
    let pruned = maildir.prune(Duration::from_secs(7 * 86_400), Duration::ZERO).await.expect("pruned");
    assert_eq!(pruned, Pruned { treated: 4, ..Pruned::default() });
    let left = list(temporary.path(), "cur");
    assert_eq!((left.len(), left[0].as_str()), (10_000, "00004:2,S"));
}

#[tokio::test]
async fn a_maildir_that_cannot_be_used_says_so_with_a_remedy() {
    let temporary = tempfile::tempdir().expect("a directory");
    fs::write(temporary.path().join("taken"), "a file").expect("written");
    let maildir = Maildir::new(&temporary.path().join("taken/bounces"));
    for error in [
        maildir.prepare().await.expect_err("no directory"),
        maildir.look(None, 9).await.map(drop).expect_err("no directory"),
    ] {
        let message = error.to_string();
        assert!(message.contains("taken/bounces") && message.contains("virtual_uid_maps"), "{message}");
    }
}
