//! The HTTP/JSON half: which call a method and path mean (google.api.http in pubsub.proto), its request read from path,
//! query and body, its answer written as JSON. The official admin clients speak this. Decides nothing about Pub/Sub.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tonic::Status;

use super::engine::Engine;
use super::error::BrokerError;
use super::json;
use super::proto::{
    AcknowledgeRequest, ListSubscriptionsRequest, ListTopicSubscriptionsRequest, ListTopicsRequest,
    ModifyAckDeadlineRequest, PublishRequest, PullRequest, Subscription, Topic, UpdateSubscriptionRequest,
    UpdateTopicRequest,
};

/// Largest body read: a full publish request in base64.
const BODY_BYTES: usize = 16 << 20;

/// A call of the HTTP API, with the resource that its path names.
#[derive(Debug, PartialEq, Eq)]
enum Call<'a> {
    CreateTopic(&'a str),
    GetTopic(&'a str),
    UpdateTopic(&'a str),
    DeleteTopic(&'a str),
    ListTopics(&'a str),
    ListTopicSubscriptions(&'a str),
    Publish(&'a str),
    CreateSubscription(&'a str),
    GetSubscription(&'a str),
    UpdateSubscription(&'a str),
    DeleteSubscription(&'a str),
    ListSubscriptions(&'a str),
    Pull(&'a str),
    Acknowledge(&'a str),
    ModifyAckDeadline(&'a str),
}

/// Parameters of the query.
#[derive(Debug, Default)]
struct Query {
    page_size: i32,
    page_token: String,
    enum_numbers: bool,
}

/// Answers everything that is not one of the gRPC methods.
pub(super) async fn answer(State(engine): State<Arc<Engine>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let content_type = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if content_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
        return Status::unimplemented(format!("the embedded broker does not have {path}"))
            .into_http::<Body>();
    }
    if path == "/" {
        // The path people probe to see whether the emulator is up.
        return "Ok".into_response();
    }
    let Some(call) = route(&parts.method, path) else { return refused(&unknown(&parts.method, path)) };
    let Ok(body) = to_bytes(body, BODY_BYTES).await else {
        return refused(&BrokerError::Invalid(format!(
            "The body is cut off or longer than {BODY_BYTES} bytes."
        )));
    };
    match carry_out(&engine, call, &body, &query(parts.uri.query())).await {
        Ok(json) => json_response(StatusCode::OK, json),
        Err(error) => refused(&error),
    }
}

/// The call that a method and a path mean.
fn route<'a>(method: &Method, path: &'a str) -> Option<Call<'a>> {
    let resource = path.strip_prefix("/v1/")?;
    let slash = resource.rfind('/')?;
    let (resource, verb) = match resource[slash..].find(':') {
        Some(colon) => (&resource[..slash + colon], &resource[slash + colon + 1..]),
        None => (resource, ""),
    };
    let parts: Vec<&str> = resource.split('/').collect();
    let parent = resource.rfind('/').map_or("", |slash| &resource[..slash]);
    match (method.as_str(), parts.as_slice(), verb) {
        ("GET", ["projects", _, "topics"], "") => Some(Call::ListTopics(parent)),
        ("GET", ["projects", _, "subscriptions"], "") => Some(Call::ListSubscriptions(parent)),
        ("GET", ["projects", _, "topics", _, "subscriptions"], "") => {
            Some(Call::ListTopicSubscriptions(parent))
        }
        ("PUT", ["projects", _, "topics", _], "") => Some(Call::CreateTopic(resource)),
        ("GET", ["projects", _, "topics", _], "") => Some(Call::GetTopic(resource)),
        ("PATCH", ["projects", _, "topics", _], "") => Some(Call::UpdateTopic(resource)),
        ("DELETE", ["projects", _, "topics", _], "") => Some(Call::DeleteTopic(resource)),
        ("POST", ["projects", _, "topics", _], "publish") => Some(Call::Publish(resource)),
        ("PUT", ["projects", _, "subscriptions", _], "") => Some(Call::CreateSubscription(resource)),
        ("GET", ["projects", _, "subscriptions", _], "") => Some(Call::GetSubscription(resource)),
        ("PATCH", ["projects", _, "subscriptions", _], "") => Some(Call::UpdateSubscription(resource)),
        ("DELETE", ["projects", _, "subscriptions", _], "") => Some(Call::DeleteSubscription(resource)),
        ("POST", ["projects", _, "subscriptions", _], "pull") => Some(Call::Pull(resource)),
        ("POST", ["projects", _, "subscriptions", _], "acknowledge") => Some(Call::Acknowledge(resource)),
        ("POST", ["projects", _, "subscriptions", _], "modifyAckDeadline") => {
            Some(Call::ModifyAckDeadline(resource))
        }
        _ => None,
    }
}

fn query(raw: Option<&str>) -> Query {
    let mut query = Query::default();
    for (key, value) in url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        match key.as_ref() {
            "pageSize" | "page_size" => query.page_size = value.parse().unwrap_or_default(),
            "pageToken" | "page_token" => query.page_token = value.into_owned(),
            "$alt" | "alt" => query.enum_numbers = value.contains("enum-encoding=int"),
            _ => {}
        }
    }
    query
}

/// Runs the call; what the path names wins over what the body names.
async fn carry_out(
    engine: &Engine,
    call: Call<'_>,
    body: &[u8],
    query: &Query,
) -> Result<Vec<u8>, BrokerError> {
    let page_token = query.page_token.clone();
    let page_size = query.page_size;
    let topic = |topic: &Topic| json::write("Topic", topic, query.enum_numbers);
    let subscription = |described: &Subscription| json::write("Subscription", described, query.enum_numbers);
    match call {
        Call::CreateTopic(name) => {
            let description = Topic { name: name.to_owned(), ..json::read("Topic", body)? };
            engine.create_topic(description).map(|made| topic(&made))
        }
        Call::GetTopic(name) => engine.topic(name).map(|found| topic(&found)),
        Call::UpdateTopic(name) => {
            let mut request: UpdateTopicRequest = json::read("UpdateTopicRequest", body)?;
            name.clone_into(&mut request.topic.get_or_insert_default().name);
            engine.update_topic(request).map(|updated| topic(&updated))
        }
        Call::DeleteTopic(name) => engine.delete_topic(name).map(|()| empty()),
        Call::ListTopics(project) => {
            let request = ListTopicsRequest { project: project.to_owned(), page_size, page_token };
            engine
                .list_topics(&request)
                .map(|found| json::write("ListTopicsResponse", &found, query.enum_numbers))
        }
        Call::ListTopicSubscriptions(topic) => {
            let request = ListTopicSubscriptionsRequest { topic: topic.to_owned(), page_size, page_token };
            let found = engine.list_topic_subscriptions(&request)?;
            Ok(json::write("ListTopicSubscriptionsResponse", &found, query.enum_numbers))
        }
        Call::Publish(topic) => {
            let request = PublishRequest { topic: topic.to_owned(), ..json::read("PublishRequest", body)? };
            engine.publish(request).map(|published| json::write("PublishResponse", &published, false))
        }
        Call::CreateSubscription(name) => {
            let description = Subscription { name: name.to_owned(), ..json::read("Subscription", body)? };
            engine.create_subscription(description).map(|made| subscription(&made))
        }
        Call::GetSubscription(name) => engine.subscription(name).map(|found| subscription(&found)),
        Call::UpdateSubscription(name) => {
            let mut request: UpdateSubscriptionRequest = json::read("UpdateSubscriptionRequest", body)?;
            name.clone_into(&mut request.subscription.get_or_insert_default().name);
            engine.update_subscription(request).map(|updated| subscription(&updated))
        }
        Call::DeleteSubscription(name) => engine.delete_subscription(name).map(|()| empty()),
        Call::ListSubscriptions(project) => {
            let request = ListSubscriptionsRequest { project: project.to_owned(), page_size, page_token };
            let found = engine.list_subscriptions(&request)?;
            Ok(json::write("ListSubscriptionsResponse", &found, query.enum_numbers))
        }
        Call::Pull(name) => {
            let request = PullRequest { subscription: name.to_owned(), ..json::read("PullRequest", body)? };
            engine.pull(&request).await.map(|pulled| json::write("PullResponse", &pulled, false))
        }
        Call::Acknowledge(name) => {
            let request: AcknowledgeRequest = json::read("AcknowledgeRequest", body)?;
            engine
                .acknowledge(&AcknowledgeRequest { subscription: name.to_owned(), ..request })
                .map(|()| empty())
        }
        Call::ModifyAckDeadline(name) => {
            let request: ModifyAckDeadlineRequest = json::read("ModifyAckDeadlineRequest", body)?;
            let request = ModifyAckDeadlineRequest { subscription: name.to_owned(), ..request };
            engine.modify_ack_deadline(&request).map(|()| empty())
        }
    }
}

fn empty() -> Vec<u8> {
    b"{}".to_vec()
}

/// Within the API, what the broker lacks is UNIMPLEMENTED; anywhere else there is simply nothing.
fn unknown(method: &Method, path: &str) -> BrokerError {
    if path.starts_with("/v1/projects/") {
        BrokerError::Unsupported(format!("{method} {path}"))
    } else {
        BrokerError::NotFound(path.to_owned())
    }
}

fn refused(error: &BrokerError) -> Response {
    let (status, body) = error.to_http();
    json_response(status, body.to_string().into_bytes())
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_paths_mean_calls() {
        let topic = "projects/p/topics/t";
        let sub = "projects/example.com:p/subscriptions/s";
        let table = [
            ("PUT", "/v1/projects/p/topics/t", Some(Call::CreateTopic(topic))),
            ("PATCH", "/v1/projects/p/topics/t", Some(Call::UpdateTopic(topic))),
            ("POST", "/v1/projects/p/topics/t:publish", Some(Call::Publish(topic))),
            ("GET", "/v1/projects/p/topics/t/subscriptions", Some(Call::ListTopicSubscriptions(topic))),
            ("GET", "/v1/projects/p/topics", Some(Call::ListTopics("projects/p"))),
            ("GET", "/v1/projects/example.com:p/subscriptions/s", Some(Call::GetSubscription(sub))),
            ("POST", "/v1/projects/example.com:p/subscriptions/s:pull", Some(Call::Pull(sub))),
            ("POST", "/v1/projects/p/subscriptions/s:seek", None),
            ("GET", "/v1/projects/p/schemas", None),
            ("POST", "/v1/projects/p/topics/t", None),
            ("GET", "/", None),
            ("GET", "/v1/", None),
        ];
        for (method, path, call) in table {
            let method: Method = method.parse().expect("a method");
            assert_eq!(route(&method, path), call, "{method} {path}");
        }
    }

    #[test]
    fn the_official_clients_query_is_understood() {
        let query = query(Some("pageSize=7&pageToken=projects%2Fp&%24alt=json%3Benum-encoding%3Dint"));
        assert_eq!((query.page_size, query.page_token.as_str(), query.enum_numbers), (7, "projects/p", true));
    }
}
