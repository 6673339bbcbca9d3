//! `gguf-inspect recipe FILE|ADDRESS`: the recipe of anyone's GGUF file, taken out of its header alone.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use convert::recipes::{GUESSED, RECIPES, Recipe, TensorFacts, stored_file_type};
use gguf::{Header, Metadata, Value};
use serde_json::json;
use tensor::DType;

use crate::{
    commands::{
        Command,
        shared::{
            copy_files::open_model,
            outputs::check_outputs,
            recipe_file::{OutputRecipe, RecipeFile},
            write::output_parser,
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("recipe"),
    about: "Extract the recipe (tensor types) of a GGUF file",
    examples: EXAMPLES,
    define: RecipeArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect recipe model-Q4_K_M.gguf -o mine.json
  gguf-inspect recipe hf://OWNER/MODEL-GGUF/MODEL-UD-Q4_K_XL.gguf -o theirs.json
  gguf-inspect recipe https://example.org/model-00001-of-00003.gguf --dry-run
  gguf-convert MODEL out.gguf --recipe theirs.json

A recipe lists the type of each tensor. gguf-convert and gguf-quantize apply it to models with the
same architecture and number of layers. A GGUF header does not contain the importance matrix. If one
was used, pass yours with --imatrix.";

#[derive(Debug, Args)]
struct RecipeArgs {
    /// GGUF file, or its URL.
    ///
    /// The URL starts with http:// or https://, or is hf://OWNER/MODEL[@REVISION]/FILE. Only the header is downloaded. Any shard
    /// of a split model works.
    #[arg(value_hint = ValueHint::FilePath)]
    file: String,
    /// Write the result to FILE.
    ///
    /// Default: stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_parser())]
    output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    force: bool,
    /// Show what would be written, without writing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    ///
    /// The object is a report that includes the recipe.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

/// Contents of the headers of all shards.
struct Headers {
    metadata: Metadata,
    /// Name, shape and dtype of each tensor, in file order.
    tensors: Vec<(String, tensor::Shape, DType)>,
}

fn run(args: RecipeArgs, ui: &Ui) -> Result<(), Failure> {
    let is_address = ["http://", "https://", "hf://"].iter().any(|scheme| args.file.starts_with(scheme));
    let path = Path::new(&args.file);
    if let Some(output) = &args.output {
        let inputs: &[&Path] = if is_address { &[] } else { &[path] };
        check_outputs(&[output], inputs, args.force || args.dry_run)?;
    }
    let Headers { metadata, tensors } = if is_address { remote(&args.file, ui)? } else { local(path)? };
    let facts: Vec<TensorFacts<'_>> = tensors
        .iter()
        .map(|(name, shape, dtype)| TensorFacts { name, shape: *shape, dtype: *dtype })
        .collect();
    let recipe = recipe_of(&metadata, &facts, ui).map_err(|problem| Failure::at(path, problem))?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    facts.iter().for_each(|tensor| *counts.entry(tensor.dtype.name()).or_default() += 1);
    for dtype in facts.iter().map(|tensor| tensor.dtype.name()).filter(|name| !is_made(name)) {
        if let Some(count) = counts.get(dtype) {
            ui.detail(&format!(
                "{count} tensors are {dtype}, which has no encoder: only tensors that already have this type \
                    can be kept"
            ));
        }
    }
    let imatrix = metadata.get("quantize.imatrix.file").and_then(Value::as_str);
    if let Some(imatrix) = imatrix {
        ui.note(&format!(
            "{}: the file was made with the importance matrix `{}`; pass yours with --imatrix",
            args.file,
            crate::ui::printable(imatrix)
        ));
    }
    let dtypes = facts.iter().map(|tensor| (tensor.name.to_owned(), tensor.dtype)).collect();
    let file = RecipeFile::of_output(OutputRecipe { file_type: recipe.name.to_owned(), dtypes });
    let text = file.text()?;
    let is_written = args.output.is_some() && !args.dry_run;
    if let (Some(output), true) = (&args.output, is_written) {
        file.save(output)?;
    }
    let types: Vec<String> = counts.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    let summary = format!("{}, {} tensors: {}", recipe.name, facts.len(), types.join(", "));
    if args.json {
        let recipe_json: serde_json::Value = serde_json::from_str(&text).map_err(Failure::new)?;
        let report = json!({
            "file": args.file, "type": recipe.name, "n_tensors": facts.len(), "dtypes": counts, "imatrix": imatrix,
            "output": args.output.as_ref().filter(|_| is_written), "recipe": recipe_json,
        });
        return ui.json(&report);
    }
    match &args.output {
        Some(output) if is_written => ui.status(&format!("wrote {}: {summary}", output.display())),
        _ if args.dry_run => return ui.data(&format!("{summary}\n")),
        _ => return ui.data(&text),
    }
    Ok(())
}

/// True if weights can be encoded to a dtype.
fn is_made(dtype: &str) -> bool {
    DType::from_name(dtype).is_ok_and(DType::is_encodable)
}

/// The recipe by the file type that the header states, or else by the dtype of most tensors.
fn recipe_of(metadata: &Metadata, facts: &[TensorFacts<'_>], ui: &Ui) -> Result<&'static Recipe, String> {
    if facts.is_empty() {
        return Err("no tensors".to_owned());
    }
    let of_id = |id: u32| {
        let is_one =
            |recipe: &&Recipe| recipe.file_type.id() == id && recipe.alias_of.is_none() && !recipe.copy;
        RECIPES.iter().find(is_one)
    };
    let stated = metadata.get("general.file_type").and_then(Value::as_u64);
    let known = stated.and_then(|id| of_id(u32::try_from(id).ok()? & !GUESSED));
    if let Some(recipe) = known {
        return Ok(recipe);
    }
    let guessed = of_id(stored_file_type(&Metadata::new(), facts) & !GUESSED)
        .ok_or_else(|| "no file type matches its tensors".to_owned())?;
    let why = stated.map_or("missing metadata key `general.file_type`".to_owned(), |id| {
        format!("unknown `general.file_type` {id}")
    });
    ui.note(&format!("{why}: using {}, the type of most tensors", guessed.name));
    Ok(guessed)
}

fn local(path: &Path) -> Result<Headers, Failure> {
    let model = open_model(path)?;
    let tensors =
        model.tensors().map(|(_, tensor)| (tensor.name.clone(), tensor.shape, tensor.dtype)).collect();
    Ok(Headers { metadata: model.metadata().clone(), tensors })
}

fn tensors_of(header: &Header) -> impl Iterator<Item = (String, tensor::Shape, DType)> {
    header.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype))
}

#[cfg(feature = "remote")]
fn remote(address: &str, ui: &Ui) -> Result<Headers, Failure> {
    use gguf::{SPLIT_COUNT_KEY, parse_shard_file_name, shard_file_name};

    // A signed URL has a query after its path.
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((prefix, no, count)) = parse_shard_file_name(name).filter(|(.., count)| *count > 1) else {
        let header = fetch(address, ui)?;
        let n_shards = header.get(SPLIT_COUNT_KEY).and_then(Value::as_u64).unwrap_or(1);
        if n_shards > 1 {
            let message = format!("{address}: shard of {n_shards} without a shard number in its name");
            return Err(Failure::new(message));
        }
        return Ok(Headers { metadata: header.metadata().clone(), tensors: tensors_of(&header).collect() });
    };
    if query.is_some() {
        let message = format!("{path}: shard {no} of {count} needs a separate URL");
        return Err(Failure::new(message).hint(["use a URL without `?`, or local files"]));
    }
    let mut headers = Headers { metadata: Metadata::new(), tensors: Vec::new() };
    for shard in 1..=count {
        let header = fetch(&format!("{folder}/{}", shard_file_name(prefix, shard, count)), ui)?;
        let stated = header.get(SPLIT_COUNT_KEY).and_then(Value::as_u64);
        if stated != Some(u64::from(count)) {
            let found = stated.map_or("nothing".to_owned(), |stated| stated.to_string());
            let message =
                format!("{path}: expected `{SPLIT_COUNT_KEY}` {count} in shard {shard}, found {found}");
            return Err(Failure::new(message));
        }
        if shard == 1 {
            headers.metadata = header.metadata().clone();
        }
        headers.tensors.extend(tensors_of(&header));
    }
    Ok(headers)
}

#[cfg(not(feature = "remote"))]
fn remote(address: &str, _: &Ui) -> Result<Headers, Failure> {
    let _ = tensors_of;
    Err(Failure::new(format!("{address}: built without the feature `remote`")))
}

/// Bytes that are asked for first: small headers whole, without many requests.
#[cfg(feature = "remote")]
const FIRST_BYTES: u64 = 256 << 10;
/// Bytes of a header at most; that of a vocabulary of 260,000 tokens has 12 MB.
#[cfg(feature = "remote")]
const MAX_HEADER_BYTES: u64 = 256 << 20;

/// The header of a file on the web: ranges, each as long as all before it, until it is whole.
#[cfg(feature = "remote")]
fn fetch(address: &str, ui: &Ui) -> Result<Header, Failure> {
    use source::hub::{RemoteHead, Settings};

    use crate::{commands::shared::hub, hints, ui::cancel_on_interrupt};

    let settings = Settings::from_environment(|name| std::env::var(name).ok()).map_err(hub::failure)?;
    if settings.offline {
        return Err(Failure::new(format!("{address}: HF_HUB_OFFLINE is set")));
    }
    let mut head = RemoteHead::new(&settings, address, cancel_on_interrupt()).map_err(hub::failure)?;
    let mut wanted = FIRST_BYTES;
    loop {
        let has_more = head.fetch(wanted).map_err(hub::failure)?;
        let is_cut = |error: &gguf::Error| {
            matches!(error, gguf::Error::Truncated { .. } | gguf::Error::CountTooLarge { .. })
        };
        match Header::parse(head.bytes()) {
            Ok(header) => {
                let n_bytes = head.bytes().len() as u64;
                let of = head
                    .n_bytes()
                    .map_or(String::new(), |whole| format!(" of {}", crate::ui::human_bytes(whole)));
                ui.note(&format!("{address}: read {}{of}", crate::ui::human_bytes(n_bytes)));
                return Ok(header);
            }
            Err(error) if has_more && is_cut(&error) && wanted < MAX_HEADER_BYTES => wanted *= 2,
            Err(error) => {
                let hint = hints::gguf(&error);
                return Err(Failure::at(Path::new(address), error).hint(hint));
            }
        }
    }
}
