//! Layouts of every family, and errors for checkpoints without one.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod adapter_names;
mod configs;
mod diffusion;
mod documented;
mod errors;
mod export;
mod golden;
mod loading;
mod options;
mod routes;
mod rows;
mod saved_form;
mod shapes;
mod t5_buckets;
mod tokenizers;
mod wall;
