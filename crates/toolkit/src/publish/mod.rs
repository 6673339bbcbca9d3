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
mod digests;
mod earlier;
mod facts;
mod files;
mod go_template;
mod heads;
mod importance;
mod interruption;
mod ladder;
mod measure;
mod names;
mod options;
mod own_text;
mod publication;
mod published;
mod reproduce;
mod results;
mod texts;
mod work;
mod write;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_conversion::{CheckpointInput, Request, RunOptions, recipes::Recipe};
use gguf_runtime::memory::{Demand, Use};
use serde_json::json;

use self::{
    base::{Base, Source, Stated},
    calibrated::Calibrating,
    earlier::{Earlier, Filled, Former, with_files},
    files::WrittenFile,
    ladder::Entry,
    measure::{Measured, On, measure},
    names::{CARD, TEMPLATE},
    publication::Publication,
    published::Contents,
    results::{BaseFacts, CalibrationFacts, Evaluation, PublishedSidecar, Results},
    texts::{For, Text},
    work::{Work, fingerprint},
    write::Writing,
};
pub use self::{ladder::Ladder, options::PublishOptions};
use crate::{
    call::Call,
    error::Error,
    eval_model,
    events::Events,
    failure::failure,
    file_type::stated_file_type,
    hub::{self, HubOptions},
    text::{file_name, printable},
    text_file,
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
        former.into_iter().for_each(Former::restore);
        error
    })
}

/// Builds or updates a repository. `former` receives the settings before this run when those of this run are recorded.
fn run(
    options: &PublishOptions,
    hub_options: &HubOptions,
    former: &mut Option<Former>,
    events: &dyn Events,
) -> Result<(), Error> {
    let mut args = options.clone();
    let out = args.dir.clone();
    let out = out.as_path();
    check_folder(out, &args)?;
    let last = published::results(out);
    let last = last.as_ref();
    let mut removed = earlier::files_of(&args.remove, last, out)?;
    let (mut earlier, mut filled) = (Earlier::default(), Filled::default());
    if Work::folder_of(out).is_dir() || last.is_some() {
        let mut work = Work::open(out)?;
        let contents = Contents::of(out, last, &work)?;
        check_edits(out, &args, &contents)?;
        earlier = Earlier::of(&work, last);
        earlier.remove(&args.remove);
        filled = earlier.fill(&mut args)?;
        if !filled.options.is_empty() {
            events.note(words!("as in the last run: ") + Words::joined(&filled.options, ", "));
        }
        importance::adopt(last, &contents.unchanged, out, &mut work)?;
        files::adopt(last, &contents.unchanged, out, &mut work)?;
    }
    let args = args;
    if !args.target_size.is_empty() && args.calibrate.is_empty() {
        return Err(Error::usage(words!("[-target-size] needs calibration texts"))
            .hint([words!("pass them with [-calibrate]")]));
    }
    if args.no_imatrix && !args.calibrate.is_empty() {
        return Err(Error::usage(words!("[-no-imatrix] cannot be used with [-calibrate]")));
    }
    let stated = Stated::of(&args, earlier.chat_template())?;
    if stated.chat_template().is_none() && last.is_some_and(|last| last["others"][TEMPLATE].is_string()) {
        removed.push(out.join(TEMPLATE));
    }
    let source = Source::open(&args.src, out, &stated, hub_options, events)?;
    if let (Source::Gguf(_), Some(_)) = (&source, options.base_type) {
        let hint = words!(
            "to use a base of another type, run `[gguf-quantize {} BASE.gguf TYPE]`",
            args.src.display()
        );
        let message = words!("[-base-type] needs a checkpoint as input; a GGUF file is used as the base");
        return Err(Error::usage(message).hint([hint]));
    }
    let mut work = Work::open(out)?;
    let call =
        Call { program: "gguf-publish".to_owned(), executable: args.executable.clone(), ..Call::default() };
    let options = RunOptions::default().threads(args.threads).level(args.level);
    let writing = Writing { program: call.program(), call, options };

    // The base; the type that preserves the checkpoint may be one of the requested ones.
    let named = earlier.with_types(&args, args.named_types()?)?;
    let stored = match &source {
        Source::Checkpoint(checkpoint) => Some(
            args.base_type
                .map_or_else(|| Recipe::from_name(base::as_stored(&checkpoint.input)), Ok)
                .map_err(Error::new)?,
        ),
        Source::Gguf(_) => None,
    };
    let is_published = stored.is_some_and(|stored| named.iter().any(|recipe| recipe.name == stored.name));
    let base =
        base::make((&source, &stated), &args.src, (out, stored, is_published), &writing, &mut work, events)?;
    let model = eval_model::open(&base.path, &args.run(), events)?;
    eval_model::warn_of_length(&model, args.context(), events);
    let trained = model.context_length() as u64;
    if let Some(ctx) = args.fit_context.filter(|ctx| trained > 0 && *ctx > trained) {
        events.note(words!(
            "[-fit-context {}] exceeds the {} tokens that the model was trained for",
            ctx,
            trained
        ));
    }
    let types = match args.fit.is_empty() {
        true => named,
        false => {
            let demand = Demand::of(&gguf_models::GRAPHS, model.file())
                .map_err(|error| Error::at(&base.path, error))?;
            let used = Use { context: args.fit_context(trained), ..Use::default() };
            let rungs = files::rungs(&base, &ladder::Ladder::Full.types()?, &demand)?;
            earlier.with_types(&args, ladder::for_budgets(&rungs, &args.fit, &used)?)?
        }
    };
    let mut entries = entries(&types, &base, &args)?;
    // Refusals come before hours of work.
    base::check_types(&base, &types, !args.calibrate.is_empty())?;
    let mut text = texts::read(&model, args.eval_text.as_slice(), For::Evaluation, args.context(), events)?;
    text.windows.truncate(args.chunks());
    let settings = Earlier::of_call(&args, &types, stated.chat_template(), &filled);
    *former = Some(settings.record(out, &mut work)?);

    // The importance matrix, which files depend on.
    let importance = match args.no_imatrix {
        true => None,
        false if filled.keeps_matrix => {
            let kept = importance::kept(last, &base.digests.weights, &work);
            let facts = kept.ok_or_else(|| {
                let hint = words!("pass its texts again: ") + with_files("imatrix-text", &args.imatrix_text);
                Error::at(&out.join(importance::NAME), "missing, changed, or made for other weights")
                    .hint([hint])
            })?;
            let digest = facts.fingerprint.clone();
            Some((facts, digest))
        }
        false => {
            // Texts to calibrate on are better than the built-in one.
            let files = if args.imatrix_text.is_empty() { &args.calibrate } else { &args.imatrix_text };
            let mut text = texts::read(&model, files, For::Calibration, args.context(), events)?;
            text.windows.truncate(args.imatrix_chunks.map_or(usize::MAX, |n| n as usize));
            if files.is_empty() {
                tell_small(&text, "the importance matrix is from", "imatrix-text", events);
            }
            let activations = args.activations().name();
            let of = json!([
                "imatrix",
                writing.program,
                base.digests.weights,
                text.digest,
                text.windows.len(),
                args.context(),
                activations
            ]);
            let digest = fingerprint(&of);
            let facts = importance::make(&model, &text, args.context(), &digest, out, &mut work, events)?;
            Some((facts, digest))
        }
    };
    let matrix = importance.as_ref().map(|_| importance::read(&out.join(importance::NAME))).transpose()?;
    let calibrating = match args.calibration() {
        None => None,
        Some(options) => {
            let digests = texts::digests(&model, &options.calibrate, events)?;
            let of = json!([base.digests.weights, digests, options.calibration_tokens]);
            Some(Calibrating { options, digest: fingerprint(&of) })
        }
    };
    let of_files = json!([base.digests.weights, importance.as_ref().map(|(_, digest)| digest)]);
    text_file::warn_of_overlap(&args.eval_text, &args.calibrate, events);
    if !args.no_imatrix {
        text_file::warn_of_overlap(&args.eval_text, &args.imatrix_text, events);
    }
    if args.eval_text.is_empty() {
        tell_small(&text, "measurements are of", "eval-text", events);
    }
    let on = On { windows: &text.windows, digest: &text.digest, context: args.context() };
    let mut names: Vec<String> = entries.iter().map(Entry::label).collect();
    names.sort_unstable();
    let activations = args.activations().name();
    let dropping = fingerprint(&json!([names, text.digest, text.windows.len(), args.context(), activations]));
    let wanted = files::Wanted {
        entries: &entries,
        imatrix: matrix.as_ref(),
        calibration: calibrating.as_ref(),
        split_max_size: args.split_max_size(),
        fingerprint: &fingerprint(&of_files),
        dropping: args.drop_dominated.then_some(dropping.as_str()),
    };
    let written = files::make(&base, &wanted, out, &writing, &mut work, events)?;
    entries.sort_by_key(|entry| written.iter().position(|file| file.file_type == entry.label()));
    let sidecars = sidecars(
        (&source, &stated, hub_options),
        &base,
        &args,
        (out, &written),
        &writing,
        &mut work,
        events,
    )?;

    // Measured loss.
    let measured =
        measure((&model, base.digests.weights.as_str()), &written, &on, &args.run(), &work, events)?;

    let mut publication = Publication { out, base: &base, model: &model, args: &args, work, events };
    let mut rungs = publication.rungs(&written, &measured)?;
    rungs.iter().filter_map(card::figures).for_each(|line| events.status(&line));
    publication.tell_dominated(&mut rungs, &written, &measured, (&on, &dropping))?;
    publication.verify(&rungs, &written, sidecars.iter().map(|(_, written)| written))?;
    publication.digest(&mut rungs, &written)?;
    let mut published = Vec::new();
    for &(kind, ref written) in &sidecars {
        let files = publication.published(written)?;
        published.extend(files.into_iter().map(|file| PublishedSidecar { kind, file }));
    }
    let calibration = calibrating.map(|calibrating| CalibrationFacts {
        texts: calibrating.options.calibrate.iter().map(|path| file_name(path)).collect(),
        tokens: calibrating.options.calibration_tokens,
    });
    let model_facts = facts::of(&source, &model, &args);
    let commands = reproduce::commands(&args, &entries, &model_facts, stated.chat_template().is_some());
    let results = Results {
        format: names::FORMAT,
        version: 1,
        program: format!("gguf-tools {}", env!("CARGO_PKG_VERSION")),
        command: commands.command,
        removal: commands.removal,
        settings: settings.named(),
        model: model_facts,
        base: BaseFacts {
            r#type: match base.recipe {
                Some(recipe) => recipe.canonical_name(),
                None => stated_file_type(model.file().metadata()).unwrap_or("GGUF"),
            }
            .to_owned(),
            bytes: model.file().shards().iter().map(|(_, file)| file.bytes().len() as u64).sum(),
            weights: base.digests.weights.clone(),
        },
        importance: importance.map(|(facts, _)| facts),
        calibration,
        prompt_format: facts::prompt_format(&model, &base.path, events),
        sampling: facts::sampling(model.file().metadata()),
        ollama_template: facts::ollama_template(&model, &base.path),
        repo: args.repo.clone(),
        evaluation: evaluation(&text, &measured, &args),
        rungs,
        sidecars: published,
        card: String::new(),
        others: BTreeMap::new(),
    };
    if results.model.base_model.is_none() {
        events.warning(words!(
            "the card names no base model, so the Hub cannot link it; pass [-base-model OWNER/NAME]"
        ));
    }
    if results.model.license.is_none() {
        events.warning("the card states no license, because the source does not");
    }
    removed.iter().for_each(|path| drop(fs::remove_file(path)));
    let n_strangers = publication.write(results, stated.chat_template(), &measured, &written)?;
    if let Source::Checkpoint(checkpoint) = source {
        checkpoint.hub.finish(events)?;
    }
    let (folder, work) = (out.display(), Work::folder_of(out));
    events.status(&match n_strangers {
        0 => format!("done: {folder} is ready; keep {} to add chunks or types later", work.display()),
        1 => format!("done, but {folder} has a file that is not in the card"),
        n => format!("done, but {folder} has {n} files that are not in the card"),
    });
    Ok(())
}

/// The files to publish: those of types, and one for each target size.
fn entries(types: &[&'static Recipe], base: &Base, args: &PublishOptions) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = types.iter().copied().map(Entry::of_type).collect();
    if !args.target_size.is_empty() {
        let ladder = ladder::Ladder::Full.types()?;
        let sizes = base::sizes(base, &ladder, &Request::default())?;
        let sizes: Vec<_> = ladder.into_iter().zip(sizes).collect();
        entries.extend(args.target_size.iter().filter_map(|size| ladder::for_size(&sizes, *size)));
    }
    let is_removed =
        |entry: &Entry| args.remove.iter().any(|label| label.eq_ignore_ascii_case(&entry.label()));
    match entries.iter().find(|entry| is_removed(entry)) {
        Some(entry) => Err(Error::usage(format_args!("`{}` is both requested and removed", entry.label()))),
        None if entries.is_empty() => Err(Error::usage("no file is left to publish")),
        None => Ok(entries),
    }
}

/// Notes that a built-in text is used, and how short it is.
fn tell_small(text: &Text, what: &str, name: &'static str, events: &dyn Events) {
    let n = text.windows.len();
    let tokens = text.windows.iter().map(|window| window.tokens.len()).sum::<usize>();
    events.note(words!("{} a small built-in text of {} chunks with {} tokens; pass a text similar to what the model will process with [-{}]", what, n, tokens, name));
}

/// Writes the files next to the model: projector of a vision or audio model, and drafts.
fn sidecars(
    (source, stated, hub_options): (&Source, &Stated, &HubOptions),
    base: &Base,
    args: &PublishOptions,
    (out, files): (&Path, &[WrittenFile]),
    writing: &Writing,
    work: &mut Work,
    events: &dyn Events,
) -> Result<Vec<(&'static str, WrittenFile)>, Error> {
    let Source::Checkpoint(checkpoint) = source else {
        return match args.draft.first() {
            Some(_) => Err(Error::usage(words!(
                "[-draft] needs the checkpoint of the target model, not a GGUF file"
            ))),
            None => Ok(Vec::new()),
        };
    };
    let mut taken = files.to_vec();
    let mut sidecars = Vec::new();
    let target = checkpoint.hub.folder.clone();
    if checkpoint.projector.is_some() {
        // The type that users of llama.cpp expect for projectors.
        let recipe = Recipe::from_name("f16").map_err(Error::new)?;
        let projector = files::Sidecar { kind: "projector", src: &args.src, recipe, of: json!(base.state) };
        let input = || CheckpointInput::open_projector(target.clone(), &stated.layout());
        let written = files::sidecar(&projector, input, (out, &taken), writing, work, events)?;
        taken.push(written.clone());
        sidecars.push((projector.kind, written));
    }
    for src in &args.draft {
        let wanted = hub::Wanted { weights: true, keep: false, out: Some(out) };
        let hub = hub::input(src, wanted, hub_options, events)?;
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
        let draft = files::Sidecar { kind: "draft", src, recipe, of };
        let written = files::sidecar(&draft, input, (out, &taken), writing, work, events)?;
        taken.push(written.clone());
        sidecars.push((draft.kind, written));
        hub.finish(events)?;
    }
    Ok(sidecars)
}

/// Refuses a folder with files that no earlier run of this program wrote.
fn check_folder(out: &Path, args: &PublishOptions) -> Result<(), Error> {
    if out.exists() && !out.is_dir() {
        return Err(Error::at(out, "is not a folder"));
    }
    // For a folder that will be created, its nearest existing ancestor.
    let there = out.ancestors().find_map(|folder| {
        fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
    });
    let is_inside = |folder: PathBuf| folder.is_dir() && there.is_some_and(|there| there.starts_with(folder));
    if fs::canonicalize(&args.src).is_ok_and(is_inside) {
        return Err(Error::at(out, "is inside the checkpoint folder, which is never written to")
            .hint(["choose a folder outside the checkpoint"]));
    }
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    let is_ours = Work::folder_of(out).is_dir() || published::results(out).is_some();
    if is_empty || args.force || is_ours {
        return Ok(());
    }
    let hint = words!("use [-force] to write into it");
    Err(Error::at(out, "the folder is not empty and was not written by an earlier run").hint([hint]))
}

/// Refuses to overwrite what was changed since the last call wrote it.
fn check_edits(out: &Path, args: &PublishOptions, contents: &Contents) -> Result<(), Error> {
    let [first, others @ ..] = &contents.edited[..] else { return Ok(()) };
    if args.force {
        return Ok(());
    }
    let others =
        if others.is_empty() { String::new() } else { format!(", and so were {}", others.join(", ")) };
    let own_text =
        contents.edited.iter().any(|name| name == CARD).then_some(
            "write your own text in README.md between the comments below the title, which is kept",
        );
    Err(Error::at(&out.join(first), format_args!("was changed after it was written{}", printable(&others)))
        .hint([
            words!("change the source, or pass [-chat-template] or [-model-name], and publish again, so that files, checksums and card agree"),
            words!("use [-force] to overwrite the changes"),
        ])
        .hint(own_text))
}

fn evaluation(text: &Text, measured: &Measured, args: &PublishOptions) -> Option<Evaluation> {
    (measured.windows > 0).then(|| Evaluation {
        texts: text.names.clone(),
        sha256: text.digest.clone(),
        context: args.context(),
        windows: measured.windows,
        activations: args.activations().name(),
    })
}
