//! What systemd and the daemon owe each other: the unit files, the configuration as shipped, the preflight, and what a
//! real process tells its service manager. A booted systemd is another suite's.

mod harness;
mod notify;
mod outages;
mod preflight;
mod shipped;
mod sweep;
mod watchdog;
