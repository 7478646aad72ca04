//! A lane: the right to one SMTP transaction at a time, with the connection it may have kept from the last one.
//!
//! While a send is under way its connection belongs to the send alone: an error, a timeout or a dropped future drops
//! it, and it is never used again. It comes back only after a transaction that ended in step. If we die in the
//! middle, the relay has either answered the final dot or it has not; what the ledger calls "begun" is then in doubt.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::classify::{Heard, Verdict, classify};
use super::connection::{Behind, Connection, Rcpt};
use super::envelope::{Envelope, Sheet, mail_command};
use super::lanes::Inner;
use super::patience::{Patience, last_call};
use super::reply::remark;
use super::transparency::Data;
use crate::ports::{Fault, Outcome, Stage};

/// See the module's header. Dropping it gives a healthy connection, and the lane, back.
pub struct Lane {
    inner: Arc<Inner>,
    connection: Option<Connection>,
    has_turn: bool,
    /// Last, so that the connection is back before the next holder looks for it.
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("connected", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.inner.give_back(connection);
        }
    }
}

/// A transaction whose MAIL has its reply.
struct Begun {
    connection: Connection,
    heard: Heard,
    /// RCPTs and DATA are written, too.
    together: bool,
}

/// Why there is no connection after RSET.
enum NoReset {
    Lost,
    Astray,
}

impl Lane {
    pub(super) fn new(
        inner: Arc<Inner>,
        connection: Option<Connection>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { inner, connection, has_turn: false, _permit: permit }
    }

    /// Waits for this lane's turn under `max_per_minute`, and while the relay's queue is too long. Where that may be long, call
    /// it before Begin, so that no delivery stands marked as begun while it waits; [`Self::send`] calls it itself when this was
    /// not done. Safe to drop.
    pub async fn turn(&mut self) {
        if !self.has_turn {
            self.inner.pace.turn(&*self.inner.clock).await;
            self.inner.brake.turn(&*self.inner.clock).await;
            self.has_turn = true;
        }
    }

    /// Sends one message, and says of each recipient, in order, what became of it (protocol §4).
    ///
    /// `fence` is asked immediately before the final dot; its refusal drops the connection instead, and every
    /// recipient not yet decided is deferred at stage `Fence`. The whole transaction, the reply to the dot included,
    /// ends within `delivery_deadline`: a relay so slow that less than half of `dot_timeout` is left for that reply
    /// gets no dot either, and they are deferred at stage `Data`.
    pub async fn send(
        &mut self,
        mail: &Envelope<'_>,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
    ) -> Vec<Outcome> {
        let mut sheet = Sheet::of(mail.recipients);
        if !sheet.is_complete() {
            self.turn().await;
            self.has_turn = false;
            let kept = self.connection.take();
            let data = Data::of(mail.message);
            let ended = self.transaction(kept, mail, &data, fence, &mut sheet).await;
            self.connection = ended.filter(Connection::is_settled);
        }
        sheet.into_outcomes()
    }

    /// The steps of one send; the connection comes back where it may be used again.
    async fn transaction(
        &self,
        kept: Option<Connection>,
        mail: &Envelope<'_>,
        data: &Data,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
        sheet: &mut Sheet,
    ) -> Option<Connection> {
        let settings = &self.inner.settings;
        let clock = &self.inner.clock;
        let limit = settings.command_timeout;
        let started = clock.monotonic();
        let patience = Patience::new(settings.delivery_deadline);
        let out_of_step = out_of_step();

        let Begun { mut connection, heard, together } =
            match self.mail(kept, mail, data, &patience, sheet).await {
                Ok(begun) => begun,
                Err(end) => return end,
            };
        if let Verdict::Settled { outcome, reusable } = classify(Stage::Mail, heard) {
            let behind = if reusable { connection.hear_out(limit, &patience).await } else { Behind::End };
            sheet.settle_open(if behind == Behind::Astray { &out_of_step } else { &outcome });
            return if behind == Behind::InStep { Some(connection) } else { None };
        }

        let mut accepted = 0;
        // Put on the sheet once the answers are known to be in step: a wrong one shows only behind them.
        let mut refused = Vec::new();
        for (i, recipient) in mail.recipients.iter().enumerate() {
            if !sheet.is_open(i) {
                continue;
            }
            let heard = connection.ask(Stage::Rcpt, Rcpt(recipient), limit, &patience).await;
            let is_astray = heard.is_astray(Stage::Rcpt);
            match classify(Stage::Rcpt, heard) {
                Verdict::Granted => accepted += 1,
                Verdict::Settled { outcome, reusable: true } => refused.push((i, outcome)),
                // The connection is gone: those already decided keep their outcome, the rest were not sent.
                Verdict::Settled { outcome, reusable: false } => {
                    if !is_astray {
                        sheet.settle_each(refused);
                    }
                    sheet.settle_open(&outcome);
                    return None;
                }
            }
        }
        if accepted == 0 && !together {
            sheet.settle_each(refused);
            return self.reset(connection, &patience).await.ok();
        }

        let heard = connection.ask(Stage::Data, "DATA", limit, &patience).await;
        let is_astray = heard.is_astray(Stage::Data);
        match classify(Stage::Data, heard) {
            Verdict::Granted => sheet.settle_each(refused),
            Verdict::Settled { outcome, reusable: true } => {
                let reset = self.reset(connection, &patience).await;
                if matches!(reset, Err(NoReset::Astray)) {
                    sheet.settle_open(&out_of_step);
                } else {
                    sheet.settle_each(refused);
                    // Without an answer to RSET this may be the refusal of one of the group, one reply late.
                    let is_proven = reset.is_ok() || !together;
                    sheet.settle_open(&if is_proven { outcome } else { put_off(outcome) });
                }
                return reset.ok();
            }
            Verdict::Settled { outcome, reusable: false } => {
                if !is_astray {
                    sheet.settle_each(refused);
                }
                sheet.settle_open(&outcome);
                return None;
            }
        }
        if sheet.is_complete() {
            // The relay waits for a message to nobody. RFC 2920 §3.1 would end it with a dot; but a relay that grants
            // DATA after it refused every recipient may not mean what we heard, and then that dot is a mail: empty,
            // unfenced, to whomever. Without the dot there is none.
            return None;
        }

        let may_finish = || {
            let spent = clock.monotonic().saturating_duration_since(started);
            let wait = last_call(settings, spent)?;
            fence().map_err(|why| Fault { stage: Stage::Fence, reply: remark(&why), about_us: false })?;
            Ok(wait)
        };
        match connection.message(data, settings, &patience, may_finish).await {
            Err(fault) => {
                sheet.settle_open(&Outcome::Deferred(fault));
                None
            }
            Ok((stage, heard)) => match classify(stage, heard) {
                Verdict::Settled { outcome, reusable } => {
                    sheet.settle_open(&outcome);
                    if reusable && stage == Stage::Dot { Some(connection) } else { None }
                }
                // Nothing can be granted here.
                Verdict::Granted => {
                    sheet.settle_open(&out_of_step);
                    None
                }
            },
        }
    }

    /// Gets as far as the reply to MAIL, on the kept connection or, once, on a fresh one where the relay had closed
    /// the kept one while it was idle. Nothing has been sent by then, so nothing can be sent twice.
    async fn mail(
        &self,
        kept: Option<Connection>,
        mail: &Envelope<'_>,
        data: &Data,
        patience: &Patience,
        sheet: &mut Sheet,
    ) -> Result<Begun, Option<Connection>> {
        let settings = &self.inner.settings;
        let mut may_replace = kept.is_some();
        let mut connection = kept;
        loop {
            let mut current = match connection.take() {
                Some(connection) => connection,
                None => Box::pin(Connection::open(settings, patience)).await.map_err(|fault| {
                    sheet.settle_open(&Outcome::Deferred(fault));
                    None
                })?,
            };
            let Some(command) = mail_command(mail, data, &current.offers, sheet) else {
                return Err(Some(current));
            };
            let together = current.put_together(&command, sheet.open(mail.recipients));
            let heard = current.ask(Stage::Mail, &command, settings.command_timeout, patience).await;
            let is_stale =
                matches!(heard, Heard::Broken(_) | Heard::Astray(_) | Heard::Said { code: 421, .. });
            if !(may_replace && is_stale) {
                return Ok(Begun { connection: current, heard, together });
            }
            may_replace = false;
        }
    }

    /// Leaves the transaction without a message, so that the connection can be kept.
    async fn reset(&self, mut connection: Connection, patience: &Patience) -> Result<Connection, NoReset> {
        let limit = self.inner.settings.command_timeout;
        match connection.ask(Stage::Mail, "RSET", limit, patience).await {
            Heard::Said { code: 250, .. } => Ok(connection),
            Heard::Said { code: 421, .. } | Heard::Broken(_) => Err(NoReset::Lost),
            // Nothing else can be said to RSET: it is the answer to something else.
            Heard::Said { .. } | Heard::Astray(_) => Err(NoReset::Astray),
        }
    }
}

/// What is refused is tried again.
fn put_off(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Refused(fault) => Outcome::Deferred(fault),
        Outcome::Accepted { .. } | Outcome::Deferred(_) | Outcome::Unknown(_) | Outcome::NotImplemented => {
            outcome
        }
    }
}

fn out_of_step() -> Outcome {
    let reply = remark("connection dropped: the relay spoke out of turn");
    Outcome::Deferred(Fault { stage: Stage::Data, reply, about_us: true })
}
