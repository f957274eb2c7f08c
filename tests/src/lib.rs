//! Test support: engines, faults, emulated AWS, and a small company.

// Test support may panic, as tests may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic)]

pub mod aws;
pub mod clock;
pub mod contract;
pub mod engines;
pub mod explorer;
pub mod fixtures;
pub mod gateways;
pub mod judge;
pub mod log_capture;
pub mod lossy_streams;
pub mod rest;

/// Runs clauses on SQLite, on in-process DynamoDB, and on the in-memory engine.
#[macro_export]
macro_rules! on_engines {
    ($($clause:ident,)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let (engine, _folder) = $crate::engines::embedded();
                super::$clause(engine).await;
            })*
        }
        mod dynamo_in_process {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let (engine, _server) = $crate::engines::dynoxide().await;
                super::$clause(engine).await;
            })*
        }
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                super::$clause($crate::engines::memory::Memory::default()).await;
            })*
        }
    };
}
