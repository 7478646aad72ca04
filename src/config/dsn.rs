//! The two questions that configuration asks of a PostgreSQL connection string: does it carry a password, and does
//! it stay on this machine? Connecting is `db::pool`'s business.
//!
//! Understands both libpq notations. An unreadable string counts as remote, so that a rule errs on the strict side.

/// Facts of a connection string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dsn {
    /// The string has a non-empty password.
    pub has_password: bool,
    /// Every host in it is a unix socket or a loopback address (libpq's default, no host at all, is a socket).
    pub local: bool,
}

impl Dsn {
    /// Reads either notation.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text.split_once("://") {
            Some((_, rest)) => Self::from_uri(rest),
            None => Self::from_pairs(text),
        }
    }

    fn from_uri(rest: &str) -> Self {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.split('/').next().unwrap_or_default();
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut has_password = user.split_once(':').is_some_and(|(_, password)| !password.is_empty());
        let mut named: Vec<String> =
            hosts.split(',').filter(|h| !h.is_empty()).map(|h| without_port(h).to_owned()).collect();
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match key.as_ref() {
                "password" => has_password |= !value.is_empty(),
                "host" | "hostaddr" => named.extend(value.split(',').map(str::to_owned)),
                _ => {}
            }
        }
        Self { has_password, local: named.iter().all(|host| is_local(host)) }
    }

    fn from_pairs(text: &str) -> Self {
        let mut dsn = Self { has_password: false, local: true };
        for (key, value) in pairs(text) {
            match key.as_str() {
                "password" => dsn.has_password |= !value.is_empty(),
                "host" | "hostaddr" => dsn.local &= value.split(',').all(is_local),
                _ => {}
            }
        }
        dsn
    }
}

/// `host:port`, `[v6]:port` or `host`, without the port.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn is_local(host: &str) -> bool {
    let host = host.trim();
    host.is_empty()
        || host.starts_with('/')
        || host.starts_with('@')
        || host.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("%2f"))
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// `key = value` pairs; values may be quoted with `'`, in which `\` escapes.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let mut value = String::new();
        let after = after.trim_start();
        let quoted = after.starts_with('\'');
        let body = after.strip_prefix('\'').unwrap_or(after);
        let mut chars = body.char_indices();
        let mut end = body.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                '\'' if quoted => {
                    end = at + 1;
                    break;
                }
                c if c.is_whitespace() && !quoted => {
                    end = at;
                    break;
                }
                c => value.push(c),
            }
        }
        found.push((key.trim().to_owned(), value));
        rest = body[end..].trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Dsn;

    #[test]
    fn passwords_and_hosts_are_seen_in_every_notation() {
        // (connection string, has_password, local)
        let cases = [
            ("postgres://forms_app@db.example:5432/forms?sslmode=verify-full", false, false),
            ("postgres://forms_app:pw@db.example/forms", true, false),
            ("postgresql://forms_app:p%40w@127.0.0.1:5432/forms", true, true),
            ("postgres://forms_app:@localhost/forms", false, true),
            ("postgres://forms_app@/forms?password=pw&host=db.example", true, false),
            ("postgres://a:b@c@db.example/forms", true, false),
            ("postgres:///forms", false, true),
            ("postgres://u@%2Frun%2Fpostgresql/forms", false, true),
            ("postgres://u@[::1]:5432/forms", false, true),
            ("postgres://u@[2001:db8::1]:5432/forms", false, false),
            ("postgres://u:p@localhost:1,db.example:2/forms", true, false),
            ("postgres://u:p@localhost/forms?hostaddr=192.0.2.7", true, false),
            ("postgres://u:p@localhost.example/forms", true, false),
            ("host=/tmp/pg user=forms_app dbname=forms", false, true),
            ("host=db.example user=u password='p w' dbname=forms", true, false),
            ("host = db.example password = ''", false, false),
            (r"user=u password='it\'s' host=127.0.0.1", true, true),
            ("user=u dbname=forms", false, true),
            ("", false, true),
        ];
        for (text, has_password, local) in cases {
            assert_eq!(Dsn::read(text), Dsn { has_password, local }, "{text}");
        }
    }
}
