-- The way back from 003_daemons.sql, as the owner of the tables: `maple-router migrate --router --back 003`. From here on
-- transactions that make a submission ready cannot be prepared, and `pause` asks the daemons of its own host alone.

-- Part: what is left.
CREATE OR REPLACE FUNCTION router.ring() RETURNS void
    LANGUAGE plpgsql
AS $$
DECLARE
    instant bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    last bigint;
BEGIN
    SELECT r.last_value INTO last FROM router.rung r;
    IF last NOT BETWEEN instant - 50 AND instant THEN
        PERFORM setval('router.rung', instant), pg_notify('maple_router_outbox', '');
    END IF;
END
$$;
DROP TABLE IF EXISTS router.daemons;
