//! The published folder after its files are made: metrics, checks, digests, card.

use std::{collections::BTreeMap, fs, path::PathBuf};

use gguf_container::Output;
use gguf_runtime::{
    memory::{Demand, Use},
    report::{FileReport, Plotted, Report, html, kl_by_place, size_plot},
    stats::Comparison,
};
use gguf_types::hex;
use sha2::{Digest, Sha256};

use super::{
    base::Base,
    card,
    commands::{self, MODELFILE},
    context::{Context, Stage},
    files::{self, WrittenFile},
    front_matter,
    interruption::ends_soon,
    measure::{self, Figures, Measured, On, dominated},
    names::{CARD, PLOT, REPORT, RESULTS, SUMS, TEMPLATE, recipe_name, recipe_path},
    own_text,
    results::{Memory, PublishedFile, Results, Rung},
    texts,
    work::sha256_of,
};
use crate::{
    error::Error,
    outputs::write_file,
    text::{file_name, human_bytes, pretty_json},
    verify::verify_file,
};

/// A publication whose files are made and measured.
pub struct Publication<'a> {
    pub context: Context<'a>,
    pub base: &'a Base,
    pub model: &'a gguf_runtime::Model,
}

impl Publication<'_> {
    /// Facts about each file.
    pub fn rungs(&self, written: &[WrittenFile], measured: &Measured) -> Result<Vec<Rung>, Error> {
        // Unknown architectures have no table of memory.
        let demand = Demand::of(&gguf_models::GRAPHS, self.model.file()).ok();
        let mut rungs = Vec::new();
        for (index, file) in written.iter().enumerate() {
            let mut memory = Vec::new();
            if let Some(demand) = &demand {
                let weights = file.tensor_bytes;
                let demand = Demand { weights, ..demand.clone() };
                for context in self.context.args.contexts(demand.context_length as u64) {
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
                fallbacks: file.fallbacks,
                predictions: positions.map(|positions| Figures::of(positions, measured.windows)),
                vectors: measured.vectors.get(index).cloned(),
                dominated_by: None,
                left_out: false,
                fingerprint: file.fingerprint.clone(),
                head: file.head.clone(),
                memory,
            });
        }
        Ok(rungs)
    }

    /// Warns about files that are larger and worse than another file, and omits them if requested.
    pub fn drop_dominated_files(
        &mut self,
        rungs: &mut [Rung],
        written: &[WrittenFile],
        measured: &Measured,
        on: &On<'_>,
        dropping: &str,
    ) -> Result<(), Error> {
        let bytes: Vec<u64> = rungs.iter().map(|rung| rung.bytes).collect();
        let better = dominated(&bytes, |first, second| measured.excess(first, second));
        for (index, better) in better.into_iter().enumerate() {
            let Some(better) = better else { continue };
            let better = rungs[better].r#type.clone();
            let rung = &mut rungs[index];
            let size = human_bytes(rung.bytes);
            self.context
                .events
                .warning(format!("{} ({size}): {better} is not larger and has a lower loss", rung.r#type));
            rung.dominated_by = Some(better);
            rung.left_out = self.context.args.drop_dominated && written[index].first() != self.base.path;
            if rung.left_out {
                let file = &written[index];
                // While its measurement is valid, the file is not written again.
                if !measured.positions.is_empty() {
                    let store = measure::store(&self.base.digests.weights, file, on, &self.context);
                    let digest = files::dropped_fingerprint(&file.fingerprint, dropping);
                    self.context.work.done(&files::dropped(&rung.r#type), &digest, &[store], file)?;
                }
                let recipe = recipe_path(&rung.r#type, self.context.out());
                file.paths.iter().chain([&recipe]).for_each(|path| drop(fs::remove_file(path)));
            }
        }
        Ok(())
    }

    /// Checks every file that is published, once.
    pub fn verify<'a>(
        &mut self,
        rungs: &[Rung],
        written: &'a [WrittenFile],
        sidecars: impl Iterator<Item = &'a WrittenFile>,
    ) -> Result<(), Error> {
        let files = rungs.iter().zip(written).filter(|(rung, _)| !rung.left_out).map(|(_, file)| file);
        let _guard = ends_soon(self.context.events);
        for file in files.chain(sidecars) {
            let name = format!("verified {}", file.name());
            self.context.make(&Stage { name: &name, key: &file.fingerprint, folder: None }, |context| {
                context.events.status(format!("checks {}", file.name()));
                verify_file(file.first(), context.args.threads, context.events)?;
                Ok((file.paths.clone(), true))
            })?;
        }
        Ok(())
    }

    /// Names, sizes and digests of files.
    pub fn digest(&mut self, rungs: &mut [Rung], written: &[WrittenFile]) -> Result<(), Error> {
        let _guard = ends_soon(self.context.events);
        for (rung, file) in rungs.iter_mut().zip(written).filter(|(rung, _)| !rung.left_out) {
            rung.files = self.published(file)?;
        }
        Ok(())
    }

    pub fn published(&mut self, file: &WrittenFile) -> Result<Vec<PublishedFile>, Error> {
        let name = format!("sha256 {}", file.name());
        let stage = Stage { name: &name, key: &file.fingerprint, folder: None };
        let digests = self.context.make(&stage, |_| {
            let digests = file.paths.iter().map(|path| sha256_of(path)).collect::<Result<Vec<_>, Error>>()?;
            Ok((file.paths.clone(), digests))
        })?;
        let published = |(path, sha256): (&PathBuf, String)| {
            let metadata = fs::metadata(path).map_err(|error| Error::cannot_open(path, error))?;
            Ok(PublishedFile { name: file_name(path), bytes: metadata.len(), sha256 })
        };
        file.paths.iter().zip(digests).map(published).collect()
    }

    /// Writes everything that is not a model: template, charts, metrics, card, checksums. Returns the number of files that the
    /// card does not mention.
    pub fn write(
        &mut self,
        mut results: Results,
        chat_template: Option<&str>,
        measured: &Measured,
        written: &[WrittenFile],
    ) -> Result<usize, Error> {
        // After an interruption, new files must not be mistaken for edits.
        let out = self.context.out();
        let _ = fs::remove_file(out.join(SUMS));
        let put = |name: &str, text: &str| write_file(&out.join(name), text.as_bytes(), true);
        if !measured.positions.is_empty() {
            let plotted = results.published().filter_map(|rung| {
                Some(Plotted { name: rung.r#type.clone(), bytes: rung.bytes, cost: rung.cost()? })
            });
            put(PLOT, &size_plot(&plotted.collect::<Vec<_>>(), "KL divergence, nats/token"))?;
            put(REPORT, &html(&self.report(&results, measured, written)).map_err(Error::new)?)?;
        }
        // Digests of the other files of this call, which are not in the table of files.
        let mut others: Vec<String> =
            results.importance.iter().map(|importance| importance.file.clone()).collect();
        if !measured.positions.is_empty() {
            others.extend([PLOT.to_owned(), REPORT.to_owned()]);
        }
        if let Some(template) = chat_template {
            put(TEMPLATE, template)?;
            others.push(TEMPLATE.to_owned());
        }
        if let Some(text) = commands::modelfile(&results) {
            put(MODELFILE, &text)?;
            others.push(MODELFILE.to_owned());
        }
        // The base has no recipe: it is what its source is.
        let made = results.rungs.iter().zip(written).filter(|(_, file)| file.first() != self.base.path);
        let made = made.filter(|(rung, _)| !rung.left_out);
        others.extend(made.map(|(rung, _)| recipe_name(&rung.r#type)));
        for name in others {
            results.others.insert(name.clone(), sha256_of(&out.join(&name))?);
        }
        let former = fs::read_to_string(out.join(CARD)).unwrap_or_default();
        results.front_matter = card::front_matter(&results, self.context.args.quantized_by.as_deref());
        let plain = card::body(&results, "");
        results.card = hex(&Sha256::digest(&plain));
        // A later run finds edits in the card.
        self.context.work.done(CARD, &results.card, &[], &plain)?;
        let body = card::body(&results, own_text::of(&former));
        // Before the results, which would make the program's keys in the former card the publisher's.
        put(CARD, &front_matter::joined(&results.own_keys.merged(&results.front_matter), &body))?;
        put(RESULTS, &pretty_json(&results)?)?;
        let sidecars = results.sidecars.iter().map(|sidecar| &sidecar.file);
        let files = results.rungs.iter().flat_map(|rung| &rung.files).chain(sidecars);
        let files = files.map(|file| (file.name.clone(), file.sha256.clone()));
        let mut sums: BTreeMap<String, String> = files.chain(results.others.clone()).collect();
        let n_unknown_files = self.warn_about_unknown_files(&sums)?;
        for name in [CARD, RESULTS] {
            sums.insert(name.to_owned(), sha256_of(&out.join(name))?);
        }
        // Leftovers of a killed run for files that are complete now.
        for name in sums.keys().map(String::as_str).chain([SUMS]) {
            let leftovers = Output::leftovers(&out.join(name));
            leftovers
                .iter()
                .filter(|leftover| leftover.path.is_file())
                .for_each(|leftover| drop(fs::remove_file(&leftover.path)));
        }
        put(SUMS, &sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect::<String>())?;
        Ok(n_unknown_files)
    }

    /// Warns about files of earlier runs that the card does not mention, and returns their number.
    fn warn_about_unknown_files(&self, known: &BTreeMap<String, String>) -> Result<usize, Error> {
        let mut n_unknown_files = 0;
        for (folder, end) in [("", ".gguf"), ("", ".svg"), ("", ".html"), ("recipes/", ".json")] {
            // Without recipes there is no such folder.
            let Ok(entries) = fs::read_dir(self.context.out().join(folder)) else { continue };
            for entry in entries {
                let entry = entry.map_err(|error| Error::cannot_open(self.context.out(), error))?;
                let file = entry.file_name().to_string_lossy().into_owned();
                let name = format!("{folder}{file}");
                if file.ends_with(end) && !file.starts_with('.') && !known.contains_key(&name) {
                    self.context.events.warning(format!("{name} is in the folder but not in the card"));
                    n_unknown_files += 1;
                }
            }
        }
        Ok(n_unknown_files)
    }

    fn report(&self, results: &Results, measured: &Measured, written: &[WrittenFile]) -> Report {
        let file = |(index, file): (usize, &WrittenFile)| {
            let positions = measured.positions.get(index).map_or(&[][..], Vec::as_slice);
            let (kl_by_position, kl_by_chunk) = kl_by_place(positions, measured.windows);
            FileReport {
                file: file.name(),
                bytes: file.bytes,
                bits_per_weight: file.bits_per_weight,
                predictions: (!positions.is_empty()).then(|| Comparison::of(positions, measure::TOP_K)),
                kl_difference: None,
                kl_by_position,
                kl_by_chunk,
                continuations: None,
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
            text: results.evaluation.as_ref().map(|on| texts::names(&on.texts)),
            activations: self.context.args.activations().name(),
            context: self.context.args.context(),
            chunks: measured.windows,
            files: kept.map(file).collect(),
        }
    }
}
