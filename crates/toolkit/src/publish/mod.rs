//! Builds a model repository from a checkpoint.
//!
//! Stages: base, importance matrix, all files in one pass, projector, measurements, checks, card. Each is
//! recorded in `DIR.work` with a fingerprint of its inputs, so that an interrupted run resumes and
//! a changed call repeats only the affected stages. Outputs do not depend on the time.

mod base;
mod card;
mod earlier;
mod facts;
mod files;
mod importance;
mod ladder;
mod measure;
mod options;
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

use gguf_container::Output;
use gguf_conversion::{CheckpointInput, RunOptions, recipes::Recipe};
use gguf_runtime::{
    memory::{Demand, Use},
    report::{FileReport, Plotted, Report, html, kl_by_place, size_plot},
    stats::Comparison,
};
use serde_json::json;

use self::{
    base::{Base, Source},
    card::{PLOT, REPORT, RESULTS, SUMS, card, cost},
    earlier::Earlier,
    files::WrittenFile,
    measure::{Figures, Measured, On, dominated, measure},
    results::{BaseFacts, Evaluation, Memory, PublishedFile, PublishedSidecar, Results, Rung},
    texts::{For, Text},
    work::{Work, fingerprint, sha256_of},
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
    outputs::write_file,
    text::{human_bytes, pretty_json},
    verify::verify_file,
};

/// Builds or updates a repository.
///
/// # Errors
/// A source that cannot be read, a folder that must not be written to, options that contradict each other, an interruption.
pub fn publish(options: &PublishOptions, hub_options: &HubOptions, events: &dyn Events) -> Result<(), Error> {
    let mut args = options.clone();
    let out = args.dir.clone();
    let out = out.as_path();
    check_folder(out, &args)?;
    let command = earlier::published_call(&args);
    let mut earlier = Earlier::default();
    if Work::folder_of(out).is_dir() {
        let work = Work::open(out)?;
        check_edits(out, &args, &work)?;
        earlier = Earlier::of(&work);
        let filled = earlier.fill(&mut args);
        if !filled.is_empty() {
            events.note(&format!("as in the last run: {}", filled.join(", ")));
        }
    }
    let args = args;
    let source = Source::open(&args.src, out, hub_options, events)?;
    if let (Source::Gguf(_), Some(_)) = (&source, args.base_type) {
        let hint = format!(
            "to use a base of another type, run `gguf-quantize {} BASE.gguf TYPE`",
            args.src.display()
        );
        let message = "--base-type needs a checkpoint as input; a GGUF file is used as the base";
        return Err(Error::usage(message).hint([hint]));
    }
    let mut work = Work::open(out)?;
    let program =
        Call { program: "gguf-publish".to_owned(), executable: args.executable.clone(), ..Call::default() }
            .program();
    let options = RunOptions::default().threads(args.threads).level(args.level);
    let writing = Writing { program: &program, options };

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
    let base = base::make(&source, &args.src, (out, stored, is_published), &writing, &mut work, events)?;
    let model = eval_model::open(&base.path, &args.run(), events)?;
    eval_model::warn_of_length(&model, args.context(), events);
    let trained = model.context_length() as u64;
    if let Some(ctx) = args.fit_context.filter(|ctx| trained > 0 && *ctx > trained) {
        events.note(&format!(
            "--fit-context {ctx} exceeds the {trained} tokens that the model was trained for"
        ));
    }
    let types = match args.fit.is_empty() {
        true => named,
        false => {
            let demand = Demand::of(&gguf_models::GRAPHS, model.file())
                .map_err(|error| Error::at(&base.path, error))?;
            let used = Use { context: args.fit_context(), ..Use::default() };
            let rungs = files::rungs(&base, &ladder::Ladder::Full.types()?, &demand)?;
            earlier.with_types(&args, ladder::for_budgets(&rungs, &args.fit, &used)?)?
        }
    };

    // The importance matrix, which files depend on.
    let importance = match args.no_imatrix {
        true => None,
        false => {
            let mut text = texts::read(&model, &args.imatrix_text, For::Calibration, args.context(), events)?;
            text.windows.truncate(args.imatrix_chunks.map_or(usize::MAX, |n| n as usize));
            if args.imatrix_text.is_empty() {
                tell_small(&text, "the importance matrix is from", "--imatrix-text", events);
            }
            let activations = args.activations.name();
            let of = json!([
                "imatrix",
                program,
                base.fingerprint,
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
    let of_files = json!([base.fingerprint, importance.as_ref().map(|(_, digest)| digest)]);
    let mut text = texts::read(&model, args.eval_text.as_slice(), For::Evaluation, args.context(), events)?;
    text.windows.truncate(args.chunks());
    if args.eval_text.is_empty() {
        tell_small(&text, "measurements are of", "--eval-text", events);
    }
    let on = On { windows: &text.windows, digest: &text.digest, context: args.context() };
    let names: Vec<&str> = types.iter().map(|recipe| recipe.name).collect();
    let activations = args.activations.name();
    let dropping = fingerprint(&json!([names, text.digest, text.windows.len(), args.context(), activations]));
    let wanted = files::Wanted {
        types: &types,
        imatrix: matrix.as_ref(),
        split_max_size: args.split_max_size,
        fingerprint: &fingerprint(&of_files),
        dropping: args.drop_dominated.then_some(dropping.as_str()),
    };
    let written = files::make(&base, &wanted, out, &writing, &mut work, events)?;
    let sidecars =
        sidecars((&source, hub_options), &base, &args, (out, &written), &writing, &mut work, events)?;

    // Measured loss.
    let measured = measure((&model, base.fingerprint.as_str()), &written, &on, &args.run(), &work, events)?;

    let mut publication = Publication { out, base: &base, model: &model, args: &args, work, events };
    let mut rungs = publication.rungs(&written, &measured)?;
    publication.tell_dominated(&mut rungs, &written, &measured, (&on, &dropping))?;
    publication.verify(&rungs, &written, sidecars.iter().map(|(_, written)| written))?;
    publication.digest(&mut rungs, &written)?;
    let mut published = Vec::new();
    for &(kind, ref written) in &sidecars {
        let files = publication.published(written)?;
        published.extend(files.into_iter().map(|file| PublishedSidecar { kind, file }));
    }
    let results = Results {
        format: "gguf-publish results",
        version: 1,
        program: format!("gguf-tools {}", env!("CARGO_PKG_VERSION")),
        command,
        model: facts::of(&source, &model, &args),
        base: BaseFacts {
            r#type: match base.recipe {
                Some(recipe) => recipe.canonical_name(),
                None => stated_file_type(model.file().metadata()).unwrap_or("GGUF"),
            }
            .to_owned(),
            bytes: model.file().shards().iter().map(|(_, file)| file.bytes().len() as u64).sum(),
        },
        importance: importance.map(|(facts, _)| facts),
        evaluation: evaluation(&text, &measured, &args),
        rungs,
        sidecars: published,
        others: BTreeMap::new(),
    };
    publication.write(results, &measured, &written)?;
    Earlier::save(&args, &types, &mut publication.work)?;
    if let Source::Checkpoint(checkpoint) = source {
        checkpoint.hub.finish(events)?;
    }
    let work = Work::folder_of(out);
    events.status(&format!(
        "done: {} is ready; keep {} to add chunks or types later",
        out.display(),
        work.display()
    ));
    Ok(())
}

/// Notes that a built-in text is used, and how short it is.
fn tell_small(text: &Text, what: &str, option: &str, events: &dyn Events) {
    let n = text.windows.len();
    let tokens = text.windows.iter().map(|window| window.tokens.len()).sum::<usize>();
    events.note(&format!(
        "{what} a small built-in text of {n} chunks with {tokens} tokens; pass a text similar to what the model will process with {option}"
    ));
}

/// Writes the files next to the model: projector of a vision or audio model, and drafts.
fn sidecars(
    (source, hub_options): (&Source, &HubOptions),
    base: &Base,
    args: &PublishOptions,
    (out, files): (&Path, &[WrittenFile]),
    writing: &Writing<'_>,
    work: &mut Work,
    events: &dyn Events,
) -> Result<Vec<(&'static str, WrittenFile)>, Error> {
    let Source::Checkpoint(checkpoint) = source else {
        return match args.draft.first() {
            Some(_) => Err(Error::usage("--draft needs the checkpoint of the target model, not a GGUF file")),
            None => Ok(Vec::new()),
        };
    };
    let mut taken = files.to_vec();
    let mut sidecars = Vec::new();
    let target = checkpoint.hub.folder.clone();
    if checkpoint.projector.is_some() {
        // The type that users of llama.cpp expect for projectors.
        let recipe = Recipe::from_name("f16").map_err(Error::new)?;
        let projector =
            files::Sidecar { kind: "projector", src: &args.src, recipe, of: json!(base.fingerprint) };
        let input = || {
            CheckpointInput::open_projector(target.clone(), &gguf_layout::Options::new(gguf_models::FAMILIES))
        };
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
        let of = json!([base.fingerprint, base::state_of(src, &hub)?]);
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
    if is_empty || args.force || Work::folder_of(out).is_dir() {
        return Ok(());
    }
    let hint = "use --force to write into it";
    Err(Error::at(out, "the folder is not empty and was not written by an earlier run").hint([hint]))
}

/// Refuses to overwrite what was changed since the last call wrote it.
fn check_edits(out: &Path, args: &PublishOptions, work: &Work) -> Result<(), Error> {
    if args.force {
        return Ok(());
    }
    let edited = earlier::edited(out, work)?;
    let Some(first) = edited.first() else { return Ok(()) };
    let others = match &edited[1..] {
        [] => String::new(),
        others => format!(", and so were {}", others.join(", ")),
    };
    Err(Error::at(&out.join(first), format_args!("was changed after it was written{others}")).hint([
        "change the source and publish again, so that files, checksums and card agree",
        "use --force to overwrite the changes",
    ]))
}

fn evaluation(text: &Text, measured: &Measured, args: &PublishOptions) -> Option<Evaluation> {
    (measured.windows > 0).then(|| Evaluation {
        texts: text.names.clone(),
        sha256: text.digest.clone(),
        context: args.context(),
        windows: measured.windows,
        activations: args.activations.name(),
    })
}

/// A publication whose files are made and measured.
struct Publication<'a> {
    out: &'a Path,
    base: &'a Base,
    model: &'a gguf_runtime::Model,
    args: &'a PublishOptions,
    work: Work,
    events: &'a dyn Events,
}

impl Publication<'_> {
    /// Facts about each file.
    fn rungs(&self, written: &[WrittenFile], measured: &Measured) -> Result<Vec<Rung>, Error> {
        // Unknown architectures have no table of memory.
        let demand = Demand::of(&gguf_models::GRAPHS, self.model.file()).ok();
        let mut rungs = Vec::new();
        for (index, file) in written.iter().enumerate() {
            let mut memory = Vec::new();
            if let Some(demand) = &demand {
                let weights = file.tensor_bytes;
                let demand = Demand { weights, ..demand.clone() };
                for context in self.args.contexts(demand.context_length as u64) {
                    let bytes = demand.bytes(&Use { context, ..Use::default() }).map_err(Error::new)?;
                    memory.push(Memory { context, bytes, total: bytes.total() });
                }
            }
            let positions = measured.positions.get(index);
            rungs.push(Rung {
                r#type: file.file_type.clone(),
                files: Vec::new(),
                bytes: file.bytes,
                bits_per_weight: file.bits_per_weight,
                predictions: positions.map(|positions| Figures::of(positions, measured.windows)),
                vectors: measured.vectors.get(index).cloned(),
                dominated_by: None,
                left_out: false,
                memory,
            });
        }
        Ok(rungs)
    }

    /// Warns about files that are larger and worse than another file, and omits them if requested.
    fn tell_dominated(
        &mut self,
        rungs: &mut [Rung],
        written: &[WrittenFile],
        measured: &Measured,
        (on, dropping): (&On<'_>, &str),
    ) -> Result<(), Error> {
        let bytes: Vec<u64> = rungs.iter().map(|rung| rung.bytes).collect();
        let better = dominated(&bytes, |first, second| measured.excess(first, second));
        for (index, better) in better.into_iter().enumerate() {
            let Some(better) = better else { continue };
            let better = rungs[better].r#type.clone();
            let rung = &mut rungs[index];
            let size = human_bytes(rung.bytes);
            self.events
                .warning(&format!("{} ({size}): {better} is not larger and has a lower loss", rung.r#type));
            rung.dominated_by = Some(better);
            rung.left_out = self.args.drop_dominated && written[index].first() != self.base.path;
            if rung.left_out {
                let recipe = Recipe::from_name(&rung.r#type).map_err(Error::new)?;
                let file = &written[index];
                // While its measurement is valid, the file is not written again.
                if !measured.positions.is_empty() {
                    let store =
                        measure::store(&self.base.fingerprint, file, on, &self.args.run(), &self.work);
                    let digest = files::dropped_fingerprint(&file.fingerprint, dropping);
                    self.work.done(&files::dropped(recipe), &digest, &[store], file)?;
                }
                let recipe = self.out.join("recipes").join(format!("{}.json", rung.r#type));
                file.paths.iter().chain([&recipe]).for_each(|path| drop(fs::remove_file(path)));
            }
        }
        Ok(())
    }

    /// Checks every file that is published, once.
    fn verify<'a>(
        &mut self,
        rungs: &[Rung],
        written: &'a [WrittenFile],
        sidecars: impl Iterator<Item = &'a WrittenFile>,
    ) -> Result<(), Error> {
        let files = rungs.iter().zip(written).filter(|(rung, _)| !rung.left_out).map(|(_, file)| file);
        for file in files.chain(sidecars) {
            let stage = format!("verified {}", file.name());
            if self.work.standing::<bool>(&stage, &file.fingerprint).is_none() {
                self.events.status(&format!("checks {}", file.name()));
                verify_file(file.first(), self.args.threads, self.events)?;
                self.work.done(&stage, &file.fingerprint, &file.paths, &true)?;
            }
        }
        Ok(())
    }

    /// Names, sizes and digests of files.
    fn digest(&mut self, rungs: &mut [Rung], written: &[WrittenFile]) -> Result<(), Error> {
        for (rung, file) in rungs.iter_mut().zip(written).filter(|(rung, _)| !rung.left_out) {
            rung.files = self.published(file)?;
        }
        Ok(())
    }

    fn published(&mut self, file: &WrittenFile) -> Result<Vec<PublishedFile>, Error> {
        let stage = format!("sha256 {}", file.name());
        let digests: Vec<String> = match self.work.standing(&stage, &file.fingerprint) {
            Some(digests) => digests,
            None => {
                let digests =
                    file.paths.iter().map(|path| sha256_of(path)).collect::<Result<Vec<_>, Error>>()?;
                self.work.done(&stage, &file.fingerprint, &file.paths, &digests)?;
                digests
            }
        };
        let published = |(path, sha256): (&PathBuf, String)| {
            let metadata = fs::metadata(path).map_err(|error| Error::cannot_open(path, error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(PublishedFile { name, bytes: metadata.len(), sha256 })
        };
        file.paths.iter().zip(digests).map(published).collect()
    }

    /// Writes everything that is not a model: charts, metrics, card, checksums.
    fn write(&self, mut results: Results, measured: &Measured, written: &[WrittenFile]) -> Result<(), Error> {
        // After an interruption, new files must not be mistaken for edits.
        let _ = fs::remove_file(self.out.join(SUMS));
        let put = |name: &str, text: &str| write_file(&self.out.join(name), text.as_bytes(), true);
        if !measured.positions.is_empty() {
            let plotted = results.rungs.iter().filter(|rung| !rung.left_out).filter_map(|rung| {
                Some(Plotted { name: rung.r#type.clone(), bytes: rung.bytes, cost: cost(rung)? })
            });
            put(PLOT, &size_plot(&plotted.collect::<Vec<_>>(), "divergence (nats)"))?;
            put(REPORT, &html(&self.report(&results, measured, written)).map_err(Error::new)?)?;
        }
        // Digests of the other files of this call, which are not in the table of files.
        let mut others: Vec<String> =
            results.importance.iter().map(|importance| importance.file.clone()).collect();
        if !measured.positions.is_empty() {
            others.extend([PLOT.to_owned(), REPORT.to_owned()]);
        }
        // The base has no recipe: it is what its source is.
        let made = results.rungs.iter().zip(written).filter(|(_, file)| file.first() != self.base.path);
        let made = made.filter(|(rung, _)| !rung.left_out);
        others.extend(made.map(|(rung, _)| format!("recipes/{}.json", rung.r#type)));
        for name in others {
            results.others.insert(name.clone(), sha256_of(&self.out.join(&name))?);
        }
        let text = pretty_json(&results)?;
        put(RESULTS, &text)?;
        put("README.md", &card(&results, self.args.quantized_by.as_deref()))?;
        let sidecars = results.sidecars.iter().map(|sidecar| &sidecar.file);
        let files = results.rungs.iter().flat_map(|rung| &rung.files).chain(sidecars);
        let files = files.map(|file| (file.name.clone(), file.sha256.clone()));
        let mut sums: BTreeMap<String, String> = files.chain(results.others.clone()).collect();
        self.tell_strangers(&sums)?;
        for name in ["README.md", RESULTS] {
            sums.insert(name.to_owned(), sha256_of(&self.out.join(name))?);
        }
        // Leftovers of a killed run for files that are complete now.
        for name in sums.keys().map(String::as_str).chain([SUMS]) {
            let leftovers = Output::leftovers(&self.out.join(name));
            leftovers
                .iter()
                .filter(|leftover| leftover.path.is_file())
                .for_each(|leftover| drop(fs::remove_file(&leftover.path)));
        }
        put(SUMS, &sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect::<String>())
    }

    /// Warns about files of earlier runs that the card does not mention.
    fn tell_strangers(&self, known: &BTreeMap<String, String>) -> Result<(), Error> {
        for (folder, end) in [("", ".gguf"), ("", ".svg"), ("", ".html"), ("recipes/", ".json")] {
            // Without recipes there is no such folder.
            let Ok(entries) = fs::read_dir(self.out.join(folder)) else { continue };
            for entry in entries {
                let entry = entry.map_err(|error| Error::cannot_open(self.out, error))?;
                let file = entry.file_name().to_string_lossy().into_owned();
                let name = format!("{folder}{file}");
                if file.ends_with(end) && !file.starts_with('.') && !known.contains_key(&name) {
                    self.events.warning(&format!("{name} is in the folder but not in the card"));
                }
            }
        }
        Ok(())
    }

    fn report(&self, results: &Results, measured: &Measured, written: &[WrittenFile]) -> Report {
        let file = |(index, file): (usize, &WrittenFile)| {
            let positions = measured.positions.get(index).map_or(&[][..], Vec::as_slice);
            let (kl_by_position, kl_by_window) = kl_by_place(positions, measured.windows);
            FileReport {
                file: file.name(),
                bytes: file.bytes,
                bits_per_weight: file.bits_per_weight,
                predictions: (!positions.is_empty()).then(|| Comparison::of(positions, measure::TOP_K)),
                kl_by_position,
                kl_by_window,
                tensors: None,
                file_type: None,
                calibration: None,
                passage: None,
            }
        };
        let kept = written.iter().enumerate().filter(|(index, _)| !results.rungs[*index].left_out);
        Report {
            base: format!("{} ({})", results.model.name, results.base.r#type),
            base_bytes: Some(results.base.bytes),
            architecture: results.model.architecture.clone(),
            text: results.evaluation.as_ref().map(|on| on.texts.join(", ")),
            activations: self.args.activations.name(),
            context: self.args.context(),
            windows: measured.windows,
            files: kept.map(file).collect(),
        }
    }
}
