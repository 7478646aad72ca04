//! Furnishings of a world: connections in simulated time, forms and what a reload makes of them, relays that
//! misbehave.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::Form;
use devkit::postgres::TestDatabase;
use devkit::smtp::{Act, Rule};
use maple_router::config::Config;
use maple_router::parts;
use maple_router::routing::store::Store;
use tokio_postgres::{Client, NoTls};

use crate::clock::SimClock;
use crate::help_desk;
use crate::history;
use crate::ops::{At, FormKind, How};
use crate::process::stage;

/// Memory where there is some: what is made durable here need not outlive the test.
pub(crate) fn memory() -> &'static str {
    if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" }
}

pub(crate) fn secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(file, text).expect("a secret");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("a secret");
}

pub(crate) fn readable(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).expect("a readable directory");
}

pub(crate) async fn connect(database: &TestDatabase, role: &str, process: &str) -> Client {
    let url = format!("{}&{}", database.url_as(role), history::options(process));
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// The store that the command line works with.
pub(crate) fn operator(database: &TestDatabase, clock: &SimClock, desk: String, dir: &Path) -> Store {
    let mut config = Config::default();
    config.database.url = format!("{}&{}", database.url_as("forms_app"), history::options("operator"));
    config.database.max_connections = 1;
    help_desk::configure(&mut config, desk, dir);
    config.database.lock_timeout = Duration::from_millis(150);
    let pool = parts::pool(&config, Arc::new(clock.clone())).expect("a pool");
    parts::store(&config, pool).expect("a store")
}

pub(crate) fn name(kind: FormKind) -> &'static str {
    match kind {
        FormKind::One => "one",
        FormKind::Many => "many",
        FormKind::Two => "two",
        FormKind::Mixed => "mixed",
    }
}

/// The form as it is (0), or as a reload makes it.
pub(crate) fn form(kind: FormKind, other: usize) -> Form {
    let form = Form::new(name(kind));
    match other {
        1 => return form.mail_to("new@z.test"),
        2 => return form.mail_to("c@y.test").mail_to("a@x.test, new@z.test"),
        3 => return form,
        _ => {}
    }
    match kind {
        FormKind::One => form.mail_to("a@x.test"),
        FormKind::Many => form.mail_to("a@x.test, b@x.test, c@y.test"),
        FormKind::Two => form.mail_to("a@x.test, b@x.test").mail_to("c@y.test"),
        FormKind::Mixed => form.mail_to("a@x.test").ticket_in(help_desk::CATEGORY),
    }
}

pub(crate) fn fault(at: At, how: How, to: Option<usize>, times: u64) -> Rule {
    let rule = Rule::at(stage(at)).times(times);
    let rule = match to {
        Some(place) if at >= At::Rcpt => rule.to(["a@x.test", "b@x.test", "c@y.test"][place]),
        Some(_) | None => rule,
    };
    // A relay that refuses a mail after it took it, or in the middle of it and takes it then, would be lying.
    let honest =
        !matches!((at, how), (At::Body | At::Stored, How::Later | How::Never | How::NotUs | How::Garbage));
    match how {
        _ if !honest => rule.disconnect(),
        How::Later => rule.reply("451 4.3.0 try again later"),
        How::Never => rule.reply("550 5.1.1 no such user"),
        How::NotUs => rule.reply("554 5.7.1 relay access denied"),
        How::Drop => rule.disconnect(),
        How::Silence => rule.silence(),
        How::Garbage => rule.act(Act::Bytes(b"what?\r\n".to_vec())),
    }
}
