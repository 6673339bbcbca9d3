//! The recipe of a GGUF file, extracted from its header.

use std::{collections::BTreeMap, path::Path};

use gguf_checkpoint::hub::without_secrets;
use gguf_container::{Header, Metadata, Value};
use gguf_conversion::recipes::{GUESSED, Recipe, TensorFacts, stored_file_type};
use gguf_types::{DType, words};
use serde_json::json;

use crate::{
    copy_files::open_model,
    error::Error,
    events::Events,
    file_type::recipe_of_id,
    hub::HubOptions,
    input_kind::is_gguf,
    recipe_file::{OutputRecipe, RecipeFile},
    remote_headers::headers,
    text::printable,
};

pub use crate::input_kind::is_address;

/// Contents of the headers of all shards.
struct Headers {
    metadata: Metadata,
    /// Name, shape and dtype of each tensor, in file order.
    tensors: Vec<(String, gguf_types::Shape, DType)>,
}

/// The recipe of a file.
#[derive(Debug)]
pub struct Extracted {
    /// The file type.
    pub recipe: &'static Recipe,
    /// Number of tensors by dtype.
    pub dtypes: BTreeMap<&'static str, usize>,
    /// The importance matrix that the file states.
    pub imatrix: Option<String>,
    /// The recipe file.
    pub file: RecipeFile,
}

impl Extracted {
    /// Number of tensors.
    pub fn n_tensors(&self) -> usize {
        self.dtypes.values().sum()
    }

    /// File type and number of tensors by dtype.
    pub fn summary(&self) -> String {
        let types: Vec<String> =
            self.dtypes.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
        format!("{}, {} tensors: {}", self.recipe.name, self.n_tensors(), types.join(", "))
    }

    /// Facts about the file `file`, with its recipe and the path that the recipe was written to.
    ///
    /// # Errors
    /// A recipe that has no JSON form.
    pub fn json(&self, file: &str, output: Option<&Path>) -> Result<serde_json::Value, Error> {
        let recipe: serde_json::Value = serde_json::from_str(&self.file.text()?).map_err(Error::new)?;
        Ok(json!({
            "file": without_secrets(file),
            "type": self.recipe.name,
            "n_tensors": self.n_tensors(),
            "dtypes": self.dtypes,
            "imatrix": self.imatrix,
            "output": output,
            "recipe": recipe,
        }))
    }
}

/// The recipe in a recipe file or in a GGUF file, which may be an address.
///
/// # Errors
/// A file that cannot be read, or is neither a recipe file nor a GGUF file.
pub fn open_recipe(path: &Path, hub_options: &HubOptions, events: &dyn Events) -> Result<RecipeFile, Error> {
    let name = path.to_string_lossy();
    if is_address(&name) || is_gguf(path) {
        Ok(recipe_of_file(&name, hub_options, events)?.file)
    } else {
        RecipeFile::open(path)
    }
}

/// The recipe of a GGUF file, by its path or its address. Only the header is downloaded.
///
/// # Errors
/// A file that cannot be read, or whose types match no file type; an interruption.
pub fn recipe_of_file(file: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<Extracted, Error> {
    let shown = without_secrets(file);
    let path = Path::new(file);
    let Headers { metadata, tensors } =
        if is_address(file) { remote(file, hub_options, events)? } else { local(path)? };
    let facts: Vec<TensorFacts<'_>> = tensors
        .iter()
        .map(|(name, shape, dtype)| TensorFacts { name, shape: *shape, dtype: *dtype })
        .collect();
    let recipe =
        recipe_of(&metadata, &facts, events).map_err(|problem| Error::at(Path::new(&shown), problem))?;
    let mut dtypes: BTreeMap<&'static str, usize> = BTreeMap::new();
    facts.iter().for_each(|tensor| *dtypes.entry(tensor.dtype.name()).or_default() += 1);
    for dtype in facts.iter().map(|tensor| tensor.dtype.name()).filter(|name| !is_made(name)) {
        if let Some(count) = dtypes.get(dtype) {
            events.detail(format!(
                "{count} tensors are {dtype}, which has no encoder: only tensors that already have this type \
                    can be kept"
            ));
        }
    }
    let imatrix = metadata.get("quantize.imatrix.file").and_then(Value::as_str).map(str::to_owned);
    if let Some(imatrix) = &imatrix {
        events.note(words!(
            "{}: the file was made with the importance matrix `{}`; pass yours with [-imatrix]",
            shown,
            printable(imatrix)
        ));
    }
    let of_tensors = facts.iter().map(|tensor| (tensor.name.to_owned(), tensor.dtype)).collect();
    let output = OutputRecipe { file_type: recipe.name.to_owned(), dtypes: of_tensors };
    Ok(Extracted { recipe, dtypes, imatrix, file: RecipeFile::of_output(output) })
}

/// True if weights can be encoded to a dtype.
fn is_made(dtype: &str) -> bool {
    DType::from_name(dtype).is_ok_and(DType::is_encodable)
}

/// The recipe by the file type that the header states, or else by the dtype of most tensors.
fn recipe_of(
    metadata: &Metadata,
    facts: &[TensorFacts<'_>],
    events: &dyn Events,
) -> Result<&'static Recipe, String> {
    if facts.is_empty() {
        return Err("no tensors".to_owned());
    }
    let stated = metadata.get("general.file_type").and_then(Value::as_u64);
    let known = stated.and_then(|id| recipe_of_id(u64::from(u32::try_from(id).ok()? & !GUESSED)));
    if let Some(recipe) = known {
        return Ok(recipe);
    }
    let guessed = recipe_of_id(u64::from(stored_file_type(&Metadata::new(), facts) & !GUESSED))
        .ok_or_else(|| "no file type matches its tensors".to_owned())?;
    let why = stated.map_or("missing metadata key `general.file_type`".to_owned(), |id| {
        format!("unknown `general.file_type` {id}")
    });
    events.note(format!("{why}: using {}, the type of most tensors", guessed.name));
    Ok(guessed)
}

fn local(path: &Path) -> Result<Headers, Error> {
    let model = open_model(path)?;
    let tensors =
        model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.shape, tensor.dtype)).collect();
    Ok(Headers { metadata: model.metadata().clone(), tensors })
}

fn remote(address: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<Headers, Error> {
    let found = headers(address, hub_options, events)?;
    let metadata = found.first().map(|first| first.header.metadata().clone()).unwrap_or_default();
    Ok(Headers { metadata, tensors: found.iter().flat_map(|shard| tensors_of(&shard.header)).collect() })
}

fn tensors_of(header: &Header) -> impl Iterator<Item = (String, gguf_types::Shape, DType)> {
    header.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype))
}
