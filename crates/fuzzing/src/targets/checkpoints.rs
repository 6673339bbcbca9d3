//! Weights and small files of checkpoints.

use std::path::Path;

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_conversion::{
    AdapterInput, DiffusionInput, Input as _, LegacyInput, Request,
    merge::{LoraAdapter, ModuleNames, merge, merge_diffusion},
};
use gguf_layout::LegacyOptions;
use gguf_quant::Level;

use crate::{pieces, scratch::with_files, seeds};

/// Maximum number of rows, and of elements per row, that are read.
const READ: (u64, u64) = (3, 9000);

/// Reads the contents of a checkpoint, within limits.
fn read_some(checkpoint: &Checkpoint) {
    for tensor in &checkpoint.tensors {
        let (rows, width) = (tensor.n_rows().min(READ.0), tensor.row_elems().min(READ.1));
        let mut part = vec![0.0; (rows * width) as usize];
        let _ = checkpoint.read_columns(tensor, 0..rows, 0..width, &mut part);
        checkpoint.advise_rows(tensor, tensor.row_elems(), 0..rows, gguf_container::Advice::DoneWith);
    }
}

fn opens(folder: &Path) -> bool {
    gguf_checkpoint::open(gguf_checkpoint::Folder::from(folder).forms(gguf_models::FORMS))
        .inspect(read_some)
        .is_ok()
}

pub(super) fn safetensors(bytes: &[u8]) -> bool {
    with_files("safetensors", &[("config.json", b"{}"), ("model.safetensors", bytes)], opens)
}

pub(super) fn index(bytes: &[u8]) -> bool {
    let [a, b] = seeds::two_shards();
    let files = [
        ("config.json", &b"{}"[..]),
        ("model.safetensors.index.json", bytes),
        ("model-1.safetensors", a),
        ("model-2.safetensors", b),
    ];
    with_files("index", &files, opens)
}

/// Permitted names of small files, without paths.
const SMALL: &[&str] = &[
    "config.json",
    "params.json",
    "generation_config.json",
    "README.md",
    "modules.json",
    "embedding_config.json",
    "tokenizer_config.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
];

pub(super) fn small_files(bytes: &[u8]) -> bool {
    let files: Vec<(&str, &[u8])> =
        pieces::split(bytes).into_iter().filter(|(name, _)| SMALL.contains(name)).collect();
    with_files("small_files", &files, |folder| gguf_checkpoint::open_without_weights(folder).is_ok())
}

pub(super) fn card(bytes: &[u8]) -> bool {
    let text = [b"---\n", bytes, b"\n---\n"].concat();
    with_files("card", &[("config.json", b"{}"), ("README.md", &text)], |folder| {
        gguf_checkpoint::open_without_weights(folder).is_ok_and(|checkpoint| checkpoint.card.is_some())
    })
}

pub(super) fn quantized(bytes: &[u8]) -> bool {
    let allowed = |name: &str| SMALL.contains(&name) || name == "model.safetensors";
    let files: Vec<(&str, &[u8])> =
        pieces::split(bytes).into_iter().filter(|(name, _)| allowed(name)).collect();
    with_files("quantized", &files, opens)
}

pub(super) fn torch(bytes: &[u8]) -> bool {
    with_files("torch", &[("config.json", b"{}"), ("pytorch_model.bin", bytes)], opens)
}

pub(super) fn diffusion_weights(bytes: &[u8]) -> bool {
    with_files("diffusion_weights", &[("model.safetensors", bytes)], |folder| {
        let file = Folder::at(folder.join("model.safetensors"));
        let Ok(input) = DiffusionInput::open(gguf_models::FAMILIES, &file) else { return false };
        read_some(input.checkpoint());
        let Ok(tasks) = input.tasks(&Request::default()) else { return false };
        for task in &tasks {
            let view = task.rows.view();
            if view.row_elems <= READ.1 {
                let n_rows = view.n_rows.min(READ.0);
                let mut values = vec![0.0; (n_rows * view.row_elems) as usize];
                let _ = task.rows.read(0..n_rows, Level::Scalar, &mut values);
            }
        }
        true
    })
}

pub(super) fn legacy(bytes: &[u8]) -> bool {
    let Ok(model) = gguf_checkpoint::parse_legacy(vec![("x".to_owned(), bytes.to_vec())]) else {
        return false;
    };
    let Ok(input) = LegacyInput::new(gguf_models::FAMILIES, model, &LegacyOptions::default(), None) else {
        return false;
    };
    let Ok(tasks) = input.tasks(&Request::default()) else { return false };
    for task in &tasks {
        let view = task.rows.view();
        let n_rows = view.n_rows.min(READ.0);
        let mut values = vec![0.0; (n_rows * view.row_elems) as usize];
        let _ = task.rows.read(0..n_rows, Level::Scalar, &mut values);
    }
    true
}

pub(super) fn lora(bytes: &[u8]) -> bool {
    let allowed = ["adapter_config.json", "adapter_model.safetensors"];
    let files: Vec<(&str, &[u8])> =
        pieces::split(bytes).into_iter().filter(|(name, _)| allowed.contains(name)).collect();
    let base = seeds::lora_base();
    with_files("lora", &files, |folder| {
        let adapter = LoraAdapter {
            folder: Folder::at(folder),
            name: folder.to_owned(),
            scale: 1.0,
            takes_tokenizer: false,
        };
        let converted = gguf_checkpoint::open_adapter(folder).is_ok_and(|adapter| {
            AdapterInput::new(folder, adapter, &base, &gguf_layout::Options::new(gguf_models::FAMILIES))
                .is_ok()
        });
        merge(base, &[adapter]).inspect(read_some).is_ok() || converted
    })
}

/// Merged into tiny models with a joint matrix and with convolutions.
pub(super) fn diffusion_adapter(bytes: &[u8]) -> bool {
    with_files("diffusion_adapter", &[("adapter.safetensors", bytes)], |folder| {
        let path = folder.join("adapter.safetensors");
        let merges = seeds::diffusion_bases().into_iter().filter(|(architecture, base)| {
            let folder = Folder::at(&path);
            let adapter = LoraAdapter { folder, name: path.clone(), scale: 1.0, takes_tokenizer: false };
            let row = gguf_models::FAMILIES.diffusion(architecture).expect("a family");
            let names = ModuleNames { prefix: "", stages: row.stages() };
            let base = gguf_checkpoint::open_diffusion_adapter(&Folder::at(base)).expect("a golden");
            merge_diffusion(base, &[adapter], names).inspect(read_some).is_ok()
        });
        merges.count() > 0
    })
}
