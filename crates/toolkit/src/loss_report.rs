//! Tensors that lose their values, in words of a warning.

use gguf_conversion::{Loss, Losses};

use crate::{events::Events, text::printable};
use gguf_types::words;

/// Tensors that are listed.
const MAX_LISTED: usize = 5;

/// Warns of tensors that are entirely zero, become so, or lose far more than their type usually does.
pub fn warn(losses: &Losses, events: &dyn Events) {
    let found = losses.found();
    for loss in found.iter().take(MAX_LISTED) {
        events.warning(match loss {
            Loss::Underflow { tensor, dtype } => {
                let tensor = printable(tensor);
                words!("tensor `{}`: all values become zero in {}; use `[-tensor-type '{}=bf16']` to keep them", tensor, dtype, pattern(&tensor))
            }
            Loss::Distant { tensor, dtype, error, usual } => {
                let tensor = printable(tensor);
                words!("tensor `{}`: relative error {} in {}, expected about {}; use `[-tensor-type '{}=bf16']` to keep its values", tensor, format_args!("{:.2}", error), dtype, format_args!("{:.2}", usual), pattern(&tensor))
            }
            Loss::Zero { tensor } => words!("tensor `{}` is entirely zero", printable(tensor)),
            other => format!("{other:?}").into(),
        });
    }
    if found.len() > MAX_LISTED {
        let n = found.len() - MAX_LISTED;
        events.warning(format!("{n} more tensors are entirely zero or lose their values"));
    }
}

/// The pattern that matches one name.
fn pattern(name: &str) -> String {
    format!("^{}$", name.replace('.', "\\."))
}
