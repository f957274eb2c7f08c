//! What the tests run against and with: engines, faults, and a small company.

// A test may stop at the first surprise, and so may what tests are made of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_arithmetic)]

pub mod contract;
pub mod dynoxide;
pub mod edges;
pub mod engines;
pub mod faulty;
pub mod figureforge_events;
pub mod heard;
pub mod impatient;
pub mod knock;
pub mod leaky;
pub mod ledger;
pub mod logged;
pub mod manual;
pub mod mapping;
pub mod memory;
pub mod ministack;
pub mod payments;
pub mod pool;
pub mod recorder;
pub mod serenya_events;
pub mod stack;
pub mod stripe;
pub mod template;
pub mod usage_events;
pub mod world;

/// Runs clauses on SQLite, on DynamoDB in this process, and on maps.
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
                super::$clause($crate::memory::Memory::default()).await;
            })*
        }
    };
}

#[cfg(test)]
mod tables;
