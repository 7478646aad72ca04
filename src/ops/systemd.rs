//! The notifications to systemd: ready, status, reloading, stopping, and the watchdog's "alive".
//!
//! Without `NOTIFY_SOCKET` every call does nothing. A message that cannot be sent is logged and forgotten: systemd's own
//! timeouts then judge us, and no work may fail because of it.

use std::time::Duration;

use sd_notify::NotifyState;

/// Reports that the start, or a reload, is over.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// Changes the line of `systemctl status`.
pub fn status(text: &str) {
    send(&[NotifyState::Status(&one_line(text))]);
}

/// Reports the start of a reload. [`ready`] must follow, whether it succeeds or not.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

/// Reports that the daemon stops; together with the line, because the process may be gone in a moment.
pub fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(&one_line(status))]);
}

/// Reports "alive"; to be called only by a proof that work goes on.
pub fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// The unit's `WatchdogSec=`: systemd kills us after this long without [`alive`]. `None` where no watchdog is set.
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
        tracing::warn!(error = %error, "systemd could not be notified; its timeouts count as if we were silent");
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
