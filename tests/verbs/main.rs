//! The verbs about submissions, as people and scripts meet them: the real binary on a whole stage.

mod audit;
mod delivery_tracking;
mod explain;
mod follow;
mod forms;
mod harness;
mod ids;
mod links;
mod outbox;
mod overrides;
mod overview;
mod render;
mod retention;
mod screening;
mod sweep;
mod terminal;
mod test_send;
mod trouble;
mod without_broker;
