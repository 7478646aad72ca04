//! The one classifier of Pub/Sub's errors: every error becomes a [`Fault`], and words for people.
//!
//! Invariant: nothing here does I/O.

use std::error::Error as _;
use std::time::Duration;

use google_cloud_gax::client_builder::Error as BuildError;
use google_cloud_gax::error::rpc::Code;
use google_cloud_pubsub::Error;

use crate::ports::SourceError;

/// Longest text of a server that is passed on, in characters.
const MAX_SAID: usize = 300;

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The topic or subscription does not exist.
    NotFound,
    /// The topic or subscription exists already.
    AlreadyExists,
    /// This identity may not make the call.
    PermissionDenied,
    /// There are no usable credentials.
    Unauthenticated,
    /// The call may work later by itself.
    Transient,
    /// Understood and refused: trying again changes nothing.
    Refused,
}

/// A call that failed: the kind, the thing, the words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.what(), self.remedy())]
pub struct PubsubError {
    /// Kind of the error.
    pub fault: Fault,
    /// Full name of the topic or subscription.
    pub resource: String,
    /// The server's words, or the network's.
    pub said: String,
}

impl PubsubError {
    /// Classifies what the client reported about `resource`.
    #[must_use]
    pub fn of(error: &Error, resource: &str) -> Self {
        let said = error.status().map_or_else(|| cause(error), |status| status.message.clone());
        Self { fault: classify(error), resource: resource.to_owned(), said: one_line(&said) }
    }

    /// A client could not be built: in practice only for want of credentials.
    #[must_use]
    pub fn of_build(error: &BuildError, resource: &str) -> Self {
        let fault = if error.is_transport() { Fault::Refused } else { Fault::Unauthenticated };
        let said = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        Self { fault, resource: resource.to_owned(), said: one_line(&said) }
    }

    /// No answer within the time a call may take.
    #[must_use]
    pub fn timed_out(resource: &str, after: Duration) -> Self {
        let said = format!("no answer within {}", humantime::format_duration(after));
        Self { fault: Fault::Transient, resource: resource.to_owned(), said }
    }

    /// The event, and its resource.
    #[must_use]
    pub fn what(&self) -> String {
        let Self { resource, said, .. } = self;
        match self.fault {
            Fault::NotFound => format!("{resource} does not exist"),
            Fault::AlreadyExists => format!("{resource} exists already"),
            Fault::PermissionDenied => format!("access to {resource} was denied ({said})"),
            Fault::Unauthenticated => format!("no valid credentials for {resource} ({said})"),
            Fault::Transient => format!("{resource} cannot be reached ({said})"),
            Fault::Refused => format!("the call about {resource} was refused ({said})"),
        }
    }

    /// The advice.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self.fault {
            Fault::NotFound => {
                "create it with `maple-router provision`, or correct its name or the project in [pubsub]"
                    .to_owned()
            }
            Fault::AlreadyExists => "nothing to do; verify it with `maple-router check`".to_owned(),
            Fault::PermissionDenied => format!("grant this identity {} on it", self.missing_role()),
            Fault::Unauthenticated => {
                "run on a host with a service account, or set GOOGLE_APPLICATION_CREDENTIALS".to_owned()
            }
            Fault::Transient => "see to network and [pubsub] endpoint, then try again".to_owned(),
            Fault::Refused => "compare [pubsub] with the topic or subscription in the project".to_owned(),
        }
    }

    fn missing_role(&self) -> &'static str {
        if self.resource.contains("/topics/") { "roles/pubsub.publisher" } else { "roles/pubsub.subscriber" }
    }
}

impl From<PubsubError> for SourceError {
    fn from(error: PubsubError) -> Self {
        let role = error.missing_role();
        let PubsubError { fault, resource: subscription, said } = error;
        match fault {
            Fault::NotFound => Self::NotFound { subscription },
            Fault::PermissionDenied => Self::PermissionDenied { subscription, role, said },
            Fault::Unauthenticated => Self::Unauthenticated { subscription, said },
            Fault::Transient => Self::Transient { subscription, said },
            Fault::AlreadyExists | Fault::Refused => Self::Refused { subscription, said },
        }
    }
}

/// Every error of the client becomes a [`Fault`] here and nowhere else.
#[must_use]
pub fn classify(error: &Error) -> Fault {
    // First: a metadata server that is slow is transient, and its error carries no status.
    if error.is_transient_and_before_rpc() {
        return Fault::Transient;
    }
    if error.is_authentication() {
        return Fault::Unauthenticated;
    }
    if let Some(status) = error.status() {
        return match status.code {
            Code::NotFound => Fault::NotFound,
            Code::AlreadyExists => Fault::AlreadyExists,
            Code::PermissionDenied => Fault::PermissionDenied,
            Code::Unauthenticated => Fault::Unauthenticated,
            Code::Aborted
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Internal
            | Code::ResourceExhausted
            | Code::Unavailable
            | Code::Unknown => Fault::Transient,
            Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
            | Code::Ok => Fault::Refused,
            // The client's enum may grow; a code without a name here is not worth a retry.
            _ => Fault::Refused,
        };
    }
    match error.http_status_code() {
        Some(401) => Fault::Unauthenticated,
        Some(403) => Fault::PermissionDenied,
        // A 404 without Pub/Sub's own words comes from something that is not Pub/Sub.
        Some(408 | 429 | 500..) => Fault::Transient,
        Some(_) => Fault::Refused,
        None if is_of_the_network(error) => Fault::Transient,
        None => Fault::Refused,
    }
}

fn is_of_the_network(error: &Error) -> bool {
    error.is_io() || error.is_timeout() || error.is_connect() || error.is_transport() || error.is_exhausted()
}

/// The deepest cause: the words above it repeat URLs and type names and add nothing.
fn cause(error: &Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(inner) = deepest.source() {
        deepest = inner;
    }
    if error.is_authentication() {
        // A missing metadata server looks transient, and is transient on a host that has one.
        return format!(
            "no access token: {deepest}; outside Google Cloud set GOOGLE_APPLICATION_CREDENTIALS"
        );
    }
    deepest.to_string()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SAID).collect()
}

#[cfg(test)]
mod tests {
    use google_cloud_gax::error::{CredentialsError, rpc::Status};

    use super::*;

    fn service(code: Code) -> Error {
        Error::service(Status::default().set_code(code).set_message("as the\nserver says"))
    }

    fn http(code: u16) -> Error {
        Error::http(code, http::HeaderMap::new(), bytes::Bytes::new())
    }

    #[test]
    fn every_error_has_one_class() {
        let cases = [
            (service(Code::NotFound), Fault::NotFound),
            (service(Code::AlreadyExists), Fault::AlreadyExists),
            (service(Code::PermissionDenied), Fault::PermissionDenied),
            (service(Code::Unauthenticated), Fault::Unauthenticated),
            (service(Code::Unavailable), Fault::Transient),
            (service(Code::DeadlineExceeded), Fault::Transient),
            (service(Code::ResourceExhausted), Fault::Transient),
            (service(Code::Internal), Fault::Transient),
            (service(Code::Aborted), Fault::Transient),
            (service(Code::Cancelled), Fault::Transient),
            (service(Code::Unknown), Fault::Transient),
            (service(Code::FailedPrecondition), Fault::Refused),
            (service(Code::InvalidArgument), Fault::Refused),
            (service(Code::Unimplemented), Fault::Refused),
            (service(Code::OutOfRange), Fault::Refused),
            (service(Code::DataLoss), Fault::Refused),
            (Error::authentication(CredentialsError::from_msg(false, "no key")), Fault::Unauthenticated),
            (Error::authentication(CredentialsError::from_msg(true, "slow")), Fault::Transient),
            (Error::io("reset"), Fault::Transient),
            (Error::timeout("late"), Fault::Transient),
            (Error::connect("refused"), Fault::Transient),
            (Error::exhausted("tried often"), Fault::Transient),
            (Error::transport(http::HeaderMap::new(), "h2 gone"), Fault::Transient),
            (Error::deser("not protobuf"), Fault::Refused),
            (http(401), Fault::Unauthenticated),
            (http(403), Fault::PermissionDenied),
            (http(404), Fault::Refused),
            (http(429), Fault::Transient),
            (http(503), Fault::Transient),
        ];
        for (error, fault) in cases {
            assert_eq!(classify(&error), fault, "{error:?}");
        }
    }

    #[test]
    fn the_words_name_the_thing_and_what_to_do() {
        let name = "projects/p/subscriptions/routing";
        let cases = [
            (Code::NotFound, "projects/p/subscriptions/routing does not exist", "`maple-router provision`"),
            (Code::PermissionDenied, "denied (as the server says)", "roles/pubsub.subscriber"),
            (Code::Unauthenticated, "no valid credentials", "GOOGLE_APPLICATION_CREDENTIALS"),
            (Code::Unavailable, "cannot be reached (as the server says)", "endpoint"),
            (Code::InvalidArgument, "refused (as the server says)", "[pubsub]"),
        ];
        for (code, what, remedy) in cases {
            let error = PubsubError::of(&service(code), name);
            assert!(error.what().contains(what) && error.what().contains(name), "{}", error.what());
            assert!(error.remedy().contains(remedy), "{}", error.remedy());
            assert!(SourceError::from(error).to_string().contains(name));
        }
        let topic = PubsubError::of(&service(Code::PermissionDenied), "projects/p/topics/t");
        assert!(topic.remedy().contains("roles/pubsub.publisher"));
    }

    #[test]
    fn the_deepest_cause_is_told_on_one_line() {
        #[derive(Debug, thiserror::Error)]
        #[error("error sending request for url (http://127.0.0.1:1/v1/x)")]
        struct Outer(#[source] std::io::Error);
        let error = Error::connect(Outer(std::io::Error::other("connection\nrefused")));
        assert_eq!(PubsubError::of(&error, "projects/p/topics/t").said, "connection refused");
        let error = Error::authentication(CredentialsError::from_msg(true, "no metadata server"));
        let said = PubsubError::of(&error, "projects/p/topics/t").said;
        assert!(
            said.contains("no metadata server") && said.contains("GOOGLE_APPLICATION_CREDENTIALS"),
            "{said}"
        );
    }
}
