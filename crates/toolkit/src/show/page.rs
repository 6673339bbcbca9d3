//! The page of a file: summary, findings, memory, types by layer, prompts, metadata and tensors.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gguf_container::{File, Metadata, Model, Value};
use gguf_runtime::{
    chat::{Chat, Conversation, Date, Settings, SpecialTokens, render_chat},
    report::{layer_and_kind, page},
    tensor_error::{self, ElementError},
};
use gguf_tokenizer::keys;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::value::shown;
use crate::{
    container_file::open_model,
    error::Error,
    events::Events,
    file_type::file_type_name,
    metadata_json::type_of,
    summary::{Summary, memory_with},
    template_guard::guarded,
    text::{grouped, human_bytes, printable, shortened},
};

const TEMPLATE: &str = include_str!("../../templates/show.html");
/// The only script of a page. Its hash in the page keeps a browser from running any other.
const SCRIPT: &str = include_str!("../../templates/search.js");
/// Characters of a value that are shown without a click.
const SHORT: usize = 200;
/// Characters of a value that are in the page.
const LONG: usize = 100_000;
/// Contexts whose memory is drawn, besides that of the training.
const CONTEXTS: [u64; 6] = [2048, 4096, 8192, 16384, 32768, 131_072];
/// Conversations whose prompts are shown.
const PROMPTS: &[(&str, &[(&str, &str)])] = &[
    ("One message", &[("user", "{prompt}")]),
    ("With a system message", &[("system", "{system}"), ("user", "{prompt}")]),
    (
        "Several messages",
        &[("system", "{system}"), ("user", "{prompt}"), ("assistant", "{answer}"), ("user", "{next prompt}")],
    ),
];
/// Colours of the style sheet.
const N_COLOURS: usize = 8;

#[derive(Serialize)]
struct Values<'a> {
    name: String,
    file: String,
    rows: Vec<(&'static str, String)>,
    findings: Vec<FindingView>,
    memory: Vec<Bar>,
    types: Vec<TypeView>,
    picture: Picture,
    prompts: Vec<Prompt>,
    metadata: Vec<Entry>,
    tensors: Vec<TensorView>,
    base: Option<String>,
    version: &'a str,
    script: &'a str,
    script_hash: String,
}

#[derive(Serialize)]
struct FindingView {
    severity: &'static str,
    message: String,
}

/// Memory with a context; widths are in units of the picture.
#[derive(Serialize)]
struct Bar {
    context: u64,
    weights: f64,
    width: f64,
    text: String,
}

#[derive(Serialize)]
struct TypeView {
    share: String,
    colour: usize,
}

/// A cell for each tensor of a layer: layers across, kinds down. Tensors outside layers follow, each with its own row.
#[derive(Default, Serialize)]
struct Picture {
    height: f64,
    kinds: Vec<Label>,
    layers: Vec<Label>,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Label {
    at: f64,
    text: String,
}

#[derive(Serialize)]
struct Cell {
    x: f64,
    y: f64,
    width: f64,
    colour: usize,
    title: String,
}

#[derive(Serialize)]
struct Prompt {
    what: &'static str,
    text: String,
    error: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    r#type: String,
    start: String,
    value: String,
    is_long: bool,
}

#[derive(Serialize)]
struct TensorView {
    name: String,
    shape: String,
    dtype: String,
    bytes: String,
    rmse: String,
    snr: String,
}

/// A file to describe.
pub(super) struct Described<'a> {
    /// The file as it is opened, which is a temporary one for an address.
    pub path: &'a Path,
    /// The file as the caller named it.
    pub name: &'a Path,
    pub file: &'a File,
    pub summary: &'a Summary,
}

/// The page as HTML. With a base, each tensor has its error.
///
/// # Errors
/// A base that cannot be read, has other shapes, or is compared with a file of which only the header is there.
pub(super) fn html(
    described: &Described<'_>,
    base: Option<&Path>,
    events: &dyn Events,
) -> Result<String, Error> {
    let Described { path, name, file, summary } = *described;
    let model = Model::open(path).ok();
    let errors = base.map(|base| errors(base, path, events)).transpose()?;
    let mut tensors = match &model {
        Some(model) => model.tensors().map(|(_, info)| tensor_view(info)).collect(),
        None => file.tensors().iter().map(tensor_view).collect::<Vec<_>>(),
    };
    tensors.extend(file.foreign_tensors().iter().zip(file.foreign_bytes()).map(|(tensor, bytes)| {
        let (name, shape, dtype) = (printable(&tensor.name), tensor.shape.to_string(), tensor.type_name());
        let bytes = grouped(bytes);
        TensorView { name, shape, dtype, bytes, rmse: String::new(), snr: String::new() }
    }));
    tensors.sort_by(|a, b| natural(&a.name).cmp(natural(&b.name)));
    for tensor in &mut tensors {
        if let Some(error) = errors.as_ref().and_then(|errors| errors.get(&tensor.name)) {
            tensor.rmse = format!("{:.3e}", error.rmse());
            tensor.snr = error.snr_db().map_or("exact".to_owned(), |snr| format!("{snr:.1} dB"));
        }
    }
    let metadata = model.as_ref().map_or(file.metadata(), Model::metadata);
    let mut rows = summary.rows();
    // The verdict first.
    rows.rotate_right(1);
    let values = Values {
        name: printable(&summary.name),
        file: name.display().to_string(),
        rows,
        findings: findings(summary),
        memory: model.as_ref().map(|model| memory(model, summary)).unwrap_or_default(),
        types: types(summary),
        picture: picture(&tensors, summary),
        prompts: prompts(metadata),
        metadata: metadata.iter().map(|(key, value)| entry(key, value)).collect(),
        tensors,
        base: base.map(|base| base.display().to_string()),
        version: env!("CARGO_PKG_VERSION"),
        script: SCRIPT,
        script_hash: format!("sha256-{}", STANDARD.encode(Sha256::digest(SCRIPT))),
    };
    page(TEMPLATE, values).map_err(|error| Error::new(error.to_string()))
}

fn findings(summary: &Summary) -> Vec<FindingView> {
    let view = |finding: &crate::verify::Finding| FindingView {
        severity: finding.severity.name(),
        message: printable(&finding.message),
    };
    summary.findings.iter().map(view).collect()
}

/// Parts of a name by which `blk.2` comes before `blk.10`.
fn natural(name: &str) -> impl Iterator<Item = (Option<u64>, &str)> {
    name.split('.').map(|part| (part.parse().ok(), part))
}

fn tensor_view(info: &gguf_container::TensorInfo) -> TensorView {
    TensorView {
        name: printable(&info.name),
        shape: info.shape.to_string(),
        dtype: info.dtype.name().to_owned(),
        bytes: grouped(info.n_bytes),
        rmse: String::new(),
        snr: String::new(),
    }
}

/// Errors of the tensors by their printed names.
fn errors(base: &Path, path: &Path, events: &dyn Events) -> Result<HashMap<String, ElementError>, Error> {
    let (base, other) = (open_model(base)?, open_model(path)?);
    let progress = events.progress(base.tensor_bytes());
    let found = tensor_error::compare(&base, &other, &|bytes| progress.add(bytes))
        .map_err(|error| Error::at(path, error))?;
    Ok(found.tensors.into_iter().map(|tensor| (printable(&tensor.name), tensor.error)).collect())
}

fn memory(model: &Model, summary: &Summary) -> Vec<Bar> {
    /// Width of the longest bar.
    const WIDTH: f64 = 500.0;
    let trained = summary.context_length.filter(|length| *length > 0);
    let mut contexts: Vec<u64> =
        CONTEXTS.into_iter().filter(|n| trained.is_none_or(|most| *n < most)).collect();
    contexts.extend(trained);
    let uses = memory_with(model, contexts);
    let largest = uses.iter().map(|memory| memory.bytes).max().unwrap_or(1).max(1) as f64;
    let weights = model.tensor_bytes() as f64;
    let place = |bytes: f64| (bytes / largest * WIDTH * 10.0).round() / 10.0;
    let bar = |memory: crate::summary::MemoryUse| Bar {
        context: memory.context,
        weights: place(weights),
        width: place(memory.bytes as f64),
        text: human_bytes(memory.bytes),
    };
    uses.into_iter().map(bar).collect()
}

fn types(summary: &Summary) -> Vec<TypeView> {
    let view = |(index, share)| TypeView { share, colour: index % N_COLOURS };
    summary.shares().enumerate().map(view).collect()
}

fn picture(tensors: &[TensorView], summary: &Summary) -> Picture {
    const LEFT: f64 = 190.0;
    const WIDTH: f64 = 570.0;
    const ROW: f64 = 20.0;
    /// A hostile name can state any layer.
    const MAX_LAYERS: u32 = 1024;
    /// Labels that fit under the cells.
    const MAX_LABELS: u32 = 16;
    /// Characters of a name that fit before the cells.
    const NAME: usize = 28;
    let mut kinds: BTreeMap<&str, Vec<(u32, &TensorView)>> = BTreeMap::new();
    let mut outside = Vec::new();
    for tensor in tensors {
        match layer_and_kind(&tensor.name) {
            (Some(layer), kind) if layer < MAX_LAYERS => kinds.entry(kind).or_default().push((layer, tensor)),
            (Some(_), _) => {}
            (None, name) => outside.push((name, tensor)),
        }
    }
    let Some(n_layers) = kinds.values().flatten().map(|(layer, _)| layer + 1).max() else {
        return Picture::default();
    };
    let width = WIDTH / f64::from(n_layers);
    let place = |value: f64| (value * 10.0).round() / 10.0;
    let mut picture = Picture { height: (kinds.len() + outside.len()) as f64 * ROW, ..Picture::default() };
    let mut cells = Vec::new();
    let cell = |tensor: &TensorView, x: f64, width: f64, y: f64| {
        let colour =
            summary.types.iter().position(|share| share.dtype == tensor.dtype).unwrap_or(0) % N_COLOURS;
        let title = format!("{} {} {}", tensor.name, tensor.shape, tensor.dtype);
        Cell { x: place(x), y, width: place(width), colour, title }
    };
    let mut row = |name: &str| {
        let y = picture.kinds.len() as f64 * ROW;
        picture.kinds.push(Label { at: y + ROW * 0.7, text: shortened(name, NAME) });
        y
    };
    for (kind, tensors) in kinds {
        let y = row(kind);
        let x = |layer: u32| LEFT + f64::from(layer) * width;
        cells.extend(tensors.into_iter().map(|(layer, tensor)| cell(tensor, x(layer), width, y)));
    }
    for (name, tensor) in outside {
        cells.push(cell(tensor, LEFT, WIDTH, row(name)));
    }
    picture.cells = cells;
    let labels = (0..n_layers).step_by(n_layers.div_ceil(MAX_LABELS) as usize);
    let label =
        |layer: u32| Label { at: place(LEFT + (f64::from(layer) + 0.5) * width), text: layer.to_string() };
    picture.layers = labels.map(label).collect();
    picture
}

/// Prompts that the chat template makes of [`PROMPTS`], with one budget of time for all; none without a template.
fn prompts(metadata: &Metadata) -> Vec<Prompt> {
    let Some(template) = metadata.get(keys::CHAT_TEMPLATE).and_then(Value::as_str).map(str::to_owned) else {
        return Vec::new();
    };
    let tokens = SpecialTokens::of_file(metadata);
    let rendered = guarded(move || {
        let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
        let prompt = |(what, messages): &(&'static str, &[(&str, &str)])| {
            let chat = Chat::of(&Conversation::of(messages));
            match render_chat(&template, &chat, &settings) {
                Ok(text) => Prompt { what, text, error: None },
                Err(error) => Prompt { what, text: String::new(), error: Some(error.to_string()) },
            }
        };
        PROMPTS.iter().map(prompt).collect::<Vec<_>>()
    });
    // A template that exceeds the limits is a finding of the summary.
    rendered.unwrap_or_default()
}

fn entry(key: &str, value: &Value) -> Entry {
    // The line breaks of a template are kept: the browser shows them, and escapes the rest.
    let whole = match value {
        Value::String(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        value => shown(value, LONG),
    };
    let is_long = whole.chars().nth(SHORT).is_some() || whole.contains('\n');
    let mut text = whole.chars().take(LONG).collect::<String>();
    if text.len() < whole.len() {
        text += "...";
    }
    let start = printable(&text.chars().take(SHORT).collect::<String>()) + "...";
    if let Some(name) = file_type_name(key, value) {
        text += &format!(" ({name})");
    }
    Entry { key: printable(key), r#type: type_of(value), start, value: text, is_long }
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn layers_are_in_natural_order() {
        let mut names = ["blk.10.a", "token_embd", "blk.2.b", "blk.2.a"];
        names.sort_by(|a, b| natural(a).cmp(natural(b)));
        assert_eq!(names, ["blk.2.a", "blk.2.b", "blk.10.a", "token_embd"]);
    }
}
