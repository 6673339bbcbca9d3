//! Names of wrapped models: `torch.compile`, DDP, FSDP, DeepSpeed, Lightning, TRL and PEFT add components to
//! the names of a state dict that is saved without unwrapping the model.
//!
//! ```text
//! _orig_mod.model.layers.0.mlp.up_proj.weight                 torch.compile
//! module.model.layers.0.mlp.up_proj.weight                    DDP, DeepSpeed
//! model.layers.0._checkpoint_wrapped_module.mlp.up_proj.weight activation checkpointing
//! ```

use std::collections::HashMap;

use crate::{Error, Part, Tensor};

/// Components that wrappers insert anywhere in a name, and the wrapper.
const INSERTED: &[(&str, &str)] = &[
    ("_orig_mod", "torch.compile"),
    ("_fsdp_wrapped_module", "FSDP"),
    ("_fpw_module", "FSDP"),
    ("_checkpoint_wrapped_module", "activation checkpointing"),
];
/// Prefixes that a wrapper adds to all names, and the wrapper.
const LEADING: &[(&str, &str)] = &[
    ("module.", "DistributedDataParallel or DeepSpeed"),
    ("_forward_module.", "Lightning Fabric"),
    ("pretrained_model.", "TRL"),
    ("base_model.model.", "PEFT"),
];
/// Prefixes of tensors outside the wrapped model.
const OUTSIDE: &[&str] = &["v_head.", "score.", "value_head."];

/// Removes the components of wrappers from names, with a note.
///
/// # Errors
/// [`Error::DuplicateTensor`] if two tensors then have the same name.
pub(crate) fn unwrap(tensors: &mut [Tensor], parts: &[Part], notes: &mut Vec<String>) -> Result<(), Error> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for tensor in tensors.iter_mut() {
        let inserted = INSERTED.iter().filter(|(part, _)| tensor.name.split('.').any(|other| other == *part));
        let inserted: Vec<_> = inserted.copied().collect();
        if !inserted.is_empty() {
            let stays = |part: &&str| !inserted.iter().any(|(inserted, _)| inserted == part);
            tensor.name = tensor.name.split('.').filter(stays).collect::<Vec<_>>().join(".");
            found.extend(
                inserted.into_iter().filter(|inserted| !found.contains(inserted)).collect::<Vec<_>>(),
            );
        }
    }
    while let Some((prefix, wrapper)) = LEADING.iter().find(|(prefix, _)| all_begin(tensors, prefix)) {
        for tensor in tensors.iter_mut() {
            if let Some(rest) = tensor.name.strip_prefix(prefix) {
                tensor.name = rest.to_owned();
            }
        }
        found.push((prefix.trim_end_matches('.'), wrapper));
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut seen: HashMap<&str, &Tensor> = HashMap::with_capacity(tensors.len());
    let file = |tensor: &Tensor| parts.get(tensor.part).map_or_else(String::new, |part| part.file.clone());
    for tensor in tensors.iter() {
        if let Some(first) = seen.insert(&tensor.name, tensor) {
            let (first, second) = (file(first), file(tensor));
            return Err(Error::DuplicateTensor { tensor: tensor.name.clone(), first, second });
        }
    }
    let found: Vec<String> = found.iter().map(|(part, wrapper)| format!("`{part}` of {wrapper}")).collect();
    notes.push(format!(
        "tensor names contain the prefixes of wrappers, which are ignored: {}",
        found.join(", ")
    ));
    Ok(())
}

/// True if all tensors of the wrapped model have names that begin with `prefix`.
fn all_begin(tensors: &[Tensor], prefix: &str) -> bool {
    let is_outside = |tensor: &Tensor| OUTSIDE.iter().any(|start| tensor.name.starts_with(start));
    let mut inside = tensors.iter().filter(|tensor| !is_outside(tensor)).peekable();
    inside.peek().is_some() && inside.all(|tensor| tensor.name.starts_with(prefix))
}
