//! Contract of systemd and the daemon: the unit files, the configuration as shipped, the preflight, and a real
//! process's messages to its service manager. A booted systemd is another suite's.

mod harness;
mod notify;
mod outages;
mod preflight;
mod shipped;
mod sweep;
mod watchdog;
