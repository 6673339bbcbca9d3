//! The recipe of a GGUF file, extracted from its header.

use std::{collections::BTreeMap, path::Path};

use gguf_container::{Header, Metadata, Value};
use gguf_conversion::recipes::{GUESSED, Recipe, TensorFacts, stored_file_type};
use gguf_types::DType;
use serde_json::json;

use crate::{
    copy_files::open_model,
    error::Error,
    events::Events,
    file_type::recipe_of_id,
    hub::HubOptions,
    input_kind::is_gguf,
    recipe_file::{OutputRecipe, RecipeFile},
    text::{human_bytes, printable},
};

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
            "file": file,
            "type": self.recipe.name,
            "n_tensors": self.n_tensors(),
            "dtypes": self.dtypes,
            "imatrix": self.imatrix,
            "output": output,
            "recipe": recipe,
        }))
    }
}

/// True for the address of a file, rather than a path.
pub fn is_address(file: &str) -> bool {
    ["http://", "https://", "hf://"].iter().any(|scheme| file.starts_with(scheme))
}

/// The recipe at `path`: of a recipe file, or of a GGUF file, which may be an address.
///
/// # Errors
/// A file that cannot be read, or is neither a recipe file nor a GGUF file.
pub fn open_recipe(path: &Path, hub_options: &HubOptions, events: &dyn Events) -> Result<RecipeFile, Error> {
    let name = path.to_string_lossy();
    match is_address(&name) || is_gguf(path) {
        true => Ok(recipe_of_file(&name, hub_options, events)?.file),
        false => RecipeFile::open(path),
    }
}

/// The recipe of a GGUF file, by its path or its address. Only the header is downloaded.
///
/// # Errors
/// A file that cannot be read, or whose types match no file type; an interruption.
pub fn recipe_of_file(file: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<Extracted, Error> {
    let path = Path::new(file);
    let Headers { metadata, tensors } = match is_address(file) {
        true => remote(file, hub_options, events)?,
        false => local(path)?,
    };
    let facts: Vec<TensorFacts<'_>> = tensors
        .iter()
        .map(|(name, shape, dtype)| TensorFacts { name, shape: *shape, dtype: *dtype })
        .collect();
    let recipe = recipe_of(&metadata, &facts, events).map_err(|problem| Error::at(path, problem))?;
    let mut dtypes: BTreeMap<&'static str, usize> = BTreeMap::new();
    facts.iter().for_each(|tensor| *dtypes.entry(tensor.dtype.name()).or_default() += 1);
    for dtype in facts.iter().map(|tensor| tensor.dtype.name()).filter(|name| !is_made(name)) {
        if let Some(count) = dtypes.get(dtype) {
            events.detail(&format!(
                "{count} tensors are {dtype}, which has no encoder: only tensors that already have this type \
                    can be kept"
            ));
        }
    }
    let imatrix = metadata.get("quantize.imatrix.file").and_then(Value::as_str).map(str::to_owned);
    if let Some(imatrix) = &imatrix {
        events.note(&format!(
            "{file}: the file was made with the importance matrix `{}`; pass yours with --imatrix",
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
    events.note(&format!("{why}: using {}, the type of most tensors", guessed.name));
    Ok(guessed)
}

fn local(path: &Path) -> Result<Headers, Error> {
    let model = open_model(path)?;
    let tensors =
        model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.shape, tensor.dtype)).collect();
    Ok(Headers { metadata: model.metadata().clone(), tensors })
}

fn tensors_of(header: &Header) -> impl Iterator<Item = (String, gguf_types::Shape, DType)> {
    header.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype))
}

#[cfg(feature = "remote")]
fn remote(address: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<Headers, Error> {
    use gguf_container::{SPLIT_COUNT_KEY, parse_shard_file_name, shard_file_name};

    // A signed URL has a query after its path.
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((prefix, no, count)) = parse_shard_file_name(name).filter(|(.., count)| *count > 1) else {
        let header = fetch(address, hub_options, events)?;
        let n_shards = header.get(SPLIT_COUNT_KEY).and_then(Value::as_u64).unwrap_or(1);
        if n_shards > 1 {
            let message = format!("{address}: shard of {n_shards} without a shard number in its name");
            return Err(Error::new(message));
        }
        return Ok(Headers { metadata: header.metadata().clone(), tensors: tensors_of(&header).collect() });
    };
    if query.is_some() {
        let message = format!("{path}: shard {no} of {count} needs a separate URL");
        return Err(Error::new(message).hint(["use a URL without `?`, or local files"]));
    }
    let mut headers = Headers { metadata: Metadata::new(), tensors: Vec::new() };
    for shard in 1..=count {
        let header =
            fetch(&format!("{folder}/{}", shard_file_name(prefix, shard, count)), hub_options, events)?;
        let stated = header.get(SPLIT_COUNT_KEY).and_then(Value::as_u64);
        if stated != Some(u64::from(count)) {
            let found = stated.map_or("nothing".to_owned(), |stated| stated.to_string());
            let message =
                format!("{path}: expected `{SPLIT_COUNT_KEY}` {count} in shard {shard}, found {found}");
            return Err(Error::new(message));
        }
        if shard == 1 {
            headers.metadata = header.metadata().clone();
        }
        headers.tensors.extend(tensors_of(&header));
    }
    Ok(headers)
}

#[cfg(not(feature = "remote"))]
fn remote(address: &str, _: &HubOptions, _: &dyn Events) -> Result<Headers, Error> {
    let _ = tensors_of;
    Err(Error::new(format!("{address}: built without the feature `remote`")))
}

/// Size of the first request, which covers small headers.
#[cfg(feature = "remote")]
const FIRST_BYTES: u64 = 256 << 10;
/// Limit of a header in bytes; with a vocabulary of 260,000 tokens it has 12 MB.
#[cfg(feature = "remote")]
const MAX_HEADER_BYTES: u64 = 256 << 20;

/// The header of a file on the web: ranges, each as long as all before it, until it is whole.
#[cfg(feature = "remote")]
fn fetch(address: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<Header, Error> {
    use gguf_checkpoint::hub::RemoteHead;

    let settings = hub_options.settings();
    if settings.offline {
        return Err(Error::new(format!("{address}: HF_HUB_OFFLINE is set")));
    }
    let mut head = RemoteHead::new(&settings, address, events.cancel()).map_err(Error::new)?;
    let mut wanted = FIRST_BYTES;
    loop {
        let has_more = head.fetch(wanted).map_err(Error::new)?;
        let is_cut = |error: &gguf_container::Error| {
            matches!(
                error,
                gguf_container::Error::Truncated { .. } | gguf_container::Error::CountTooLarge { .. }
            )
        };
        match Header::parse(head.bytes()) {
            Ok(header) => {
                let n_bytes = head.bytes().len() as u64;
                let of = head.n_bytes().map_or(String::new(), |whole| format!(" of {}", human_bytes(whole)));
                events.note(&format!("{address}: read {}{of}", human_bytes(n_bytes)));
                return Ok(header);
            }
            Err(error) if has_more && is_cut(&error) && wanted < MAX_HEADER_BYTES => wanted *= 2,
            Err(error) => return Err(Error::at(Path::new(address), error)),
        }
    }
}
