//! Connections, named transactions, migrations, the database contract, and the one readiness fragment.
pub mod contract;
pub mod migrations;
pub mod pool;
