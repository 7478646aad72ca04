//! The lifecycles: a list, and each as a diagram and as the whole table; and how programs speak to the desk. Pure.

use super::frame::Frame;
use crate::kernel::describe::Described;

/// The page at `/lifecycles`.
#[derive(Debug, Clone)]
pub struct LifecyclesPage {
    /// Its surroundings.
    pub frame: Frame,
    /// All lifecycles.
    pub lifecycles: Vec<Described>,
}

/// The page at `/lifecycles/NAME`.
#[derive(Debug, Clone)]
pub struct LifecyclePage {
    /// Its surroundings.
    pub frame: Frame,
    /// The lifecycle.
    pub lifecycle: Described,
}

/// The page at `/api`.
#[derive(Debug, Clone)]
pub struct ApiPage {
    /// Its surroundings.
    pub frame: Frame,
    /// Scheme, host and port of this desk: `http://desk.localhost:9465`.
    pub origin: String,
}
