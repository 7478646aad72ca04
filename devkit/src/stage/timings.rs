//! The protocol's timings for tests that kill and wait: everything that can happen happens within seconds.

/// Close to the shortest times that the protocol's inequalities allow, with seconds for a statement, because the
/// machine may be busy. A claim is stuck after 16 s. Settings laid over these win.
pub const SHORT_TIMINGS: &str = r#"
[database]
connect_timeout = "2s"
lock_timeout = "1s"
statement_timeout = "2s"
[smtp]
connect_timeout = "1s"
command_timeout = "1500ms"
dot_timeout = "2500ms"
delivery_deadline = "7s"
[slack]
group_wait = "1s"
timeout = "1s"
lease = "4s"
[routing]
heartbeat = "2100ms"
fence_after = "8500ms"
stuck_after = "16s"
claim_deadline = "60s"
sweep_interval = "1s"
due_grace = "2s"
orphan_after = "15s"
backoff_min = "1s"
backoff_max = "5s"
drain_timeout = "9s"
"#;
