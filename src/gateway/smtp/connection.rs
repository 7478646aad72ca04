//! A connection: the right to one SMTP transaction at a time, with the TCP connection kept from the last one, if any.
//!
//! While a send is under way its TCP connection belongs to the send alone: an error, a timeout or a dropped future drops
//! it, and it is never used again. Only a transaction that ended in step gives it back. If we die in the middle, the relay
//! has either answered the final dot or it has not; the send whose intent the ledger has (`begun`) is then in doubt.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::classify::{ReplyEffect, StageReply, classify};
use super::dialogue::{Behind, Dialogue, Rcpt};
use super::envelope::{Envelope, Sheet, mail_command};
use super::patience::{Patience, last_call};
use super::reply::remark;
use super::shared::Inner;
use super::transparency::Data;
use crate::ports::{Fault, Outcome, Stage};

/// The right to one transaction (module header). Dropping it gives a healthy TCP connection, and the permit, back.
pub struct Connection {
    inner: Arc<Inner>,
    dialogue: Option<Dialogue>,
    is_within_rate: bool,
    /// Last field, so that the TCP connection is back before the next owner of the permit looks for it.
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("connected", &self.dialogue.is_some()).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(dialogue) = self.dialogue.take() {
            self.inner.give_back(dialogue);
        }
    }
}

/// A transaction whose MAIL has its reply.
struct Opened {
    dialogue: Dialogue,
    reply: StageReply,
    /// The group's RCPTs and DATA are written, too.
    together: bool,
}

/// Why there is no connection after RSET.
enum NoReset {
    Lost,
    Astray,
}

impl Connection {
    pub(super) fn new(inner: Arc<Inner>, dialogue: Option<Dialogue>, permit: OwnedSemaphorePermit) -> Self {
        Self { inner, dialogue, is_within_rate: false, _permit: permit }
    }

    /// Waits for the rate limit `max_per_minute`, and while the relay's queue is too long. Where that may be long,
    /// call it before Begin, so that no delivery's intent stands recorded while it waits; [`Self::send`] calls it
    /// itself when the caller did not. Safe to drop.
    pub async fn wait_for_rate_limit(&mut self) {
        if !self.is_within_rate {
            self.inner.rate_limit.wait_for_rate_limit(&*self.inner.clock).await;
            self.inner.throttle.wait_for_rate_limit(&*self.inner.clock).await;
            self.is_within_rate = true;
        }
    }

    /// Sends one message, and reports the outcome of each recipient, in order (protocol §4).
    ///
    /// `fence` is asked immediately before the final dot; its refusal drops the connection instead, and every
    /// recipient not yet decided is deferred at stage `Fence`. The whole transaction, the reply to the dot
    /// included, ends within `delivery_deadline`: a relay so slow that less than half of `dot_timeout` is left for
    /// that reply gets no dot either, and the undecided recipients are deferred at stage `Data`.
    pub async fn send(
        &mut self,
        mail: &Envelope<'_>,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
    ) -> Vec<Outcome> {
        let mut sheet = Sheet::of(mail.recipients);
        if !sheet.is_complete() {
            self.wait_for_rate_limit().await;
            self.is_within_rate = false;
            let kept = self.dialogue.take();
            let data = Data::of(mail.message);
            let ended = self.transaction(kept, mail, &data, fence, &mut sheet).await;
            self.dialogue = ended.filter(Dialogue::is_settled);
        }
        sheet.into_outcomes()
    }

    /// The steps of one send; returns the dialogue where it may be used again.
    async fn transaction(
        &self,
        kept: Option<Dialogue>,
        mail: &Envelope<'_>,
        data: &Data,
        fence: &(dyn Fn() -> Result<(), String> + Sync),
        sheet: &mut Sheet,
    ) -> Option<Dialogue> {
        let settings = &self.inner.settings;
        let clock = &self.inner.clock;
        let limit = settings.command_timeout;
        let started = clock.monotonic();
        let patience = Patience::new(settings.delivery_deadline);
        let out_of_step = out_of_step();

        let Opened { mut dialogue, reply, together } =
            match self.mail(kept, mail, data, &patience, sheet).await {
                Ok(opened) => opened,
                Err(end) => return end,
            };
        if let ReplyEffect::Settled { outcome, reusable } = classify(Stage::Mail, reply) {
            let behind = if reusable { dialogue.hear_out(limit, &patience).await } else { Behind::End };
            sheet.settle_open(if behind == Behind::Astray { &out_of_step } else { &outcome });
            return if behind == Behind::InStep { Some(dialogue) } else { None };
        }

        let mut accepted = 0;
        // Put on the sheet once the answers are in step: a wrong one shows only in the replies after it.
        let mut refused = Vec::new();
        for (i, recipient) in mail.recipients.iter().enumerate() {
            if !sheet.is_open(i) {
                continue;
            }
            let reply = dialogue.ask(Stage::Rcpt, Rcpt(recipient), limit, &patience).await;
            let is_astray = reply.is_astray(Stage::Rcpt);
            match classify(Stage::Rcpt, reply) {
                ReplyEffect::Granted => accepted += 1,
                ReplyEffect::Settled { outcome, reusable: true } => refused.push((i, outcome)),
                // The connection is gone: recipients already decided keep their outcome, the rest were not sent.
                ReplyEffect::Settled { outcome, reusable: false } => {
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
            return self.reset(dialogue, &patience).await.ok();
        }

        let reply = dialogue.ask(Stage::Data, "DATA", limit, &patience).await;
        let is_astray = reply.is_astray(Stage::Data);
        match classify(Stage::Data, reply) {
            ReplyEffect::Granted => sheet.settle_each(refused),
            ReplyEffect::Settled { outcome, reusable: true } => {
                let reset = self.reset(dialogue, &patience).await;
                if matches!(reset, Err(NoReset::Astray)) {
                    sheet.settle_open(&out_of_step);
                } else {
                    sheet.settle_each(refused);
                    // Without an answer to RSET this reply may be the refusal of one of the group, one reply late.
                    let is_proven = reset.is_ok() || !together;
                    sheet.settle_open(&if is_proven { outcome } else { put_off(outcome) });
                }
                return reset.ok();
            }
            ReplyEffect::Settled { outcome, reusable: false } => {
                if !is_astray {
                    sheet.settle_each(refused);
                }
                sheet.settle_open(&outcome);
                return None;
            }
        }
        if sheet.is_complete() {
            // The relay waits for a message to nobody. RFC 2920 §3.1 would end it with a dot; but a relay that grants
            // DATA after it refused every recipient may not mean what we read, and then that dot is a mail: empty,
            // unfenced, to whomever. Without the dot there is none.
            return None;
        }

        let may_finish = || {
            let spent = clock.monotonic().saturating_duration_since(started);
            let wait = last_call(settings, spent)?;
            fence().map_err(|why| Fault { stage: Stage::Fence, reply: remark(&why), about_us: false })?;
            Ok(wait)
        };
        match dialogue.message(data, settings, &patience, may_finish).await {
            Err(fault) => {
                sheet.settle_open(&Outcome::Deferred(fault));
                None
            }
            Ok((stage, reply)) => match classify(stage, reply) {
                ReplyEffect::Settled { outcome, reusable } => {
                    sheet.settle_open(&outcome);
                    if reusable && stage == Stage::Dot { Some(dialogue) } else { None }
                }
                // Nothing can be granted here.
                ReplyEffect::Granted => {
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
        kept: Option<Dialogue>,
        mail: &Envelope<'_>,
        data: &Data,
        patience: &Patience,
        sheet: &mut Sheet,
    ) -> Result<Opened, Option<Dialogue>> {
        let settings = &self.inner.settings;
        let mut may_replace = kept.is_some();
        let mut dialogue = kept;
        loop {
            let mut current = match dialogue.take() {
                Some(dialogue) => dialogue,
                None => Box::pin(Dialogue::open(settings, patience)).await.map_err(|fault| {
                    sheet.settle_open(&Outcome::Deferred(fault));
                    None
                })?,
            };
            let Some(command) = mail_command(mail, data, &current.offers, sheet) else {
                return Err(Some(current));
            };
            let together = current.put_together(&command, sheet.open(mail.recipients));
            let reply = current.ask(Stage::Mail, &command, settings.command_timeout, patience).await;
            let is_stale = matches!(
                reply,
                StageReply::Broken(_) | StageReply::Astray(_) | StageReply::Said { code: 421, .. }
            );
            if !(may_replace && is_stale) {
                return Ok(Opened { dialogue: current, reply, together });
            }
            may_replace = false;
        }
    }

    /// Leaves the transaction without a message, so that the connection can be kept.
    async fn reset(&self, mut dialogue: Dialogue, patience: &Patience) -> Result<Dialogue, NoReset> {
        let limit = self.inner.settings.command_timeout;
        match dialogue.ask(Stage::Mail, "RSET", limit, patience).await {
            StageReply::Said { code: 250, .. } => Ok(dialogue),
            StageReply::Said { code: 421, .. } | StageReply::Broken(_) => Err(NoReset::Lost),
            // No other reply to RSET is possible: this one answers something else.
            StageReply::Said { .. } | StageReply::Astray(_) => Err(NoReset::Astray),
        }
    }
}

/// Turns a refusal into a deferral: the delivery is tried again.
fn put_off(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Refused(fault) => Outcome::Deferred(fault),
        Outcome::Accepted { .. }
        | Outcome::Deferred(_)
        | Outcome::Unknown(_)
        | Outcome::Created { .. }
        | Outcome::NotImplemented => outcome,
    }
}

fn out_of_step() -> Outcome {
    let reply = remark("connection dropped: the relay spoke out of turn");
    Outcome::Deferred(Fault { stage: Stage::Data, reply, about_us: true })
}
