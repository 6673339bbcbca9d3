//! Files next to the model: projector of a vision or audio model, and drafts.

use std::{path::Path, sync::Arc};

use gguf_conversion::{CheckpointInput, Conversion, OutputRequest, recipes::Recipe};
use serde_json::{Value, json};

use super::{
    base::{self, Base, Source, Stated},
    context::{Context, Stage},
    files::{WrittenFile, facts_of},
    options::PublishOptions,
    work::fingerprint,
    write::write,
};
use crate::{error::Error, failure::failure, hub};

/// Sidecars of a publication, in order: kinds and files.
type Sidecars = Vec<(&'static str, WrittenFile)>;

/// Adds the file of a source. `of` is the state that its bytes depend on, `files` are those of the types.
fn add(
    (kind, src, recipe, of): (&'static str, &Path, &'static Recipe, &Value),
    input: impl FnOnce() -> Result<CheckpointInput, gguf_conversion::Error>,
    files: &[WrittenFile],
    sidecars: &mut Sidecars,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let out = context.out();
    let failed = |error| failure(src, error);
    let name = format!("{kind} {}", src.display());
    let key = fingerprint(&json!([kind, context.program, recipe.name, of]));
    let stage = Stage { name: &name, key: &key, folder: Some(out) };
    let file = context.make(&stage, |context| {
        context.events.status(format!("{kind}: {}", recipe.canonical_name()));
        let conversion = Conversion::new(input().map_err(failed)?).outputs([OutputRequest::by_rules(recipe)]);
        let planned = conversion.plan().map_err(failed)?;
        for path in planned.paths(Some(out)).map_err(failed)? {
            let mut taken = files.iter().chain(sidecars.iter().map(|(_, file)| file));
            if taken.any(|file| file.paths.contains(&path)) {
                return Err(Error::at(&path, format_args!("the {kind} has the same name as another file")));
            }
        }
        drop(planned);
        let written = write(&conversion, src, out, &key, context)?;
        let first = written.first().ok_or_else(|| Error::new("missing file of a type"))?;
        let file = facts_of(&first.path, recipe.canonical_name().to_owned(), key.clone(), "")?;
        Ok((file.paths.clone(), file))
    })?;
    sidecars.push((kind, file));
    Ok(())
}

/// Writes projector and drafts.
///
/// # Errors
/// A source that cannot be read, a name that another file has, an interruption.
pub fn make(
    source: &Source,
    stated: &Stated,
    base: &Base,
    files: &[WrittenFile],
    context: &mut Context<'_>,
) -> Result<Sidecars, Error> {
    let mut sidecars = Vec::new();
    let Source::Checkpoint(checkpoint) = source else { return Ok(sidecars) };
    let target = &checkpoint.hub.folder;
    let PublishOptions { src, dir, draft, .. } = context.args;
    if checkpoint.projector.is_some() {
        // The type that users of llama.cpp expect for projectors.
        let recipe = Recipe::from_name("f16").map_err(Error::new)?;
        let input = || CheckpointInput::open_projector(target.clone(), &stated.layout());
        add(("projector", src, recipe, &json!(base.state)), input, files, &mut sidecars, context)?;
    }
    for src in draft {
        let wanted = hub::Wanted { weights: true, keep: false, out: Some(dir) };
        let hub = hub::input(src, wanted, context.hub, context.events)?;
        let failed = |error| failure(src, error);
        let options = gguf_layout::Options {
            target: Some(Arc::new(gguf_conversion::target(target.clone()).map_err(failed)?)),
            ..gguf_layout::Options::new(gguf_models::FAMILIES)
        };
        let input = || CheckpointInput::open(hub.folder.clone(), &options);
        // Few weights, which are read for each token: as they are stored.
        let stored = base::as_stored(&input().map_err(failed)?);
        let recipe = Recipe::from_name(stored).map_err(Error::new)?;
        let of = json!([base.state, base::state_of(src, &hub)?]);
        add(("draft", src, recipe, &of), input, files, &mut sidecars, context)?;
        hub.finish(context.events)?;
    }
    Ok(sidecars)
}
