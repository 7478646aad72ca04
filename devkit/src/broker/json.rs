//! Between JSON and the messages of google.pubsub.v1, by protobuf's canonical mapping (durations as "10s", bytes in
//! base64, 64-bit numbers as strings), driven by the compiled descriptors. Pure; unknown fields are passed over.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};

use super::error::BrokerError;
use super::proto::DESCRIPTORS;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("build.rs wrote the descriptors"));

/// Reads `body` as the message called `name` in google.pubsub.v1; an empty body is an empty message.
pub(super) fn read<M: Message + Default>(name: &str, body: &[u8]) -> Result<M, BrokerError> {
    if body.is_empty() {
        return Ok(M::default());
    }
    let invalid =
        |why: String| BrokerError::Invalid(format!("Invalid JSON payload received for {name}: {why}"));
    let mut json = serde_json::Deserializer::from_slice(body);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor(name), &mut json, &options)
        .map_err(|error| invalid(error.to_string()))?;
    json.end().map_err(|error| invalid(error.to_string()))?;
    message.transcode_to().map_err(|error| invalid(error.to_string()))
}

/// Writes `message`, which is called `name` in google.pubsub.v1, with enums as numbers where the caller asked for that.
pub(super) fn write<M: Message>(name: &str, message: &M, enum_numbers: bool) -> Vec<u8> {
    let mut dynamic = DynamicMessage::new(descriptor(name));
    let mut json = serde_json::Serializer::new(Vec::new());
    let options = SerializeOptions::new().use_enum_numbers(enum_numbers);
    dynamic.transcode_from(message).expect("the message has the shape of its own descriptor");
    dynamic.serialize_with_options(&mut json, &options).expect("a message of ours has a JSON form");
    json.into_inner()
}

fn descriptor(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("google.pubsub.v1.{name}")).expect("the message is in pubsub.proto")
}

#[cfg(test)]
mod tests {
    use super::super::proto::{Subscription, UpdateSubscriptionRequest};
    use super::*;

    #[test]
    fn the_canonical_mapping_is_spoken() {
        let body = br#"{"subscription": {"retryPolicy": {"minimumBackoff": "1.5s"}, "ackDeadlineSeconds": 20,
            "state": 1, "unknown": {"a": 1}}, "updateMask": "ackDeadlineSeconds,retryPolicy"}"#;
        let request: UpdateSubscriptionRequest = read("UpdateSubscriptionRequest", body).expect("good JSON");
        assert_eq!(request.update_mask.expect("mask").paths, ["ack_deadline_seconds", "retry_policy"]);
        let subscription = request.subscription.expect("subscription");
        let text = String::from_utf8(write("Subscription", &subscription, false)).expect("UTF-8");
        assert!(text.contains(r#""minimumBackoff":"1.500s""#), "{text}");
        assert!(text.contains(r#""state":"ACTIVE""#), "{text}");
        let text = String::from_utf8(write("Subscription", &subscription, true)).expect("UTF-8");
        assert!(text.contains(r#""state":1"#), "{text}");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in ["{", "[]", "{} {}", r#"{"ackDeadlineSeconds": "many"}"#] {
            assert!(read::<Subscription>("Subscription", bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
