//! Inputs from public bug reports, run as their users ran them. One module per area; each test names the kind of input.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;

mod action;
mod adapter_vocabularies;
mod adapters;
mod chats;
mod config_options;
mod diffusion;
mod files;
mod folders;
mod fp4;
mod image_checkpoints;
mod inputs;
mod kinds;
mod labels;
mod layers;
mod limits;
mod loading;
mod lost_tensors;
mod mlx;
mod names;
mod overwriting;
mod promises;
mod prompts;
mod publishing;
mod quantizing;
mod recipes;
mod reports;
mod saved_forms;
mod setting;
mod tokenizers;
mod values;
