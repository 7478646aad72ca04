//! Resource names: which are well-formed, and what is in them. Pure; never asks whether the thing exists.

use super::error::BrokerError;

/// The topic that a subscription names once its own was deleted.
pub(super) const DELETED_TOPIC: &str = "_deleted-topic_";

/// Checks `projects/{project}/topics/{id}`.
pub(super) fn check_topic(name: &str) -> Result<(), BrokerError> {
    split(name, "topics").map(|_| ())
}

/// Checks `projects/{project}/subscriptions/{id}`.
pub(super) fn check_subscription(name: &str) -> Result<(), BrokerError> {
    split(name, "subscriptions").map(|_| ())
}

/// Checks `projects/{project}`.
pub(super) fn check_project(name: &str) -> Result<(), BrokerError> {
    match name.strip_prefix("projects/") {
        Some(project) if is_project(project) => Ok(()),
        Some(_) | None => Err(BrokerError::Invalid(format!(
            "Invalid [projects] name: (name={name}); expected projects/PROJECT."
        ))),
    }
}

/// Project and id of a subscription's name; empty where the name is not well-formed.
pub(super) fn subscription_parts(name: &str) -> (&str, &str) {
    split(name, "subscriptions").unwrap_or_default()
}

/// Project and id of a full name in `collection`.
fn split<'a>(name: &'a str, collection: &str) -> Result<(&'a str, &'a str), BrokerError> {
    let mut parts = name.split('/');
    let found = (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
    if let (Some("projects"), Some(project), Some(kind), Some(id), None) = found
        && kind == collection
        && is_project(project)
        && is_id(id)
    {
        return Ok((project, id));
    }
    Err(BrokerError::Invalid(format!(
        "Invalid [{collection}] name: (name={name}); expected projects/PROJECT/{collection}/ID, the id of 3 to 255 \
         letters, digits or -_.~+%, beginning with a letter and not with goog."
    )))
}

/// Project ids are not ours to judge closely: tests use short ones, old domains contain a colon.
fn is_project(project: &str) -> bool {
    !project.is_empty() && project.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
}

/// The rule of Pub/Sub's "Guidelines to name a topic or subscription".
fn is_id(id: &str) -> bool {
    (3..=255).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !id.starts_with("goog")
        && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~+%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_the_service_judges_them() {
        let table = [
            ("projects/p/topics/abc", true),
            ("projects/example.com:p/topics/abc", true),
            ("projects/p/topics/a-b_c.d~e+f%20", true),
            ("projects/p/topics/ab", false),
            ("projects/p/topics/1abc", false),
            ("projects/p/topics/google", false),
            ("projects/p/topics/a b c", false),
            ("projects/p/subscriptions/abc", false),
            ("projects/p/topics/abc/d", false),
            ("projects//topics/abc", false),
            ("topics/abc", false),
            ("abc", false),
            ("", false),
        ];
        for (name, good) in table {
            assert_eq!(check_topic(name).is_ok(), good, "{name}");
        }
        assert!(check_topic(&format!("projects/p/topics/a{}", "b".repeat(254))).is_ok());
        assert!(check_topic(&format!("projects/p/topics/a{}", "b".repeat(255))).is_err());
        assert_eq!(subscription_parts("projects/p/subscriptions/abc"), ("p", "abc"));
    }

    #[test]
    fn projects_are_judged() {
        assert!(check_project("projects/p").is_ok());
        for bad in ["p", "projects/", "projects/a/b", ""] {
            assert!(check_project(bad).is_err(), "{bad}");
        }
    }
}
