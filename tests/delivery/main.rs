//! Honest delivery, seen as a whole: a real router before a real Postfix, which relays to an upstream that is as
//! bad as a case asks for. Each recipient's result in Postfix's log must stand in ledger, trail, metrics, `explain`
//! and Slack. Needs root, because Postfix does.

mod doubt;
mod harness;
mod hostile;
mod interruptions;
mod kills;
mod refused;
mod upstream;
