//! Writes all files of the ladder in one pass over the base, with projectors and drafts.

use std::path::{Path, PathBuf};

use gguf_conversion::{
    CheckpointInput, Conversion, Importance, Input, ModelInput, OutputRequest, Request, Shards,
    imatrix::{Imatrix, MissingPolicy},
    recipes::{Recipe, TensorFacts},
};
use gguf_runtime::memory::Demand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    base::{self, Base},
    importance,
    ladder::Rung,
    work::{Work, fingerprint},
    write::{Writing, Written, write},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    outputs::{make_folder, write_file},
    path_json,
    recipe_file::{OutputRecipe, RecipeFile},
};

/// Facts about a written file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its type.
    pub file_type: String,
    /// Its files: several if it is split.
    #[serde(with = "path_json::many")]
    pub paths: Vec<PathBuf>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of its tensors alone.
    pub tensor_bytes: u64,
    pub bits_per_weight: f64,
    /// Digest of everything that its bytes depend on.
    pub fingerprint: String,
}

impl WrittenFile {
    /// The first file, which programs open.
    pub fn first(&self) -> &Path {
        self.paths.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Its name without a folder.
    pub fn name(&self) -> String {
        self.first().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The files to write.
pub struct Wanted<'a> {
    pub types: &'a [&'static Recipe],
    pub imatrix: Option<&'a Imatrix>,
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
}

/// Makes the missing files in one pass, with the recipe of each.
///
/// # Errors
/// A source that cannot be read, an output that cannot be written, an interruption.
pub fn make(
    base: &Base,
    wanted: &Wanted<'_>,
    out: &Path,
    writing: &Writing<'_>,
    work: &mut Work,
    events: &dyn Events,
) -> Result<Vec<WrittenFile>, Error> {
    let stage = |recipe: &Recipe| format!("file {}", recipe.canonical_name());
    let digest = |recipe: &Recipe| {
        fingerprint(&json!(["file", writing.program, wanted.fingerprint, recipe.name, wanted.split_max_size]))
    };
    let standing = |work: &Work, recipe: &Recipe| {
        work.standing::<WrittenFile>(&stage(recipe), &digest(recipe)).or_else(|| {
            let of = dropped_fingerprint(&digest(recipe), wanted.dropping?);
            work.standing(&dropped(recipe), &of)
        })
    };
    let missing: Vec<&'static Recipe> =
        wanted.types.iter().copied().filter(|recipe| standing(work, recipe).is_none()).collect();
    // The base may be one of the files.
    let (same, missing): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|recipe| base.recipe.is_some_and(|base_recipe| base_recipe.name == recipe.name));
    for recipe in same {
        let file_facts = base_file(base, recipe, digest(recipe))?;
        work.done(&stage(recipe), &digest(recipe), &file_facts.paths, &file_facts)?;
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|recipe| recipe.canonical_name()).collect();
        events.status(&format!("files: {}", names.join(", ")));
        // Files that are not split have no keys about shards, like those of llama-quantize.
        for (types, shards) in by_shards(base, missing, wanted)? {
            let input = ModelInput::new(gguf_models::FAMILIES, base::open(&base.path)?);
            let outputs = types.iter().copied().map(OutputRequest::by_rules);
            let conversion = Conversion::new(input).outputs(outputs).request(wanted.request(shards));
            let of_all = fingerprint(&json!(types.iter().map(|recipe| digest(recipe)).collect::<Vec<_>>()));
            let written = write(&conversion, (base.path.as_path(), out), &of_all, writing, events)?;
            for recipe in types {
                let files: Vec<&Written> =
                    written.iter().filter(|file| file.file_type == recipe.name).collect();
                save_recipe(recipe, &conversion.input().tensors(recipe), &files, out)?;
                let file_facts = WrittenFile::of(&files, digest(recipe))?;
                let mut paths = file_facts.paths.clone();
                paths.push(recipe_path(recipe, out));
                work.done(&stage(recipe), &digest(recipe), &paths, &file_facts)?;
            }
        }
    }
    let file_facts = |recipe: &&'static Recipe| {
        standing(work, recipe)
            .ok_or_else(|| Error::new(format_args!("{}: missing file of an earlier run", recipe.name)))
    };
    wanted.types.iter().map(file_facts).collect()
}

/// Types of the missing files, with their shards.
type ByShards = Vec<(Vec<&'static Recipe>, Shards)>;

/// Types that fit one file, and types that need shards.
fn by_shards(base: &Base, types: Vec<&'static Recipe>, wanted: &Wanted<'_>) -> Result<ByShards, Error> {
    let input = ModelInput::new(gguf_models::FAMILIES, base::open(&base.path)?);
    let outputs = types.iter().copied().map(OutputRequest::by_rules);
    let conversion = Conversion::new(input).outputs(outputs).request(wanted.request(Shards::One));
    let planned = conversion.plan().map_err(|error| failure(&base.path, error))?;
    let bytes = |file: &gguf_conversion::PlannedFile| {
        file.plan.tensors().iter().map(|tensor| tensor.n_bytes).sum::<u64>()
    };
    let sizes: Vec<u64> = planned.files().iter().map(bytes).collect();
    let (small, large): (Vec<_>, Vec<_>) =
        types.into_iter().zip(sizes).partition(|(_, size)| *size <= wanted.split_max_size);
    let limited = Shards::Limited { max_bytes: Some(wanted.split_max_size), max_tensors: None };
    let alone =
        |types: Vec<(&'static Recipe, u64)>| types.into_iter().map(|(recipe, _)| recipe).collect::<Vec<_>>();
    let both = [(alone(small), Shards::One), (alone(large), limited)];
    Ok(both.into_iter().filter(|(types, _)| !types.is_empty()).collect())
}

/// The stage of a file that was made and measured, but is not published.
pub fn dropped(recipe: &Recipe) -> String {
    format!("dropped {}", recipe.canonical_name())
}

/// Digest for a dropped file and the measurement that decides about it.
pub fn dropped_fingerprint(file: &str, dropping: &str) -> String {
    fingerprint(&json!(["dropped", file, dropping]))
}

fn base_file(base: &Base, recipe: &Recipe, fingerprint: String) -> Result<WrittenFile, Error> {
    let model = base::open(&base.path)?;
    let (mut n_elems, mut n_bytes) = (0, 0);
    for (_, tensor) in model.tensors() {
        n_elems += tensor.shape.n_elems();
        n_bytes += tensor.n_bytes;
    }
    Ok(WrittenFile {
        file_type: recipe.canonical_name().to_owned(),
        paths: model.shards().iter().map(|(path, _)| path.clone()).collect(),
        bytes: model.shards().iter().map(|(_, file)| file.bytes().len() as u64).sum(),
        tensor_bytes: n_bytes,
        bits_per_weight: gguf_types::bits_per_weight(n_elems, n_bytes),
        fingerprint,
    })
}

impl WrittenFile {
    fn of(files: &[&Written], fingerprint: String) -> Result<WrittenFile, Error> {
        let mut bytes = 0;
        for file in files {
            let metadata =
                std::fs::metadata(&file.path).map_err(|error| Error::cannot_open(&file.path, error))?;
            bytes += metadata.len();
        }
        let first = files.first().ok_or_else(|| Error::new("missing file of a type"))?;
        let name = Recipe::from_name(first.file_type).map_err(Error::new)?.canonical_name();
        let (n_elems, n_bytes) = files
            .iter()
            .fold((0, 0), |(elems, bytes), file| (elems + file.n_elems, bytes + file.tensor_bytes));
        Ok(WrittenFile {
            file_type: name.to_owned(),
            paths: files.iter().map(|file| file.path.clone()).collect(),
            bytes,
            tensor_bytes: n_bytes,
            bits_per_weight: gguf_types::bits_per_weight(n_elems, n_bytes),
            fingerprint,
        })
    }
}

/// Writes `recipes/TYPE.json`: the type of every tensor.
fn save_recipe(
    recipe: &Recipe,
    tensors: &[TensorFacts<'_>],
    files: &[&Written],
    out: &Path,
) -> Result<(), Error> {
    let folder = out.join("recipes");
    make_folder(&folder)?;
    let choices = files.iter().flat_map(|file| &file.choices);
    let dtypes = choices.map(|choice| (tensors[choice.tensor].name.to_owned(), choice.dtype)).collect();
    let output = OutputRecipe { file_type: recipe.name.to_owned(), dtypes };
    let text = RecipeFile::of_output(output).text()?;
    write_file(&recipe_path(recipe, out), text.as_bytes(), true)
}

/// Path of the recipe of a type.
fn recipe_path(recipe: &Recipe, out: &Path) -> PathBuf {
    out.join("recipes").join(format!("{}.json", recipe.canonical_name()))
}

/// Sizes of each type, without writing files.
///
/// # Errors
/// A plan that cannot be made.
pub fn rungs(base: &Base, types: &[&'static Recipe], demand: &Demand) -> Result<Vec<Rung>, Error> {
    let input = ModelInput::new(gguf_models::FAMILIES, base::open(&base.path)?);
    let conversion = Conversion::new(input).outputs(types.iter().copied().map(OutputRequest::by_rules));
    let planned = conversion.plan().map_err(|error| failure(&base.path, error))?;
    let rung = |(file, recipe): (&gguf_conversion::PlannedFile, &&'static Recipe)| {
        let weights = file.plan.tensors().iter().map(|tensor| tensor.n_bytes).sum();
        Rung { recipe, demand: Demand { weights, ..demand.clone() } }
    };
    Ok(planned.files().iter().zip(types).map(rung).collect())
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
    writing: &Writing<'_>,
    work: &mut Work,
    events: &dyn Events,
) -> Result<WrittenFile, Error> {
    let &Sidecar { kind, src, recipe, ref of } = sidecar;
    let stage = format!("{kind} {}", src.display());
    let digest = fingerprint(&json!([kind, writing.program, recipe.name, of]));
    if let Some(file_facts) = work.standing(&stage, &digest) {
        return Ok(file_facts);
    }
    events.status(&format!("{kind}: {}", recipe.canonical_name()));
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
    let file_facts = WrittenFile::of(&written.iter().collect::<Vec<_>>(), digest.clone())?;
    work.done(&stage, &digest, &file_facts.paths, &file_facts)?;
    Ok(file_facts)
}
