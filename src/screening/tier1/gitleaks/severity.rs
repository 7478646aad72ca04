//! Severity of gitleaks' rules: block where the secret's own form tells it, else review.

use crate::screening::tier1::finding::Severity;

/// Part of the expressions that tell a secret by the word beside it: `dropbox … = <15 letters and digits>`.
const BESIDE: &str = r"(?:[ \t\w.-]{0,20})[\s'";

/// Rules that are told by little more than a length, or find what is public, or an example, too often to block.
const REVIEWED: [&str; 21] = [
    "azure-ad-client-secret",
    "cloudflare-origin-ca-key",
    "curl-auth-header",
    "curl-auth-user",
    // A public key by its name.
    "flutterwave-public-key",
    "facebook-access-token",
    "freemius-secret-key",
    "generic-api-key",
    "gitlab-feature-flag-client-token",
    "gitlab-session-cookie",
    "harness-api-key",
    "jwt",
    "jwt-base64",
    "kubernetes-secret-yaml",
    "nuget-config-password",
    "octopus-deploy-api-key",
    "pkcs12-file",
    "sidekiq-sensitive-url",
    "sourcegraph-access-token",
    "square-access-token",
    // `SK` and 32 hexadecimal digits, with no boundary.
    "twilio-api-key",
];
/// `s.` and 24 letters and digits: a method call in compressed code.
const SHORT: &str = "vault-service-token";

/// Severity of a rule.
pub(super) fn of(id: &str, regex: Option<&str>) -> Severity {
    let beside = regex.is_none_or(|regex| regex.contains(BESIDE));
    if beside || id == SHORT || REVIEWED.contains(&id) { Severity::Review } else { Severity::Block }
}

#[cfg(test)]
mod tests {
    use super::super::{VENDORED, read};
    use super::*;

    #[test]
    fn every_reviewed_rule_is_there() {
        let (specs, _) = read(VENDORED).unwrap();
        for id in REVIEWED.iter().chain(&[SHORT]) {
            assert!(specs.iter().any(|spec| spec.id == *id), "{id}");
        }
    }

    #[test]
    fn well_known_forms_block_and_words_beside_do_not() {
        let (specs, _) = read(VENDORED).unwrap();
        let severity = |id| specs.iter().find(|spec| spec.id == id).unwrap().severity;
        for id in ["aws-access-token", "github-pat", "gitlab-pat", "stripe-access-token", "private-key"] {
            assert_eq!(severity(id), Severity::Block, "{id}");
        }
        for id in ["dropbox-api-token", "heroku-api-key", "generic-api-key", "jwt", "pkcs12-file"] {
            assert_eq!(severity(id), Severity::Review, "{id}");
        }
    }
}
