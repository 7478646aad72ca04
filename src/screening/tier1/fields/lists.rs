//! Domains that are worth a note: mail boxes for an hour, and shortened links. Sorted.

/// Mail for an hour.
pub(super) const DISPOSABLE: [&str; 38] = [
    "10minutemail.com",
    "20minutemail.com",
    "33mail.com",
    "burnermail.io",
    "byom.de",
    "discard.email",
    "dispostable.com",
    "emailondeck.com",
    "fakeinbox.com",
    "fakemail.net",
    "getairmail.com",
    "getnada.com",
    "grr.la",
    "guerrillamail.com",
    "guerrillamail.net",
    "guerrillamail.org",
    "harakirimail.com",
    "inboxkitten.com",
    "jetable.org",
    "mail-temp.com",
    "mailcatch.com",
    "maildrop.cc",
    "mailinator.com",
    "mailnesia.com",
    "mailsac.com",
    "minuteinbox.com",
    "mohmal.com",
    "mytemp.email",
    "sharklasers.com",
    "spam4.me",
    "spamgourmet.com",
    "temp-mail.org",
    "tempmail.com",
    "tempr.email",
    "throwawaymail.com",
    "trashmail.com",
    "wegwerfmail.de",
    "yopmail.com",
];

/// Links that do not say where they lead.
pub(super) const SHORTENERS: [&str; 24] = [
    "adf.ly",
    "bit.do",
    "bit.ly",
    "buff.ly",
    "clck.ru",
    "cutt.ly",
    "goo.gl",
    "goo.su",
    "is.gd",
    "lnkd.in",
    "ow.ly",
    "rb.gy",
    "rebrand.ly",
    "s.id",
    "short.gy",
    "shorturl.at",
    "shrtco.de",
    "soo.gd",
    "t.co",
    "t.ly",
    "tiny.cc",
    "tinyurl.com",
    "v.gd",
    "vk.cc",
];

/// Whether a sorted list has a domain.
pub(super) fn has(list: &[&str], domain: &str) -> bool {
    list.binary_search(&domain).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(DISPOSABLE.is_sorted() && SHORTENERS.is_sorted());
        assert!(has(&DISPOSABLE, "yopmail.com") && !has(&SHORTENERS, "example.org"));
    }
}
