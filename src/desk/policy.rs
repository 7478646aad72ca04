//! What a browser may do with our answers: the content security policies of a page and of a mail. Pure.

/// Of every page and asset: nothing but this desk's own files, no inline script or style, framed by nobody.
pub const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Of a mail's HTML at its own URL: a document without an origin, which runs nothing, loads nothing and sends nothing; only
/// its own inline styles count. Only this desk's pages frame it.
pub const MAIL: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'self'; base-uri 'none'";
