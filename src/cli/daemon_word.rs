//! What the daemon on this host says of itself, for `status`: asked over its loopback endpoint, best effort.

use std::time::Duration;

use serde::Serialize;

use crate::ops::metrics::Dependency;

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
    // Loopback is nobody's proxy's business.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().ok()?;
    let answer = client.get(format!("http://{listen}/metrics")).send().await.ok()?.text().await.ok()?;
    Some(read(&answer))
}

fn read(metrics: &str) -> Vec<BreakerPart> {
    let open = |dependency: &Dependency| {
        let series = format!("maple_router_breaker_open{{dependency=\"{}\"}}", dependency.as_str());
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series))?.trim();
        Some(BreakerPart { dependency: dependency.as_str(), open: value.parse::<f64>().ok()? > 0.0 })
    };
    Dependency::ALL.iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakers_are_read_from_the_metrics() {
        let text = "# TYPE x gauge\nmaple_router_breaker_open{dependency=\"relay\"} 1\n\
                    maple_router_breaker_open{dependency=\"postgres\"} 0\n";
        let part = |dependency, open| BreakerPart { dependency, open };
        assert_eq!(read(text), [part("postgres", false), part("relay", true)]);
        assert_eq!(read("<html>somebody else</html>"), []);
    }
}
