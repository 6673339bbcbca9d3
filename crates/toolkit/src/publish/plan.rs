//! Files to publish and the text to measure them on.

use gguf_conversion::{Request, recipes::Recipe};
use gguf_runtime::{
    Model,
    memory::{Demand, Use},
};
use serde_json::json;

use super::{
    base::{self, Base},
    context::Context,
    kept::{Kept, is_one_of},
    ladder::{self, Entry, Ladder},
    options::PublishOptions,
    texts::{self, For, Text},
    work::fingerprint,
};
use crate::{error::Error, eval_model};
use gguf_types::words;

/// Files and text of a publication.
pub struct Plan {
    pub types: Vec<&'static Recipe>,
    pub entries: Vec<Entry>,
    /// Text of the measurements.
    pub text: Text,
}

impl Plan {
    /// Chooses files. `named` are the types that are known without the model. Refusals come before hours of work.
    ///
    /// # Errors
    /// A type that is also removed or cannot be made, a memory size that is too small, a text that is too short.
    pub fn new(
        base: &Base,
        model: &Model,
        named: Vec<&'static Recipe>,
        last: &Kept,
        context: &Context<'_>,
    ) -> Result<Plan, Error> {
        let Context { args, events, .. } = *context;
        eval_model::warn_of_length(model, args.context(), events);
        let trained = model.context_length() as u64;
        if let Some(ctx) = args.fit_context.filter(|ctx| trained > 0 && *ctx > trained) {
            events.note(words!(
                "[-fit-context {}] exceeds the {} tokens that the model was trained for",
                ctx,
                trained
            ));
        }
        let types = if args.fit.is_empty() {
            named
        } else {
            let demand = Demand::of(&gguf_models::GRAPHS, model.file())
                .map_err(|error| Error::at(&base.path, error))?;
            let used = Use { context: args.fit_context(trained), ..Use::default() };
            last.with_types(args, ladder::for_budgets(&sizes(base)?, &demand, &args.fit, &used)?)
        };
        let entries = entries(&types, base, args)?;
        base::check_types(base, &types, !args.calibrate.is_empty())?;
        let mut text = texts::read(model, &args.eval_text, For::Evaluation, args.context(), events)?;
        text.windows.truncate(args.chunks());
        Ok(Plan { types, entries, text })
    }

    /// Digest of the measurement that decides which files are dropped.
    pub fn dropping(&self, args: &PublishOptions) -> String {
        let mut names: Vec<String> = self.entries.iter().map(Entry::label).collect();
        names.sort_unstable();
        let (n, activations) = (self.text.windows.len(), args.activations().name());
        fingerprint(&json!([names, self.text.digest, n, args.context(), activations]))
    }
}

/// Refuses types that are both requested and removed, and a publication without files.
pub fn check_types(types: &[&'static Recipe], args: &PublishOptions) -> Result<(), Error> {
    let labels = types.iter().map(|recipe| recipe.canonical_name().to_owned()).collect();
    check_labels(labels, !args.fit.is_empty() || !args.target_size.is_empty(), args)
}

fn check_labels(labels: Vec<String>, has_others: bool, args: &PublishOptions) -> Result<(), Error> {
    match labels.iter().find(|label| is_one_of(&args.remove, label)) {
        Some(label) => Err(Error::usage(format_args!("`{label}` is both requested and removed"))),
        None if labels.is_empty() && !has_others => Err(Error::usage("no file is left to publish")),
        None => Ok(()),
    }
}

/// The files to publish: those of types, and one for each target size.
fn entries(types: &[&'static Recipe], base: &Base, args: &PublishOptions) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = types.iter().copied().map(Entry::of_type).collect();
    if !args.target_size.is_empty() {
        let sizes = sizes(base)?;
        entries.extend(args.target_size.iter().filter_map(|size| ladder::for_size(&sizes, *size)));
    }
    check_labels(entries.iter().map(Entry::label).collect(), false, args)?;
    Ok(entries)
}

/// Bytes of every type that a size can choose.
fn sizes(base: &Base) -> Result<Vec<(&'static Recipe, u64)>, Error> {
    let ladder = Ladder::Full.types()?;
    let sizes = base::sizes(base, &ladder, &Request::default())?;
    Ok(ladder.into_iter().zip(sizes).collect())
}
