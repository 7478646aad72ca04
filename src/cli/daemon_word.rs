//! What the daemon on this host says of itself, for `status` and `explain`: asked over its loopback endpoint, best effort.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ops::metrics::Dependency;
use crate::routing::explain::{Daemon, Reason};

/// A daemon that does not answer by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// One breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct BreakerPart {
    pub(super) dependency: &'static str,
    pub(super) open: bool,
}

/// The breakers of the daemon that listens at `listen`; nothing where none answers.
pub(super) async fn breakers(listen: &str) -> Option<Vec<BreakerPart>> {
    Some(read(&ask(listen, "/metrics").await?))
}

/// Whether the daemon that listens at `listen` takes work, and why not.
pub(super) async fn readiness(listen: &str) -> Daemon {
    match ask(listen, "/-/ready").await.and_then(|answer| serde_json::from_str(&answer).ok()) {
        Some(ready) => heard(ready),
        None => Daemon::Silent { listen: listen.to_owned() },
    }
}

async fn ask(listen: &str, path: &str) -> Option<String> {
    // Loopback is nobody's proxy's business.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().ok()?;
    client.get(format!("http://{listen}{path}")).send().await.ok()?.text().await.ok()
}

/// The body of `/-/ready`.
#[derive(Debug, Deserialize)]
struct Ready {
    reasons: Vec<Told>,
}

#[derive(Debug, Deserialize)]
struct Told {
    name: String,
    detail: String,
}

/// Pauses are read from where they are kept, which tells who and why.
fn heard(ready: Ready) -> Daemon {
    let reasons: Vec<Reason> = ready
        .reasons
        .into_iter()
        .map(|Told { name, detail }| Reason { name, detail })
        .filter(|reason| reason.name != "paused")
        .collect();
    let breaker = |reason: &Reason| Dependency::ALL.iter().any(|known| known.label() == reason.name);
    if reasons.is_empty() {
        Daemon::Working
    } else if reasons.iter().all(breaker) {
        Daemon::BreakerOpen { reasons }
    } else {
        Daemon::Idle { reasons }
    }
}

fn read(metrics: &str) -> Vec<BreakerPart> {
    let open = |dependency: &Dependency| {
        let series = format!("maple_router_breaker_open{{dependency=\"{}\"}}", dependency.label());
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series))?.trim();
        Some(BreakerPart { dependency: dependency.label(), open: value.parse::<f64>().ok()? > 0.0 })
    };
    Dependency::ALL.iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_tells_a_breaker_from_a_start() {
        let told = |names: &[&str]| {
            let one = |name: &&str| Told { name: (*name).to_owned(), detail: String::new() };
            heard(Ready { reasons: names.iter().map(one).collect() })
        };
        assert_eq!(told(&[]), Daemon::Working);
        assert_eq!(told(&["paused"]), Daemon::Working);
        assert!(matches!(told(&["relay", "paused"]), Daemon::BreakerOpen { reasons } if reasons.len() == 1));
        assert!(matches!(told(&["relay", "starting"]), Daemon::Idle { reasons } if reasons.len() == 2));
        assert!(matches!(told(&["stopping"]), Daemon::Idle { .. }));
    }

    #[test]
    fn breakers_are_read_from_the_metrics() {
        let text = "# TYPE x gauge\nmaple_router_breaker_open{dependency=\"relay\"} 1\n\
                    maple_router_breaker_open{dependency=\"postgres\"} 0\n";
        let part = |dependency, open| BreakerPart { dependency, open };
        assert_eq!(read(text), [part("postgres", false), part("relay", true)]);
        assert_eq!(read("<html>somebody else</html>"), []);
    }
}
