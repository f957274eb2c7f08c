//! The engines that every contract is tested on.

use dues_store::dynamo::Dynamo;
use dues_store::embedded::Embedded;
use dues_store::table;
use tempfile::TempDir;

use crate::dynoxide::Dynoxide;
use crate::ministack;

/// SQLite in a folder that goes away with the guard.
pub fn embedded() -> (Embedded, TempDir) {
    let folder = TempDir::new().unwrap();
    (Embedded::open(&folder.path().join("dues.db")).unwrap(), folder)
}

/// DynamoDB in this process.
pub async fn dynoxide() -> (Dynamo, Dynoxide) {
    let server = Dynoxide::new();
    let engine = Dynamo::new(server.client()).with_capacity();
    create_all(&engine).await;
    server.reset_calls();
    (engine, server)
}

/// DynamoDB over HTTP, in an account of its own.
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
