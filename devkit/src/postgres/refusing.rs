//! Rows that refuse every write, as a constraint or a trigger of somebody else's makes them.

use anyhow::Result;
use uuid::Uuid;

use super::TestDatabase;

/// The object that refuses the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    /// A trigger that raises, and quotes the row.
    Trigger,
    /// A trigger that drops the write without a word.
    Silence,
    /// A constraint that was added `NOT VALID`.
    Check,
}

impl TestDatabase {
    /// From now on writes of these submissions are refused, and of no others; of none: mended.
    ///
    /// # Errors
    /// A statement fails.
    pub async fn refuse(&self, how: Refusing, ids: &[Uuid]) -> Result<()> {
        self.alter(
            "DROP TRIGGER IF EXISTS aa_refuse ON submissions;
             ALTER TABLE submissions DROP CONSTRAINT IF EXISTS submissions_refused",
        )
        .await?;
        if ids.is_empty() {
            return Ok(());
        }
        let ids = ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
        let instead = match how {
            Refusing::Check => {
                let check = format!("CHECK (id NOT IN ({ids})) NOT VALID");
                return self
                    .alter(&format!("ALTER TABLE submissions ADD CONSTRAINT submissions_refused {check}"))
                    .await;
            }
            Refusing::Trigger => "RAISE EXCEPTION 'no write of % with %', NEW.id, NEW.routing_result",
            Refusing::Silence => "RETURN NULL",
        };
        self.alter(&format!(
            "CREATE OR REPLACE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN IF NEW.id IN ({ids}) THEN {instead}; END IF; RETURN NEW; END $$;
             CREATE TRIGGER aa_refuse BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION refuse_write()"
        ))
        .await
    }
}
