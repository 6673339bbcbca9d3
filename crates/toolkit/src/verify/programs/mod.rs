//! The uses of a file by other programs.
//!
//! [`ROWS`] is the table: one row for each program, with the version and the source of its facts. The facts of one program only are in
//! its module.

pub mod ollama;

use gguf_container::{Endian, Model, Value};
use gguf_conversion::recipes::TensorFacts;
use gguf_types::{DType, list_names};
use serde::{Deserialize, Serialize};

use self::ollama::Replaced;
use super::{
    diffusion::{self, Nodes},
    keys::other_kind,
    loader::{MODEL_WITH_TOWER, loader},
    prompts,
    report::{Check, Finding, Severity},
};
use crate::error::Error;

/// A program that loads GGUF files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Program {
    /// llama.cpp.
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    /// LM Studio, which runs llama.cpp.
    LmStudio,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
    /// Transformers, which decodes all weights while loading.
    Transformers,
    /// ComfyUI with the nodes of ComfyUI-GGUF.
    Comfyui,
    /// ComfyUI with the successor of these nodes.
    ComfyuiMolbal,
}

impl Program {
    /// Every program with its name and a description.
    pub const ALL: &[(Program, &str, &str)] = &[
        (Program::LlamaCpp, "llama.cpp", "llama.cpp"),
        (Program::LmStudio, "lm-studio", "LM Studio, which runs llama.cpp"),
        (Program::Ollama, "ollama", "Ollama 0.33, with its detection of chat templates"),
        (Program::Vllm, "vllm", "vLLM 0.11"),
        (Program::Transformers, "transformers", "Transformers 5.24 with gguf-py 0.19"),
        (Program::Comfyui, "comfyui", "ComfyUI with city96/ComfyUI-GGUF 795e451"),
        (Program::ComfyuiMolbal, "comfyui-molbal", "ComfyUI with molbal/ComfyUI-GGUF 07700e1"),
    ];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        Program::ALL.iter().find(|(program, ..)| *program == self).map_or("", |(_, name, _)| name)
    }

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.program == self).unwrap_or(&ROWS[0])
    }
}

/// Facts about a program.
struct Row {
    program: Program,
    /// Name in findings.
    title: &'static str,
    /// True if it loads language models with llama.cpp, and so refuses what llama.cpp refuses.
    is_llama_cpp: bool,
    /// Types of tensors that it does not decode.
    undecoded: &'static [DType],
    /// Architectures that it knows by itself, if not those of llama.cpp, and the way to load others.
    architectures: Option<(&'static [&'static str], Option<&'static str>)>,
    /// True if it loads a model that is split into shards.
    loads_shards: bool,
}

/// One row for each program.
///
/// - llama.cpp and LM Studio: the loader of llama.cpp as in llama-cpp-python 0.3.36 ([`gguf_layout::loader`]).
/// - Ollama: ollama/ollama@fb3076099 (v0.33.0-rc2), which runs llama.cpp b10488. `TensorType.TypeSize` in `fs/ggml/ggml.go` is 0 for
///   types that it does not know, and `Decode` then fails.
/// - vLLM: `UNQUANTIZED_TYPES` and `DEQUANT_TYPES` in `vllm/model_executor/layers/quantization/gguf.py` of
///   vllm-project/vllm@00620f91; `vllm/model_executor/model_loader/gguf_loader.py` of 0328802be. The config is read by transformers.
/// - Transformers 5.24.0: `GGUF_SUPPORTED_ARCHITECTURES` and `load_gguf_checkpoint` in `modeling_gguf_pytorch_utils.py`;
///   `dequantize` of gguf-py 0.19.0.
/// - ComfyUI: [`diffusion`].
const ROWS: &[Row] = {
    use DType::*;
    const LLAMA_CPP: Row = Row {
        program: Program::LlamaCpp,
        title: "llama.cpp",
        is_llama_cpp: true,
        undecoded: &[],
        architectures: None,
        loads_shards: true,
    };
    const COMFYUI: Row = Row {
        program: Program::Comfyui,
        title: Nodes::Original.title(),
        is_llama_cpp: false,
        undecoded: NOT_IN_GGUF_PY,
        ..LLAMA_CPP
    };
    &[
        LLAMA_CPP,
        Row { program: Program::LmStudio, title: "LM Studio", ..LLAMA_CPP },
        Row { program: Program::Ollama, title: "Ollama", undecoded: &[TQ1_0, TQ2_0, Q2_0], ..LLAMA_CPP },
        Row {
            program: Program::Vllm,
            title: "vLLM",
            is_llama_cpp: false,
            undecoded: &[TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0, Q8_K],
            architectures: Some((
                TRANSFORMERS,
                Some(
                    "vLLM reads the config.json of the original model if its option `hf_config_path` names the model",
                ),
            )),
            ..LLAMA_CPP
        },
        Row {
            program: Program::Transformers,
            title: "Transformers",
            is_llama_cpp: false,
            undecoded: NOT_IN_GGUF_PY,
            architectures: Some((TRANSFORMERS, None)),
            loads_shards: false,
        },
        COMFYUI,
        Row { program: Program::ComfyuiMolbal, title: Nodes::Successor.title(), ..COMFYUI },
    ]
};

/// Types that gguf-py 0.19 does not decode.
const NOT_IN_GGUF_PY: &[DType] = {
    use DType::*;
    &[Q8_1, Q8_K, I8, I16, I32, I64, F64, Q1_0, Q2_0]
};

/// Values of `general.architecture` that Transformers 5.24.0 loads.
const TRANSFORMERS: &[&str] = &[
    "bloom",
    "deci",
    "falcon",
    "gemma2",
    "gemma3",
    "gemma4",
    "gpt-oss",
    "gpt2",
    "gpt_oss",
    "lfm2",
    "llama",
    "mamba",
    "minimax-m2",
    "minimax_m2",
    "mistral",
    "nemotron",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen2moe",
    "qwen3",
    "qwen3_moe",
    "qwen3moe",
    "stablelm",
    "starcoder2",
    "t5",
    "t5encoder",
    "umt5",
];

/// The check for a program. `unknown_marks` is the finding about marks of the chat template that the vocabulary lacks; `replaced` are
/// the lines of the `Modelfile` that names the model.
///
/// # Errors
/// A chat template that takes too much memory or time.
pub fn check(
    program: Program,
    model: &Model,
    tensors: &[TensorFacts<'_>],
    unknown_marks: Option<&Finding>,
    replaced: Replaced,
) -> Result<Check, Error> {
    let (row, metadata) = (program.row(), model.metadata());
    if let Some(file) = diffusion::of(metadata, tensors) {
        let nodes = match program {
            Program::Comfyui => Some(Nodes::Original),
            Program::ComfyuiMolbal => Some(Nodes::Successor),
            _ => None,
        };
        if let Some(nodes) = nodes {
            let loader = diffusion::loader(nodes, &file, metadata, tensors);
            return Ok(Check { name: program.name(), ..loader });
        }
        let mut check = Check::new(program.name());
        check.push(Finding::error("diffusion_model", format!("{} does not run diffusion models", row.title)));
        return Ok(check);
    }
    let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let mut check = if row.is_llama_cpp {
        Check { name: program.name(), ..loader(model) }
    } else {
        Check::new(program.name())
    };
    if check.not_checked.is_some() {
        return Ok(check);
    }
    if let Some(why) = unchecked(model) {
        return Ok(check.skipped(&why));
    }
    if program == Program::Ollama && ollama::reads_tower(architecture) {
        check.findings.retain(|finding| finding.code != MODEL_WITH_TOWER && finding.code != "hint");
    }
    check.findings.extend(row.refusals(model, tensors, architecture));
    if matches!(program, Program::Comfyui | Program::ComfyuiMolbal) {
        return Ok(check.skipped("ComfyUI-GGUF loads language models only as text encoders"));
    }
    let loads = !check.findings.iter().any(|finding| finding.severity == Severity::Error);
    let what = if row.is_llama_cpp { "loads the file" } else { "reads this architecture and these types" };
    check.summary = if loads { format!("{} {what}", row.title) } else { String::new() };
    let (mut uses_template, mut writes_marks) = (loads, loads);
    if program == Program::Ollama {
        let (summary, findings) = ollama::prompts(metadata, replaced)?;
        if loads && !summary.is_empty() {
            check.summary += &format!(", {summary}");
        }
        uses_template &= summary == ollama::OWN_TEMPLATE;
        // Without a finding, its template makes the same prompts as that of the file.
        writes_marks = uses_template || loads && findings.is_empty() && !summary.is_empty();
        check.findings.extend(findings);
    }
    check.findings.extend(unknown_marks.filter(|_| writes_marks).cloned());
    if uses_template && let Some(problem) = prompts::failure(metadata)? {
        check.summary += ", but fails on chat requests";
        check.push(Finding::error("template", format!("{} fails on chat requests: {problem}", row.title)));
    }
    Ok(check)
}

/// Why a file has nothing to check for a program.
fn unchecked(model: &Model) -> Option<String> {
    if let Some(kind) = other_kind(model.metadata()) {
        return Some(format!("no checks for files of kind `{kind}`"));
    }
    if model.tensors().count() == 0 {
        return Some("vocabulary without tensors".to_owned());
    }
    let is_big = model.shards().iter().any(|(_, file)| file.endian() == Endian::Big);
    is_big.then(|| "big-endian files are loaded on big-endian machines only".to_owned())
}

impl Row {
    /// Reasons of the program to refuse the file, without those of llama.cpp.
    fn refusals(&self, model: &Model, tensors: &[TensorFacts<'_>], architecture: &str) -> Vec<Finding> {
        let refused = |code, message: String| {
            Finding::error(code, format!("{} does not load the file: {message}", self.title))
        };
        let mut found = Vec::new();
        if !self.loads_shards && model.shards().len() > 1 {
            found
                .push(refused("shards", format!("expected one file, found {} shards", model.shards().len())));
        }
        match self.architectures {
            Some((known, None)) if !known.contains(&architecture) => {
                found.push(refused("architecture", format!("unknown architecture `{architecture}`")));
            }
            Some((known, Some(advice))) if !known.contains(&architecture) => {
                let message = format!(
                    "{} reads no config of architecture `{architecture}` from the file; {advice}",
                    self.title
                );
                found.push(Finding::warning("architecture", message));
            }
            _ => {}
        }
        let undecoded = tensors.iter().filter(|tensor| self.undecoded.contains(&tensor.dtype));
        let names: Vec<String> =
            undecoded.map(|tensor| format!("{} ({})", tensor.name, tensor.dtype.name())).collect();
        if !names.is_empty() {
            found.push(refused("type", format!("unknown tensor types: {}", list_names(&names))));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_row() {
        for (program, name, _) in Program::ALL {
            assert!(program.row().program == *program && program.name() == *name);
            assert_eq!(serde_json::to_value(program).unwrap(), *name);
        }
        assert_eq!(ROWS.len(), Program::ALL.len());
    }

    /// Verdicts of the programs themselves.
    #[test]
    fn table_matches_the_programs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/verdicts.json");
        let verdicts: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let row = Program::Transformers.row();
        let (known, _) = row.architectures.unwrap();
        assert_eq!(verdicts["transformers"]["architectures"], serde_json::json!(known));
        for (program, theirs) in [
            (Program::Transformers, "transformers"),
            (Program::Comfyui, "transformers"),
            (Program::Ollama, "ollama"),
        ] {
            for dtype in DType::ALL {
                let id = serde_json::json!(*dtype as u32);
                let is_undecoded = verdicts[theirs]["undecoded"].as_array().unwrap().contains(&id);
                assert_eq!(program.row().undecoded.contains(dtype), is_undecoded, "{program:?} {dtype:?}");
            }
        }
    }
}
