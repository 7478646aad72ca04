-- Whether submission $1 (uuid) is to be routed now: one row (state, pending); no row for an unknown id.
--
--   ready     received, and every attachment is clean, or there is none    publish an event
--   infected  received, and an attachment is infected                      publish an event: it fails, people are notified
--   waiting   received, and `pending` attachments are still to be scanned  nothing
--   closed    a router has it, or it has ended                             nothing
--
-- Ask after the commit of the change, in a transaction of its own (contrib/README.md says why). It only reads.
-- An attachment whose status is NULL, or unknown to us, is not clean. Where the database has schema router, its
-- function router.evaluate_routing_readiness(uuid) answers the same; forms_app may call it.
SELECT CASE
         WHEN s.status IS DISTINCT FROM 'received' THEN 'closed'
         WHEN a.infected > 0 THEN 'infected'
         -- Only where rows are inserted before finalize ([readiness] finalized_column names it), uncomment:
         -- WHEN s.finalized_at IS NULL THEN 'waiting'
         WHEN a.pending > 0 THEN 'waiting'
         ELSE 'ready'
       END AS state,
       a.pending::int AS pending
FROM submissions s
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE x.clamav_status = 'infected') AS infected,
         count(*) FILTER (WHERE x.clamav_status IS DISTINCT FROM 'clean'
                            AND x.clamav_status IS DISTINCT FROM 'infected') AS pending
  FROM attachments x WHERE x.submission_id = s.id
) a
WHERE s.id = $1
