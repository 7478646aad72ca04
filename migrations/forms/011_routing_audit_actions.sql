-- The one change routing needs in a forms database: four words for the audit trail.
-- May be run any number of times, by the owner of the type, inside or outside a transaction.
ALTER TYPE audit_action ADD VALUE IF NOT EXISTS 'submission_routed';
ALTER TYPE audit_action ADD VALUE IF NOT EXISTS 'submission_route_failed';
ALTER TYPE audit_action ADD VALUE IF NOT EXISTS 'email_sent';
ALTER TYPE audit_action ADD VALUE IF NOT EXISTS 'email_failed';
