//! Checkpoints that are saved in another form than that of their class: without `architectures`, without the prefix of the inner
//! model in tensor names, or with a tied embedding under the name of the output.
//!
//! transformers loads all, because it knows the prefix of each class and which weights are tied:
//!
//! ```text
//! layers.0.mlp.up_proj.weight   -> model.layers.0.mlp.up_proj.weight
//! lm_head.weight only, tied    -> model.embed_tokens.weight
//! ```

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::arch::{Arch, Class};
use crate::nearest::fit_of;
use crate::resolve::{class_name, context};
use crate::tensors::Context;
use crate::{Families, Input, Options};

/// Differences of a checkpoint from the usual form of its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedForm {
    /// The class for `architectures`, if the config names none.
    pub class: Option<&'static str>,
    /// Tensors with the names that they have in the usual form: (name in the checkpoint, usual name).
    pub renamed: Vec<(String, String)>,
    /// Changes, each one line.
    pub notes: Vec<String>,
}

/// The difference between a checkpoint and the usual form of its class; nothing for a class that is unknown.
pub fn saved_form(input: &Input<'_>, options: &Options) -> SavedForm {
    let mut form = SavedForm::default();
    if class_name(&options.families, &input.config).is_err() && options.arch_as.is_none() {
        form.class = class_by_model_type(&options.families, input);
        form.notes.extend(form.class.map(|class| {
            format!("missing `architectures` in config.json: using `{class}`, the class of its `model_type`")
        }));
    }
    let class = form.class.or_else(|| class_name(&options.families, &input.config).ok());
    let row = match &options.arch_as {
        Some(name) => options.families.named(name, input).ok(),
        None => class.and_then(|class| options.families.find_any(class, input)),
    };
    if let Some((arch, class)) = row {
        form.rename(&options.families, input, arch, class);
    }
    form.rename_towers(input);
    form
}

/// The class of a config that names none: the one of its `model_type` whose table fits the tensors best.
fn class_by_model_type(families: &Families, input: &Input<'_>) -> Option<&'static str> {
    let all = families.classes_by_model_type(&input.config);
    let fit = |(arch, class): &(&'static Arch, Class)| fit_of(arch, *class, &input.tensors);
    // The first of several that fit equally well.
    let best = all.iter().rev().max_by_key(|row| fit(row))?;
    Some(best.1.name)
}

impl SavedForm {
    /// Finds the names that differ.
    fn rename(&mut self, families: &Families, input: &Input<'_>, arch: &Arch, class: Class) {
        let Ok(hparams) = families.hparams(arch, &input.config) else { return };
        let context = context(arch, class, &hparams, input);
        if let Some(prefix) = absent_prefix(arch, class, &context, input) {
            let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            let is_found = |name: &str| !context.find(name).is_empty();
            let is_dropped = |name: &str| (context.drops)(context.hparams, name).is_some();
            let fits = |name: &str| {
                let usual = format!("{prefix}{name}");
                let is_part = |name: &str| {
                    arch.prediction.is_some_and(|layers| (layers.is_part)(context.hparams, name))
                };
                let predicts = is_part(&usual) && !is_part(name);
                is_found(&usual) || predicts || is_dropped(&usual) && !is_found(name) && !is_dropped(name)
            };
            let names = || input.tensors.iter().map(|tensor| tensor.name.as_str());
            let modules: BTreeSet<String> = names().filter(|name| fits(name)).map(first).collect();
            // The prefix applies to all tensors of a module or to none.
            let renamed = names().filter(|name| modules.contains(&first(name)));
            self.renamed = renamed.map(|name| (name.to_owned(), format!("{prefix}{name}"))).collect();
            self.notes
                .push(format!("tensor names lack the prefix `{prefix}` of the class, which is assumed"));
        }
        if let Some(prefix) = extra_prefix(&context, input) {
            let renamed = input.tensors.iter().filter_map(|tensor| {
                Some((tensor.name.clone(), tensor.name.strip_prefix(&prefix)?.to_owned()))
            });
            self.renamed = renamed.collect();
            self.notes.push(format!(
                "all tensor names start with `{prefix}`, which the class does not have: the prefix is ignored"
            ));
        }
        self.rename_tied(input, arch, class, &context);
    }

    /// Gives vision towers below the text model their usual place above it. Some trainers save those of Qwen VL so.
    fn rename_towers(&mut self, input: &Input<'_>) {
        const PLACES: [(&str, &str); 2] =
            [("model.language_model.visual.", "model.visual."), ("language_model.visual.", "visual.")];
        for (below, usual) in PLACES {
            let inside = input.tensors.iter().filter_map(|tensor| {
                Some((tensor.name.clone(), format!("{usual}{}", tensor.name.strip_prefix(below)?)))
            });
            let inside: Vec<(String, String)> = inside.collect();
            if !inside.is_empty() {
                self.notes.push(format!(
                    "names of the vision tower start with `{below}`, which is read as `{usual}`"
                ));
            }
            self.renamed.extend(inside);
        }
    }

    /// Gives an output that is tied the name of the embedding, if the checkpoint lacks that one.
    fn rename_tied(&mut self, input: &Input<'_>, arch: &Arch, class: Class, context: &Context<'_>) {
        let Some(embedding) = arch.rules().find(|rule| arch.embedding == format!("{}.weight", rule.gguf))
        else {
            return;
        };
        let is_embedding =
            |name: &str| context.find(name).iter().any(|found| found.rule.gguf == embedding.gguf);
        let usual = |name: &str| {
            let renamed = self.renamed.iter().find(|(from, _)| from == name);
            renamed.map_or(name.to_owned(), |(_, to)| to.clone())
        };
        if context.hparams.get("tie_word_embeddings") != Some(&Json::Bool(true))
            || input.tensors.iter().any(|tensor| is_embedding(&usual(&tensor.name)))
        {
            return;
        }
        let is_output = |name: &str| {
            ["lm_head.weight", "embed_out.weight"].iter().any(|output| {
                name.strip_suffix(output).is_some_and(|start| start.is_empty() || start.ends_with('.'))
            })
        };
        let Some(output) = input.tensors.iter().find(|tensor| is_output(&tensor.name)) else { return };
        let spelled = embedding.hf.get(class.spelling).or(embedding.hf.first()).copied().unwrap_or_default();
        let name = format!("{}.weight", spelled.strip_prefix(class.prefix).unwrap_or(spelled));
        self.notes.push(format!(
            "`{}` is tied to the embedding, which is missing: using it as `{name}`",
            output.name
        ));
        self.renamed.retain(|(from, _)| *from != output.name);
        self.renamed.push((output.name.clone(), name));
    }
}

/// The first part of all names, if every name has a place without it and none with it. A training program's wrapper adds it.
fn extra_prefix(context: &Context<'_>, input: &Input<'_>) -> Option<String> {
    let (first, _) = input.tensors.first()?.name.split_once('.')?;
    let prefix = format!("{first}.");
    let fits = |name: &str| {
        context.find(name).is_empty()
            && name.strip_prefix(&prefix).is_some_and(|rest| !context.find(rest).is_empty())
    };
    input.tensors.iter().all(|tensor| fits(&tensor.name)).then_some(prefix)
}

/// The prefix that the names of all layers lack. None if some layer has its usual name.
fn absent_prefix(arch: &Arch, class: Class, context: &Context<'_>, input: &Input<'_>) -> Option<String> {
    if !class.prefix.is_empty() {
        return None;
    }
    let is_in_layer = |name: &str| context.find(name).iter().any(|found| found.pattern.contains("{bid}"));
    let names = || input.tensors.iter().map(|tensor| tensor.name.as_str());
    if names().any(is_in_layer) {
        return None;
    }
    let prefixes: BTreeSet<&str> = arch
        .rules()
        .flat_map(|rule| rule.hf)
        .filter_map(|pattern| pattern.split_once(".{bid}"))
        .flat_map(|(stem, _)| stem.match_indices('.').map(|(dot, _)| &stem[..=dot]))
        .collect();
    let n_found = |prefix: &&str| names().filter(|name| is_in_layer(&format!("{prefix}{name}"))).count();
    let best = prefixes.into_iter().max_by_key(n_found).filter(|prefix| n_found(prefix) > 0)?;
    Some(best.to_owned())
}
