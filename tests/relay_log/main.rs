//! The relay's log and queue: lines as Postfix 3.7 really writes them and as strangers would like them to be read, files
//! that are rotated under a reader, journals, and the queue's own protocol.

mod cost;
mod files;
mod forged;
mod harness;
mod journals;
mod lines;
mod queue;
