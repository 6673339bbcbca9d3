//! `gguf-quantize`, with and without calibration, and bytes at every CPU level and in both byte orders.

mod byte_orders;
mod calibration;
mod calibration_texts;
mod edges;
mod levels;
mod lora;
mod options;
mod outputs;
mod types_by_importance;
