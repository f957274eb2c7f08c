//! The engines that every contract is tested on.

pub mod change_capture;
pub mod dynoxide;
pub mod faulty;
pub mod memory;
#[cfg(test)]
pub(crate) mod small_table;
pub mod stepped;

use dues_store::dynamo::Dynamo;
use dues_store::embedded::Embedded;
use dues_store::table;
use tempfile::TempDir;

use crate::aws::ministack;
use crate::engines::dynoxide::Dynoxide;

/// SQLite in a directory that is deleted with the guard.
pub fn embedded() -> (Embedded, TempDir) {
    let folder = TempDir::new().unwrap();
    (Embedded::open(&folder.path().join("dues.db")).unwrap(), folder)
}

/// In-process DynamoDB.
pub async fn dynoxide() -> (Dynamo, Dynoxide) {
    let server = Dynoxide::new();
    let engine = Dynamo::new(server.client()).with_capacity();
    create_all(&engine).await;
    server.reset_calls();
    (engine, server)
}

/// DynamoDB over HTTP, in a separate account.
pub async fn ministack() -> (Dynamo, ()) {
    let engine = Dynamo::new(ministack::client().await);
    create_all(&engine).await;
    (engine, ())
}

async fn create_all(engine: &Dynamo) {
    for table in table::EMBEDDED {
        engine.create(table).await.unwrap();
    }
}
