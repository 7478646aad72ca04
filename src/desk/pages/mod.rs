//! The desk's pages: plain values in, HTML out. Pure.
//!
//! A handler fills a view (a struct below) and sends what its `Display` writes. Every dynamic text passes
//! [`escape::Shown`], which no template can go around (a test refuses `|safe`); no page needs the script, and none has
//! an inline script or style. A view never names an address or a field's value in a URL or a title: URLs are made here,
//! of ids, closed words and the filters that the reader typed.

pub mod assessment;
pub mod assets;
pub mod decision;
pub mod diagram;
pub mod entry;
pub mod escape;
pub mod filters;
mod form;
pub mod forms;
pub mod frame;
pub mod lifecycles;
pub mod login;
pub mod plain;
pub mod queue;
pub mod status;
pub mod story;
pub mod submissions;
pub mod version;
pub mod when;
