//! The table of readers.

mod architectures;
mod checkpoints;
mod containers;
mod journals;
mod texts;

use crate::{MAX_BYTES, Mutation, Target, seeds};

/// Every reader of untrusted files.
pub const TARGETS: &[Target] = &[
    Target {
        name: "gguf",
        reads: "GGUF of versions 1 to 3 in both byte orders; its tensors, its edit, its plan",
        run: containers::gguf,
        seeds: seeds::gguf,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "gguf_shards",
        reads: "two shards of a GGUF model",
        run: containers::gguf_shards,
        seeds: seeds::gguf_shards,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "tokenizer_keys",
        reads: "the tokenizer of a GGUF file, and a text by it",
        run: containers::tokenizer_keys,
        seeds: seeds::tokenizer_keys,
        mutation: Mutation::Gguf,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "model",
        reads: "a whole GGUF model, run on five tokens",
        run: containers::model,
        seeds: seeds::model,
        mutation: Mutation::Gguf,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "adapter",
        reads: "an adapter file (LoRA), alone and for a base model",
        run: containers::adapter,
        seeds: seeds::adapter,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "diffusion",
        reads: "a file of a diffusion model: original shapes, five dimensions, its types",
        run: containers::diffusion,
        seeds: seeds::diffusion,
        mutation: Mutation::Gguf,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "imatrix",
        reads: "importance matrices in both forms",
        run: containers::imatrix,
        seeds: seeds::imatrix,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "logits",
        reads: "files of predictions",
        run: containers::logits,
        seeds: seeds::logits,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "tasks",
        reads: "multiple-choice tasks in three formats",
        run: containers::tasks,
        seeds: seeds::tasks,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "picture",
        reads: "PNG and JPEG files",
        run: containers::picture,
        seeds: seeds::picture,
        mutation: Mutation::Bytes,
        // Pixels of a small file, as read and as rotated.
        max_bytes: 512 << 20,
    },
    Target {
        name: "sound",
        reads: "WAV, FLAC and MP3 files",
        run: containers::sound,
        seeds: seeds::sound,
        mutation: Mutation::Bytes,
        // A small file can expand to many samples, and their vector doubles when it grows.
        max_bytes: 1536 << 20,
    },
    Target {
        name: "safetensors",
        reads: "a safetensors file and its values",
        run: checkpoints::safetensors,
        seeds: seeds::safetensors,
        mutation: Mutation::Safetensors,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "diffusion_weights",
        reads: "a safetensors file of a diffusion model, its layout and its values",
        run: checkpoints::diffusion_weights,
        seeds: seeds::diffusion_weights,
        mutation: Mutation::Safetensors,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "index",
        reads: "the index of a checkpoint of two files",
        run: checkpoints::index,
        seeds: seeds::index,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "small_files",
        reads: "the small files of a checkpoint: JSON, the YAML of its model card",
        run: checkpoints::small_files,
        seeds: seeds::small_files,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "card",
        reads: "the YAML of a model card",
        run: checkpoints::card,
        seeds: seeds::card,
        mutation: Mutation::Text,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "quantized",
        reads: "checkpoints of quantized weights in every method, and their values",
        run: checkpoints::quantized,
        seeds: seeds::quantized,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "torch_zip",
        reads: "archives of torch.save: zip and pickle",
        run: checkpoints::torch,
        seeds: seeds::torch_zip,
        mutation: Mutation::Ends,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "torch_pickle",
        reads: "files of torch.save before archives: pickles in a row",
        run: checkpoints::torch,
        seeds: seeds::torch_pickle,
        mutation: Mutation::Ends,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "legacy",
        reads: "GGML, GGMF and GGJT files from before GGUF",
        run: checkpoints::legacy,
        seeds: seeds::legacy,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "diffusion_adapter",
        reads: "an adapter of a diffusion model, merged into tiny models",
        run: checkpoints::diffusion_adapter,
        seeds: seeds::diffusion_adapter,
        mutation: Mutation::Safetensors,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "lora",
        reads: "LoRA adapters, merged and converted",
        run: checkpoints::lora,
        seeds: seeds::lora,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "config",
        reads: "config.json with names and shapes of tensors",
        run: architectures::config,
        seeds: seeds::config,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "projector",
        reads: "the same of a projector",
        run: architectures::projector,
        seeds: seeds::projector,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "tokenizer",
        reads: "tokenizer.json, vocab.json, merges.txt, vocab.txt, tekken.json and tiktoken files",
        run: architectures::tokenizer,
        seeds: seeds::tokenizer,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "sentencepiece",
        reads: "tokenizer.model",
        run: architectures::sentencepiece,
        seeds: seeds::sentencepiece,
        mutation: Mutation::Bytes,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "template",
        reads: "chat templates, over seven conversations",
        run: texts::template,
        seeds: seeds::template,
        mutation: Mutation::Text,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "recipe",
        reads: "recipe files",
        run: texts::recipe,
        seeds: seeds::recipe,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "record",
        reads: "records of original models",
        run: texts::record,
        seeds: seeds::record,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "metadata_json",
        reads: "metadata as JSON",
        run: texts::metadata_json,
        seeds: seeds::metadata_json,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "journal",
        reads: "the journal of a run with the files that it is about, gone on with",
        run: journals::journal,
        seeds: journals::interrupted_runs,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "parts",
        reads: "journals and files of two parts, put together",
        run: journals::parts,
        seeds: journals::interrupted_parts,
        mutation: Mutation::Pieces,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "plan",
        reads: "plans for many machines, and the shares that follow from them",
        run: journals::plan,
        seeds: seeds::plan,
        mutation: Mutation::Json,
        max_bytes: MAX_BYTES,
    },
    Target {
        name: "measured_part",
        reads: "parts of measurements: perplexity, comparison, importance matrix",
        run: journals::measured_part,
        seeds: seeds::measured_part,
        mutation: Mutation::Part,
        max_bytes: MAX_BYTES,
    },
];

/// Target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs a target on bytes.
///
/// # Panics
/// If no target has this name, or if the reader panics.
pub fn run(name: &str, bytes: &[u8]) {
    let target = target(name).expect("a target of this name");
    (target.run)(bytes);
}
