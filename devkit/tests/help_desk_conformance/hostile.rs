//! What a strict server refuses: requests that are malformed, unknown, unsigned, too large or no HTTP at all. After all of it
//! nothing is made, and the help desk works.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use devkit::help_desk::HelpDeskOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{World, said, ticket};

/// The help desk has made nothing, and makes the next ticket.
async fn unharmed(world: &World) {
    assert_eq!(world.desk.counters().made, 0);
    assert_eq!(world.create("after").await, 1);
}

#[tokio::test]
async fn nobody_comes_in_without_the_credentials() {
    let world = World::new().await;
    let path = "/api/1.1/json/categories/";
    let (key, code) = (world.desk.api_key().to_owned(), world.desk.auth_code().to_owned());
    let plain = || world.plain("GET", path);
    let careless = [
        plain(),
        plain().basic_auth(&key, Some("wrong")),
        plain().basic_auth("wrong", Some(&code)),
        plain().basic_auth(&key, None::<&str>),
        plain().bearer_auth(&code),
        plain().header("Authorization", "Basic not base64"),
        plain().query(&[("api_key", &key), ("auth_code", &code)]),
    ];
    for request in careless {
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Basic realm=\"API\"");
        assert!(response.headers()["server"].to_str().unwrap().contains("stand-in"));
        let (status, body) = said(response).await;
        assert_eq!((status, body.is_object()), (401, true));
    }
    assert_eq!(world.desk.counters().unauthorized, 7);
    world.desk.set_credentials("new-key", "new-code");
    assert_eq!(world.get("categories/").send().await.unwrap().status(), 401);
    let renewed = plain().basic_auth("new-key", Some("new-code")).send().await.unwrap();
    assert_eq!(renewed.status(), 200);
}

#[tokio::test]
async fn paths_methods_and_parameters_are_known_or_refused() {
    let world = World::new().await;
    let json_url = "/api/1.1/json/";
    let (key, code) = (world.desk.api_key().to_owned(), world.desk.auth_code().to_owned());
    for (expected, method, path) in [
        (404, "GET", "/"),
        (404, "GET", "/api/1.1/xml/tickets/"),
        (404, "GET", "/api/1.1/json/tickets"),
        (404, "GET", "/api/1.1/json/users/"),
        (404, "GET", "/api/1.1/json/ticket/1/"),
        (404, "GET", "/api/1.1/json/ticket/GEN00000001/"),
        (404, "GET", "/api/1.1/json//tickets/"),
        (405, "DELETE", "/api/1.1/json/ticket/1/"),
        (405, "PUT", "/api/1.1/json/tickets/"),
        (405, "POST", "/api/1.1/json/categories/"),
        (400, "GET", "/api/1.1/json/categories/?page=1"),
        (400, "GET", "/api/1.1/json/tickets/?size=51"),
        (400, "GET", "/api/1.1/json/tickets/?size=0"),
        (400, "GET", "/api/1.1/json/tickets/?page=0"),
        (400, "GET", "/api/1.1/json/tickets/?page=x"),
        (400, "GET", "/api/1.1/json/tickets/?status=7"),
        (400, "GET", "/api/1.1/json/tickets/?sort=cheapest"),
        (400, "GET", "/api/1.1/json/tickets/?q=tag:%22a"),
        (400, "GET", "/api/1.1/json/tickets/?q=colour:%22red%22"),
        (200, "GET", "/api/1.1/json/tickets/?status=_all&q=&page=18446744073709551&size=50"),
    ] {
        let request = world.plain(method, path).basic_auth(&key, Some(&code));
        let (status, body) = said(request.send().await.unwrap()).await;
        assert_eq!((status, body.is_object()), (expected, true), "{method} {path}: {body}");
    }
    assert!(world.desk.api_url().ends_with(json_url));
    unharmed(&world).await;
}

#[tokio::test]
async fn a_ticket_is_refused_by_the_name_of_its_field() {
    let world = World::new().await;
    for (changes, field) in [
        (json!({"category": 3}), "category"),
        (json!({"category": null}), "category"),
        (json!({"email": "ada@"}), "email"),
        (json!({"text": null}), "text"),
        (json!({"title": "x"}), "title"),
        (json!({"t-cf-2": "Complaint"}), "t-cf-2"),
        (json!({"t-cf-77": "x"}), "t-cf-77"),
        (json!({"tags": ["a", "b"]}), "tags"),
        (json!({"attachments": "x"}), "attachments"),
    ] {
        let (status, body) = said(world.post("tickets/").json(&ticket(changes)).send().await.unwrap()).await;
        let named: Vec<&Value> =
            body["error"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
        assert_eq!((status, named.as_slice()), (400, &[&json!(field)][..]), "{body}");
    }
    let (_, body) = said(world.post("tickets/").json(&json!({})).send().await.unwrap()).await;
    let all: Vec<&str> =
        body["error"].as_array().unwrap().iter().filter_map(|error| error["field"].as_str()).collect();
    assert_eq!(all, ["category", "subject", "name", "email", "text"]);
    assert_eq!(body["error"][0]["errors"], json!(["This field is required."]));
    unharmed(&world).await;
}

#[tokio::test]
async fn a_body_is_json_or_a_form() {
    let world = World::new().await;
    let good = ticket(json!({})).to_string();
    let deep = "[".repeat(100_000);
    for (expected, content_type, body) in [
        (415, "text/plain", good.clone()),
        (415, "application/x-www-form-urlencoded", "category=1&subject=x".to_owned()),
        (400, "application/json", "{".to_owned()),
        (400, "application/json", format!("[{good}]")),
        (400, "application/json", deep),
        (400, "application/json", "\"text\"".to_owned()),
        (400, "multipart/form-data", good.clone()),
        (400, "multipart/form-data; boundary=x", good.clone()),
        (400, "multipart/form-data; boundary=x", "--x\r\n\r\n--x--\r\n".to_owned()),
    ] {
        let request = world.post("tickets/").header("Content-Type", content_type).body(body);
        let (status, body) = said(request.send().await.unwrap()).await;
        assert_eq!((status, body["error"].is_array()), (expected, true), "{content_type}: {body}");
    }
    let untyped = world.post("tickets/").body(good).send().await.unwrap();
    assert_eq!(untyped.status(), 415);
    let not_utf8 =
        world.post("tickets/").header("Content-Type", "application/json").body(vec![b'"', 0xff, b'"']);
    assert_eq!(not_utf8.send().await.unwrap().status(), 400);
    assert_eq!(world.desk.counters().refused, 11);
    unharmed(&world).await;
}

#[tokio::test]
async fn a_body_has_a_limit_however_it_is_sent() {
    let world = World::with(HelpDeskOptions { body_limit: 10_000, ..HelpDeskOptions::default() }).await;
    let long = ticket(json!({"text": "x".repeat(3_000_000)})).to_string();
    let sized = world.post("tickets/").header("Content-Type", "application/json").body(long.clone());
    assert_eq!(said(sized.send().await.unwrap()).await.0, 413);
    // In chunks, without a length: nothing says beforehand how much will come.
    let mut stream = TcpStream::connect(world.desk.base_url().replace("http://", "")).await.unwrap();
    let key = STANDARD.encode(format!("{}:{}", world.desk.api_key(), world.desk.auth_code()));
    let head = format!(
        "POST /api/1.1/json/tickets/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic {key}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for chunk in long.as_bytes().chunks(1_000) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
        stream.write_all(chunk).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let just = ticket(json!({"text": "x".repeat(9_000)}));
    assert_eq!(said(world.post("tickets/").json(&just).send().await.unwrap()).await.0, 200);
    assert_eq!(world.desk.counters().made, 1);
}

#[tokio::test]
async fn files_have_a_limit_of_their_own() {
    let world = World::with(HelpDeskOptions { files_limit: 1_000, ..HelpDeskOptions::default() }).await;
    let form = |bytes: usize| {
        let part = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = "--x\r\nContent-Disposition: form-data; name=\"attachments\"; filename=\"f\"\r\n\r\n";
        let fields =
            [("category", "1"), ("subject", "s"), ("text", "t"), ("name", "n"), ("email", "e@example.org")];
        let fields: String = fields.iter().map(|(name, value)| part(name, value)).collect();
        format!("{fields}{file}{}\r\n--x--\r\n", "f".repeat(bytes))
    };
    let send = async |bytes| {
        let request = world
            .post("tickets/")
            .header("Content-Type", "multipart/form-data; boundary=x")
            .body(form(bytes));
        said(request.send().await.unwrap()).await
    };
    let (status, body) = send(1_001).await;
    assert_eq!((status, &body["error"][0]["field"]), (400, &json!("attachments")));
    assert_eq!(send(1_000).await.0, 200);
    let kept = &world.desk.tickets()[0].files[0];
    assert_eq!((kept.bytes.len(), kept.content_type.as_deref()), (1_000, None));
}

#[tokio::test]
async fn what_is_no_http_harms_nobody() {
    let world = World::new().await;
    let host = world.desk.base_url().replace("http://", "");
    for garbage in [
        "\x16\x03\x01\x02\x00 a TLS greeting",
        "EHLO help-desk\r\n\r\n",
        "POST /api/1.1/json/tickets/ HTTP/1.1\r\nHost: x\r\nContent-Length: minus\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST /api/1.1/json/tickets/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
    ] {
        let mut stream = TcpStream::connect(&host).await.unwrap();
        stream.write_all(garbage.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // It answers or it hangs up; either is an end.
        drop(stream.read_to_end(&mut answer).await);
    }
    unharmed(&world).await;
}
