//! The client of the help desk against a server that says what the test wants: every line of the contract's outcome table, bad
//! input, throttles, searches.

mod bad_input;
mod creating;
mod harness;
mod limits;
mod searching;
