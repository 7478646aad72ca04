//! Pages of other origins, as a browser asks for them.

use devkit::google::{Bucket, Cors};
use reqwest::Method;

use crate::world::{STAGING, World, said};

const PAGE: &str = "https://forms.example.org";

#[tokio::test]
async fn a_page_of_a_known_origin_may_put_and_reads_no_etag() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let part = format!("/staging/o?partNumber=1&uploadId={id}");
    let preflight = |origin: &str, method: &str, headers: &str| {
        let request = world.plain(Method::OPTIONS, &part).header("origin", origin);
        said(
            request
                .header("access-control-request-method", method)
                .header("access-control-request-headers", headers),
        )
    };
    let allowed = "access-control-allow-origin";
    let silent = preflight(PAGE, "PUT", "content-md5").await;
    assert_eq!((silent.status, silent.header(allowed).as_str()), (200, ""), "no CORS on the bucket");
    world
        .google
        .declare_bucket(STAGING, Bucket { cors: vec![Cors::uploads_from(PAGE)], ..Bucket::default() });
    let asked = preflight(PAGE, "PUT", "content-md5, x-evil").await;
    assert_eq!((asked.status, asked.header(allowed).as_str()), (200, PAGE));
    assert_eq!(asked.header("access-control-allow-methods"), "PUT");
    assert_eq!(asked.header("access-control-allow-headers"), "content-md5", "only those that are configured");
    assert_eq!(asked.header("access-control-max-age"), "3600");
    for (origin, method) in [("https://evil.example.org", "PUT"), (PAGE, "DELETE"), ("null", "PUT")] {
        assert_eq!(preflight(origin, method, "").await.header(allowed), "", "{origin} {method}");
    }
    let put = said(world.ask(Method::PUT, &part).header("origin", PAGE).body("x")).await;
    assert_eq!(
        (put.status, put.header(allowed).as_str(), put.header("vary").as_str()),
        (200, PAGE, "Origin")
    );
    let exposed = put.header("access-control-expose-headers").to_lowercase();
    assert!(!exposed.contains("etag"), "{exposed}");
    let refused = said(world.plain(Method::PUT, &part).header("origin", PAGE).body("x")).await;
    assert_eq!((refused.status, refused.header(allowed).as_str()), (403, PAGE), "a page may read why");
    let other =
        said(world.ask(Method::PUT, &part).header("origin", "https://evil.example.org").body("x")).await;
    assert_eq!((other.status, other.header(allowed).as_str()), (200, ""), "done, and not to be read");
    let cors = Cors { headers: vec!["ETag".to_owned()], ..Cors::uploads_from("*") };
    world.google.declare_bucket(STAGING, Bucket { cors: vec![cors], ..Bucket::default() });
    let put = said(world.ask(Method::PUT, &part).header("origin", PAGE).body("x")).await;
    assert_eq!(put.header(allowed), "*");
    assert!(put.header("access-control-expose-headers").contains("ETag"), "configured, it is exposed");
}
