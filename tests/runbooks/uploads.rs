//! What commands about uploads need: schema content, buckets, a scanner, and one upload in a state in which an operator would type
//! them.

use devkit::stage::Stage;
use devkit::uploading::{CONTENT, STAGING, Uploading};
use maple_router::ops::rng::Rng;
use uuid::Uuid;

use crate::scene::FORM;

/// Whether a command is about uploads, so that their parts are there.
pub(crate) fn concerns(command: &str) -> bool {
    [" uploads ", " upload ", " scan "].iter().any(|verb| command.contains(verb))
}

/// Whether a command needs schema content to be there already.
pub(crate) fn needs_schema(command: &str) -> bool {
    concerns(command) || command.contains("content.")
}

/// The file that an operator brings.
pub(crate) const FILE: &str = "a.pdf";

/// The parts of uploads, and an upload.
pub(crate) async fn beside(stage: &Stage, command: &str) -> (Uploading, Uuid) {
    let uploading = Uploading::beside(stage).await.expect("buckets and clamd");
    std::fs::write(stage.dir().join(FILE), "%PDF-1.4\nof a runbook\n").expect("a file");
    let app = stage.database.client_as("forms_app").await.expect("forms_app");
    let (id, planned) = (Rng::from_system().uuid(), Rng::from_system().uuid());
    let born = format!(
        "INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type,
           length, part_size, planned_blob, expires_at, unattached_ttl)
         VALUES ('{id}', '{FORM}', 'o', '{id}', sha256('r'), sha256('t'), '{FILE}', 'application/pdf', 10, 8388608, '{planned}',
           now() + interval '1 day', '2 days');
         INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('{STAGING}', 'staging/{id}', '{id}', 'session')"
    );
    app.batch_execute(&born).await.expect("a session");
    if command.contains(" scan ") {
        let committed = format!(
            "UPDATE content.uploads SET state = 'parts_uploading', store_upload_id = 'u' WHERE id = '{id}';
             UPDATE content.uploads SET state = 'pending_commit', etags = '[]', sha256 = sha256('x') WHERE id = '{id}';
             INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('{CONTENT}', 'blobs/{id}', '{id}', 'blob');
             UPDATE content.uploads SET state = 'committed', found = jsonb_build_object('sha256', encode(sha256('x'), 'hex'),
               'length', 10, 'crc32c', 1, 'generation', 7, 'verdict', 'clean') WHERE id = '{id}'"
        );
        app.batch_execute(&committed).await.expect("committed");
    }
    (uploading, id)
}
