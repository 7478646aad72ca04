//! The relay's log and queue (Postfix): what became of mails that it has accepted.
