//! From a checkpoint to the layout of its projector: applies the rows of [`Families::projectors`](crate::Families::projectors).

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use crate::config::{Hparams, classes};
use crate::error::{bad_in, missing};
use crate::general::{self, FileKind};
use crate::keys::Keys;
use crate::layout::{Layout, OutTensor};
use crate::projector::{PREPROCESSORS, Projector, Tower, Towers, WRITTEN, preprocessor};
use crate::resolve::quantized_by;
use crate::tensors::{self, Context, Index};
use crate::text_part::text_config;
use crate::{ArchError, Families, Input, Options, SourceTensor, departure};
use gguf_tokenizer::json::list;

/// Resolves the projector of a checkpoint. Tensors of the text model are not looked at.
///
/// The order of keys and tensors is the reference's, like in [`crate::resolve`].
///
/// # Errors
///
/// [`ArchError::NoProjector`], [`ArchError::EmptyProjector`], [`ArchError::NoPreprocessor`], and see [`ArchError`].
pub fn resolve_projector(input: &Input<'_>, options: &Options) -> Result<Layout, ArchError> {
    let row = options.families.projector(&input.config)?;
    if let Some(method) = quantized_by(input) {
        return Err(ArchError::Prequantized { method: method.into() });
    }
    let (projector, n_tensors) = (row.name, input.tensors.len());
    let is_tower =
        |name: &str| ["visual.", "vision_tower.", "vision_model."].iter().any(|part| name.contains(part));
    let tower = input.tensors.iter().map(|tensor| tensor.name.clone()).find(|name| is_tower(name));
    // A checkpoint of only the text part may have the class of the entire model.
    let whole = Hparams::of_part(input.config.as_object().cloned().unwrap_or_default());
    if !input.tensors.iter().any(|tensor| (row.owns)(&whole, &tensor.name)) {
        return Err(ArchError::EmptyProjector { projector, n_tensors, tower });
    }
    let mut towers = towers(&options.families, row, input)?;
    (row.prepare)(&mut towers)?;

    let hparams = towers.main();
    let own: Vec<SourceTensor> =
        input.tensors.iter().filter(|tensor| (row.owns)(hparams, &tensor.name)).cloned().collect();
    // True of no tensors too: nothing would be left to write.
    if own.iter().all(|tensor| (row.drops)(hparams, &tensor.name).is_some()) {
        return Err(ArchError::EmptyProjector { projector, n_tensors, tower });
    }
    let context = Context {
        first_layer: 0,
        integers: None,
        values: None,
        table: row.tensors,
        index: Index::new(row.tensors),
        decoder_layers: None,
        numbers: &[],
        towers: Some(towers.layers()),
        prefix: "",
        hparams,
        drops: row.drops,
        rename: row.rename,
        same: None,
    };
    let mapped = tensors::map(&context, &own)?;
    let mut tensors = computed(row, &towers)?;
    tensors.extend(mapped.tensors);
    let first = (row.first)(&towers)?;
    let order: HashMap<&str, usize> = first.iter().map(String::as_str).zip(0..).collect();
    // Stable: the others keep the order of the checkpoint.
    tensors.sort_by_key(|tensor| order.get(tensor.name.as_str()).copied().unwrap_or(usize::MAX));

    let mut keys = Keys::new(WRITTEN);
    general::keys(input, options, FileKind::Projector, &tensors, &mut keys)?;
    // A projector with only an audio encoder does not need these files.
    let needs_file = row.needs_preprocessor && towers.vision.is_some();
    if needs_file && PREPROCESSORS.iter().all(|name| input.file(name).is_none()) {
        return Err(ArchError::NoPreprocessor);
    }
    (row.keys)(&towers, &mut keys)?;
    keys.check_numbers()?;
    let keys = keys.finish();
    Ok(Layout {
        architecture: WRITTEN,
        metadata: keys.metadata,
        tensors,
        dropped: mapped.dropped,
        notes: [keys.notes, departure::notes(&keys.departed)].concat(),
        warnings: keys.warnings,
        departed: keys.departed,
        ..Layout::default()
    })
}

/// The configs of a checkpoint, with the defaults of transformers' classes if it takes the file.
fn towers(families: &Families, row: &Projector, input: &Input<'_>) -> Result<Towers, ArchError> {
    let (whole, is_taken) = families.standardized(&input.config);
    let Json::Object(map) = &whole else {
        return Err(bad_in("config.json", "", &whole, "an object"));
    };
    for name in [row.vision, row.audio].into_iter().flatten().filter_map(|tower| tower.file) {
        let is_broken = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).is_err();
        if input.file(name).is_some_and(is_broken) {
            return Err(bad_in(name, "", &Json::Null, "an object"));
        }
    }
    let tower = |tower: Option<Tower>| -> Option<Hparams> {
        let tower = tower?;
        let file = tower.file.map(|name| serde_json::from_slice::<Json>(input.file(name)?).ok());
        let whole = match &file {
            Some(config) => config.as_ref()?,
            None => &whole,
        };
        let raw = tower
            .at
            .iter()
            // Places are dotted paths; the first one with an object is the tower's.
            .find_map(|path| {
                let mut keys = path.split('.').filter(|key| !key.is_empty());
                keys.try_fold(whole, |config, key| config.get(key))?.as_object()
            })?;
        // The class of a tower goes by its own type if the model can have several, else by that of the model.
        let type_of = |config: &Map<String, Json>| config.get("model_type")?.as_str().map(str::to_owned);
        let class_of = |model_type: Option<String>| {
            let model_type = model_type?;
            // Older files have the type of the model in the config of the tower too.
            let full = format!("{model_type}_vision");
            tower.classes.iter().find(|class| class.model_type == model_type || class.model_type == full)
        };
        let class = class_of(type_of(raw)).or_else(|| class_of(type_of(map))).or(tower.classes.first());
        let filled = class.filter(|_| is_taken).and_then(|class| classes::standardize(raw, class).ok());
        Some(Hparams::of_part(filled.unwrap_or_else(|| raw.clone())))
    };
    let (vision, audio) = (tower(row.vision), tower(row.audio));
    if vision.is_none() && audio.is_none() {
        let place = row.vision.or(row.audio).and_then(|tower| tower.at.last().copied());
        return Err(missing(place.unwrap_or("vision_config")));
    }
    let mut text = map.clone();
    // Keys of the text part come over those of the outer config.
    text.extend(text_config(&whole).and_then(Json::as_object).cloned().unwrap_or_default());
    let file = |name: &'static str| -> Result<Option<Json>, ArchError> {
        let Some(bytes) = input.file(name) else { return Ok(None) };
        let no_object = |found: &Json| bad_in(name, "", found, "an object");
        match serde_json::from_slice(bytes) {
            Ok(config @ Json::Object(_)) => Ok(Some(config)),
            Ok(other) => Err(no_object(&other)),
            Err(error) => Err(no_object(&error.to_string().into())),
        }
    };
    let [first, second] = PREPROCESSORS;
    Ok(Towers {
        whole: Hparams::of_part(map.clone()),
        is_taken,
        text: Hparams::of_part(text),
        vision,
        audio,
        preprocessor: Hparams::of_part(preprocessor([file(first)?, file(second)?])),
        added_tokens: if row.asks_tokens {
            added_tokens(file("tokenizer_config.json")?.as_ref(), file("tokenizer.json")?.as_ref())
        } else {
            Vec::new()
        },
        folder_name: input.folder_name.clone(),
        shapes: {
            let asked = input.tensors.iter().filter(|tensor| (row.asks_shape)(&tensor.name));
            asked.map(|tensor| (tensor.name.clone(), tensor.shape)).collect()
        },
    })
}

/// Added tokens: those of tokenizer_config.json, then those of tokenizer.json.
///
/// Source: `LlavaVisionModel.get_token_id` in `conversion/llava.py`.
fn added_tokens(config: Option<&Json>, tokenizer: Option<&Json>) -> Vec<(String, u64)> {
    let content = |token: &Json| Some(token.get("content")?.as_str()?.to_owned());
    let config_tokens =
        config.and_then(|config| config.get("added_tokens_decoder")).and_then(Json::as_object);
    let config_tokens = config_tokens.into_iter().flatten();
    // {"7": {"content": ".."}}: the id is the key here, in tokenizer.json it is a field.
    let config_tokens =
        config_tokens.filter_map(|(number, token)| Some((content(token)?, number.parse().ok()?)));
    let tokenizer_tokens = tokenizer.map_or(&[][..], |tokenizer| list(tokenizer, "added_tokens")).iter();
    let tokenizer_tokens =
        tokenizer_tokens.filter_map(|token| Some((content(token)?, token.get("id")?.as_u64()?)));
    config_tokens.chain(tokenizer_tokens).collect()
}

/// Matrices that are computed from the config.
fn computed(row: &Projector, towers: &Towers) -> Result<Vec<OutTensor>, ArchError> {
    let tables = (row.computed)(towers)?.into_iter();
    tables.map(|(name, dims, values)| tensors::computed(name, &dims, values)).collect()
}
