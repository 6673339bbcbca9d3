//! The GGUF file of a model that may still be a checkpoint.

use std::path::{Path, PathBuf};

use super::checkpoint::Convert;
use crate::{
    error::Error,
    events::Events,
    hub::{HubOptions, is_hub_address},
    input_kind::is_like_a_hub_name,
};

/// Path of the GGUF file of `input`. A checkpoint folder or a model on the Hub is converted to the current folder, to the type that
/// suits the memory of this machine; an existing file of an earlier call is used again. Another path is returned unchanged.
///
/// # Errors
/// Like [`Convert::run`].
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{Model, convert::gguf_of, hub::HubOptions};
///
/// let file = gguf_of("OWNER/MODEL".as_ref(), &HubOptions::default(), &())?;
/// let model = Model::open(file, &Default::default())?;
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
pub fn gguf_of(input: &Path, hub: &HubOptions, events: &dyn Events) -> Result<PathBuf, Error> {
    let is_checkpoint = input.join("config.json").is_file()
        || is_hub_address(&input.to_string_lossy())
        || (is_like_a_hub_name(input) && !input.exists());
    if !is_checkpoint {
        return Ok(input.to_owned());
    }
    let convert = Convert { hub: hub.clone(), ..Convert::new(input, []) };
    let written = convert.plan(&())?.report.paths().into_iter().next().filter(|path| path.exists());
    if let Some(path) = written {
        events.note(format!("{}: written before", path.display()));
        return Ok(path);
    }
    let paths = convert.run(events)?.paths();
    paths.into_iter().next().ok_or_else(|| Error::new("the conversion wrote no file"))
}
