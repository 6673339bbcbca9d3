//! Engines name no family of models: facts about a single family are in its folder (`crates/models/src/families`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gguf_models::{ARCHES, GRAPHS, PROJECTORS};

/// The crates below the families.
const ENGINES: &[&str] = &[
    "checkpoint",
    "container",
    "conversion",
    "imatrix",
    "layout",
    "products",
    "quant",
    "refinement",
    "runtime",
    "tokenizer",
    "types",
];

/// Names that are also those of formats: a part of the path of a file, the names, and what they are there.
const FORMATS: &[(&str, &[&str], &str)] = &[
    ("checkpoint/src/methods/", &["bitnet"], "the name of a quantization method"),
    (
        "checkpoint/src/formats.rs",
        &["MetaParams", "MistralMoeParams", "MixtralParams", "Mistral3Params", "MistralParams"],
        "kinds of the layouts in which Meta and Mistral publish weights",
    ),
    ("checkpoint/src/methods/gemma.rs", &["gemma"], "a quantization method"),
    ("layout/src/export/candidate.rs", &["mamba"], "a kind of layer in configs"),
    (
        "layout/src/export/llama.rs",
        &["llama", "mistral", "mixtral", "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"],
        "the one architecture whose files come from many programs",
    ),
    ("layout/src/legacy.rs", &["llama"], "files from before GGUF, which hold LLaMA only"),
    (
        "layout/src/loader/vocabulary.rs",
        &["bert", "gpt2", "phi3", "plamo2", "plamo3", "rwkv", "t5"],
        "values of `tokenizer.ggml.model`, and names of models by which llama.cpp requires tokens",
    ),
    ("runtime/src/chat/named.rs", &["phi3"], "a chat template of llama.cpp by its name"),
    (
        "tokenizer/src/",
        &["bert", "gemma4", "gpt2", "llama", "plamo2", "plamo3", "rwkv", "t5"],
        "values of `tokenizer.ggml.model`",
    ),
    ("tokenizer/src/huggingface/added.rs", &["qwen2"], "a list of transformers about tokenizer classes"),
    (
        "tokenizer/src/tokenizer.rs",
        &["modern-bert", "nomic-bert-moe", "phi3"],
        "names of models by which llama.cpp sets flags of tokens",
    ),
];

/// Files that are tables of names of a format.
const TABLES: &[&str] = &["tokenizer/src/pre/table.rs", "tokenizer/src/huggingface/pre/known.rs"];

/// The names of architectures, projectors, classes and config classes.
fn registered() -> BTreeSet<&'static str> {
    let arches = ARCHES.iter().flat_map(|arch| {
        let classes = arch.classes.iter().map(|class| class.name);
        let configs = arch.configs.iter().map(|class| class.model_type);
        [arch.name, arch.written()].into_iter().chain(classes).chain(configs)
    });
    let projectors = PROJECTORS.iter().flat_map(|row| row.classes.iter().copied().chain([row.name]));
    let graphs = GRAPHS.architectures.iter().map(|row| row.name);
    let towers = GRAPHS.projectors.iter().map(|row| row.name);
    arches.chain(projectors).chain(graphs).chain(towers).collect()
}

/// The texts in a line of code.
fn texts(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

#[test]
fn engines_name_no_family() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let names = registered();
    assert!(names.len() > 500, "{} names", names.len());
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for engine in ENGINES {
        for path in gguf_testkit::rust_files(&crates.join(engine).join("src")) {
            let place = path.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
            if TABLES.contains(&place.as_str()) || place.ends_with("/tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for name in texts(line).filter_map(|text| names.get(text).copied()) {
                    let row = FORMATS
                        .iter()
                        .position(|(part, known, _)| place.starts_with(part) && known.contains(&name));
                    match row {
                        Some(row) => drop(used.insert((row, name))),
                        None => faults.push(format!("{place}: `{name}` in {}", line.trim())),
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    for (row, (part, known, _)) in FORMATS.iter().enumerate() {
        let unused: Vec<_> = known.iter().filter(|name| !used.contains(&(row, **name))).collect();
        assert!(unused.is_empty(), "{part}: {unused:?} is not there any more");
    }
}
