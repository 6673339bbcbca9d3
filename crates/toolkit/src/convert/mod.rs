//! Conversions: each is a struct of options with a `plan` that can be inspected and a `run` that writes files.
//!
//! | options | input | output |
//! |---|---|---|
//! | [`Convert`] | checkpoint folder or address on the Hub, with adapters to merge | GGUF files, or files of another runtime |
//! | [`ConvertAdapter`] | LoRA adapter | GGUF adapter file |
//! | [`ConvertProjector`] | checkpoint | GGUF file of its vision or audio projector |
//! | [`ConvertVocab`] | checkpoint, weights not needed | GGUF file of metadata and tokenizer |
//! | [`ConvertLegacy`] | LLaMA file in a format older than GGUF | GGUF files |
//! | [`Save`] | state dict in memory | GGUF files |
//! | [`Quantize`] | GGUF file | GGUF files |
//! | [`Export`] | GGUF file | checkpoint folder |
//!
//! [`gguf_of`] returns the GGUF file of a checkpoint, and converts it if necessary. [`Planned`] divides a conversion into parts,
//! which run in several processes or on several machines. A program with its own journals calls `run_for` with a [`Caller`].

mod adapter;
mod by_memory;
mod calibrated;
mod checked;
mod checkpoint;
mod diffusion;
mod export;
mod fallback_advice;
mod finished;
mod foreign;
mod gguf_of;
mod input_type;
mod legacy;
mod opened;
mod operation;
mod options;
pub mod plan_file;
mod planned;
mod projector;
mod quantize;
pub(crate) mod quantize_model;
mod report;
mod run;
mod run_args;
mod save;
mod vocab;
mod write;

pub(crate) use self::run_args::{Parts, RunArgs};
pub use self::{
    adapter::ConvertAdapter,
    checkpoint::Convert,
    export::{Export, ExportReport, ExportedFile},
    foreign::foreign_formats,
    gguf_of::gguf_of,
    input_type::InputType,
    legacy::ConvertLegacy,
    operation::Operation,
    options::{
        ArchOptions, EncodingOptions, MtpLayers, NamingOptions, OutputOptions, PlainOptions, ReadingOptions,
    },
    planned::{Planned, WorkerOptions},
    projector::ConvertProjector,
    quantize::Quantize,
    report::{DroppedTensor, OutputFile, OutputTensor, Report},
    run_args::{Caller, Outcome, Plan},
    save::Save,
    vocab::{ConvertVocab, VocabReport},
};
pub use crate::totals::Total;
