//! Alerts against a real PostgreSQL as `forms_app` and a webhook that speaks Slack's protocol: every failure is
//! notified, none without end, and Slack being away costs nothing but time.

mod clock;
mod crowds;
mod grouping;
mod harness;
mod lost;
mod outages;
mod process;
mod rows;
mod shapes;
mod stories;
