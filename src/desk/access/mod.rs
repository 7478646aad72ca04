//! Who asks, and what they may: decisions (`origin`, `life`, `credential`, `user`) and the login that goes by them.

pub mod credential;
pub mod life;
pub mod origin;
pub mod user;
pub mod visitor;

pub use user::{Role, User, Users};
pub use visitor::{By, Visitor};
