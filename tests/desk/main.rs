//! The desk's ground as browsers and programs meet it: the real server on a real port, its credentials in a real PostgreSQL as
//! `forms_app`. What pages and API will show stands here as a few plain routes.

mod api;
mod assertions;
mod bounds;
mod harness;
mod idempotency;
mod links;
mod opening;
mod proxy;
mod requests;
mod sessions;
mod site;
mod stopping;
mod tokens;
mod verbs;
mod works;
