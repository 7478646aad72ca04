//! What only the embedded broker has, or only it keeps.
