//! Checkpoints of `golden/arch` in other forms than the usual one: without the prefix of the inner model, with a tied embedding
//! under the name of the output, without `architectures`.

use std::collections::BTreeMap;

use gguf_layout::{Input, Options, SavedForm, SourceTensor, saved_form};
use serde_json::Value as Json;

/// Checkpoints of `golden/arch` with a class that generates text, and the files that decide about a row.
fn causal() -> Vec<(String, Input<'static>)> {
    let all = gguf_testkit::checkpoint_names().into_iter().filter_map(|name| {
        let checkpoint = gguf_checkpoint::open(
            gguf_checkpoint::Folder::from(gguf_testkit::checkpoint(&name).as_path())
                .forms(gguf_models::FORMS),
        )
        .unwrap();
        let class = checkpoint.config["architectures"][0].as_str()?.to_owned();
        let tensors = checkpoint.tensors.iter().map(|tensor| {
            let (shape, folded) = tensor.folded_shape().unwrap();
            SourceTensor { name: tensor.name.clone(), shape, folded }
        });
        let input =
            Input { tensors: tensors.collect(), config: checkpoint.config.clone(), ..Input::default() };
        (class.ends_with("ForCausalLM") || class.ends_with("LMHeadModel")).then_some((name, input))
    });
    all.collect()
}

/// The part before the layers in names, such as `model.`.
fn prefix(input: &Input<'_>) -> Option<String> {
    let layered = input.tensors.iter().find_map(|tensor| {
        let (stem, _) = tensor.name.split_once(".0.")?;
        Some(stem.split_once('.')?.0.to_owned() + ".")
    })?;
    input.tensors.iter().any(|tensor| tensor.name.starts_with(&layered)).then_some(layered)
}

/// New names of tensors by their names in the checkpoint.
fn renamed(form: &SavedForm) -> BTreeMap<&str, &str> {
    form.renamed.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect()
}

#[test]
fn usual_names_are_unchanged() {
    for (name, input) in causal() {
        assert_eq!(saved_form(&input, &Options::new(gguf_models::FAMILIES)), SavedForm::default(), "{name}");
    }
}

#[test]
fn missing_class_prefix_is_added() {
    let mut n_checked = 0;
    for (name, mut input) in causal() {
        let Some(prefix) = prefix(&input) else { continue };
        let before: Vec<String> = input.tensors.iter().map(|tensor| tensor.name.clone()).collect();
        for tensor in &mut input.tensors {
            if let Some(rest) = tensor.name.strip_prefix(&prefix) {
                tensor.name = rest.to_owned();
            }
        }
        let form = saved_form(&input, &Options::new(gguf_models::FAMILIES));
        // Tables that know both spellings need no other names.
        if form.renamed.is_empty() {
            continue;
        }
        let renamed = renamed(&form);
        let after = input
            .tensors
            .iter()
            .map(|tensor| renamed.get(tensor.name.as_str()).copied().unwrap_or(&tensor.name));
        // Towers, and embeddings of layers that predict further tokens, are left out; ids are a key.
        const LEFT_OUT: [&str; 7] = [
            "mtp.",
            "adapter_token_ids",
            "vision",
            "sam_model",
            "image_newline",
            "view_seperator",
            "projector",
        ];
        let is_of_text = |(_, before): &(&str, &String)| !LEFT_OUT.iter().any(|part| before.contains(part));
        for (after, before) in after.zip(&before).filter(is_of_text) {
            // A table may have several spellings of the prefix.
            match before.strip_prefix(&prefix) {
                Some(rest) => {
                    let given = after.strip_suffix(rest).unwrap_or_default();
                    assert!(
                        ["model.", "backbone.", &prefix].contains(&given),
                        "{name}: `{before}`, `{after}`"
                    );
                }
                None => assert_eq!(after, before, "{name}"),
            }
        }
        n_checked += 1;
    }
    assert!(n_checked > 60, "{n_checked}");
}

#[test]
fn tied_embedding_saved_as_output_is_found() {
    let mut n_checked = 0;
    for (name, mut input) in causal() {
        let has = |end: &str| input.tensors.iter().any(|tensor| tensor.name.ends_with(end));
        if has("lm_head.weight") || input.config["tie_word_embeddings"] != Json::Bool(true) {
            continue;
        }
        let Some(embedding) =
            input.tensors.iter_mut().find(|tensor| tensor.name == "model.embed_tokens.weight")
        else {
            continue;
        };
        embedding.name = "lm_head.weight".to_owned();
        let form = saved_form(&input, &Options::new(gguf_models::FAMILIES));
        assert_eq!(renamed(&form), [("lm_head.weight", "model.embed_tokens.weight")].into(), "{name}");
        assert_eq!(form.notes.len(), 1, "{name}");
        n_checked += 1;
    }
    assert!(n_checked > 5, "{n_checked}");
}

#[test]
fn missing_class_follows_from_model_type() {
    /// Checkpoints whose `model_type` no class has: the error names the architecture.
    const UNKNOWN: [&str; 5] = ["deci", "decilm", "deepseek-ocr", "falcon-old", "sarashina2-vision"];
    let mut wrong = Vec::new();
    for (name, mut input) in causal() {
        if !input.config["model_type"].is_string() {
            continue;
        }
        let row = gguf_layout::row_of(&gguf_models::FAMILIES, &input).unwrap().name;
        for absent in [true, false] {
            let config = input.config.as_object_mut().unwrap();
            if absent {
                config.remove("architectures");
            } else {
                config.insert("architectures".to_owned(), Json::Null);
            }
            let form = saved_form(&input, &Options::new(gguf_models::FAMILIES));
            let Some(class) = form.class else {
                if !UNKNOWN.contains(&name.as_str()) {
                    wrong.push(format!("{name}: no class"));
                }
                continue;
            };
            let mut usual =
                Input { tensors: input.tensors.clone(), config: input.config.clone(), ..Input::default() };
            usual.config["architectures"] = vec![class].into();
            let found = gguf_layout::row_of(&gguf_models::FAMILIES, &usual).unwrap().name;
            if found != row {
                wrong.push(format!("{name}: `{class}`, which is {found} and not {row}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
