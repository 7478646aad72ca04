//! What a real clamd finds, however it is sent.

use devkit::clamd::{ClamdOptions, eicar};
use maple_router::config::ScanSocket;
use maple_router::gateway::clamd::{Database, Verdict};

use crate::archives::zip;
use crate::harness::{
    EICAR_FOUND, MARKER_FOUND, PATIENCE, client, client_of, infected, random, real, real_with, scan, scan_by,
};

#[tokio::test]
async fn the_test_file_is_found_wherever_it_is() {
    let clamd = real().await;
    let client = client(&clamd);
    let in_text = [&b"Dear all,\n\n"[..], &eicar(), b"\n\nKind regards"].concat();
    let in_zip = zip(&eicar());
    let cases = [
        ("plain", eicar()),
        ("with a newline", [&eicar()[..], b"\n"].concat()),
        ("inside text", in_text.clone()),
        ("in a zip", in_zip.clone()),
        ("in a zip in a zip", zip(&in_zip)),
        ("inside text in a zip", zip(&in_text)),
        ("at the end of random bytes", [&random(1 << 20)[..], &eicar()].concat()),
    ];
    for (what, content) in cases {
        assert_eq!(scan(&client, &content).await, infected(EICAR_FOUND), "{what}");
    }
}

#[tokio::test]
async fn it_is_found_across_every_boundary_of_chunks() {
    let clamd = real().await;
    let client = client(&clamd);
    let content = [&b"text before "[..], &eicar(), b" text behind"].concat();
    for boundary in 0..=content.len() {
        let mut scan = client.begin(content.len() as u64).await;
        scan.write(&content[..boundary]).await;
        scan.write(&content[boundary..]).await;
        assert_eq!(scan.finish().await, infected(EICAR_FOUND), "{boundary}");
    }
    for length in [1, 2, 3, 67] {
        assert_eq!(scan_by(&client, &content, length).await, infected(EICAR_FOUND), "{length}");
    }
    // The client's own boundary.
    let long = [&vec![b'x'; 256 * 1024 - 30][..], &content].concat();
    assert_eq!(scan_by(&client, &long, usize::MAX).await, infected(EICAR_FOUND));
}

#[tokio::test]
async fn it_is_found_at_the_end_of_fifty_megabytes() {
    let clamd = real().await;
    let content = [&random(50_000_000)[..], &eicar()].concat();
    let read = client(&clamd).scan(&content[..], content.len() as u64).await.expect("readable");
    assert_eq!(read, infected(EICAR_FOUND));
}

#[tokio::test]
async fn what_has_nothing_is_clean() {
    let clamd = real().await;
    let client = client(&clamd);
    for content in [&b""[..], b"a", b"Dear all", &[0; 100_000], &random(3 << 20), &eicar()[1..]] {
        assert_eq!(scan(&client, content).await, Verdict::Clean, "{} bytes", content.len());
    }
    assert_eq!(scan(&client, &zip(b"Dear all")).await, Verdict::Clean);
}

#[tokio::test]
async fn each_instance_knows_its_own_marker_only() {
    let (one, two) = tokio::join!(real(), real());
    let marked = format!("a letter with {} in it", one.marker());
    assert_eq!(scan(&client(&one), marked.as_bytes()).await, infected(MARKER_FOUND));
    assert_eq!(scan(&client(&two), marked.as_bytes()).await, Verdict::Clean);
}

#[tokio::test]
async fn it_is_asked_over_tcp_as_well() {
    let clamd = real_with(ClamdOptions { tcp: true, ..ClamdOptions::default() }).await;
    for host in ["127.0.0.1", "localhost"] {
        let address = ScanSocket::Tcp(format!("{host}:{}", clamd.port().expect("a port")));
        let client = client_of(address, PATIENCE);
        client.ping().await.expect("there");
        assert_eq!(scan(&client, &eicar()).await, infected(EICAR_FOUND));
        assert_eq!(scan(&client, &random(1 << 20)).await, Verdict::Clean);
    }
}

#[tokio::test]
async fn it_tells_its_version_and_passes_the_self_test() {
    let clamd = real().await;
    let client = client(&clamd);
    client.ping().await.expect("there");
    let version = client.version().await.expect("a version");
    assert!(version.engine.starts_with(|c: char| c.is_ascii_digit()), "{version:?}");
    assert_eq!(version.database, Database::None, "only local signatures are loaded");
    assert_eq!(client.self_test().await.as_deref(), Ok(EICAR_FOUND));
}

/// Else other scanners would take the sources, or whoever has this binary, for infected.
#[test]
fn the_test_file_stands_nowhere_whole() {
    let file = eicar();
    // `memmem` is quick in an unoptimised build as well: this program alone has hundreds of megabytes.
    let holds = |bytes: &[u8]| memchr::memmem::find(bytes, &file[..]).is_some();
    assert!(holds(&[b"x", &file[..], b"y"].concat()));
    let own = std::env::current_exe().expect("this program");
    assert!(!holds(&std::fs::read(own).expect("readable")), "in this program");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for dir in ["src/gateway/clamd", "devkit/src/clamd", "tests/clamd"] {
        for file in std::fs::read_dir(root.join(dir)).expect("a directory") {
            let path = file.expect("an entry").path();
            assert!(!holds(&std::fs::read(&path).expect("readable")), "{}", path.display());
        }
    }
}
