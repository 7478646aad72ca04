"""Python's official Pub/Sub client, unchanged, against the broker named by PUBSUB_EMULATOR_HOST.

A client written by others, on another gRPC stack: what it accepts is Pub/Sub, not merely what our own client expects.
Exits non-zero, with the reason, at the first thing that is not as it should be.
"""

import os
import queue
import sys
import time

from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.protobuf import duration_pb2, field_mask_pb2

PROJECT = "python"
COUNT = 200
SOON = 20


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def expect(error, what, call, **arguments):
    """The call is refused with exactly this error."""
    try:
        call(**arguments)
    except error:
        return
    except exceptions.GoogleAPICallError as other:
        sys.exit(f"FAILED: {what}: expected {error.__name__}, got {other!r}")
    sys.exit(f"FAILED: {what}: expected {error.__name__}, but it succeeded")


def make_things(publisher, subscriber):
    """A topic with a dead-letter topic, a subscription on each; returns their names."""
    things = publisher.topic_path(PROJECT, "things")
    dead = publisher.topic_path(PROJECT, "dead")
    look = subscriber.subscription_path(PROJECT, "look")
    morgue = subscriber.subscription_path(PROJECT, "morgue")
    publisher.create_topic(name=things)
    publisher.create_topic(name=dead)
    subscriber.create_subscription(name=morgue, topic=dead)
    made = subscriber.create_subscription(
        request={
            "name": look,
            "topic": things,
            "ack_deadline_seconds": 30,
            "dead_letter_policy": {"dead_letter_topic": dead, "max_delivery_attempts": 5},
            "retry_policy": {
                "minimum_backoff": duration_pb2.Duration(nanos=200_000_000),
                "maximum_backoff": duration_pb2.Duration(seconds=1),
            },
        }
    )
    check(made.dead_letter_policy.max_delivery_attempts == 5, "the dead-letter policy is kept")
    check(made.retry_policy.minimum_backoff.total_seconds() == 0.2, "the retry policy is kept")
    check(subscriber.get_subscription(subscription=look) == made, "what was created is found")
    return things, dead, look, morgue


def refusals(publisher, subscriber, things, look):
    missing = publisher.topic_path(PROJECT, "missing")
    expect(exceptions.AlreadyExists, "a topic twice", publisher.create_topic, name=things)
    expect(exceptions.AlreadyExists, "a subscription twice", subscriber.create_subscription, name=look, topic=things)
    expect(exceptions.NotFound, "an unknown topic", publisher.get_topic, topic=missing)
    expect(exceptions.InvalidArgument, "a bad name", publisher.create_topic, name="things")
    expect(
        exceptions.MethodNotImplemented,
        "snapshots",
        subscriber.create_snapshot,
        name=f"projects/{PROJECT}/snapshots/snap",
        subscription=look,
    )
    listed = [topic.name for topic in publisher.list_topics(project=f"projects/{PROJECT}")]
    check(things in listed and len(listed) == 2, f"two topics are listed, not {listed}")
    paged = [topic.name for topic in publisher.list_topics(request={"project": f"projects/{PROJECT}", "page_size": 1})]
    check(paged == listed, "pages add up to the list")
    change = {"name": look, "ack_deadline_seconds": 20}
    mask = field_mask_pb2.FieldMask(paths=["ack_deadline_seconds"])
    updated = subscriber.update_subscription(request={"subscription": change, "update_mask": mask})
    check(updated.ack_deadline_seconds == 20 and updated.dead_letter_policy, "an update changes what its mask names")


def stream_and_ack(publisher, subscriber, things, look):
    arrived = queue.Queue()
    stream = subscriber.subscribe(look, callback=arrived.put)
    started = time.monotonic()
    published = [publisher.publish(things, f"message {n}".encode(), n=str(n)) for n in range(COUNT)]
    ids = {future.result(timeout=SOON) for future in published}
    check(len(ids) == COUNT, "every message has an id of its own")
    seen = {}
    while len(seen) < COUNT:
        message = arrived.get(timeout=SOON)
        check(message.message_id not in seen, f"{message.message_id} came twice")
        check(message.data.decode() == f"message {message.attributes['n']}", "data and attributes belong together")
        check(message.delivery_attempt == 1, "the first delivery is counted as such")
        seen[message.message_id] = message
        message.ack()
    check(set(seen) == ids, "what arrived is what was published")
    print(f"{COUNT} published and acked in {time.monotonic() - started:.2f} s")
    return stream, arrived


def nack_and_dead_letter(publisher, subscriber, things, morgue, arrived):
    poison = publisher.publish(things, b"poison", kind="poison").result(timeout=SOON)
    for attempt in range(1, 6):
        message = arrived.get(timeout=SOON)
        check(message.message_id == poison, "a nacked message comes again")
        check(message.delivery_attempt == attempt, f"attempt {attempt} is counted, got {message.delivery_attempt}")
        message.nack()
    pulled = subscriber.pull(subscription=morgue, max_messages=10, timeout=SOON).received_messages
    check(len(pulled) == 1, f"one message is dead, not {len(pulled)}")
    attributes = dict(pulled[0].message.attributes)
    check(pulled[0].message.data == b"poison" and attributes["kind"] == "poison", "the copy is whole")
    check(attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5", f"five deliveries: {attributes}")
    check(attributes["CloudPubSubDeadLetterSourceSubscription"] == "look", f"from where: {attributes}")
    subscriber.acknowledge(subscription=morgue, ack_ids=[pulled[0].ack_id])
    expect(
        exceptions.InvalidArgument,
        "a made-up ack id",
        subscriber.acknowledge,
        subscription=morgue,
        ack_ids=["made-up"],
    )


def main():
    check(os.environ.get("PUBSUB_EMULATOR_HOST"), "PUBSUB_EMULATOR_HOST must name the broker")
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    things, dead, look, morgue = make_things(publisher, subscriber)
    refusals(publisher, subscriber, things, look)
    stream, arrived = stream_and_ack(publisher, subscriber, things, look)
    nack_and_dead_letter(publisher, subscriber, things, morgue, arrived)
    started = time.monotonic()
    stream.cancel()
    stream.result(timeout=SOON)
    print(f"stream stopped in {time.monotonic() - started:.2f} s")
    check(arrived.empty(), "nothing more came")
    subscriber.delete_subscription(subscription=look)
    publisher.delete_topic(topic=dead)
    expect(exceptions.NotFound, "a deleted subscription", subscriber.get_subscription, subscription=look)
    subscriber.close()
    print("ok")


if __name__ == "__main__":
    main()
