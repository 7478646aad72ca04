//! The mission end to end: the real binary on a real database as `forms_app`, a real broker, a real SMTP dialogue.

mod about_us;
mod bad_input;
mod concurrency;
mod duplicates;
mod flow;
mod harness;
mod insert_only;
mod laws;
mod links;
mod outcomes;
mod privacy;
mod readiness;
mod reload;
mod spent;
mod stop;
