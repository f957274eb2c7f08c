//! The queue between the job and the workers: SQS on AWS, a bounded channel in one program.

#[cfg(feature = "aws")]
pub mod sqs;

use std::future::Future;
use tokio::sync::mpsc;

use crate::collections::job::Task;

/// Why tasks could not be queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue: {0}")]
pub struct QueueError(pub String);

/// Takes tasks.
pub trait Queue: Send + Sync {
    /// Queues them all; waits when the queue is full.
    ///
    /// # Errors
    /// Some may have been queued.
    fn send(&self, tasks: Vec<Task>) -> impl Future<Output = Result<(), QueueError>> + Send;
}

/// A queue inside one program. It is not durable and need not be: what is due can be read again at any time.
impl Queue for mpsc::Sender<Task> {
    async fn send(&self, tasks: Vec<Task>) -> Result<(), QueueError> {
        for task in tasks {
            mpsc::Sender::send(self, task).await.map_err(|_| QueueError("the workers are gone".to_owned()))?;
        }
        Ok(())
    }
}
