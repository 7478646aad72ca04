//! Times as statements read them from documents and rows: which text is an instant, and whether it has come.

/// A time as this program and PostgreSQL write it, and one that surely exists: `timestamptz` takes every text that matches.
/// (A function that tries comes with PostgreSQL 16 only.)
pub(super) const TIME: &str = r"^([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)$";

/// SQL, boolean: `next_attempt_at` of `submissions s`, which is a [`TIME`], has come `by` an instant (SQL, comparison and
/// instant: `<= now()`). Further ahead than `longest` (SQL, seconds) it is believed as `decide::due` says.
pub(super) fn has_come(by: &str, longest: &str) -> String {
    format!(
        "CASE WHEN {too_far} THEN s.updated_at > now() OR s.updated_at {by} - make_interval(secs => {longest}::float8)
    ELSE {NEXT} {by} END",
        too_far = is_too_far(longest)
    )
}

/// SQL, boolean: `next_attempt_at`, which is a [`TIME`], lies further ahead than `longest` (SQL, seconds): no correct clock
/// has written it.
pub(super) fn is_too_far(longest: &str) -> String {
    format!("{NEXT} > now() + make_interval(secs => {longest}::float8)")
}

/// SQL: when the next attempt is due, to be asked of a [`TIME`] only.
const NEXT: &str = "(s.routing_result->>'next_attempt_at')::timestamptz";

/// SQL, timestamptz: when `submissions s` was changed; NULL where that is no instant.
pub(super) const TOUCHED: &str = "CASE WHEN isfinite(s.updated_at) THEN s.updated_at END";
