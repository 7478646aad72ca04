//! The person at the terminal: the `operator:NAME` of ledger and journal (data contract, "Audit detail").
//!
//! The login's audit uid comes first: it is set once at login and survives `sudo` and `su`. Reads only.

use nix::unistd::{Uid, User};

/// Audit uid of a process without a login (a timer, a container).
const NO_LOGIN: u32 = u32::MAX;

/// The actor: `operator:alice`; `operator:uid-1001` where the uid has no name.
pub(super) fn actor(env: &crate::config::Environment) -> String {
    let login = std::fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    named(login, env.get("SUDO_UID").and_then(|uid| uid.parse().ok()), Uid::current().as_raw(), |uid| {
        User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
    })
}

/// The first of login, sudo's caller (only root can be believed to name it) and the process itself.
fn named(login: Option<u32>, sudo: Option<u32>, own: u32, name_of: impl Fn(u32) -> Option<String>) -> String {
    let login = login.filter(|uid| *uid != NO_LOGIN);
    let uid = login.or(sudo.filter(|_| own == 0)).unwrap_or(own);
    match name_of(uid) {
        Some(name) => format!("operator:{name}"),
        None => format!("operator:uid-{uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_is_believed_before_sudo_and_sudo_only_of_root() {
        let names = |uid| (uid < 2000).then(|| format!("u{uid}"));
        for (login, sudo, own, expected) in [
            (Some(1001), Some(1002), 0, "operator:u1001"),
            (Some(NO_LOGIN), Some(1002), 0, "operator:u1002"),
            (None, Some(1002), 0, "operator:u1002"),
            (None, Some(1002), 1003, "operator:u1003"),
            (None, None, 0, "operator:u0"),
            (None, None, 5000, "operator:uid-5000"),
        ] {
            assert_eq!(named(login, sudo, own, names), expected, "{login:?} {sudo:?} {own}");
        }
    }
}
