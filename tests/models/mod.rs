//! Tiny models of every family, run through the libraries: predictions, gradients, statistics and memory.

mod adapters;
mod audio;
mod drafts;
mod gradients;
mod logits;
mod memory;
mod moments;
mod mutate;
mod probe;
mod sessions;
mod vision;
