//! Hints for errors, with the options of the command line.
//!
//! Errors of the crates below name no program and no option. Hints that do are here, one function per crate, and replace
//! the crate's own.

use gguf_conversion::{export::ExportError, imatrix::ImatrixError, merge::MergeError};
use gguf_layout::ArchError;
use gguf_tokenizer::huggingface::VocabError;

use crate::cause::Cause;

/// The hint about a cause.
pub fn of(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Conversion(error) => convert(error),
        Cause::Export(error) => export(error),
        Cause::Container(error) => gguf(error),
        Cause::Evaluation(error) => eval(error),
        Cause::Refinement(gguf_refinement::Error::Eval(error)) => eval(error),
        Cause::Hub(error) => error.hint().map(str::to_owned),
        _ => None,
    }
}

/// About an error of the crate `gguf_conversion`, or of one below it.
fn convert(error: &gguf_conversion::Error) -> Option<String> {
    use gguf_conversion::Error;
    let hint = match error {
        Error::Gguf(error) => return gguf(error),
        Error::Arch(error) => return arch(error),
        Error::Merge { error, .. } => match &**error {
            MergeError::Vocabulary { .. } | MergeError::Token { .. } => {
                "if the adapter folder contains the tokenizer of this vocabulary, add --lora-tokenizer"
            }
            error => return error.hint(),
        },
        Error::NeedsImatrix { is_diffusion: true, .. } => {
            "use a type that needs none, such as q2_k, q3_k_m or iq3_s, or weigh all columns alike with `--missing-imatrix ones`"
        }
        Error::NeedsImatrix { .. } => "compute one with `gguf-eval imatrix` and pass it with --imatrix",
        Error::NotInImatrix { mtp_layer: Some(layer), .. } => {
            return Some(format!(
                "layer {layer} is an MTP layer, which has no importance data because it is not executed: use \
                    `--missing-imatrix raise-type`, or set a type with `--tensor-type \
                    'blk\\.{layer}\\.=q4_k'`"
            ));
        }
        Error::NotInImatrix { is_expert: true, .. } => {
            "use an importance matrix computed from text that reaches every expert, or `--missing-imatrix raise-type`"
        }
        Error::NotInImatrix { .. } | Error::Imatrix(ImatrixError::NoNeighbour { .. }) => {
            "use an importance matrix that has the tensor, or a larger type with `--missing-imatrix raise-type`"
        }
        Error::Requantize { .. } => {
            "use the original weights, or accept the extra loss with `gguf-quantize --allow-requantize`"
        }
        Error::NonFinite { .. } => {
            "download the weights again if they are damaged; use --allow-nonfinite if they were trained that way"
        }
        Error::OtherPlan { .. } | Error::PartDamaged { .. } => {
            "run `part PLAN K/N --force` to convert that part again"
        }
        Error::PartsDiffer { .. } => {
            "use the same N for all parts of a plan, or remove the part files that were made with a different N"
        }
        Error::NoParts { .. } | Error::PartsMissing { .. } => {
            "run `part PLAN K/N` to convert or resume a part"
        }
        error => return error.hint(),
    };
    Some(hint.to_owned())
}

/// About an error of the crate `gguf_layout`.
fn arch(error: &ArchError) -> Option<String> {
    match error {
        ArchError::NotAsThis { arch, .. } => {
            Some(format!("to convert it as a model that generates text, use `--arch-as {arch}`"))
        }
        ArchError::OtherDiffusion { architecture, .. } => {
            Some(format!("to convert it by the rules of that model, use `--arch-as {architecture}`"))
        }
        ArchError::UnknownDiffusion { looks_like: None | Some("a language model"), .. } => Some(
            "to convert an image, video or sound model by general rules, name its architecture with `--arch-as NAME`; \
                a language model needs the folder with its config"
                .to_owned(),
        ),
        ArchError::AdapterTarget { .. } => Some(
            "to merge it, use `gguf-convert BASE --lora ADAPTER`; add --with-mmproj for vision towers"
                .to_owned(),
        ),
        ArchError::IncompletePrediction { .. } => {
            Some("download the missing shard, or omit the MTP layer with `--no-mtp`".into())
        }
        ArchError::NoTarget { .. } => {
            Some("pass the folder of its target model with `--target-model-dir DIR`".to_owned())
        }
        ArchError::UnknownClass { class, .. } if class.starts_with("CLIPText") => {
            Some("ComfyUI and stable-diffusion.cpp read the text encoders of CLIP as safetensors".to_owned())
        }
        ArchError::UnknownClass { by_tensors, .. } | ArchError::NoClass { by_tensors, .. } => {
            by_tensors.first().map(|(name, _)| {
                format!("try `--arch-as {name}`; the tensor names match, but the computation may differ")
            })
        }
        ArchError::Vocab(VocabError::UnknownPre { .. }) => {
            Some("set it with `--pre NAME`, or use `--pre default` if it does not matter".to_owned())
        }
        error => error.hint(),
    }
}

/// About an error of the crate `gguf_container`.
pub fn gguf(error: &gguf_container::Error) -> Option<String> {
    match error {
        gguf_container::Error::Exists { .. } => Some("use --force to overwrite it".to_owned()),
        gguf_container::Error::OpenFiles { needed, .. } => {
            Some(format!("raise the limit with `ulimit -n {needed}`, or split into fewer files"))
        }
        gguf_container::Error::UnfinishedEdit { path, backup } => Some(format!(
            "restore the old header with `dd if={} of={} conv=notrunc`, then remove {}",
            backup.display(),
            path.display(),
            backup.display()
        )),
        error => gguf_container::foreign_type(error).or_else(|| error.hint().map(str::to_owned)),
    }
}

/// About an error of the crate `gguf_runtime`.
fn eval(error: &gguf_runtime::Error) -> Option<String> {
    use gguf_runtime::Error;
    let hint = match error {
        Error::Gguf(error) => return gguf(error),
        Error::UnknownArchitecture { name } if name == "clip" => {
            "the file is a projector: use `gguf-eval generate MODEL --mmproj THIS` with --image or --audio"
        }
        Error::DraftAlone { .. } => "use `gguf-eval draft TARGET DRAFT --text FILE`",
        Error::NoProjector { .. } => "write a projector with `gguf-convert mmproj FOLDER`",
        Error::UnknownProjector { .. } => "docs/reference/projectors.md lists the supported projectors",
        Error::NoLogits { .. } => "use `gguf-eval embed` for encoders",
        Error::NoNextToken { .. } => {
            "use `gguf-eval generate` for models that answer prompts, `gguf-eval embed` for encoders"
        }
        Error::NoFeatures { .. } => "use the library `gguf-runtime`, which accepts spectrograms",
        Error::NoVectors { .. } => "use `gguf-eval generate` to generate text",
        Error::NoPooling { .. } => "set --pooling to mean, cls or last, or to none for one vector per token",
        error => return error.hint().map(str::to_owned),
    };
    Some(hint.to_owned())
}

/// About an export that failed.
fn export(error: &ExportError) -> Option<String> {
    match error {
        ExportError::Convert(error) => convert(error),
        ExportError::Dtype { .. } => Some("use --type f32, f16 or bf16".to_owned()),
        error => error.hint(),
    }
}
