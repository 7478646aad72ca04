//! What a request is refused with: a status, and errors by field.
//!
//! Documented: 400 with `{"error": [{"field": …, "errors": […]}]}`, "This field is required." (knowledge base, article 1039),
//! "Select a valid choice. …" (article 1092), and `__all__` as the field of what concerns the whole request (the old reference
//! manual). Guessed: all other words, and that 404, 405, 413 and 415 have the same shape.

use serde_json::{Value, json};

/// The field of errors that concern no field.
pub(super) const WHOLE: &str = "__all__";
/// A field without a value.
pub(super) const REQUIRED: &str = "This field is required.";
/// An id that is none of those to choose from.
pub(super) const NO_CHOICE: &str = "Select a valid choice. That choice is not one of the available choices.";

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The HTTP status.
    pub(super) status: u16,
    /// Fields and words.
    pub(super) errors: Vec<(String, String)>,
}

impl Refusal {
    /// 400 for these fields.
    pub(super) fn of_fields(errors: Vec<(String, String)>) -> Self {
        Self { status: 400, errors }
    }

    /// 400 for this field.
    pub(super) fn of_field(field: &str, words: &str) -> Self {
        Self::of_fields(vec![(field.to_owned(), words.to_owned())])
    }

    /// Any status for the whole request.
    pub(super) fn whole(status: u16, words: &str) -> Self {
        Self { status, errors: vec![(WHOLE.to_owned(), words.to_owned())] }
    }

    /// The answer's body.
    pub(super) fn to_json(&self) -> Value {
        let error = |(field, words): &(String, String)| json!({"field": field, "errors": [words]});
        json!({"error": self.errors.iter().map(error).collect::<Vec<_>>()})
    }
}
