//! The gRPC half: each method of google.pubsub.v1's Publisher and Subscriber hands its request to the engine. Decides
//! nothing and holds nothing itself. Methods that are not here are answered UNIMPLEMENTED.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::engine::Engine;
use super::proto::publisher_server::Publisher;
use super::proto::subscriber_server::Subscriber;
use super::proto::{
    AcknowledgeRequest, DeleteSubscriptionRequest, DeleteTopicRequest, GetSubscriptionRequest,
    GetTopicRequest, ListSubscriptionsRequest, ListSubscriptionsResponse, ListTopicSubscriptionsRequest,
    ListTopicSubscriptionsResponse, ListTopicsRequest, ListTopicsResponse, ModifyAckDeadlineRequest,
    PublishRequest, PublishResponse, PullRequest, PullResponse, StreamingPullRequest, Subscription, Topic,
    UpdateSubscriptionRequest, UpdateTopicRequest,
};
use super::stream::{self, Responses};
use crate::trap::Fate;

/// Both services, over one engine.
#[derive(Debug, Clone)]
pub(super) struct Grpc(pub(super) Arc<Engine>);

#[tonic::async_trait]
impl Publisher for Grpc {
    async fn create_topic(&self, request: Request<Topic>) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.0.create_topic(request.into_inner())?))
    }

    async fn update_topic(&self, request: Request<UpdateTopicRequest>) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.0.update_topic(request.into_inner())?))
    }

    async fn publish(&self, request: Request<PublishRequest>) -> Result<Response<PublishResponse>, Status> {
        Ok(Response::new(self.0.publish(request.into_inner())?))
    }

    async fn get_topic(&self, request: Request<GetTopicRequest>) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.0.topic(&request.into_inner().topic)?))
    }

    async fn list_topics(
        &self,
        request: Request<ListTopicsRequest>,
    ) -> Result<Response<ListTopicsResponse>, Status> {
        Ok(Response::new(self.0.list_topics(&request.into_inner())?))
    }

    async fn list_topic_subscriptions(
        &self,
        request: Request<ListTopicSubscriptionsRequest>,
    ) -> Result<Response<ListTopicSubscriptionsResponse>, Status> {
        Ok(Response::new(self.0.list_topic_subscriptions(&request.into_inner())?))
    }

    async fn delete_topic(&self, request: Request<DeleteTopicRequest>) -> Result<Response<()>, Status> {
        Ok(Response::new(self.0.delete_topic(&request.into_inner().topic)?))
    }
}

#[tonic::async_trait]
impl Subscriber for Grpc {
    type StreamingPullStream = Responses;

    async fn create_subscription(
        &self,
        request: Request<Subscription>,
    ) -> Result<Response<Subscription>, Status> {
        Ok(Response::new(self.0.create_subscription(request.into_inner())?))
    }

    async fn get_subscription(
        &self,
        request: Request<GetSubscriptionRequest>,
    ) -> Result<Response<Subscription>, Status> {
        Ok(Response::new(self.0.subscription(&request.into_inner().subscription)?))
    }

    async fn update_subscription(
        &self,
        request: Request<UpdateSubscriptionRequest>,
    ) -> Result<Response<Subscription>, Status> {
        Ok(Response::new(self.0.update_subscription(request.into_inner())?))
    }

    async fn list_subscriptions(
        &self,
        request: Request<ListSubscriptionsRequest>,
    ) -> Result<Response<ListSubscriptionsResponse>, Status> {
        Ok(Response::new(self.0.list_subscriptions(&request.into_inner())?))
    }

    async fn delete_subscription(
        &self,
        request: Request<DeleteSubscriptionRequest>,
    ) -> Result<Response<()>, Status> {
        Ok(Response::new(self.0.delete_subscription(&request.into_inner().subscription)?))
    }

    async fn modify_ack_deadline(
        &self,
        request: Request<ModifyAckDeadlineRequest>,
    ) -> Result<Response<()>, Status> {
        Ok(Response::new(self.0.modify_ack_deadline(&request.into_inner())?))
    }

    async fn acknowledge(&self, request: Request<AcknowledgeRequest>) -> Result<Response<()>, Status> {
        let request = request.into_inner();
        if let Some(snare) = self.0.ack_snare(&request.subscription)
            && snare.stand().await == Fate::Cut
        {
            return Ok(Response::new(()));
        }
        Ok(Response::new(self.0.acknowledge(&request)?))
    }

    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<PullResponse>, Status> {
        Ok(Response::new(self.0.pull(&request.into_inner()).await?))
    }

    async fn streaming_pull(
        &self,
        request: Request<Streaming<StreamingPullRequest>>,
    ) -> Result<Response<Responses>, Status> {
        Ok(Response::new(stream::open(Arc::clone(&self.0), request.into_inner()).await?))
    }
}
