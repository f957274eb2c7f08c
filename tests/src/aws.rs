//! Emulated AWS: ministack, the deployed stack, recorded calls, event source mappings, and the template.

pub mod cognito_pool;
pub mod event_source_mapping;
pub mod function_recorder;
pub mod ministack;
pub mod recording_proxy;
pub mod stack;
pub mod template;
