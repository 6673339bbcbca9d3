//! Writes all files of the ladder in one pass over the base, with projectors and drafts.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use gguf_container::Metadata;
use gguf_conversion::{
    Conversion, Importance, ModelInput, OutputRequest, Request, Shards,
    imatrix::{Imatrix, MissingPolicy},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    base::{self, Base},
    calibrated::{self, Calibrating},
    context::Context,
    digests, heads, importance,
    ladder::Entry,
    names::{recipe_name, recipe_path},
    published,
    work::{Work, fingerprint},
    write::{n_fallbacks, write},
};
use crate::{
    error::Error,
    outputs::{make_folder, write_file},
    path_json,
    recipe_file::{OutputRecipe, RecipeFile},
    text::file_name,
};

/// Facts about a written file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its type as the card names it: that of its [`Entry`].
    pub file_type: String,
    /// Its files: several if it is split.
    #[serde(with = "path_json::many")]
    pub paths: Vec<PathBuf>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of its tensors alone.
    pub tensor_bytes: u64,
    pub bits_per_weight: f64,
    /// Number of fallback types in the plan; 0 if the types were chosen for a size.
    #[serde(skip)]
    pub fallbacks: usize,
    /// Digest of everything that its tensors depend on.
    pub fingerprint: String,
    /// Digest of the base's descriptive metadata, which it also has.
    #[serde(default)]
    pub head: String,
}

impl WrittenFile {
    /// The first file, which programs open.
    pub fn first(&self) -> &Path {
        self.paths.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Its name without a folder.
    pub fn name(&self) -> String {
        file_name(self.first())
    }
}

/// The files to write.
pub struct Wanted<'a> {
    pub entries: &'a [Entry],
    pub imatrix: Option<&'a Imatrix>,
    /// Texts of the calibration, and the digest of their tokens.
    pub calibration: Option<&'a Calibrating>,
    /// Limit of a shard in bytes.
    pub split_max_size: u64,
    /// Digest of their dependencies other than the types.
    pub fingerprint: &'a str,
    /// Digest of the measurement that decides which files are dropped; a dropped file need not exist.
    pub dropping: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn request(&self, shards: Shards) -> Request<'a> {
        let mut request = Request::default();
        request.importance = self.imatrix.map(|imatrix| Importance { imatrix, path: Some(importance::NAME) });
        // Matrices of layers that are not executed have no data.
        request.missing = MissingPolicy::RaiseType;
        request.shards = shards;
        request
    }

    /// The calibration of a file. Files of floats have none.
    fn calibration_of(&self, entry: &Entry) -> Option<&'a Calibrating> {
        self.calibration.filter(|_| entry.recipe.default.is_quantized())
    }

    fn digest(&self, entry: &Entry, program: &str) -> String {
        let mut of = vec![
            json!("file"),
            json!(program),
            json!(self.fingerprint),
            json!(entry.recipe.name),
            json!(self.split_max_size),
        ];
        if let Some(calibrating) = self.calibration_of(entry) {
            of.extend([json!(calibrating.digest), json!(entry.target_size)]);
        }
        fingerprint(&Value::Array(of))
    }

    /// The file of an entry, if it is valid. One that is dropped need not exist.
    fn standing(&self, entry: &Entry, context: &Context<'_>) -> Option<WrittenFile> {
        let (label, digest) = (entry.label(), self.digest(entry, &context.program));
        context.work.standing(&stage(&label), &digest).or_else(|| {
            context.work.standing(&dropped(&label), &dropped_fingerprint(&digest, self.dropping?))
        })
    }
}

/// The stage of a file, by the name of its type in the card.
fn stage(label: &str) -> String {
    format!("file {label}")
}

/// Makes the missing files: all in one pass over the base, or with a calibration one by one. Files whose tensors are
/// valid get new headers if the metadata of the base has changed. Returns all files by size.
///
/// # Errors
/// A source that cannot be read, an output that cannot be written, an interruption.
pub fn make(base: &Base, wanted: &Wanted<'_>, context: &mut Context<'_>) -> Result<Vec<WrittenFile>, Error> {
    let is_missing = |entry: &Entry| wanted.standing(entry, context).is_none();
    let missing: Vec<Entry> = wanted.entries.iter().copied().filter(is_missing).collect();
    // The base may be one of the files.
    let (same, missing): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|entry| base.is_of_type(entry.recipe));
    for entry in same {
        is_base(&entry, wanted, base, context)?;
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(Entry::label).collect();
        context.events.status(format!("files: {}", names.join(", ")));
        let (single, together): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|entry| wanted.calibration_of(entry).is_some());
        write_together(together, wanted, base, context)?;
        for entry in single {
            let Some(calibrating) = wanted.calibration_of(&entry) else { continue };
            let file = calibrated::File {
                entry,
                path: path_of(digests::open(&base.path)?.metadata(), &entry, context.out()),
                digest: wanted.digest(&entry, &context.program),
                imatrix: wanted.imatrix,
                split_max_size: wanted.split_max_size,
            };
            let first = calibrated::write(base, file, calibrating, context)?;
            made(&first, &entry, wanted, base, context)?;
        }
        // The statistics are large, and another text needs others.
        calibrated::remove_statistics(&context.work);
    }
    let current = |entry| current(entry, wanted, base, context);
    let mut files = wanted.entries.iter().map(current).collect::<Result<Vec<_>, Error>>()?;
    let by_rules = |entry: &Entry| entry.target_size.is_none();
    let types: Vec<_> =
        wanted.entries.iter().filter(|entry| by_rules(entry)).map(|entry| entry.recipe).collect();
    let fallbacks = base::planned(base, &types, &wanted.request(Shards::One), n_fallbacks)?;
    let of_types = wanted.entries.iter().zip(&mut files).filter(|(entry, _)| by_rules(entry));
    of_types.zip(fallbacks).for_each(|((_, file), n)| file.fallbacks = n);
    files.sort_by(|a, b| (a.bytes, &a.file_type).cmp(&(b.bytes, &b.file_type)));
    Ok(files)
}

/// Writes files without a calibration.
fn write_together(
    entries: Vec<Entry>,
    wanted: &Wanted<'_>,
    base: &Base,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    // Files that are not split have no keys about shards, like those of llama-quantize.
    for (types, shards) in by_shards(base, entries, wanted)? {
        let input = ModelInput::new(gguf_models::FAMILIES, digests::open(&base.path)?);
        let outputs = types.iter().map(|entry| OutputRequest::by_rules(entry.recipe));
        let conversion = Conversion::new(input).outputs(outputs).request(wanted.request(shards));
        let digests: Vec<String> = types.iter().map(|entry| wanted.digest(entry, &context.program)).collect();
        let of_all = fingerprint(&json!(digests));
        let written = write(&conversion, base.path.as_path(), context.out(), &of_all, context)?;
        for entry in types {
            let first = written.iter().find(|file| file.file_type == entry.recipe.name);
            let first = first.ok_or_else(|| Error::new("missing file of a type"))?;
            made(&first.path, &entry, wanted, base, context)?;
        }
    }
    Ok(())
}

/// A file that is made, with the metadata that the base has now.
fn current(
    entry: &Entry,
    wanted: &Wanted<'_>,
    base: &Base,
    context: &mut Context<'_>,
) -> Result<WrittenFile, Error> {
    let file = wanted
        .standing(entry, context)
        .ok_or_else(|| Error::new(format_args!("{}: missing file of an earlier run", entry.label())))?;
    if file.head == base.digests.head || !file.first().is_file() {
        return Ok(file);
    }
    if base.is_of_type(entry.recipe) {
        return is_base(entry, wanted, base, context);
    }
    let model = digests::open(&base.path)?;
    let path = path_of(model.metadata(), entry, context.out());
    let paths = heads::renew(&file.paths, model.metadata(), &path, context.events)?;
    made(paths.first().map_or(Path::new(""), PathBuf::as_path), entry, wanted, base, context)
}

/// Records the base as the file of a type.
fn is_base(
    entry: &Entry,
    wanted: &Wanted<'_>,
    base: &Base,
    context: &mut Context<'_>,
) -> Result<WrittenFile, Error> {
    let digest = wanted.digest(entry, &context.program);
    let file = facts_of(&base.path, entry.label(), digest, &base.digests.head)?;
    let out = context.out();
    context.work.replaced(&stage(&entry.label()), &file.fingerprint, out, &file.paths, &file)?;
    Ok(file)
}

/// Records a file with its recipe.
fn made(
    first: &Path,
    entry: &Entry,
    wanted: &Wanted<'_>,
    base: &Base,
    context: &mut Context<'_>,
) -> Result<WrittenFile, Error> {
    let out = context.out();
    let digest = wanted.digest(entry, &context.program);
    let file = facts_of(first, entry.label(), digest, &base.digests.head)?;
    save_recipe(entry, first, out)?;
    let mut paths = file.paths.clone();
    paths.push(recipe_path(&entry.label(), out));
    context.work.replaced(&stage(&entry.label()), &file.fingerprint, out, &paths, &file)?;
    Ok(file)
}

/// Path of the file of an entry if it has no shards.
fn path_of(base: &Metadata, entry: &Entry, out: &Path) -> PathBuf {
    out.join(gguf_layout::default_file_name(base, &entry.label()))
}

/// Takes over files of `out` that no stage holds, for example in a clone, if they are as the run of `results` left them.
pub fn adopt(
    results: Option<&Value>,
    unchanged: &BTreeSet<String>,
    out: &Path,
    work: &mut Work,
) -> Result<(), Error> {
    for rung in published::rungs(results) {
        let text = |key: &str| rung[key].as_str().map(str::to_owned);
        let (Some(label), Some(digest), Some(head)) = (text("type"), text("fingerprint"), text("head"))
        else {
            continue;
        };
        let names = published::names(rung);
        let Some(first) = names.first().filter(|_| !work.holds(&stage(&label))) else { continue };
        if !names.iter().all(|name| unchanged.contains(*name)) {
            continue;
        }
        let Ok(file) = facts_of(&out.join(first), label, digest, &head) else { continue };
        let recipe = Some(recipe_name(&file.file_type)).filter(|name| unchanged.contains(name));
        let paths: Vec<_> = file.paths.iter().cloned().chain(recipe.map(|name| out.join(name))).collect();
        work.done(&stage(&file.file_type), &file.fingerprint, &paths, &file)?;
    }
    Ok(())
}

/// Types of the missing files, with their shards.
type ByShards = Vec<(Vec<Entry>, Shards)>;

/// Types that fit one file, and types that need shards.
fn by_shards(base: &Base, entries: Vec<Entry>, wanted: &Wanted<'_>) -> Result<ByShards, Error> {
    let recipes: Vec<_> = entries.iter().map(|entry| entry.recipe).collect();
    let sizes = base::sizes(base, &recipes, &wanted.request(Shards::One))?;
    let (small, large): (Vec<_>, Vec<_>) =
        entries.into_iter().zip(sizes).partition(|(_, size)| *size <= wanted.split_max_size);
    let limited = Shards::Limited { max_bytes: Some(wanted.split_max_size), max_tensors: None };
    let alone = |types: Vec<(Entry, u64)>| types.into_iter().map(|(entry, _)| entry).collect::<Vec<_>>();
    let both = [(alone(small), Shards::One), (alone(large), limited)];
    Ok(both.into_iter().filter(|(types, _)| !types.is_empty()).collect())
}

/// The stage of a file that was made and measured, but is not published.
pub fn dropped(label: &str) -> String {
    format!("dropped {label}")
}

/// Digest for a dropped file and the measurement that decides about it.
pub fn dropped_fingerprint(file: &str, dropping: &str) -> String {
    fingerprint(&json!(["dropped", file, dropping]))
}

/// Facts about the file at `first`, which may be split.
pub fn facts_of(first: &Path, label: String, fingerprint: String, head: &str) -> Result<WrittenFile, Error> {
    let model = digests::open(first)?;
    Ok(WrittenFile {
        file_type: label,
        paths: model.shards().iter().map(|(path, _)| path.clone()).collect(),
        bytes: model.file_bytes(),
        tensor_bytes: model.tensor_bytes(),
        bits_per_weight: model.bits_per_weight(),
        fallbacks: 0,
        fingerprint,
        head: head.to_owned(),
    })
}

/// Writes `recipes/TYPE.json`: the type of every tensor.
fn save_recipe(entry: &Entry, first: &Path, out: &Path) -> Result<(), Error> {
    make_folder(&out.join("recipes"))?;
    let model = digests::open(first)?;
    let dtypes = model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.dtype)).collect();
    let output = OutputRecipe { file_type: entry.recipe.name.to_owned(), dtypes };
    let text = RecipeFile::of_output(output).text()?;
    write_file(&recipe_path(&entry.label(), out), text.as_bytes(), true)
}
