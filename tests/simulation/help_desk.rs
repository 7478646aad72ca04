//! A process's way to the help desk: a door of its own before the one account, real HTTP with short real time-outs, and
//! everything that waits (pace, looks, doubt window, probes) on the simulated clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devkit::help_desk::{Act, Call, Door, HelpDesk, HelpDeskOptions, Limits, Rule, Stage};
use futures::FutureExt as _;
use maple_router::config::Config;
use maple_router::gateway::happyfox::HelpDeskClient;
use maple_router::ops::breaker::Probe;
use maple_router::ops::gate::Gate;
use maple_router::parts;
use maple_router::ports::Clock;
use maple_router::routing::follow::extra_tickets::ExtraTickets;
use maple_router::routing::worker::prepare::ticket::TicketRules;
use maple_router::routing::worker::{TicketParts, Tickets};

use crate::ops::{DAEMONS, Step, Trouble};

/// The category of every ticket.
pub(crate) const CATEGORY: &str = "General";

/// The help desk of a world. Its limits count real time, which says nothing here.
pub(crate) async fn start(dir: &Path) -> HelpDesk {
    let limits = Limits { gets: usize::MAX, posts: usize::MAX, ..Limits::default() };
    let desk = HelpDesk::start(HelpDeskOptions { limits, ..HelpDeskOptions::default() });
    let desk = desk.await.expect("a help desk");
    desk.settings(dir).expect("the credentials' files");
    desk
}

/// Makes a configuration lead to a help desk at `address`, with the credentials in `dir`.
pub(crate) fn configure(config: &mut Config, address: String, dir: &Path) {
    let settings = &mut config.happyfox;
    settings.base_url = Some(address);
    settings.api_key_file = Some(dir.join("happyfox-api-key"));
    settings.auth_code_file = Some(dir.join("happyfox-auth-code"));
    settings.fallback_contact_email = Some("forms@greenpeace.org".to_owned());
    // Real time, and only a fault waits for it.
    settings.connect_timeout = Duration::from_millis(400);
    settings.read_timeout = Duration::from_millis(400);
    settings.timeout = Duration::from_millis(800);
}

/// The rules of tickets; their gate is another one later.
pub(crate) fn rules(config: &Config) -> TicketRules {
    TicketRules { settings: config.happyfox.clone(), gate: Gate::new() }
}

/// The carrier of tickets, as `daemon/help_desk.rs` has it.
pub(crate) fn carrier(config: &Config, state: &Path, gate: &Gate, clock: &Arc<dyn Clock>) -> Tickets {
    let client = parts::help_desk(config, Arc::clone(clock)).expect("a client").expect("a help desk");
    client.set_share(u32::try_from(DAEMONS).expect("a few"));
    Tickets::new(TicketParts {
        client,
        doubt_window: config.happyfox.doubt_window,
        gate: gate.clone(),
        // Nobody is told: a second ticket is a violation here.
        extra: ExtraTickets::new(state),
        clock: Arc::clone(clock),
    })
}

/// The breaker's probe, as `daemon/outages.rs` has it.
pub(crate) fn probe(client: &Arc<HelpDeskClient>) -> Probe {
    let client = Arc::clone(client);
    Box::new(move || {
        let client = Arc::clone(&client);
        async move { client.probe().await.map(drop).map_err(|unanswered| unanswered.fault.reply.reply) }
            .boxed()
    })
}

pub(crate) fn stage(step: Step) -> Stage {
    match step {
        Step::Asked => Stage::Head,
        Step::Read => Stage::Body,
        Step::Made => Stage::Answer,
    }
}

/// Makes the door misbehave so many times.
pub(crate) fn trouble(door: &Door, trouble: Trouble, times: u64) {
    let (stage, call, act) = match trouble {
        Trouble::AnswerLost => (Stage::Answer, Call::Create, Act::Disconnect),
        Trouble::Busy => (Stage::Body, Call::Create, Act::Status(503)),
        Trouble::SearchAway => (Stage::Body, Call::Search, Act::Status(503)),
        Trouble::SearchSilent => (Stage::Body, Call::Search, Act::Silence),
    };
    door.rule(Rule::at(stage).call(call).times(times).act(act));
}
