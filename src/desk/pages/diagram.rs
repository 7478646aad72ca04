//! The diagram of a lifecycle. Pure.
