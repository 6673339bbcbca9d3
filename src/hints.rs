//! Hints for errors at the command line.
//!
//! Errors of libraries name no program and no option. Hints that do are here, one function per library, and
//! take the place of the library's own.

use arch::{ArchError, vocab::VocabError};
use convert::{export::ExportError, merge::MergeError};

/// About an error of the crate `convert`, or of one below it.
pub fn convert(error: &convert::Error) -> Option<String> {
    use convert::Error;
    let hint = match error {
        Error::Gguf(error) => return gguf(error),
        Error::Arch(error) => return arch(error),
        Error::Merge { error, .. } => match &**error {
            MergeError::Vocabulary { .. } | MergeError::Token { .. } => {
                "if the adapter's folder has this vocabulary's tokenizer, add --lora-tokenizer"
            }
            error => return error.hint(),
        },
        Error::NeedsImatrix { .. } => "make one with `gguf-eval imatrix` and pass it with --imatrix",
        Error::NotInImatrix { mtp_layer: Some(layer), .. } => {
            return Some(format!(
                "layer {layer} is an MTP layer, which does not run while importance data is collected: use \
                `--missing-imatrix raise-type` or set a type, `--tensor-type 'blk\\.{layer}\\.=q4_k'`"
            ));
        }
        Error::Requantize { .. } => {
            "use the original weights, or `gguf-quantize --allow-requantize` to accept the extra loss"
        }
        Error::NonFinite { .. } => {
            "the weights are damaged or were trained that way; --allow-nonfinite converts them anyway"
        }
        Error::OtherPlan { .. } | Error::PartDamaged { .. } => {
            "`part PLAN K/N --force` converts that part again"
        }
        Error::PartsDiffer { .. } => {
            "all parts of a plan must have the same N; remove the files of parts with another N"
        }
        Error::NoParts { .. } | Error::PartsMissing { .. } => "`part PLAN K/N` converts or resumes a part",
        error => return error.hint(),
    };
    Some(hint.to_owned())
}

/// About an error of the crate `arch`.
pub fn arch(error: &ArchError) -> Option<String> {
    match error {
        ArchError::NotAsThis { arch, .. } => {
            Some(format!("`--arch-as {arch}` converts it as a model that generates text"))
        }
        ArchError::AdapterTarget { .. } => Some(
            "`gguf-convert BASE --lora ADAPTER` merges it; add --with-mmproj for vision towers".to_owned(),
        ),
        ArchError::IncompletePrediction { .. } => {
            Some("get the missing shard, or convert without the MTP layer using `--no-mtp`".into())
        }
        ArchError::NoTarget { .. } => {
            Some("pass the folder of its target model with `--target-model-dir DIR`".to_owned())
        }
        ArchError::UnknownClass { by_tensors, .. } | ArchError::NoClass { by_tensors, .. } => {
            by_tensors.first().map(|(name, _)| {
                format!("try `--arch-as {name}`; the tensor names match, but the computation may differ")
            })
        }
        ArchError::Vocab(VocabError::UnknownPre { .. }) => {
            Some("set it with `--pre NAME`; `--pre default` if it does not matter".to_owned())
        }
        error => error.hint(),
    }
}

/// About an error of the crate `gguf`.
pub fn gguf(error: &gguf::Error) -> Option<String> {
    match error {
        gguf::Error::Exists { .. } => Some("use --force to overwrite it".to_owned()),
        gguf::Error::OpenFiles { needed, .. } => {
            Some(format!("raise the limit with `ulimit -n {needed}`, or split into fewer files"))
        }
        gguf::Error::UnfinishedEdit { path, backup } => Some(format!(
            "`dd if={} of={} conv=notrunc` restores the old header; then remove {}",
            backup.display(),
            path.display(),
            backup.display()
        )),
        error => gguf::foreign_type(error).or_else(|| error.hint().map(str::to_owned)),
    }
}

/// About an error of the crate `eval`.
pub fn eval(error: &eval::Error) -> Option<String> {
    use eval::Error;
    let hint = match error {
        Error::Gguf(error) => return gguf(error),
        Error::UnknownArchitecture { name } if name == "clip" => {
            "this is a projector: use `gguf-eval generate MODEL --mmproj THIS --image IMAGE`"
        }
        Error::NoProjector { .. } => "make a projector with `gguf-convert mmproj FOLDER`",
        Error::UnknownProjector { .. } => "docs/reference/projectors.md lists the supported projectors",
        Error::NoLogits { .. } => "`gguf-eval embed` runs encoders",
        Error::NoNextToken { .. } => {
            "use `gguf-eval generate` for models that answer prompts, `gguf-eval embed` for encoders"
        }
        Error::NoFeatures { .. } => {
            "`gguf-eval` does not support audio; pass a spectrogram to the library `eval`"
        }
        Error::NoVectors { .. } => "use `gguf-eval generate` for its answers",
        Error::NoPooling { .. } => {
            "choose a pooling: --pooling mean, cls, last, or none for one vector per token"
        }
        error => return error.hint().map(str::to_owned),
    };
    Some(hint.to_owned())
}

/// About an export that failed.
pub fn export(error: &ExportError) -> Option<String> {
    match error {
        ExportError::Convert(error) => convert(error),
        ExportError::Dtype { .. } => Some("use --type f32, f16 or bf16".to_owned()),
        error => error.hint(),
    }
}
