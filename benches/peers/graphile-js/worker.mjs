// The routing worker as a task of graphile-worker: local queue, batched completion, nodemailer's pool, prepared statements.
//
// The job's payload is the submission's id. A handler claims, sends each action's mail, and marks the submission routed with
// its audit rows in the statement that records the last mail: two commits for one action, besides those of the queue.

import crypto from "node:crypto";
import fs from "node:fs";
import { run } from "graphile-worker";
import nodemailer from "nodemailer";
import pg from "pg";

const FROM = process.env.MAIL_FROM;
const CONCURRENCY = Number(process.env.CONCURRENCY);

const CLAIM = {
  name: "claim",
  text: `UPDATE submissions SET status = 'processing', updated_at = clock_timestamp()
    WHERE id = $1 AND status = 'received' RETURNING form_id, created_at, routing_result`,
};
const FORM = {
  name: "form",
  text: `SELECT f.name, a.action_order, a.destination, a.subject_template FROM forms f JOIN actions a ON a.form_id = f.id
    WHERE f.id = $1 AND a.action_type IN ('email_template', 'email_raw') ORDER BY a.action_order`,
};
const ATTACHMENTS = {
  name: "attachments",
  text: `SELECT file_name, gcs_bucket, gcs_object FROM attachments
    WHERE submission_id = $1 AND clamav_status = 'clean' ORDER BY created_at, id`,
};
const SENT = {
  name: "sent",
  text: `WITH u AS (UPDATE submissions SET updated_at = clock_timestamp(), routing_result = routing_result || $2::jsonb
      WHERE id = $1 RETURNING id, form_id)
    INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
    SELECT 'worker', 'email_sent', u.id, u.form_id, $3::jsonb FROM u`,
};
const ROUTED = {
  name: "routed",
  text: `WITH u AS (UPDATE submissions SET status = 'routed', updated_at = clock_timestamp(),
        routing_result = routing_result || $2::jsonb
      WHERE id = $1 AND status = 'processing' RETURNING id, form_id)
    INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
    SELECT 'worker', t.action::audit_action, u.id, u.form_id, t.detail::jsonb
    FROM u, (VALUES ('email_sent', $3::text), ('submission_routed', '{}')) AS t(action, detail)`,
};

// One pool for the queue and the handlers; more connections than the server has use for bring nothing.
const pool = new pg.Pool({ max: 10 });
const relay = nodemailer.createTransport({
  host: "127.0.0.1",
  port: Number(process.env.SMTP_PORT),
  name: "maple.test",
  ignoreTLS: true,
  pool: true,
  // One for each handler: nodemailer leaves Nagle's algorithm on, so that a connection comes to some 23 mails a second.
  maxConnections: CONCURRENCY,
  // By default a connection is closed after 100 mails.
  maxMessages: Infinity,
});

const key = JSON.parse(fs.readFileSync(process.env.SIGNER_KEY_FILE, "utf8"));
const privateKey = crypto.createPrivateKey(key.private_key);
const STORAGE = new URL(process.env.STORAGE_ENDPOINT);

/** Google's V4 signature for a GET, without a library: RSA-SHA256 over the canonical request. */
function signed(bucket, object, fileName) {
  const escape = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = `${stamp.slice(0, 8)}/auto/storage/goog4_request`;
  const path = `/${bucket}/${object.split("/").map(escape).join("/")}`;
  const query = [
    ["X-Goog-Algorithm", "GOOG4-RSA-SHA256"],
    ["X-Goog-Credential", `${key.client_email}/${scope}`],
    ["X-Goog-Date", stamp],
    ["X-Goog-Expires", "604800"],
    ["X-Goog-SignedHeaders", "host"],
    ["response-content-disposition", `attachment; filename="${fileName}"`],
  ].map(([name, value]) => `${escape(name)}=${escape(value)}`).join("&");
  const request = `GET\n${path}\n${query}\nhost:${STORAGE.host}\n\nhost\nUNSIGNED-PAYLOAD`;
  const digest = crypto.createHash("sha256").update(request).digest("hex");
  const signature = crypto.sign("sha256", Buffer.from(`GOOG4-RSA-SHA256\n${stamp}\n${scope}\n${digest}`), privateKey);
  return `${STORAGE.origin}${path}?${query}&X-Goog-Signature=${signature.toString("hex")}`;
}

function mail(id, form, received, action, recipients, block) {
  const shown = received.toISOString().replace("T", " ").slice(0, 19);
  const digest = crypto.createHash("sha256").update(`${id}|${action.action_order}`).digest("hex").slice(0, 32);
  return {
    from: FROM,
    to: recipients,
    subject: action.subject_template ?? `[${action.name}] submission ${id}`,
    messageId: `<${digest}@maple.test>`,
    headers: { "Auto-Submitted": "auto-generated", "X-Submission-ID": id, "X-Form-ID": form },
    text:
      `A new submission of the form "${action.name}" has been received; details to follow.\n\n` +
      `Submission: ${id}\nForm:       ${action.name}\nReceived:   ${shown} UTC\n${block}`,
  };
}

async function route({ id }) {
  const claimed = await pool.query({ ...CLAIM, values: [id] });
  if (claimed.rowCount === 0) return;
  const { form_id: form, created_at: received, routing_result: done } = claimed.rows[0];
  const actions = (await pool.query({ ...FORM, values: [form] })).rows;
  const attachments = (await pool.query({ ...ATTACHMENTS, values: [id] })).rows;
  const block = attachments.map((a) => `\n${a.file_name}\n${signed(a.gcs_bucket, a.gcs_object, a.file_name)}\n`).join("");
  for (const action of actions) {
    const order = action.action_order;
    if (done[order]) continue;
    const recipients = action.destination.split(",").map((address) => address.trim());
    await relay.sendMail(mail(id, form, received, action, recipients, block));
    const record = action === actions.at(-1) ? ROUTED : SENT;
    const outcome = JSON.stringify({ [order]: { status: "sent", recipients } });
    await pool.query({ ...record, values: [id, outcome, JSON.stringify({ action_order: order })] });
  }
}

const runner = await run({
  preset: {
    worker: {
      concurrentJobs: CONCURRENCY,
      localQueue: { size: 10 * CONCURRENCY },
      // What its documentation recommends to begin with; nobody waits for it.
      completeJobBatchDelay: 250,
      failJobBatchDelay: 250,
    },
  },
  pgPool: pool,
  noHandleSignals: true,
  // One line a job would be measured, too.
  logger: new (await import("graphile-worker")).Logger(() => (level, message) => {
    if (level === "error" || level === "warning") console.log(message);
  }),
  taskList: { route },
});
process.once("SIGTERM", () => runner.stop().then(() => process.exit(0)));
console.log("ready");
await runner.promise;
