//! State of the daemon on this host, for `status` and `explain`: asked over its loopback endpoint, best effort.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::Card;
use crate::kernel::metric::Metric as _;
use crate::ops::dependency::Dependency;
use crate::routing::explain::tickets::HelpDesk;
use crate::routing::explain::{Daemon, Reason};
use crate::routing::metrics::HELP_DESK_THROTTLED;

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

/// The help desk, as the daemon that listens at `listen` sees it.
pub(crate) async fn help_desk(listen: &str) -> HelpDesk {
    ask(listen, "/metrics").await.map_or(HelpDesk::NotAsked, |metrics| desk(&metrics))
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
        let open = is_set(metrics, &series(dependency))?;
        Some(BreakerPart { dependency: dependency.label(), open })
    };
    dependencies(rooms).filter_map(open).collect()
}

fn desk(metrics: &str) -> HelpDesk {
    let throttles = is_set(metrics, HELP_DESK_THROTTLED.name()).unwrap_or(false);
    match is_set(metrics, &series(Dependency::HELP_DESK)) {
        None => HelpDesk::NotAsked,
        Some(_) if throttles => HelpDesk::Throttles,
        Some(true) => HelpDesk::Out,
        Some(false) => HelpDesk::Works,
    }
}

fn series(dependency: Dependency) -> String {
    format!("maple_router_breaker_open{{dependency=\"{}\"}}", dependency.label())
}

/// Whether a series is above 0; `None` where there is none.
fn is_set(metrics: &str, series: &str) -> Option<bool> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(series))?.trim();
    Some(value.parse::<f64>().ok()? > 0.0)
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
        for (open, throttled, expected) in
            [(0, 0, HelpDesk::Works), (1, 0, HelpDesk::Out), (1, 1, HelpDesk::Throttles)]
        {
            let text = format!(
                "maple_router_breaker_open{{dependency=\"help_desk\"}} {open}\nmaple_router_help_desk_throttled {throttled}\n"
            );
            assert_eq!(desk(&text), expected);
        }
        assert_eq!(desk("<html>somebody else</html>"), HelpDesk::NotAsked);
    }
}
