//! TLS by `sslmode`, against a server with a certificate for a host called `db.test`.

use std::path::Path;

use devkit::postgres::{Cluster, ClusterOptions, ServerTls, TestDatabase, Variant};
use maple_router::config::Database;
use maple_router::db::{DbError, DbErrorKind, Pool};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::{options, settings};

type Ca = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
}

async fn server(ca: &Ca, name: &str) -> (Cluster, TestDatabase) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, ca).expect("a certificate");
    let tls = ServerTls { cert_pem: certificate.pem(), key_pem: key.serialize_pem() };
    // The server takes nothing but TLS over TCP.
    let hba = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n".to_owned();
    let options =
        ClusterOptions { tcp_port: Some(0), tls: Some(tls), hba: Some(hba), ..ClusterOptions::default() };
    let cluster = Cluster::start(options).await.expect("a cluster");
    let db = cluster.database(Variant::default()).await.expect("a database");
    (cluster, db)
}

async fn encrypted(db: &TestDatabase, mode: &str, ca: Option<&Path>) -> Result<bool, DbError> {
    let mut url = db.tcp_url_as("forms_app").expect("a TCP port");
    if !mode.is_empty() {
        url = format!("{url}?sslmode={mode}");
    }
    let pool =
        Pool::new(&Database { url, ssl_root_cert: ca.map(Path::to_owned), ..settings(db) }, options())?;
    let client = pool.get().await?;
    Ok(client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await?.get(0))
}

#[tokio::test]
async fn each_mode_accepts_what_its_name_says() {
    let (ca, stranger) = (authority(), authority());
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (folder.path().join("ours.pem"), folder.path().join("theirs.pem"));
    std::fs::write(&ours, ca.pem()).expect("write");
    std::fs::write(&theirs, stranger.pem()).expect("write");
    let (_right_cluster, right) = server(&ca, "127.0.0.1").await;
    let (_wrong_cluster, wrong_name) = server(&ca, "db.test").await;

    // server, sslmode, CA file, whether it connects
    let table = [
        (&right, "verify-full", Some(&ours), true),
        (&right, "verify-full", Some(&theirs), false),
        (&right, "verify-full", None, false), // the system's own CAs do not know ours
        (&wrong_name, "verify-full", Some(&ours), false),
        (&wrong_name, "verify-ca", Some(&ours), true),
        (&wrong_name, "verify-ca", Some(&theirs), false),
        (&wrong_name, "require", None, true),
        (&wrong_name, "require", Some(&theirs), false), // as libpq: a CA file is looked at
        (&wrong_name, "prefer", None, true),
        (&right, "disable", None, false), // hostssl
        (&right, "", None, false),        // loopback: no TLS unless asked for
    ];
    for (db, mode, file, works) in table {
        match encrypted(db, mode, file.map(std::path::PathBuf::as_path)).await {
            Ok(encrypted) => assert!(works && encrypted, "{mode:?} {file:?} connected"),
            Err(error) => {
                assert!(!works, "{mode:?} {file:?}: {error}");
                assert_eq!(error.kind(), DbErrorKind::Unreachable, "{mode:?} {file:?}: {error}");
            }
        }
    }
    // A server that speaks no TLS, or somebody in between who says so: nothing better than `prefer` gives in.
    let plain = ClusterOptions { tcp_port: Some(0), ..ClusterOptions::default() };
    let plain_cluster = Cluster::start(plain).await.expect("a cluster");
    let plain = plain_cluster.database(Variant::default()).await.expect("a database");
    for mode in ["require", "verify-ca", "verify-full"] {
        encrypted(&plain, mode, Some(&ours)).await.expect_err(mode);
    }
    assert!(!encrypted(&plain, "prefer", None).await.expect("in the clear"));

    let absent =
        encrypted(&right, "verify-full", Some(Path::new("/nonexistent/ca.pem"))).await.expect_err("no file");
    assert!(absent.to_string().contains("ssl_root_cert /nonexistent/ca.pem"), "{absent}");
}
