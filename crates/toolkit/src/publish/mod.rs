//! Builds a model repository from a checkpoint.
//!
//! Stages: base, importance matrix, all files in one pass, projector, measurements, checks, card. Each is
//! recorded in `DIR.work` with a fingerprint of its inputs, so that an interrupted run resumes and
//! a changed call repeats only the affected stages. Fingerprints are of weights and tokenizer: other metadata,
//! such as the chat template, only gives files new headers. Outputs do not depend on the time.

mod base;
mod calibrated;
mod card;
mod commands;
mod context;
mod digests;
mod facts;
mod files;
mod front_matter;
mod heads;
mod importance;
mod interruption;
mod kept;
mod ladder;
mod measure;
mod names;
mod options;
mod own_text;
mod plan;
mod publication;
mod published;
mod results;
mod sidecars;
mod texts;
mod work;
mod write;

use std::{fs, path::PathBuf};

use gguf_runtime::Model;
use serde_json::{Value, json};

use self::{
    base::{Base, Source, Stated},
    calibrated::Calibrating,
    context::Context,
    front_matter::OwnKeys,
    importance::ImatrixFacts,
    kept::{Combined, Kept},
    measure::{On, measure},
    names::{CARD, TEMPLATE},
    plan::Plan,
    publication::Publication,
    published::Contents,
    results::{BaseFacts, CalibrationFacts, Evaluation, PublishedSidecar, Results},
    texts::Named,
    work::{Work, fingerprint},
};
pub use self::{ladder::Ladder, options::PublishOptions};
use crate::{
    error::Error, eval_model, events::Events, file_type::stated_file_type, hub::HubOptions, modelfile,
    summary, text::file_name, text_file,
};
use gguf_types::{Words, words};

/// Builds or updates a repository.
///
/// # Errors
/// A source that cannot be read, a folder that must not be written to, options that contradict each other, an interruption.
pub fn publish(options: &PublishOptions, hub_options: &HubOptions, events: &dyn Events) -> Result<(), Error> {
    let mut former = None;
    run(options, hub_options, &mut former, events).map_err(|error| {
        // Other hints name options of single steps.
        if error.is_interrupted() {
            return interruption::interrupted();
        }
        // An interrupted run is continued with its settings, a failed one leaves none.
        former.into_iter().for_each(|former| kept::restore(former, &options.dir));
        error
    })
}

/// Builds or updates a repository. `former` receives the options that were recorded before, when those of this run are.
fn run(
    given: &PublishOptions,
    hub: &HubOptions,
    former: &mut Option<Option<Value>>,
    events: &dyn Events,
) -> Result<(), Error> {
    let out = given.dir.as_path();
    published::check_folder(out, given)?;
    let results = published::results(out);
    let results = results.as_ref();
    let mut removed = published::files_of(&given.remove, results, out)?;
    let work = Work::read(out);
    let contents = Contents::of(out, results, &work)?;
    published::check_edits(out, given, &contents)?;
    let mut last = Kept::of(&work, results, out)?;
    let given_keys =
        OwnKeys::of(given.card_metadata.as_deref(), last.card_metadata.as_deref().unwrap_or_default())?;
    let own_keys = given_keys.clone().with_card(out, results)?;
    last.remove(&given.remove);
    let Combined { options: args, filled, keeps_matrix } = last.combine(given)?;
    if !filled.is_empty() {
        events.note(words!("as in the last run: ") + Words::joined(&filled, ", "));
    }
    args.check(given)?;
    let named = last.with_types(&args, args.named_types()?);
    plan::check_types(&named, &args)?;
    let stated = Stated::of(&args, last.chat_template.as_deref())?;
    if stated.chat_template().is_none() && results.is_some_and(|last| last["others"][TEMPLATE].is_string()) {
        removed.push(out.join(TEMPLATE));
    }

    let source = Source::open(&args, &stated, hub, events)?;
    let mut context = Context::new(&args, hub, events)?;
    let kept_with = |types: &[_]| Kept {
        card_metadata: given_keys.text(),
        ..Kept::of_run(&args, types, stated.chat_template(), keeps_matrix)
    };
    // Before the base is made, which can take long.
    *former = Some(kept_with(&named).record(&mut context.work)?);
    importance::adopt(results, &contents.unchanged, out, &mut context.work)?;
    files::adopt(results, &contents.unchanged, out, &mut context.work)?;
    let base_type = source.base_type(&args)?;
    // The type that preserves the checkpoint may be one of the requested ones.
    let is_published = base_type.is_some_and(|own| named.iter().any(|recipe| recipe.name == own.name));
    let base = base::make(&source, &stated, base_type, is_published, &mut context)?;
    let model = eval_model::open(&base.path, &args.run(), events)?;
    let plan = Plan::new(&base, &model, named, &last, &context)?;
    let kept = kept_with(&plan.types);
    kept.record(&mut context.work)?;

    let weights = base.digests.weights.as_str();
    let importance = importance::make(&model, weights, results, keeps_matrix, &mut context)?;
    let made =
        Made { source: &source, stated: &stated, base: &base, model: &model, plan, importance, own_keys };
    let n_unknown_files = made.publish(&kept, &removed, context)?;
    if let Source::Checkpoint(checkpoint) = source {
        checkpoint.hub.finish(events)?;
    }
    let (folder, work) = (out.display(), Work::folder_of(out));
    events.status(&match n_unknown_files {
        0 => format!("done: {folder} is ready; keep {} to add chunks or types later", work.display()),
        1 => format!("done, but {folder} has a file that is not in the card"),
        n => format!("done, but {folder} has {n} files that are not in the card"),
    });
    events.status(commands::upload(args.repo.as_deref(), out));
    Ok(())
}

/// A publication whose files can be written.
struct Made<'a> {
    source: &'a Source,
    stated: &'a Stated,
    base: &'a Base,
    model: &'a Model,
    plan: Plan,
    importance: Option<ImatrixFacts>,
    own_keys: OwnKeys,
}

impl Made<'_> {
    /// Digests of the calibration texts, if there are any.
    fn calibrating(&self, context: &Context<'_>) -> Result<Option<Calibrating>, Error> {
        let Some(options) = context.args.calibration() else { return Ok(None) };
        let digests = texts::digests(self.model, &options.calibrate, context.events)?;
        let of = json!([self.base.digests.weights, digests, options.calibration_tokens]);
        Ok(Some(Calibrating { options, digest: fingerprint(&of) }))
    }

    /// Warns about texts for measurements that are small or that files are made with. Returns names of the latter.
    fn tell_of_texts(&self, context: &Context<'_>) -> Vec<String> {
        let Context { args, events, .. } = *context;
        let imatrix_text: &[PathBuf] = if args.no_imatrix { &[] } else { &args.imatrix_text };
        let made = [&args.calibrate[..], imatrix_text].concat();
        let shared = text_file::warn_of_overlap(&args.eval_text, &made, events);
        if args.eval_text.is_empty() {
            self.plan.text.tell_small("measurements are of", "eval-text", events);
        } else {
            eval_model::warn_of_few_chunks(self.plan.text.windows.len(), events);
        }
        shared.iter().map(|path| file_name(path)).collect()
    }

    /// Writes, measures and checks all files. Returns the number of files that the card does not mention.
    fn publish(mut self, kept: &Kept, removed: &[PathBuf], mut context: Context<'_>) -> Result<usize, Error> {
        let Context { args, events, .. } = context;
        let out = context.out();
        let matrix = self.importance.as_ref().map(|_| importance::read(&out.join(importance::NAME)));
        let matrix = matrix.transpose()?;
        let calibrating = self.calibrating(&context)?;
        let shared = self.tell_of_texts(&context);
        let digest = self.importance.as_ref().map(|facts| &facts.fingerprint);
        let dropping = self.plan.dropping(args);
        let wanted = files::Wanted {
            entries: &self.plan.entries,
            imatrix: matrix.as_ref(),
            calibration: calibrating.as_ref(),
            split_max_size: args.split_max_size(),
            fingerprint: &fingerprint(&json!([self.base.digests.weights, digest])),
            dropping: args.drop_dominated.then_some(dropping.as_str()),
        };
        let written = files::make(self.base, &wanted, &mut context)?;
        self.plan
            .entries
            .sort_by_key(|entry| written.iter().position(|file| file.file_type == entry.label()));
        let sidecars = sidecars::make(self.source, self.stated, self.base, &written, &mut context)?;

        let text = &self.plan.text;
        let on = On { windows: &text.windows, digest: &text.digest, context: args.context() };
        let weights = self.base.digests.weights.as_str();
        let measured = measure(self.model, weights, &written, &on, &context)?;

        let mut publication = Publication { context, base: self.base, model: self.model };
        let mut rungs = publication.rungs(&written, &measured)?;
        rungs.iter().filter_map(card::figures).for_each(|line| events.status(&line));
        publication.drop_dominated_files(&mut rungs, &written, &measured, &on, &dropping)?;
        publication.verify(&rungs, &written, sidecars.iter().map(|(_, written)| written))?;
        publication.digest(&mut rungs, &written)?;
        let mut published = Vec::new();
        for &(kind, ref written) in &sidecars {
            let files = publication.published(written)?;
            published.extend(files.into_iter().map(|file| PublishedSidecar { kind, file }));
        }
        let evaluation = Evaluation::of(text, measured.windows, shared, args);
        let results =
            Results { evaluation, rungs, sidecars: published, ..self.results(kept, &publication.context)? };
        results.tell_missing(events);
        removed.iter().for_each(|path| drop(fs::remove_file(path)));
        let n_unknown_files = publication.write(results, self.stated.chat_template(), &measured, &written)?;
        // From now on, the keys are those of the card.
        let settled = Kept { card_metadata: None, ..kept.clone() };
        settled.record(&mut publication.context.work)?;
        Ok(n_unknown_files)
    }

    /// Results without files and measurements.
    fn results(&self, kept: &Kept, context: &Context<'_>) -> Result<Results, Error> {
        let Context { args, events, .. } = *context;
        let Made { source, base, model, .. } = *self;
        let facts = facts::of(source, model, args);
        let published = PublishOptions {
            chat_template: self.stated.chat_template().map(|_| TEMPLATE.into()),
            card_metadata: (!self.own_keys.is_empty()).then(|| CARD.into()),
            ..args.clone()
        };
        let [command, removal] = kept::commands(&published, &self.plan.entries, &facts)?;
        let metadata = model.file().metadata();
        let calibration = args.calibration().map(|options| -> Result<_, Error> {
            let texts = options.calibrate.iter().map(|path| Named::of(path)).collect::<Result<_, _>>()?;
            Ok(CalibrationFacts { texts, tokens: options.calibration_tokens })
        });
        Ok(Results {
            format: names::FORMAT,
            version: 1,
            program: format!("gguf-tools {}", env!("CARGO_PKG_VERSION")),
            command,
            removal,
            // The card has its keys.
            settings: Kept { card_metadata: None, ..kept.clone().named() }.to_json()?,
            model: facts,
            base: BaseFacts {
                r#type: match base.recipe {
                    Some(recipe) => recipe.canonical_name(),
                    None => stated_file_type(metadata).unwrap_or("GGUF"),
                }
                .to_owned(),
                bytes: model.file().file_bytes(),
                weights: base.digests.weights.clone(),
            },
            importance: self.importance.clone(),
            calibration: calibration.transpose()?,
            prompt_format: facts::prompt_format(model, &base.path, events),
            default_system: summary::prompts(metadata).ok().and_then(|(_, system)| system),
            sampling: modelfile::sampling(metadata),
            ollama_template: modelfile::template(metadata),
            own_keys: self.own_keys.clone(),
            repo: args.repo.clone(),
            ..Results::default()
        })
    }
}
