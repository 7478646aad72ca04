//! The desk's metrics. Labels are closed sets: a route is counted by its class, never by its path, which may be a login link.

use super::problem::Kind;
use crate::kernel::metric::{Counter, Histogram};
use crate::kernel::words;
use crate::web::status::Status;

words! {
    /// The class of a route.
    Route {
        /// Login and logout.
        Login = "login",
        /// A page behind the login.
        Page = "page",
        /// The API.
        Api = "api",
        /// A stream of events.
        Stream = "stream",
        /// What is shown without a login.
        Asset = "asset",
        /// No route at all.
        Other = "other",
    }
}

words! {
    /// The outcome of a login.
    Login {
        /// A link was spent, and there is a session.
        LoggedIn = "logged_in",
        /// The link was spent before, has expired, or never was one.
        RefusedLink = "refused_link",
        /// The token has ended, or never was one.
        RefusedToken = "refused_token",
        /// The proxy's assertion was not believed.
        RefusedAssertion = "refused_assertion",
        /// The user is not in the configuration, or not any more.
        UnknownUser = "unknown_user",
        /// Too many attempts.
        Limited = "limited",
    }
}

/// Requests that were answered.
pub static REQUESTS: Counter<(Route, Status)> =
    Counter::new("maple_router_desk_requests_total", "Requests to the desk, by class of route and of status")
        .by(&["route", "status"]);
/// Time from a request to the head of its answer.
pub static SECONDS: Histogram = Histogram::new(
    "maple_router_desk_request_seconds",
    "One request to the desk, until its answer begins",
    BUCKETS,
);
/// Up to the time-out of a request, in seconds.
const BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];
/// Refusals and failures, as answers name them.
pub static PROBLEMS: Counter<Kind> =
    Counter::new("maple_router_desk_problems_total", "Refusals and failures of the desk, by kind")
        .by(&["kind"]);
/// Logins, and what was refused instead of one.
pub static LOGINS: Counter<Login> = Counter::new(
    "maple_router_desk_logins_total",
    "Logins to the desk, and proofs that were refused, by outcome",
)
.by(&["outcome"]);
