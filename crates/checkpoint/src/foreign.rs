//! Formats of other programs, recognized by file names, so that the error names the folder's contents and a
//! remedy instead of reporting missing weights.

use crate::Listing;

/// A format of another program.
#[derive(Debug, Clone, Copy)]
pub struct Foreign {
    /// Name for display.
    pub name: &'static str,
    /// File patterns for display.
    pub files: &'static str,
    /// First matching file in a folder.
    pub(crate) detect: fn(&Listing) -> Option<String>,
    /// Suggested remedy.
    pub advice: &'static str,
}

const EXPORTED_FROM: &str = "convert the original checkpoint";
const ORIGINAL: &str = "convert the checkpoint that these weights were quantized from: `base_model` of the \
    model card often names it";

/// One row: name, file patterns for display, prefixes and suffixes of file names, advice.
macro_rules! foreign {
    ($($name:literal, $files:literal, [$(($start:literal, $end:literal)),+], $advice:expr;)*) => {
        &[$(Foreign {
            name: $name,
            files: $files,
            detect: |listing| [$(($start, $end)),+].into_iter().find_map(|(start, end)| first(listing, start, end)),
            advice: $advice,
        },)*]
    };
}

/// The first file name with this prefix and suffix, which do not overlap.
fn first(listing: &Listing, start: &str, end: &str) -> Option<String> {
    listing.matching(start, end).into_iter().find(|name| name.len() >= start.len() + end.len())
}

/// Formats recognized if no file of [`FORMATS`](crate::FORMATS) exists. The first match counts.
pub const FOREIGN: &[Foreign] = foreign! {
    "a diffusers pipeline as a text model", "model_index.json", [("model_index", ".json")],
        "convert the whole folder for its diffusion model, and the folder of each text encoder on its own";
    "EXL2", "output*.safetensors", [("output", ".safetensors")], ORIGINAL;
    "TensorRT-LLM", "rank*.safetensors, *.engine", [("rank", ".safetensors"), ("", ".engine")], EXPORTED_FROM;
    "a LoRA of mistral-finetune", "lora.safetensors", [("lora", ".safetensors")],
        "merge it with mistral-inference, or train with `save_adapters: False`, and convert the merged weights";
    "safetensors under another name", "*.safetensors", [("", ".safetensors")],
        "rename the file to model.safetensors, or add model.safetensors.index.json, which lists the files";
    "LitGPT", "lit_model.pth", [("lit_model", ".pth")], "convert it with `litgpt convert_from_litgpt` first";
    "HQQ's own pickle", "qmodel.pt", [("qmodel", ".pt")], ORIGINAL;
    "Flax", "flax_model*.msgpack", [("flax_model", ".msgpack")],
        "save it again from transformers 4: `from_pretrained(FOLDER, from_flax=True).save_pretrained(...)`";
    "TensorFlow", "tf_model*.h5, *.ckpt*, saved_model.pb",
        [("tf_model", ".h5"), ("", ".ckpt"), ("", ".ckpt.index"), ("saved_model", ".pb")],
        "save it again from transformers 4: `from_pretrained(FOLDER, from_tf=True).save_pretrained(...)`";
    "Keras", "*.keras, *.h5", [("", ".keras"), ("", ".h5")],
        "save it as a Hugging Face folder from KerasHub: `export_to_transformers(...)`";
    "TensorFlow Lite", "*.tflite", [("", ".tflite")], EXPORTED_FROM;
    "ONNX", "*.onnx", [("", ".onnx")], EXPORTED_FROM;
    "NeMo", "*.nemo", [("", ".nemo")], "convert it with NeMo's script convert_*_nemo_to_hf.py first";
    "OpenVINO", "openvino_*.xml, openvino_*.bin", [("openvino_", ".xml"), ("openvino_", ".bin")], EXPORTED_FROM;
    "CoreML", "*.mlmodel", [("", ".mlmodel")], EXPORTED_FROM;
    "MLC", "params_shard_*.bin", [("params_shard_", ".bin")], EXPORTED_FROM;
    "PaddlePaddle", "*.pdparams", [("", ".pdparams")], EXPORTED_FROM;
    "the training state of DeepSpeed", "zero_pp_rank_*, mp_rank_*",
        [("zero_pp_rank_", ".pt"), ("mp_rank_", ".pt")],
        "run `zero_to_fp32.py` from the folder to write the weights";
    "the training state of FSDP", "*.distcp", [("", ".distcp")],
        "merge it with `accelerate merge-weights FOLDER OUT`";
    "the training state of verl", "model_world_size_*_rank_*.pt", [("model_world_size_", ".pt")],
        "merge it with `verl.model_merger`, which writes a Hugging Face folder";
    "the training state of Megatron", "model_optim_rng.pt", [("model_optim_rng", ".pt")],
        "write a Hugging Face folder with the converter of the training program";
    "rust-bert", "rust_model.ot", [("rust_model", ".ot")], EXPORTED_FROM;
    "llama2.c", "stories*.bin", [("stories", ".bin")], EXPORTED_FROM;
    "CTranslate2", "model.bin", [("model", ".bin")], EXPORTED_FROM;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_and_suffix_do_not_overlap() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rank.safetensors", "model.bin"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listing = Listing::of(folder.path()).unwrap();
        assert_eq!(first(&listing, "model", ".bin"), Some("model.bin".to_owned()));
        assert_eq!(first(&listing, "model.bin", ".bin"), None);
    }
}
