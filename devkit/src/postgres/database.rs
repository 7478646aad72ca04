//! One migrated database per test, copied from a template that is made once per variant and content.
//!
//! Dying in the middle leaves a database behind that goes with the cluster; a half-made template is not yet flagged
//! as one and is made again.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};

use super::server::SUPERUSER;

/// Owner of every test database; may create roles and databases and is not a superuser, as in production.
const OWNER: &str = "forms_owner";

/// Advisory lock under which templates are made. Any number, the same in every process.
const TEMPLATE_LOCK: i64 = 0x006d_6170_6c65;

/// Which database a test wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// `forms_app` may read `audit_log`; the live database was seen without that.
    pub audit_readable: bool,
    /// `011_routing_audit_actions.sql` has been applied.
    pub with_011: bool,
    /// The optional schema `router` is there (`migrations/router/`).
    pub router: bool,
    /// The optional schema `content` is there, on top of `router` (`migrations/content/`).
    pub content: bool,
    /// The optional schema `screening` is there, on top of `router` (`migrations/screening/`).
    pub screening: bool,
    /// The optional schemas of grading are there, on top of `router` (`migrations/grading/`).
    pub grading: bool,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            audit_readable: false,
            with_011: true,
            router: false,
            content: false,
            screening: false,
            grading: false,
        }
    }
}

impl Variant {
    /// The statements that make this variant, in order, from the files in `migrations/`.
    fn sql(self) -> Result<String> {
        let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
        let mut files = sql_files(&migrations.join("forms"))?;
        files.retain(|file| self.with_011 || !file.ends_with("011_routing_audit_actions.sql"));
        if self.router {
            files.extend(sql_files(&migrations.join("router"))?);
        }
        if self.content {
            files.extend(sql_files(&migrations.join("content"))?);
        }
        if self.screening {
            files.extend(sql_files(&migrations.join("screening"))?);
        }
        if self.grading {
            files.extend(sql_files(&migrations.join("grading"))?);
        }
        let readable = if self.audit_readable { "on" } else { "off" };
        let mut sql = format!("SET maple_router.audit_readable = '{readable}';\n");
        if self.router {
            sql.push_str("CREATE SCHEMA IF NOT EXISTS router;\n");
        }
        if self.content {
            sql.push_str("CREATE SCHEMA IF NOT EXISTS content;\n");
        }
        if self.screening {
            sql.push_str("CREATE SCHEMA IF NOT EXISTS screening;\n");
        }
        if self.grading {
            for schema in ["assessment", "mq", "grading"] {
                sql += &format!("CREATE SCHEMA IF NOT EXISTS {schema};\n");
            }
        }
        for file in files {
            sql += &fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            sql.push('\n');
        }
        Ok(sql)
    }
}

fn sql_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        fs::read_dir(folder).with_context(|| format!("listing migrations in {}", folder.display()))?;
    let mut files: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    Ok(files)
}

/// Address of a cluster.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Directory of the unix socket.
    pub socket_dir: PathBuf,
    /// Port number in the socket's name.
    pub socket_port: u16,
    /// Port on 127.0.0.1, where the cluster has one.
    pub tcp_port: Option<u16>,
}

impl Endpoint {
    pub(super) fn socket(socket_dir: PathBuf, socket_port: u16) -> Self {
        Self { socket_dir, socket_port, tcp_port: None }
    }

    /// Connection URL over the unix socket.
    #[must_use]
    pub fn url(&self, role: &str, database: &str) -> String {
        format!(
            "postgres:///{database}?host={}&port={}&user={role}",
            self.socket_dir.display(),
            self.socket_port
        )
    }

    /// Connection URL over TCP, where the cluster listens there.
    #[must_use]
    pub fn tcp_url(&self, role: &str, database: &str) -> Option<String> {
        self.tcp_port.map(|port| format!("postgres://{role}@127.0.0.1:{port}/{database}"))
    }

    async fn connect(&self, role: &str, database: &str) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(role, database), NoTls)
            .await
            .with_context(|| format!("connecting to test database {database} as {role}"))?;
        // Ends with the client; what goes wrong on the wire comes back from the client's own calls.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

/// A migrated database of one's own, dropped (best effort) with the value.
#[derive(Debug)]
pub struct TestDatabase {
    endpoint: Endpoint,
    name: String,
}

impl TestDatabase {
    pub(super) async fn create(endpoint: &Endpoint, variant: Variant) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let sql = variant.sql()?;
        let template = format!("template_{}", short_digest(&sql));
        let admin = endpoint.connect(SUPERUSER, "postgres").await?;
        if !template_exists(&admin, &template).await? {
            make_template(endpoint, &admin, &template, &sql).await?;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // The random part keeps processes of different PID namespaces apart.
        let salt = RandomState::new().hash_one(number) & 0xffff_ffff;
        let name = format!("t_{}_{number}_{salt:08x}", std::process::id());
        let version: i32 =
            admin.query_one("SELECT current_setting('server_version_num')::int", &[]).await?.get(0);
        // Half the time of the other strategy, where the server has a choice.
        let strategy = if version >= 150_000 { "STRATEGY file_copy" } else { "" };
        admin
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template} OWNER {OWNER} {strategy}"))
            .await
            .context("copying the template database")?;
        Ok(Self { endpoint: endpoint.clone(), name })
    }

    /// Name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of its cluster.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Connection URL for a role, e.g. `forms_app`, over the unix socket.
    #[must_use]
    pub fn url_as(&self, role: &str) -> String {
        self.endpoint.url(role, &self.name)
    }

    /// Connection URL for a role over TCP, where the cluster listens there.
    #[must_use]
    pub fn tcp_url_as(&self, role: &str) -> Option<String> {
        self.endpoint.tcp_url(role, &self.name)
    }

    /// Connection URL of the owner of all tables, which is no superuser. The daemon never connects as this role.
    #[must_use]
    pub fn owner_url(&self) -> String {
        self.url_as(OWNER)
    }

    /// A connection for a role; it lives as long as the client.
    ///
    /// # Errors
    /// The role does not exist or the server is gone.
    pub async fn client_as(&self, role: &str) -> Result<Client> {
        self.endpoint.connect(role, &self.name).await
    }

    /// A connection as the owner.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn owner(&self) -> Result<Client> {
        self.client_as(OWNER).await
    }

    /// A connection as superuser, whom neither grants nor RLS stop: to look at what a test did.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn superuser(&self) -> Result<Client> {
        self.client_as(SUPERUSER).await
    }

    /// Runs statements as the owner, to break or extend this database.
    ///
    /// # Errors
    /// A statement fails.
    pub async fn alter(&self, sql: &str) -> Result<()> {
        self.owner().await?.batch_execute(sql).await.with_context(|| format!("as owner: {sql}"))
    }

    /// Ends every session of a role in this database, as a failover or an administrator would.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn disconnect(&self, role: &str) -> Result<u64> {
        let sql =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = $2";
        Ok(self.endpoint.connect(SUPERUSER, "postgres").await?.execute(sql, &[&self.name, &role]).await?)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (endpoint, name) = (self.endpoint.clone(), self.name.clone());
        // A thread with its own runtime: drop may run inside one, or after it has ended.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let admin = endpoint.connect(SUPERUSER, "postgres").await?;
                admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
                anyhow::Ok(())
            })
        });
        drop(dropping.join());
    }
}

async fn template_exists(admin: &Client, template: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)";
    Ok(admin.query_one(sql, &[&template]).await?.get(0))
}

/// Makes the template unless somebody else just did. Session-level lock: CREATE DATABASE runs outside transactions.
async fn make_template(endpoint: &Endpoint, admin: &Client, template: &str, sql: &str) -> Result<()> {
    admin.execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await?;
    let made = async {
        if template_exists(admin, template).await? {
            return Ok(());
        }
        admin
            .batch_execute(&format!(
                "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{OWNER}') THEN
                 CREATE ROLE {OWNER} LOGIN CREATEROLE CREATEDB; END IF; END $$"
            ))
            .await?;
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {template} WITH (FORCE)")).await?;
        admin.batch_execute(&format!("CREATE DATABASE {template} OWNER {OWNER}")).await?;
        let owner = endpoint.connect(OWNER, template).await?;
        owner.batch_execute(sql).await.context("migrating the template database as its owner")?;
        drop(owner);
        // A template that nobody can connect to can always be copied.
        admin
            .batch_execute(&format!(
                "ALTER DATABASE {template} WITH ALLOW_CONNECTIONS false IS_TEMPLATE true"
            ))
            .await?;
        Ok(())
    }
    .await;
    admin.execute("SELECT pg_advisory_unlock($1)", &[&TEMPLATE_LOCK]).await?;
    made
}

/// Ten hexadecimal digits that stand for a text.
pub(super) fn short_digest(text: &str) -> String {
    use sha2::Digest as _;
    hex::encode(&sha2::Sha256::digest(text.as_bytes())[..5])
}
