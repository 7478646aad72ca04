//! The people of the desk, as the host's file has them at this moment. Pure but for the configuration in force.
//!
//! Invariant: nothing here is kept. A user who is removed from the file, or whose role is lowered, is so at the next request
//! after the reload.

use std::sync::Arc;

use tokio::sync::watch;

pub use crate::config::Role;
use crate::config::{Config, DeskUser};

/// A person of `[desk.users]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name of the section: what entries, records and logs have.
    pub name: String,
    /// The address that a proxy asserts, and that what is assigned is mailed to.
    pub email: String,
    /// What the user may do now.
    pub role: Role,
}

/// Everybody in the configuration in force. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Users(watch::Receiver<Arc<Config>>);

impl Users {
    /// The users of the configuration that is received.
    #[must_use]
    pub fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        Self(config)
    }

    /// Returns the user of this name, if there is one.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<User> {
        self.0.borrow().desk.users.get_key_value(name).map(user)
    }

    /// Returns the user of this address, if there is one. Addresses differ by more than the case of their letters.
    #[must_use]
    pub fn with_email(&self, email: &str) -> Option<User> {
        self.0.borrow().desk.users.iter().find(|(_, user)| user.email.eq_ignore_ascii_case(email)).map(user)
    }

    /// Returns everybody, by name.
    #[must_use]
    pub fn all(&self) -> Vec<User> {
        self.0.borrow().desk.users.iter().map(user).collect()
    }
}

fn user((name, user): (&String, &DeskUser)) -> User {
    User { name: name.clone(), email: user.email.clone(), role: user.role }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_file_counts_at_once() {
        let mut config = Config::default();
        let alice = DeskUser { email: "Alice@example.org".to_owned(), role: Role::Admin };
        config.desk.users.insert("alice".to_owned(), alice.clone());
        let (file, seen) = watch::channel(Arc::new(config.clone()));
        let users = Users::new(seen);
        assert_eq!(users.named("alice").map(|user| user.role), Some(Role::Admin));
        assert_eq!(users.with_email("alice@EXAMPLE.org").map(|user| user.name).as_deref(), Some("alice"));
        assert_eq!((users.named("bob"), users.with_email("bob@example.org")), (None, None));
        config.desk.users.insert("alice".to_owned(), DeskUser { role: Role::Viewer, ..alice });
        file.send_replace(Arc::new(config.clone()));
        assert_eq!(users.named("alice").map(|user| user.role), Some(Role::Viewer));
        config.desk.users.clear();
        file.send_replace(Arc::new(config));
        assert_eq!(users.all(), vec![]);
    }
}
