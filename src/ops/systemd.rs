//! What systemd is told: ready, status, reloading, stopping, and that we are alive.
//!
//! Without `NOTIFY_SOCKET` every call does nothing. A message that cannot be sent is logged and forgotten: systemd's
//! own timeouts judge us then, and no work may fail because of it.

use std::time::Duration;

use sd_notify::NotifyState;

/// The start is over, or a reload is.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// Changes the line `systemctl status` shows.
pub fn status(text: &str) {
    send(&[NotifyState::Status(&one_line(text))]);
}

/// A reload begins. [`ready`] must follow, whether it succeeds or not.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

/// The daemon stops; together with the line, because it may be gone in a moment.
pub fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(&one_line(status))]);
}

/// "Alive"; to be said only by what proves that work goes on.
pub fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// The unit's `WatchdogSec=`: without [`alive`] for so long systemd kills us. `None` where nobody listens.
#[must_use]
pub fn watchdog_limit() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// A line break would start another assignment in systemd's protocol.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(error = %error, "systemd could not be told; its timeouts count as if we were silent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_stays_on_one_line() {
        assert_eq!(one_line("routing\nREADY=1\r"), "routing READY=1 ");
    }

    #[test]
    fn without_a_socket_nothing_happens() {
        assert_eq!(std::env::var_os("NOTIFY_SOCKET"), None, "tests run outside systemd units");
        ready();
        status("up");
        reloading();
        stopping("down");
        assert_eq!(watchdog_limit(), None);
    }
}
