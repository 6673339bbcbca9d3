//! `gguf-quantize`, with and without calibration, and bytes at every CPU level and in both byte orders.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;

mod byte_orders;
mod calibration;
mod calibration_texts;
mod edges;
mod levels;
mod lora;
mod options;
mod outputs;
mod types_by_importance;
