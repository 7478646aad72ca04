//! The kill matrix: real processes are killed, stopped and frozen at every named point between two commits or network
//! steps, and others take over. The points are seen from outside (`devkit::trap`); the product has no hooks for this.
//! And the faults of the network: a database, a broker, a relay that go, stall, or seem to be there.

#![expect(clippy::print_stdout, reason = "a point that is played again is printed")]

mod collecting;
mod frozen;
mod harness;
mod killed;
#[path = "../routing/laws.rs"]
mod laws;
mod lost;
mod outages;
mod points;
mod promoting;
mod publishing;
mod relay;
mod reviewed;
mod screening;
mod stopped;
