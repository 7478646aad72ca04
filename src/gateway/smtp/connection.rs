//! One connection to the relay, from TCP connect to QUIT: the steps of the dialogue, each with its time limit.
//!
//! Dropping it at any point breaks it where it stands; before the final dot that means the relay forgets the
//! message. It never retries and never decides an outcome: it only says what was heard, and at which stage.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::SmtpSettings;
use super::classify::{Heard, Verdict, classify};
use super::patience::{Patience, human};
use super::reply::{join, remark};
use super::stream::{Watch, Wire};
use crate::ports::{Fault, Outcome, Stage};

/// A QUIT that is not answered by then is not waited for.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the relay offered in its EHLO reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) size: bool,
    pub(super) utf8: bool,
    pub(super) eight_bit: bool,
}

/// A connection past EHLO.
pub(super) struct Connection {
    smtp: AsyncSmtpConnection,
    watch: Arc<Watch>,
    pub(super) offers: Offers,
    /// The banner's text.
    pub(super) banner: String,
    pub(super) address: SocketAddr,
}

impl Connection {
    /// Connects, reads the banner, says EHLO.
    pub(super) async fn open(settings: &SmtpSettings, patience: &mut Patience) -> Result<Self, Fault> {
        let limit = settings.connect_timeout;
        let tcp = match patience.allow(limit, dial(settings)).await {
            Some(dialled) => dialled,
            None => Err(format!("no connection to {} within {}", settings.relay(), human(limit))),
        };
        let tcp =
            tcp.map_err(|what| Fault { stage: Stage::Connect, reply: remark(&what), about_us: true })?;
        let address = tcp.peer_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let (wire, watch) = Wire::new(tcp);
        let hello = ClientId::Domain(settings.hello_name.clone());
        let smtp = {
            let mut greeting = pin!(AsyncSmtpConnection::connect_with_transport(Box::new(wire), &hello));
            let limit = settings.command_timeout;
            let banner = async {
                tokio::select! {
                    biased;
                    done = &mut greeting => Some(done),
                    () = watch.turned() => None,
                }
            };
            match patience.allow(limit, banner).await {
                Some(Some(done)) => Some(done),
                Some(None) => patience.allow(limit, greeting).await,
                None => None,
            }
        };
        let stage = if watch.has_spoken() { Stage::Ehlo } else { Stage::Banner };
        let heard = match smtp {
            Some(Ok(smtp)) => {
                let lines = watch.greeting();
                let banner = lines.first().map(|line| text_of(line).to_owned()).unwrap_or_default();
                return Ok(Self { smtp, offers: offers(&lines), banner, address, watch });
            }
            Some(Err(error)) => heard(Err(error), &watch),
            None => no_answer(stage, settings.command_timeout),
        };
        Err(match classify(stage, heard) {
            Verdict::Settled {
                outcome: Outcome::Deferred(fault) | Outcome::Refused(fault) | Outcome::Unknown(fault),
                ..
            } => fault,
            Verdict::Settled { outcome: Outcome::Accepted { reply, .. }, .. } => {
                Fault { stage, reply, about_us: true }
            }
            Verdict::Settled { outcome: Outcome::NotImplemented, .. } | Verdict::Granted => {
                Fault { stage, reply: remark("the relay's greeting cannot be read"), about_us: true }
            }
        })
    }

    /// Gives one command (without line end) and hears its reply.
    pub(super) async fn ask(
        &mut self,
        stage: Stage,
        command: &str,
        limit: Duration,
        patience: &mut Patience,
    ) -> Heard {
        self.watch.command();
        match patience.allow(limit, self.smtp.command(format!("{command}\r\n"))).await {
            Some(result) => heard(result, &self.watch),
            None => no_answer(stage, limit),
        }
    }

    /// Writes the message, asks `may_finish` immediately before the final dot, writes the dot, hears its reply.
    ///
    /// `may_finish` says how long the reply may take. `Err` where it refused: then the dot was not written and the
    /// connection must be dropped. The stage tells whether the dot was out: `Data` before, `Dot` after.
    pub(super) async fn message(
        &mut self,
        message: &[u8],
        settings: &SmtpSettings,
        patience: &mut Patience,
        may_finish: impl Fn() -> Result<Duration, Fault> + Send,
    ) -> Result<(Stage, Heard), Fault> {
        self.watch.body();
        let granted = OnceLock::new();
        let watch = Arc::clone(&self.watch);
        // The client writes CR LF before the dot in any case; without this a message would grow an empty line.
        let mut body = Some(message.strip_suffix(b"\r\n").unwrap_or(message));
        let parts = std::iter::from_fn(|| {
            let part = body.take();
            if part.is_none() {
                // The body is written and flushed; what the client writes next is the dot.
                self.watch.dot(may_finish().map(|wait| {
                    granted.get_or_init(|| wait);
                }));
            }
            part
        });
        let mut sent = pin!(self.smtp.message_iter(parts));
        let answer = loop {
            let moved = watch.moved();
            tokio::select! {
                biased;
                done = &mut sent => break Some(done),
                () = watch.turned() => if watch.dot_is_out() {
                    let wait = granted.get().copied().unwrap_or_default();
                    break patience.allow(wait, sent).await;
                },
                () = &mut patience.deadline => break None,
                () = sleep(settings.command_timeout) => if watch.moved() == moved { break None },
            }
        };
        if let Some(why) = watch.shut() {
            return Err(why);
        }
        let stage = if watch.dot_is_out() { Stage::Dot } else { Stage::Data };
        let heard = match answer {
            Some(Err(_)) if stage == Stage::Data && early_refusal(&watch).is_some() => {
                early_refusal(&watch).unwrap_or(Heard::Broken(String::new()))
            }
            Some(result) => heard(result, &watch),
            None if stage == Stage::Data => {
                Heard::Broken("the message could not be written in time".to_owned())
            }
            None => no_answer(stage, granted.get().copied().unwrap_or_default()),
        };
        Ok((stage, heard))
    }

    /// Says goodbye, briefly. The answer does not matter: nothing is in flight.
    pub(super) async fn quit(mut self) {
        if timeout(QUIT_TIMEOUT, self.smtp.quit()).await.is_err() {
            tracing::debug!("the relay did not answer QUIT");
        }
    }

    /// [`Self::quit`] from where nothing can be awaited; without a runtime the connection is just closed.
    pub(super) fn retire(self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(self.quit()));
        }
    }
}

/// Connects to the relay by name. The error is for people.
async fn dial(settings: &SmtpSettings) -> Result<TcpStream, String> {
    let (host, relay) = (&settings.host, settings.relay());
    let found = tokio::net::lookup_host((host.as_str(), settings.port)).await;
    let addresses: Vec<_> = match found {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(format!("the relay's name {host} is not known: {error}")),
    };
    dial_any(&addresses, settings.connect_timeout).await.map_err(|error| {
        let tried = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match error {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                format!("connection refused at {relay} ({tried})")
            }
            Some(error) => format!("cannot connect to {relay} ({tried}): {error}"),
            None => format!("the relay's name {host} has no address"),
        }
    })
}

/// Tries each address until one answers: `localhost` may be `::1`, where Postfix may not be. The last error.
async fn dial_any(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, Option<io::Error>> {
    // One deaf address must leave time for the next.
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = None;
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            // Without Nagle's delay: body and final dot are two writes, which would cost 40 ms a message.
            Ok(Ok(tcp)) => match tcp.set_nodelay(true) {
                Ok(()) => return Ok(tcp),
                Err(error) => last = Some(error),
            },
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(last)
}

fn heard(result: Result<Response, SmtpError>, watch: &Watch) -> Heard {
    let error = match result {
        Ok(response) => {
            let code = u16::from(response.code());
            return Heard::Said { code, text: join(code, response.message()) };
        }
        Err(error) => error,
    };
    if let Some(code) = error.status() {
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        return Heard::Said { code: u16::from(code), text };
    }
    Heard::Broken(if let Some(early) = watch.early() {
        format!("connection dropped: the relay spoke out of turn: {early}")
    } else if watch.has_ended() {
        "connection lost: the relay closed it".to_owned()
    } else if error.is_response() {
        "connection dropped: the relay's answer is not SMTP".to_owned()
    } else {
        format!("connection lost: {}", error.source().map_or_else(|| error.to_string(), ToString::to_string))
    })
}

/// A 4xx or 5xx said in the middle of the message: the relay did not want to wait for the dot.
fn early_refusal(watch: &Watch) -> Option<Heard> {
    let line = watch.early()?;
    let code: u16 = line.get(..3)?.parse().ok()?;
    let text = text_of(&line).to_owned();
    (400..600).contains(&code).then_some(Heard::Said { code, text })
}

fn no_answer(stage: Stage, limit: Duration) -> Heard {
    let what = match stage {
        Stage::Banner => "no greeting",
        Stage::Ehlo => "no answer to EHLO",
        Stage::Mail => "no answer to MAIL",
        Stage::Rcpt => "no answer to RCPT",
        Stage::Data => "no answer to DATA",
        Stage::Dot => "no answer to the final dot",
        Stage::Address
        | Stage::Template
        | Stage::Sign
        | Stage::Connect
        | Stage::Starttls
        | Stage::Auth
        | Stage::Fence => "no answer",
    };
    Heard::Broken(format!("{what} within {}, or the delivery's time was up", human(limit)))
}

/// `250-SIZE 5` → `SIZE 5`.
fn text_of(line: &str) -> &str {
    line.get(4..).unwrap_or_default().trim()
}

/// Reads the offers from banner and EHLO lines; only multi-line 250 texts can hold one.
fn offers(lines: &[String]) -> Offers {
    let keyword = |line: &String| {
        let word = text_of(line).split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        line.starts_with("250").then_some(word)
    };
    let words: Vec<String> = lines.iter().filter_map(keyword).skip(1).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    Offers { size: has("SIZE"), utf8: has("SMTPUTF8"), eight_bit: has("8BITMIME") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_is_closed() {
        let bind = || tokio::net::TcpListener::bind("127.0.0.1:0");
        let closed = bind().await.unwrap().local_addr().unwrap();
        let open = bind().await.unwrap();
        let address = open.local_addr().unwrap();
        let found = dial_any(&[closed, address], Duration::from_secs(5)).await.unwrap();
        assert_eq!(found.peer_addr().unwrap(), address);
        assert!(found.nodelay().unwrap());
        let error = dial_any(&[closed], Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn offers_are_read_behind_the_relays_name() {
        let lines = |all: &[&str]| all.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let found = offers(&lines(&["220 x ESMTP", "250-SMTPUTF8", "250-size 10", "250 8BITMIME"]));
        assert_eq!(found, Offers { size: true, utf8: false, eight_bit: true });
        assert_eq!(offers(&lines(&["220 x", "250 x"])), Offers::default());
    }
}
