//! The two files of an instance. Pure, but for the package's own list of services.

use std::path::Path;

use anyhow::{Context, Result};

use super::PostfixOptions;

/// The services as the package has them; it is there also where nothing was configured.
const SERVICES: &str = "/usr/share/postfix/master.cf.dist";

/// Mails are not delivered here, nothing is looked up, only this host may send, and all that takes long takes a moment.
pub(super) fn main_cf(root: &Path, upstream: u16, options: &PostfixOptions) -> String {
    let root = root.display();
    let (retry, lifetime) = (options.retry.as_secs().max(1), options.lifetime.as_secs());
    let longest = retry * 2;
    let mut text = format!(
        "compatibility_level = 3.6
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
data_directory = {root}/data
queue_directory = {root}/spool
maillog_file = {root}/mail.log
maillog_file_prefixes = {root}
mail_owner = postfix
setgid_group = postdrop
sendmail_path = /usr/sbin/sendmail
newaliases_path = /usr/bin/newaliases
mailq_path = /usr/bin/mailq
html_directory = no
manpage_directory = /usr/share/man
sample_directory = no
readme_directory = no
myhostname = postfix.test
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
append_dot_mydomain = no
biff = no
relayhost = [127.0.0.1]:{upstream}
smtp_dns_support_level = disabled
smtp_tls_security_level = none
smtpd_tls_security_level = none
in_flow_delay = 0
minimal_backoff_time = {retry}s
maximal_backoff_time = {longest}s
queue_run_delay = {retry}s
transport_retry_time = {retry}s
maximal_queue_lifetime = {lifetime}s
bounce_queue_lifetime = {lifetime}s
"
    );
    for (name, value) in &options.settings {
        text.push_str(&format!("{name} = {value}\n"));
    }
    text
}

/// The package's services without a chroot and without other programs, and smtpd on one loopback port.
pub(super) fn master_cf(port: u16) -> Result<String> {
    let shipped =
        std::fs::read_to_string(SERVICES).with_context(|| format!("reading Postfix's own {SERVICES}"))?;
    Ok(services(&shipped, port))
}

fn services(shipped: &str, port: u16) -> String {
    let mut text = format!("{port} inet n - n - - smtpd\n");
    // A line with a leading space belongs to the one before: only programs of others and log names need one.
    for line in shipped.lines().filter(|line| !line.starts_with(['#', ' ', '\t'])) {
        let mut columns: Vec<&str> = line.split_whitespace().collect();
        let foreign = columns.get(1) == Some(&"inet") || columns.get(7) == Some(&"pipe");
        if columns.len() < 8 || foreign {
            continue;
        }
        columns[4] = "n";
        if columns[7] == "qmgr" {
            // Mails left in `incoming` by a restart are looked at when qmgr is woken, by default only every 300 s.
            columns[5] = "1";
        }
        text.push_str(&columns.join(" "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::services;

    #[test]
    fn only_one_port_is_listened_on_and_nothing_is_chrooted() {
        let shipped = "# comment\nsmtp inet n - y - - smtpd\n#smtps inet n - y - - smtpd\nqmgr unix n - n 300 1 qmgr\n\
                       cleanup\tunix  n  -  y  -  0  cleanup\nrelay unix - - y - - smtp\n  -o x=y\n\
                       uucp unix - n n - - pipe\n  flags=F user=u argv=/bin/uux\n";
        let expected = "15099 inet n - n - - smtpd\nqmgr unix n - n 1 1 qmgr\ncleanup unix n - n - 0 cleanup\n\
                        relay unix - - n - - smtp\n";
        assert_eq!(services(shipped, 15_099), expected);
    }
}
