//! Writes all files of the ladder in one pass over the base, with projectors and drafts.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use gguf_container::Metadata;
use gguf_conversion::{
    CheckpointInput, Conversion, Importance, ModelInput, OutputRequest, Request, Shards,
    imatrix::{Imatrix, MissingPolicy},
    recipes::Recipe,
};
use gguf_runtime::memory::Demand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    base::{self, Base},
    calibrated::{self, Calibrating},
    heads, importance,
    ladder::{Entry, Rung},
    published,
    work::{Work, fingerprint},
    write::{Writing, write},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
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
pub fn make(
    base: &Base,
    wanted: &Wanted<'_>,
    out: &Path,
    writing: &Writing,
    work: &mut Work,
    events: &dyn Events,
) -> Result<Vec<WrittenFile>, Error> {
    let digest = |entry: &Entry| wanted.digest(entry, &writing.program);
    let standing = |work: &Work, entry: &Entry| {
        work.standing::<WrittenFile>(&stage(&entry.label()), &digest(entry)).or_else(|| {
            let of = dropped_fingerprint(&digest(entry), wanted.dropping?);
            work.standing(&dropped(&entry.label()), &of)
        })
    };
    let missing: Vec<Entry> =
        wanted.entries.iter().copied().filter(|entry| standing(work, entry).is_none()).collect();
    // The base may be one of the files.
    let (same, missing): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|entry| base.is_of_type(entry.recipe));
    for entry in same {
        let file_facts = facts_of(&base.path, entry.label(), digest(&entry), &base.digests.head)?;
        work.replaced(&stage(&entry.label()), &digest(&entry), (out, &file_facts.paths), &file_facts)?;
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(Entry::label).collect();
        events.status(format!("files: {}", names.join(", ")));
        let (single, together): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|entry| wanted.calibration_of(entry).is_some());
        // Files that are not split have no keys about shards, like those of llama-quantize.
        for (types, shards) in by_shards(base, together, wanted)? {
            let input = ModelInput::new(gguf_models::FAMILIES, base::open(&base.path)?);
            let outputs = types.iter().map(|entry| OutputRequest::by_rules(entry.recipe));
            let conversion = Conversion::new(input).outputs(outputs).request(wanted.request(shards));
            let of_all = fingerprint(&json!(types.iter().map(digest).collect::<Vec<_>>()));
            let written = write(&conversion, (base.path.as_path(), out), &of_all, writing, events)?;
            for entry in types {
                let first = written.iter().find(|file| file.file_type == entry.recipe.name);
                let first = first.ok_or_else(|| Error::new("missing file of a type"))?;
                made(&first.path, &entry, digest(&entry), (base, out), work)?;
            }
        }
        for entry in single {
            let Some(calibrating) = wanted.calibration_of(&entry) else { continue };
            let file = calibrated::File {
                entry,
                path: path_of(base::open(&base.path)?.metadata(), &entry, out),
                digest: digest(&entry),
                imatrix: wanted.imatrix,
                split_max_size: wanted.split_max_size,
            };
            let first = calibrated::write(base, file, calibrating, writing, work, events)?;
            made(&first, &entry, digest(&entry), (base, out), work)?;
        }
        // The statistics are large, and another text needs others.
        calibrated::remove_statistics(work);
    }
    let mut files = Vec::new();
    for entry in wanted.entries {
        let file = standing(work, entry)
            .ok_or_else(|| Error::new(format_args!("{}: missing file of an earlier run", entry.label())))?;
        if file.head == base.digests.head || !file.first().is_file() {
            files.push(file);
            continue;
        }
        if base.is_of_type(entry.recipe) {
            let new = facts_of(&base.path, entry.label(), digest(entry), &base.digests.head)?;
            work.replaced(&stage(&entry.label()), &new.fingerprint, (out, &new.paths), &new)?;
            files.push(new);
            continue;
        }
        let model = base::open(&base.path)?;
        let paths =
            heads::renew(&file.paths, model.metadata(), &path_of(model.metadata(), entry, out), events)?;
        let first = paths.first().cloned().unwrap_or_default();
        files.push(made(&first, entry, digest(entry), (base, out), work)?);
    }
    files.sort_by(|a, b| (a.bytes, &a.file_type).cmp(&(b.bytes, &b.file_type)));
    Ok(files)
}

/// Records a file with its recipe.
fn made(
    first: &Path,
    entry: &Entry,
    digest: String,
    (base, out): (&Base, &Path),
    work: &mut Work,
) -> Result<WrittenFile, Error> {
    let file = facts_of(first, entry.label(), digest, &base.digests.head)?;
    save_recipe(entry, first, out)?;
    let mut paths = file.paths.clone();
    paths.push(recipe_path(&entry.label(), out));
    work.replaced(&stage(&entry.label()), &file.fingerprint, (out, &paths), &file)?;
    Ok(file)
}

/// Path of the file of an entry if it has no shards.
fn path_of(base: &Metadata, entry: &Entry, out: &Path) -> PathBuf {
    out.join(gguf_layout::default_file_name(base, &entry.label()))
}

/// Takes over files of `out` that no stage holds, for example in a clone, if they are as the run of `results` left them.
///
/// # Errors
/// A state that cannot be written.
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
fn facts_of(first: &Path, label: String, fingerprint: String, head: &str) -> Result<WrittenFile, Error> {
    let model = base::open(first)?;
    let (mut n_elems, mut n_bytes) = (0, 0);
    for (_, tensor) in model.tensors() {
        n_elems += tensor.shape.n_elems();
        n_bytes += tensor.n_bytes;
    }
    Ok(WrittenFile {
        file_type: label,
        paths: model.shards().iter().map(|(path, _)| path.clone()).collect(),
        bytes: model.shards().iter().map(|(_, file)| file.bytes().len() as u64).sum(),
        tensor_bytes: n_bytes,
        bits_per_weight: gguf_types::bits_per_weight(n_elems, n_bytes),
        fingerprint,
        head: head.to_owned(),
    })
}

/// Writes `recipes/TYPE.json`: the type of every tensor.
fn save_recipe(entry: &Entry, first: &Path, out: &Path) -> Result<(), Error> {
    make_folder(&out.join("recipes"))?;
    let model = base::open(first)?;
    let dtypes = model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.dtype)).collect();
    let output = OutputRecipe { file_type: entry.recipe.name.to_owned(), dtypes };
    let text = RecipeFile::of_output(output).text()?;
    write_file(&recipe_path(&entry.label(), out), text.as_bytes(), true)
}

/// Name of the recipe of a file in the folder, by the name of its type in the card.
pub fn recipe_name(label: &str) -> String {
    format!("recipes/{label}.json")
}

/// Path of the recipe of a file, by the name of its type in the card.
pub fn recipe_path(label: &str, out: &Path) -> PathBuf {
    out.join(recipe_name(label))
}

/// Sizes of each type with the memory that it needs.
///
/// # Errors
/// A plan that cannot be made.
pub fn rungs(base: &Base, types: &[&'static Recipe], demand: &Demand) -> Result<Vec<Rung>, Error> {
    let sizes = base::sizes(base, types, &Request::default())?;
    let rung = |(weights, recipe): (u64, &&'static Recipe)| Rung {
        recipe,
        demand: Demand { weights, ..demand.clone() },
    };
    Ok(sizes.into_iter().zip(types).map(rung).collect())
}

/// A projector or draft to write.
pub struct Sidecar<'a> {
    /// Display name of its kind.
    pub kind: &'static str,
    /// Source of the file.
    pub src: &'a Path,
    pub recipe: &'static Recipe,
    /// State that its bytes depend on.
    pub of: Value,
}

/// Makes the file of a sidecar, unless it is valid.
///
/// # Errors
/// A source that cannot be read, a name that is already in `taken`, an interruption.
pub fn sidecar(
    sidecar: &Sidecar<'_>,
    input: impl FnOnce() -> Result<CheckpointInput, gguf_conversion::Error>,
    (out, taken): (&Path, &[WrittenFile]),
    writing: &Writing,
    work: &mut Work,
    events: &dyn Events,
) -> Result<WrittenFile, Error> {
    let &Sidecar { kind, src, recipe, ref of } = sidecar;
    let stage = format!("{kind} {}", src.display());
    let digest = fingerprint(&json!([kind, writing.program, recipe.name, of]));
    if let Some(file_facts) = work.standing(&stage, &digest) {
        return Ok(file_facts);
    }
    events.status(format!("{kind}: {}", recipe.canonical_name()));
    let input = input().map_err(|error| failure(src, error))?;
    let conversion = Conversion::new(input).outputs([OutputRequest::by_rules(recipe)]);
    let planned = conversion.plan().map_err(|error| failure(src, error))?;
    for path in planned.paths(Some(out)).map_err(|error| failure(src, error))? {
        if taken.iter().any(|file_facts| file_facts.paths.contains(&path)) {
            return Err(Error::at(&path, format_args!("the {kind} has the same name as another file")));
        }
    }
    drop(planned);
    let written = write(&conversion, (src, out), &digest, writing, events)?;
    let first = written.first().ok_or_else(|| Error::new("missing file of a type"))?;
    let file_facts = facts_of(&first.path, recipe.canonical_name().to_owned(), digest.clone(), "")?;
    work.replaced(&stage, &digest, (out, &file_facts.paths), &file_facts)?;
    Ok(file_facts)
}
