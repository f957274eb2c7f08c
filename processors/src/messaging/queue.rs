//! The queue between `collections-job` and its workers: SQS on AWS, a bounded channel in `dues`.

use std::future::Future;
use tokio::sync::mpsc;

use crate::collections::job::Task;

/// Why tasks could not be queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue: {0}")]
pub struct QueueError(pub String);

/// Queues tasks.
pub trait Queue: Send + Sync {
    /// Queues tasks; waits while the queue is full.
    ///
    /// # Errors
    /// [`QueueError`]; some tasks may have been queued.
    fn send(&self, tasks: Vec<Task>) -> impl Future<Output = Result<(), QueueError>> + Send;
}

/// An in-process queue. It need not be durable: the job can read the due records again at any time.
impl Queue for mpsc::Sender<Task> {
    async fn send(&self, tasks: Vec<Task>) -> Result<(), QueueError> {
        for task in tasks {
            mpsc::Sender::send(self, task)
                .await
                .map_err(|_| QueueError("the workers are gone".to_owned()))?;
        }
        Ok(())
    }
}
