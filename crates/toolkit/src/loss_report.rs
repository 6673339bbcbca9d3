//! Tensors that are zero, or become so, in words of a warning.

use gguf_conversion::{Loss, Losses};

use crate::{events::Events, text::printable};

/// Tensors that are listed.
const MAX_LISTED: usize = 12;

/// Warns of tensors that are entirely zero, and of those that a type makes zero.
pub fn warn(losses: &Losses, events: &dyn Events) {
    let found = losses.found();
    for loss in found.iter().take(MAX_LISTED) {
        events.warning(&match loss {
            Loss::Underflow { tensor, dtype } => {
                let tensor = printable(tensor);
                format!(
                    "tensor `{tensor}`: all values become zero in {dtype}; use `--tensor-type '{}=bf16'` to keep them",
                    pattern(&tensor)
                )
            }
            Loss::Zero { tensor } => format!("tensor `{}` is entirely zero", printable(tensor)),
            other => format!("{other:?}"),
        });
    }
    if found.len() > MAX_LISTED {
        let n = found.len() - MAX_LISTED;
        events.warning(&format!("{n} more tensors are or become entirely zero"));
    }
}

/// The pattern that matches one name.
fn pattern(name: &str) -> String {
    format!("^{}$", name.replace('.', "\\."))
}
