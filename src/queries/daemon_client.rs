//! State of the daemon on this host, for `status` and `explain`: asked over its loopback endpoint, best effort.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::Card;
use crate::ops::dependency::Dependency;
use crate::routing::explain::{Daemon, Reason};

/// Limit of the wait for the daemon's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The cards of the program: they say which breakers there are.
pub(crate) type Rooms = &'static [&'static Card];

/// One breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BreakerPart {
    pub(crate) dependency: &'static str,
    pub(crate) open: bool,
}

/// The breakers of the daemon that listens at `listen`; `None` where none answers.
pub(crate) async fn breakers(listen: &str, rooms: Rooms) -> Option<Vec<BreakerPart>> {
    Some(read(&ask(listen, "/metrics").await?, rooms))
}

/// The state of the daemon that listens at `listen`: whether it takes work, and why not.
pub(crate) async fn readiness(listen: &str, rooms: Rooms) -> Daemon {
    match ask(listen, "/-/ready").await.and_then(|answer| serde_json::from_str(&answer).ok()) {
        Some(ready) => answer(ready, rooms),
        None => Daemon::Silent { listen: listen.to_owned() },
    }
}

async fn ask(listen: &str, path: &str) -> Option<String> {
    // A proxy has no part in loopback.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().ok()?;
    client.get(format!("http://{listen}{path}")).send().await.ok()?.text().await.ok()
}

/// The body of `/-/ready`.
#[derive(Debug, Deserialize)]
struct Ready {
    reasons: Vec<ShutReason>,
}

#[derive(Debug, Deserialize)]
struct ShutReason {
    name: String,
    detail: String,
}

/// Pauses are read from their store, which says who and why.
fn answer(ready: Ready, rooms: Rooms) -> Daemon {
    let reasons: Vec<Reason> = ready
        .reasons
        .into_iter()
        .map(|ShutReason { name, detail }| Reason { name, detail })
        .filter(|reason| reason.name != "paused")
        .collect();
    let breaker = |reason: &Reason| dependencies(rooms).any(|known| known.label() == reason.name);
    if reasons.is_empty() {
        Daemon::Working
    } else if reasons.iter().all(breaker) {
        Daemon::BreakerOpen { reasons }
    } else {
        Daemon::Idle { reasons }
    }
}

fn read(metrics: &str, rooms: Rooms) -> Vec<BreakerPart> {
    let open = |dependency: Dependency| {
        let series = format!("maple_router_breaker_open{{dependency=\"{}\"}}", dependency.label());
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series))?.trim();
        Some(BreakerPart { dependency: dependency.label(), open: value.parse::<f64>().ok()? > 0.0 })
    };
    dependencies(rooms).filter_map(open).collect()
}

fn dependencies(rooms: Rooms) -> impl Iterator<Item = Dependency> {
    rooms.iter().flat_map(|room| room.incidents).filter_map(|key| Dependency::of(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::ROOMS;

    #[test]
    fn readiness_tells_a_breaker_from_a_start() {
        let answered = |names: &[&str]| {
            let one = |name: &&str| ShutReason { name: (*name).to_owned(), detail: String::new() };
            answer(Ready { reasons: names.iter().map(one).collect() }, ROOMS)
        };
        assert_eq!(answered(&[]), Daemon::Working);
        assert_eq!(answered(&["paused"]), Daemon::Working);
        assert!(
            matches!(answered(&["relay", "paused"]), Daemon::BreakerOpen { reasons } if reasons.len() == 1)
        );
        assert!(matches!(answered(&["relay", "starting"]), Daemon::Idle { reasons } if reasons.len() == 2));
        assert!(matches!(answered(&["stopping"]), Daemon::Idle { .. }));
    }

    #[test]
    fn breakers_are_read_from_the_metrics() {
        let text = "# TYPE x gauge\nmaple_router_breaker_open{dependency=\"relay\"} 1\n\
                    maple_router_breaker_open{dependency=\"postgres\"} 0\n";
        let part = |dependency, open| BreakerPart { dependency, open };
        assert_eq!(read(text, ROOMS), [part("postgres", false), part("relay", true)]);
        assert_eq!(read("<html>somebody else</html>", ROOMS), []);
    }
}
