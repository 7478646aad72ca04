//! Links to a submission's attachments, asked for with each mail and ticket.

use super::{Preparer, ours};
use crate::gateway::signed_url::SignError;
use crate::ports::{Fault, LinkRequest, Stage};
use crate::routing::compose;
use crate::routing::compose::{Attachment, Place, clean_file_name};
use crate::routing::submission::content::SubmissionContent;

/// Links signed at once for one mail.
const LINKS_AT_ONCE: usize = 8;

impl Preparer {
    /// The attachments with their links. An attachment that cannot be linked is named as such; a signer that is down or not
    /// allowed to sign defers the mail.
    pub(super) async fn links(&self, content: &SubmissionContent) -> Result<Vec<Attachment>, Fault> {
        let ttl = compose::link_ttl(self.rules.now().link_ttl, content.retention_expires_at, content.now);
        let mut requests = Vec::new();
        let mut links: Vec<Attachment> = Vec::with_capacity(content.attachments.len());
        let mut indexes = Vec::new();
        for attachment in &content.attachments {
            let file_name = attachment.file_name.clone().unwrap_or_default();
            let place = match (ttl, &attachment.bucket, &attachment.object) {
                (Some(ttl), Some(bucket), Some(object)) => {
                    indexes.push(links.len());
                    requests.push(LinkRequest {
                        bucket: bucket.clone(),
                        object: object.clone(),
                        file_name: clean_file_name(&file_name),
                        ttl,
                    });
                    Place::Gone(String::new())
                }
                (None, _, _) => Place::Gone("its retention period has ended".to_owned()),
                (Some(_), _, _) => Place::Gone("where it is stored was not recorded".to_owned()),
            };
            links.push(Attachment {
                file_name,
                size_bytes: attachment.size_bytes.and_then(|size| u64::try_from(size).ok()),
                content_type: attachment.content_type.clone(),
                place,
            });
        }
        let signed = self.signer.sign_all(&requests, LINKS_AT_ONCE).await;
        for (index, signed) in indexes.into_iter().zip(signed) {
            links[index].place = match signed {
                Ok(link) => Place::Linked(link),
                Err(SignError::UnsignableObject { why, .. }) => Place::Gone(why),
                Err(error) => {
                    return Err(Fault {
                        // Only an outage reaches the breaker; a missing permission fails loudly, and delays no other mail.
                        about_us: error.is_transient(),
                        ..ours(Stage::Sign, &error.to_string())
                    });
                }
            };
        }
        Ok(links)
    }
}
