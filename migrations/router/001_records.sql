-- Schema router: what maple-router itself keeps, beside the forms backend's tables (data contract, "What the daemon
-- may add"). Applied by `maple-router migrate --router`.

-- pauses: what operators have paused. Short lists; rows are replaced and removed, never kept as history: the journal
-- tells that.
CREATE TABLE router.pauses (
  id         bigserial PRIMARY KEY,
  scope      text NOT NULL CHECK (scope IN ('all', 'form', 'destination')),
  value      text NOT NULL DEFAULT '' CHECK ((scope = 'all') = (value = '')),
  until      timestamptz,
  reason     text NOT NULL CHECK (reason <> ''),
  actor      text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (scope, value)
);
GRANT USAGE ON SCHEMA router TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON router.pauses TO forms_app;
GRANT USAGE ON SEQUENCE router.pauses_id_seq TO forms_app;
