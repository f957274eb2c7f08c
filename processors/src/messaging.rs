//! Ports to streams, queues and buses: Kinesis, SQS and EventBridge on AWS, durable local streams in `dues`.

pub mod bus;
pub mod inbox;
pub mod outbox;
pub mod queue;
