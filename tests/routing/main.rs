//! The mission end to end: the real binary on a real database as `forms_app`, a real broker, a real SMTP dialogue.

mod about_us;
mod bad_input;
mod believed;
mod concurrency;
mod duplicates;
mod farewell;
mod flow;
mod harness;
mod insert_only;
mod late_facts;
mod laws;
mod links;
mod locked_rows;
mod lost_answers;
mod outages;
mod outcomes;
mod pauses;
mod privacy;
mod readiness;
mod reload;
mod replay;
mod spent;
mod stop;
mod sweep;
mod waiting;
mod wakeups;
