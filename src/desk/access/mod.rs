//! Who asks, and what they may: decisions (`origin`, `presented`, `life`, `credential`,
//! `assertion`, `learner`, `user`) and the `authenticator` that goes by them.

pub mod assertion;
pub mod authenticator;
pub mod credential;
pub mod keys;
pub mod learner;
pub mod life;
pub mod origin;
pub mod presented;
pub mod user;
pub mod visitor;

pub use user::{Role, User, Users};
pub use visitor::{By, Visitor};
