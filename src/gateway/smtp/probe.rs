//! Asking the relay whether it would talk to us: for readiness, the breaker's probe and `check`. Sends nothing.

use super::SmtpSettings;
use super::classify::{Verdict, classify};
use super::connection::Connection;
use super::patience::Patience;
use crate::ports::{CheckLine, Fault, Outcome, Stage};
use crate::scrub::scrub;

/// Connects, reads the banner, says EHLO and QUIT; the banner's text.
///
/// # Errors
///
/// What went wrong, at which stage; always about us.
pub async fn greet(settings: &SmtpSettings) -> Result<String, Fault> {
    let connection = open(settings).await?;
    let banner = connection.banner.clone();
    connection.quit().await;
    Ok(banner)
}

/// Goes as far as a send goes before it names a recipient: MAIL FROM, then RSET and QUIT.
///
/// # Errors
///
/// What went wrong, at which stage; always about us.
pub async fn offer(settings: &SmtpSettings, sender: &str) -> Result<(), Fault> {
    let patience = Patience::new(settings.connect_timeout + 3 * settings.command_timeout);
    let mut connection = Connection::open(settings, &patience).await?;
    let command = format!("MAIL FROM:<{sender}>");
    let limit = settings.command_timeout;
    let heard = connection.ask(Stage::Mail, &command, limit, &patience).await;
    match classify(Stage::Mail, heard) {
        Verdict::Granted => {
            connection.ask(Stage::Mail, "RSET", limit, &patience).await;
            connection.quit().await;
            Ok(())
        }
        Verdict::Settled {
            outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
            ..
        } => Err(fault),
        // MAIL is never the end of anything.
        Verdict::Settled { outcome: Outcome::Accepted { .. } | Outcome::NotImplemented, .. } => Ok(()),
    }
}

/// Whether it would take a mail that comes back to `address`: MAIL from nobody, RCPT, then RSET and QUIT.
///
/// # Errors
///
/// What went wrong, at which stage.
pub async fn takes_returns_to(settings: &SmtpSettings, address: &str) -> Result<(), Fault> {
    let patience = Patience::new(settings.connect_timeout + 4 * settings.command_timeout);
    let mut connection = Connection::open(settings, &patience).await?;
    let limit = settings.command_timeout;
    for (stage, command) in
        [(Stage::Mail, "MAIL FROM:<>".to_owned()), (Stage::Rcpt, format!("RCPT TO:<{address}>"))]
    {
        let heard = connection.ask(stage, &command, limit, &patience).await;
        if let Verdict::Settled {
            outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
            ..
        } = classify(stage, heard)
        {
            connection.quit().await;
            return Err(fault);
        }
    }
    connection.ask(Stage::Rcpt, "RSET", limit, &patience).await;
    connection.quit().await;
    Ok(())
}

/// The line `relay` of `check`.
pub async fn inspect(settings: &SmtpSettings) -> CheckLine {
    const NAME: &str = "relay";
    let relay = settings.relay();
    let connection = match open(settings).await {
        Ok(connection) => connection,
        Err(fault) => {
            let said = scrub(&fault.reply.reply);
            let code = fault.reply.code.map(|code| format!("{code} ")).unwrap_or_default();
            let detail = match fault.stage {
                Stage::Connect => said,
                Stage::Banner => format!("{relay} answers, but not with a greeting: {code}{said}"),
                Stage::Ehlo => {
                    format!("{relay} greets, but refuses EHLO {}: {code}{said}", settings.hello_name)
                }
                Stage::Address
                | Stage::Template
                | Stage::Sign
                | Stage::Starttls
                | Stage::Auth
                | Stage::Mail
                | Stage::Rcpt
                | Stage::Data
                | Stage::Dot
                | Stage::Fence => format!("{relay}: {code}{said}"),
            };
            return CheckLine::fail(NAME, detail, remedy(&fault, settings));
        }
    };
    let mut offered = Vec::new();
    for (name, there) in [
        ("PIPELINING", connection.offers.pipelining),
        ("SIZE", connection.offers.size),
        ("8BITMIME", connection.offers.eight_bit),
        ("SMTPUTF8", connection.offers.utf8),
    ] {
        if there {
            offered.push(name);
        }
    }
    let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
    let detail = format!(
        "{relay} ({}) greets as \"{}\" and offers {offered}",
        connection.address,
        scrub(&connection.banner)
    );
    connection.quit().await;
    CheckLine::ok(NAME, detail)
}

async fn open(settings: &SmtpSettings) -> Result<Connection, Fault> {
    let whole = settings.connect_timeout + 2 * settings.command_timeout;
    Connection::open(settings, &Patience::new(whole)).await
}

fn remedy(fault: &Fault, settings: &SmtpSettings) -> String {
    let (host, port) = (&settings.host, settings.port);
    match fault.stage {
        Stage::Connect if fault.reply.reply.contains("refused") => {
            "is Postfix running? `systemctl status postfix`".to_owned()
        }
        Stage::Connect if fault.reply.reply.contains("name") => {
            format!("does [smtp] host = \"{host}\" stand in DNS or /etc/hosts? `getent hosts {host}`")
        }
        Stage::Connect => {
            format!(
                "is {host}:{port} the relay, and open to this host? Look at [smtp] host and port, and the firewall"
            )
        }
        Stage::Banner if fault.reply.code.is_none() => format!(
            "is {port} the plain SMTP port of the relay (not TLS), and is Postfix healthy? `journalctl -u postfix@-`"
        ),
        Stage::Ehlo if fault.reply.code.is_some() => {
            "set [smtp] hello_name to a name the relay accepts, and look at its log".to_owned()
        }
        Stage::Banner
        | Stage::Ehlo
        | Stage::Address
        | Stage::Template
        | Stage::Sign
        | Stage::Starttls
        | Stage::Auth
        | Stage::Mail
        | Stage::Rcpt
        | Stage::Data
        | Stage::Dot
        | Stage::Fence => "look at the relay's log, and whether it lets this host in (mynetworks)".to_owned(),
    }
}
