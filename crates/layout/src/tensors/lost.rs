//! Tensors that are left out although the model computes with them.

use std::collections::BTreeMap;

use gguf_types::list_names;

use super::context::Context;
use super::drops::{NO_BIAS, NO_POOLER, TIED};
use crate::layout::{Data, Dropped, OutTensor};

/// Warnings about tensors with information that the file lacks: a trained output instead of the embedding, biases that are
/// not zero, parts of a head.
pub fn warnings(
    context: &Context<'_>,
    embedding: &str,
    tensors: &[OutTensor],
    dropped: &[Dropped],
) -> Vec<String> {
    let embedding = tensors.iter().find(|tensor| tensor.name == embedding);
    let embedding = embedding.and_then(|tensor| match &tensor.data {
        Data::Rows { sources, .. } => sources.first(),
        _ => None,
    });
    let mut lost: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
    for tensor in dropped {
        // Losses are unknown if values cannot be read.
        let Some(values) = context.same else { continue };
        let is_lost = match tensor.reason {
            TIED => embedding.is_some_and(|embedding| !values.ask(embedding, &tensor.name)),
            NO_BIAS => !values.are_zero(&tensor.name),
            NO_POOLER => true,
            _ => false,
        };
        if is_lost {
            lost.entry(tensor.reason).or_default().push(&tensor.name);
        }
    }
    let warning = |(reason, names): (&str, Vec<&str>)| {
        let list = list_names(&names);
        match reason {
            TIED => format!(
                "{list} differs from the embedding and is omitted: this architecture has no separate output \
                    matrix, so predictions will differ from transformers"
            ),
            NO_BIAS => format!("non-zero biases are omitted, so results will differ: {list}"),
            _ => format!("tensors of the head are omitted, so scores will differ from transformers: {list}"),
        }
    };
    lost.into_iter().map(warning).collect()
}
