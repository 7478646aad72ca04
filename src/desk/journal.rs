//! The desk's journal. A line has the template of a route and never the path: a login link is a secret until it is spent.

use crate::events;

events! {
    /// Events of the desk.
    EventName {
        /// The desk answers.
        DeskListening = "desk_listening" info,
        /// The desk cannot be opened; routing goes on.
        DeskUnavailable = "desk_unavailable" error,
        /// A request was answered.
        DeskRequest = "desk_request" info | debug,
        /// Somebody has logged in.
        DeskLogin = "desk_login" info,
        /// A login was refused.
        DeskLoginRefused = "desk_login_refused" warn,
        /// Somebody decided about an entry of the review queue.
        ReviewDecided = "review_decided" info,
        /// Somebody has logged out.
        DeskLogout = "desk_logout" info,
    }
}
