//! From a checkpoint to a layout: applies the rows of [`Families::arches`](crate::Families::arches).

use std::borrow::Cow;

use gguf_container::Value;
use serde_json::Value as Json;

use crate::arch::{Arch, Class, Draft, Predicted, ZERO_ROWS};
use crate::config::Hparams;
use crate::error::missing;
use crate::key_places::{lower_text, size_by_tokenizer, template_first};
use crate::layout::{Dropped, Layout, OutTensor, UnreadKey};
use crate::leftovers;
use crate::model_keys::model_keys;
use crate::prediction::{check_prediction, prediction_row};
use crate::stored_blocks;
use crate::tensors::{self, Context, Index};
use crate::text_part::{first_class, text_config};
use crate::unknown::{no_class, unknown_class};
use crate::{
    ArchError, Families, Input, Options, Prediction, SourceTensor, Target, dense_modules, departure,
    loadable, pooling, unread_keys,
};
use gguf_tokenizer::Tokenizer;
use gguf_tokenizer::huggingface::{self, Route, VocabContext};
use gguf_tokenizer::keys as token_keys;

/// Resolves a checkpoint.
///
/// The order of keys is the reference's: architecture, general keys, hyperparameters with
/// `general.file_type` among them, `general.quantization_version`, tokenizer. The order of
/// tensors is that of [`Input::tensors`], computed ones first, a stack of experts where its
/// last part is.
///
/// Source: `ModelBase.write` in `conversion/base.py`.
///
/// # Errors
///
/// See [`ArchError`]. Everything that is absent or left over is listed at once.
pub fn resolve(input: &Input<'_>, options: &Options) -> Result<Layout, ArchError> {
    with_tokenizer(Resolved::new(input, options)?, input, options)
}

/// As [`resolve`], for an architecture from outside this crate. It applies to its class that the config
/// names, or else to its first. [`Options::arch_as`] has no effect.
///
/// # Errors
///
/// As [`resolve`]; [`ArchError::UnknownClass`] for a row without classes.
pub fn resolve_as(input: &Input<'_>, options: &Options, arch: &'static Arch) -> Result<Layout, ArchError> {
    let named = class_name(&options.families, &input.config).unwrap_or_default();
    let by_name = arch.classes.iter().find(|class| class.name == named);
    let Some(class) = by_name.or(arch.classes.first()) else {
        return Err(unknown_class(&options.families, named, input));
    };
    with_tokenizer(Resolved::of_row(input, options, arch, *class, None)?, input, options)
}

/// Adds what the tokenizer files say to a layout.
fn with_tokenizer(resolved: Resolved, input: &Input<'_>, options: &Options) -> Result<Layout, ArchError> {
    let embedding = resolved.layout.tensors.iter().find(|tensor| tensor.name == resolved.arch.embedding);
    let (route, of_target) = match (resolved.arch.draft, options.target.as_deref()) {
        (Some(draft), Some(target)) => draft_tokenizer(&options.families, resolved.arch, draft, target)?,
        _ => (resolved.arch.vocab, None),
    };
    let general = |key: &str| {
        let value = resolved.layout.metadata.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let vocab = Tokenizer::from_huggingface(
        &of_target.as_ref().unwrap_or(input).tokenizer_files(),
        route,
        &VocabContext {
            vocab_size: resolved.hparams.get_u64("vocab_size")?,
            architecture: general("general.architecture"),
            model_name: general("general.name"),
            embedding_rows: embedding.map(|tensor| tensor.shape.n_rows()),
            pre: options.pre.clone(),
            type_vocab_size: resolved.hparams.get_u64("type_vocab_size")?,
            end_of_document: resolved.hparams.get("eod_token_id").and_then(Json::as_u64),
            embed_json: options.embed_tokenizer_json,
            equal_scores: options.equal_scores,
        },
    )?;
    let unread_keys = unasked_keys(&resolved, input, options);
    let is_tied = resolved.is_tied();
    let mut layout = Layout { unread_keys, ..resolved.layout };
    let mut tokenizer = vocab.tokenizer.to_gguf();
    let mask = resolved.arch.draft.and_then(|draft| (draft.mask)(&resolved.hparams));
    if let Some(id) = mask.and_then(|id| u32::try_from(id).ok()) {
        tokenizer.set(token_keys::MASK_ID.to_owned(), Value::U32(id));
    }
    if resolved.arch.vocab.counts_tokens {
        let key = format!("{}.vocab_size", resolved.arch.written());
        size_by_tokenizer(&layout.metadata, key, &mut tokenizer);
    }
    if pooling::lowers_text(input) {
        lower_text(&mut layout, &mut tokenizer);
    }
    // As in the reference's writer, an existing key keeps its position and takes the new value.
    layout.metadata.extend(tokenizer);
    layout.other_pre = vocab.other_pre;
    layout.warnings.extend(vocab.warnings);
    layout.notes.extend(vocab.notes);
    layout.details.extend(vocab.details);
    if resolved.arch.template_first {
        template_first(&mut layout);
    }
    let doubts = gguf_tokenizer::doubts(&layout.metadata);
    layout.warnings.extend(doubts.iter().map(ToString::to_string));
    make_loadable(&mut layout, resolved.arch, is_tied, options);
    Ok(layout)
}

/// Changes what llama.cpp would refuse, in files of complete models.
fn make_loadable(layout: &mut Layout, arch: &Arch, is_tied: bool, options: &Options) {
    // A draft has tensors of its target, and a file with only a prediction has no output.
    if options.target.is_none() && !options.vocab_only && !layout.prediction_only {
        loadable::make_loadable(&options.families, layout, arch.embedding, is_tied);
    }
    layout.notes.extend(departure::notes(&layout.departed));
}

/// Config keys that nothing read. With an explicitly named architecture, the defaults are those of this
/// architecture, not of the config's own class.
fn unasked_keys(resolved: &Resolved, input: &Input<'_>, options: &Options) -> Vec<UnreadKey> {
    let part = text_config(&input.config).unwrap_or(&input.config);
    let model_type = part.get("model_type").and_then(Json::as_str);
    let class = match options.arch_as {
        Some(_) => resolved.arch.configs.first().copied(),
        None => {
            let own = || resolved.arch.configs.iter().find(|class| Some(class.model_type) == model_type);
            model_type.and_then(|name| options.families.config_class(name)).or_else(own).copied()
        }
    };
    unread_keys::unread_keys(&resolved.hparams, &input.config, class.as_ref(), resolved.arch.harmless)
}

/// The tokenizer of a draft: the files of the target, and the route by which they are read.
fn draft_tokenizer<'a>(
    families: &Families,
    arch: &Arch,
    draft: Draft,
    target: &'a Target,
) -> Result<(Route, Option<Input<'a>>), ArchError> {
    let input = Input {
        config: target.config.clone(),
        generation_config: target.generation_config.clone(),
        files: target.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        ..Input::default()
    };
    let route = if draft.route_of_target { row_of(families, &input)?.vocab } else { arch.vocab };
    Ok((route, Some(input)))
}

/// As [`resolve`], for a file that carries no tokenizer: the tokenizer files are not looked at.
pub fn resolve_weights(input: &Input<'_>, options: &Options) -> Result<Layout, ArchError> {
    let resolved = Resolved::new(input, options)?;
    let (is_tied, mut layout) = (resolved.is_tied(), resolved.layout);
    make_loadable(&mut layout, resolved.arch, is_tied, options);
    Ok(layout)
}

/// The architecture of a checkpoint, by the class that its config names and other known facts.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::UnknownClass`].
pub fn row_of(families: &Families, input: &Input<'_>) -> Result<&'static Arch, ArchError> {
    let class = class_name(families, &input.config)?;
    let found = families.find_any(class, input);
    found.map(|(arch, _)| arch).ok_or_else(|| unknown_class(families, class, input))
}

/// A layout that lacks the tokenizer, and what it was made with.
pub(crate) struct Resolved {
    pub arch: &'static Arch,
    pub class: Class,
    pub hparams: Hparams,
    pub layout: Layout,
}

impl Resolved {
    /// True if the embedding serves as the output.
    fn is_tied(&self) -> bool {
        let is_stated = self.hparams.is_true("tie_word_embeddings");
        is_stated || untied_output_is_absent(self.arch, self.class, &self.hparams, &self.layout.tensors)
    }

    pub fn new(input: &Input<'_>, options: &Options) -> Result<Resolved, ArchError> {
        let mut class_note = None;
        let mut warning = None;
        let (arch, class) = match &options.arch_as {
            Some(name) => {
                let named = options.families.named(name, input)?;
                warning = other_model_type(&options.families, input, named.0);
                let own = class_name(&options.families, &input.config)
                    .ok()
                    .and_then(|class| Some((class, options.families.find(class, input)?)));
                if let Some((class, (own, _))) = own.filter(|(_, (own, _))| own.name != named.0.name) {
                    class_note = Some(format!(
                        "`{class}` is a class of `{}`; as `{}`, it may be a different model",
                        own.name, named.0.name
                    ));
                }
                named
            }
            None => {
                let class = class_name(&options.families, &input.config)
                    .map_err(|_| no_class(&options.families, input))?;
                let found = options.families.find(class, input);
                let is_inner = |class: &&Class| !class.prefix.is_empty();
                let inner_note = found.and_then(|(arch, found)| {
                    let stated = arch.classes.iter().find(|stated| stated.name == class).filter(is_inner)?;
                    found.prefix.is_empty().then(|| {
                        format!(
                            "`{}` is an inner class, but the tensors are those of the language model",
                            stated.name
                        )
                    })
                });
                class_note = inner_note;
                let inner = || {
                    let (arch, outer) = options.families.find_inner(class, input)?;
                    class_note = Some(format!("`{class}` is read as the inner model of `{}`", outer.name));
                    Some((arch, outer))
                };
                let text_part = || {
                    let (arch, text) = options.families.find_text_part(class, input)?;
                    warning = Some(format!(
                        "unknown architecture `{class}`: converting only its text model, as `{}`; compare results with the \
                         original",
                        text.name
                    ));
                    Some((arch, text))
                };
                found
                    .or_else(inner)
                    .or_else(text_part)
                    .ok_or_else(|| unknown_class(&options.families, class, input))?
            }
        };
        let mut resolved = Resolved::of_row(input, options, arch, class, class_note)?;
        resolved.layout.warnings.extend(warning);
        Ok(resolved)
    }

    /// With the row that was chosen, and what is to be said of the choice.
    fn of_row(
        input: &Input<'_>,
        options: &Options,
        arch: &'static Arch,
        class: Class,
        class_note: Option<String>,
    ) -> Result<Resolved, ArchError> {
        let packed = packed_file_type(arch, input, options)?;
        // Before defaults are filled in: with those of transformers a config without a width would
        // pass.
        let model_type = input.config.get("model_type").and_then(Json::as_str).unwrap_or_default();
        if let Some((_, reason)) = arch.other_layouts.iter().find(|(other, _)| *other == model_type) {
            return Err(ArchError::NotAsThis { arch: arch.name, reason });
        }
        check_needs(&input.config, arch)?;
        let hparams = options.families.hparams(arch, &input.config)?;
        if arch.draft.is_some() && options.target.is_none() {
            return Err(ArchError::NoTarget { arch: arch.name });
        }
        let hparams = with_other_files(arch, hparams.with_target(options.target.clone()), input);
        let (hparams, constants) = with_constants(arch, hparams, input)?;
        let Selected { hparams, tensors: sources, left_out, first_layer } =
            select(arch, hparams, input, options)?;
        let (sources, of_wrapper) =
            if class.is_text_part { text_tensors(sources) } else { (sources, Vec::new()) };
        let trunk = hparams.n_layers().ok();
        let mut hparams = (arch.prepare)(hparams, &sources)?;
        let trunk = trunk.filter(|_| hparams.derived.encoder_layers.is_none());
        hparams.derived.pooling = pooling::read(input)?;
        hparams.derived.dense_modules = options.dense_modules;
        if let Some(texts) = arch.answers.filter(|_| !options.vocab_only) {
            hparams.derived.answers = huggingface::token_ids(&input.tokenizer_files(), texts);
            if hparams.derived.answers.is_none() {
                let reason = "reranker whose tokenizer lacks its answer tokens";
                return Err(ArchError::NotAsThis { arch: arch.written(), reason });
            }
        }

        // Tensors come before keys, because `general.size_label` counts their elements.
        let context = Context { first_layer, ..context(arch, class, &hparams, input) };
        let (tensors, dropped) = if options.vocab_only {
            (Vec::new(), Vec::new())
        } else {
            let mapped = all_tensors(arch, &context, input, &sources);
            let mapped = mapped.map_err(|error| prediction_row(error, arch, class, &hparams, trunk))?;
            check_prediction(&mapped.0, &hparams, trunk)?;
            mapped
        };
        let dropped: Vec<Dropped> =
            constants.into_iter().chain(left_out).chain(of_wrapper).chain(dropped).collect();
        let mut warnings = tensors::lost::warnings(&context, arch.embedding, &tensors, &dropped);
        warnings.extend((arch.caveats)(&hparams));
        let dense = dense_modules::Left::new(&dropped, options.dense_modules, input)?;
        let mut notes: Vec<String> = class_note.into_iter().chain(hparams.notes().iter().cloned()).collect();
        if !options.vocab_only && untied_output_is_absent(arch, class, &hparams, &tensors) {
            notes.push(
                "missing output tensor although `tie_word_embeddings` is false: using the embedding".into(),
            );
        }
        notes.extend(leftovers::dropped_heads(&dropped));
        let keys = model_keys(arch, &context, &tensors, input, options)?;
        notes.extend(keys.notes);
        notes.extend(dense.note());
        warnings.extend(keys.warnings);
        warnings.extend(pooling::warnings(input));
        let mut metadata = keys.metadata;
        metadata.extend(stored_blocks::keys(&tensors, input));
        let packed = packed.or_else(|| stored_blocks::file_type(&tensors));
        let layout = Layout {
            architecture: arch.written(),
            packed_file_type: packed,
            metadata,
            tensors,
            dropped,
            warnings,
            notes,
            departed: keys.departed,
            prediction_only: options.prediction == Prediction::Only,
            source_types: arch.source_types,
            ..Layout::default()
        };
        Ok(Resolved { arch, class, hparams, layout })
    }
}

/// File type of weights that are already quantized by a method whose blocks ggml has too.
fn packed_file_type(
    arch: &Arch,
    input: &Input<'_>,
    options: &Options,
) -> Result<Option<(u32, &'static str)>, ArchError> {
    let Some(method) = quantized_by(input) else { return Ok(None) };
    let packed = arch.packed.iter().find(|packed| packed.method == method).map(|packed| packed.file_type);
    // A tokenizer has no weights.
    if packed.is_none() && !options.vocab_only {
        return Err(ArchError::Prequantized { method: method.into() });
    }
    Ok(packed)
}

/// Adds facts from generation_config.json and the embedding.
fn with_other_files(arch: &Arch, mut hparams: Hparams, input: &Input<'_>) -> Hparams {
    // Tokens that are never generated.
    let suppressed = input.generation_config.as_ref().and_then(|config| config.get("suppress_tokens"));
    if let Some(tokens) = suppressed {
        hparams = hparams.with("suppress_tokens", tokens.clone());
    }
    if let Some(name) = arch.zero_rows
        && let Some(rows) = input.zero_rows.as_ref()
        && let Some(first) = huggingface::n_own_tokens(&input.tokenizer_files())
        && let Some(rows) = rows.find(name, first)
    {
        hparams = hparams.with(ZERO_ROWS, rows.into());
    }
    hparams
}

/// Quantization method of a checkpoint's weights, unless they are already decoded.
pub(crate) fn quantized_by<'a>(input: &'a Input<'_>) -> Option<&'a str> {
    let quantization = input.config.get("quantization_config").filter(|value| !value.is_null())?;
    let method = quantization.get("quant_method").and_then(Json::as_str).unwrap_or("an unnamed method");
    (!input.decoded).then_some(method)
}

/// Context for applying an architecture's table.
pub(crate) fn context<'a>(
    arch: &Arch,
    class: Class,
    hparams: &'a Hparams,
    input: &'a Input<'_>,
) -> Context<'a> {
    Context {
        table: arch.tensors,
        index: Index::new(arch.tensors),
        decoder_layers: arch.decoder_layers,
        towers: None,
        numbers: arch.numbers,
        prefix: class.prefix,
        hparams,
        drops: arch.drops,
        rename: arch.rename,
        same: input.same.as_ref(),
        integers: input.integers.as_ref(),
        values: input.values.as_ref(),
        first_layer: 0,
    }
}

/// The key of a tensor that is a hyperparameter.
fn constant(arch: &Arch, name: &str) -> Option<&'static str> {
    arch.constants.iter().find(|(end, _)| name.ends_with(end)).map(|(_, key)| *key)
}

/// Takes integers of the checkpoint into the hyperparameters.
fn with_constants(
    arch: &Arch,
    mut hparams: Hparams,
    input: &Input<'_>,
) -> Result<(Hparams, Vec<Dropped>), ArchError> {
    // More than there are heads of anything is no list of constants.
    const MOST: u64 = 1 << 16;
    let mut taken = Vec::new();
    for tensor in &input.tensors {
        let Some(key) = constant(arch, &tensor.name) else { continue };
        let read = input.integers.as_ref().filter(|_| tensor.shape.n_elems() <= MOST);
        let Some(values) = read.and_then(|integers| integers.read(&tensor.name)) else {
            return Err(ArchError::BadIds {
                name: tensor.name.clone(),
                reason: "no short list of integers".into(),
            });
        };
        hparams = hparams.with(key, values.into());
        taken.push(Dropped { name: tensor.name.clone(), reason: "integers, which are a key of the file" });
    }
    Ok((hparams, taken))
}

/// Selected parts of a checkpoint whose MTP layers may be left out or be the only ones.
struct Selected<'a> {
    hparams: Hparams,
    tensors: Cow<'a, [SourceTensor]>,
    left_out: Vec<Dropped>,
    /// The first layer that must be there.
    first_layer: u64,
}

/// MTP layers in checkpoints of architectures that cannot write only these: recognized by their names, or
/// because they follow the layers that the config counts.
const ANY_PREDICTION: Predicted = Predicted {
    keys: &["num_nextn_predict_layers"],
    is_part: |hparams, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        let layer = || name.strip_prefix("layers.")?.split_once('.')?.0.parse::<u64>().ok();
        name.starts_with("mtp.")
            || layer().is_some_and(|layer| hparams.n_layers().is_ok_and(|trunk| layer >= trunk))
    },
};

/// Source: `filter_tensors` of the classes with `supports_mtp_export` in `conversion/`.
fn select<'a>(
    arch: &Arch,
    hparams: Hparams,
    input: &'a Input<'_>,
    options: &Options,
) -> Result<Selected<'a>, ArchError> {
    let is_constant = |tensor: &SourceTensor| constant(arch, &tensor.name).is_some();
    let all = if input.tensors.iter().any(is_constant) {
        input.tensors.iter().filter(|tensor| !is_constant(tensor)).cloned().collect()
    } else {
        Cow::Borrowed(input.tensors.as_slice())
    };
    if options.prediction == Prediction::With {
        return Ok(Selected { hparams, tensors: all, left_out: Vec::new(), first_layer: 0 });
    }
    let only = options.prediction == Prediction::Only;
    let known = arch.prediction.or((!only).then_some(ANY_PREDICTION));
    let Some(Predicted { keys, is_part }) = known else {
        return Err(ArchError::NoPrediction { subject: format!("architecture `{}` has no", arch.name) });
    };
    let plain = |tensor: &SourceTensor| tensor.name.replacen("language_model.", "", 1);
    let is_part = |tensor: &SourceTensor| is_part(&hparams, &plain(tensor));
    let is_unknown = arch.prediction.is_none() && !keys.iter().any(|key| hparams.get(key).is_some());
    if is_unknown && !all.iter().any(is_part) {
        return Err(ArchError::NoPrediction { subject: format!("architecture `{}` has no", arch.name) });
    }
    if only && !options.vocab_only && !all.iter().any(is_part) {
        return Err(ArchError::NoPrediction { subject: "the checkpoint has no".into() });
    }
    // Embedding, norm and output are what both parts have.
    const SHARED: [&str; 5] = [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
        "embed_tokens.weight",
        "norm.weight",
    ];
    let stays = |tensor: &SourceTensor| {
        if only { is_part(tensor) || SHARED.contains(&plain(tensor).as_str()) } else { !is_part(tensor) }
    };
    let (tensors, left_out): (Vec<_>, Vec<_>) = all.iter().cloned().partition(stays);
    let reason = if only { "not an MTP tensor" } else { "an MTP tensor" };
    let left_out = left_out.into_iter().map(|tensor| Dropped { name: tensor.name, reason }).collect();
    let first_layer = if only { hparams.n_layers()? } else { 0 };
    let mut hparams = hparams;
    hparams.derived.is_prediction = only;
    let hparams = if only { hparams } else { keys.iter().fold(hparams, |hparams, key| hparams.without(key)) };
    Ok(Selected { hparams, tensors: tensors.into(), left_out, first_layer })
}

/// Splits the tensors of a wrapper into those of the text model and the others, if their names differ.
fn text_tensors<'a>(sources: Cow<'a, [SourceTensor]>) -> (Cow<'a, [SourceTensor]>, Vec<Dropped>) {
    let is_inside = |name: &str| name.contains("language_model.");
    if !sources.iter().any(|tensor| is_inside(&tensor.name)) {
        return (sources, Vec::new());
    }
    let is_text = |tensor: &SourceTensor| is_inside(&tensor.name) || tensor.name.contains("lm_head.");
    let (text, other): (Vec<_>, Vec<_>) = sources.into_owned().into_iter().partition(is_text);
    let reason = "not part of the text model";
    let other = other.into_iter().map(|tensor| Dropped { name: tensor.name, reason }).collect();
    (text.into(), other)
}

/// Computed tensors, and those made from the checkpoint; and tensors that are left out.
fn all_tensors(
    arch: &Arch,
    context: &Context<'_>,
    input: &Input<'_>,
    sources: &[SourceTensor],
) -> Result<(Vec<OutTensor>, Vec<Dropped>), ArchError> {
    let hparams = context.hparams;
    let mapped = tensors::map(context, sources)?;
    let mut tensors = Vec::with_capacity(mapped.tensors.len() + 1);
    for (name, values) in (arch.computed)(hparams)? {
        tensors.push(tensors::computed(name, &[values.len() as u64], values)?);
    }
    tensors.extend(mapped.tensors);
    Ok((stored_blocks::first(tensors, hparams, input, arch.source_types)?, mapped.dropped))
}

/// True if a model with a separate output matrix lacks it. The reference does not report this; llama.cpp then
/// multiplies by the embedding.
fn untied_output_is_absent(arch: &Arch, class: Class, hparams: &Hparams, tensors: &[OutTensor]) -> bool {
    arch.tensors.iter().any(|part| part.iter().any(|rule| rule.gguf == "output"))
        && class.prefix.is_empty()
        && hparams.get("tie_word_embeddings") == Some(&Json::Bool(false))
        && !tensors.iter().any(|tensor| tensor.name == "output.weight")
}

/// The class that the config names: the first of `architectures`, that of `text_config` before
/// its own.
///
/// Source: `get_model_architecture` in `conversion/base.py`.
pub(crate) fn class_name<'a>(families: &Families, config: &'a Json) -> Result<&'a str, ArchError> {
    let whole = first_class(config);
    if let Some(class) = whole.filter(|class| families.decides(class)) {
        return Ok(class);
    }
    text_config(config).and_then(first_class).or(whole).ok_or_else(|| missing("architectures"))
}

/// A warning that the architecture that a person named is not that of the config's `model_type`.
fn other_model_type(families: &Families, input: &Input<'_>, named: &Arch) -> Option<String> {
    let part = text_config(&input.config).unwrap_or(&input.config);
    let model_type = part.get("model_type").and_then(Json::as_str)?;
    let mut own = families.of_model_type(model_type).peekable();
    own.peek()?;
    let is_named = |arch: &Arch| arch.name == named.name || arch.written() == named.written();
    (!own.any(is_named)).then(|| {
        format!(
            "config.json has `model_type` `{model_type}`, not `{}`; the computation may differ",
            named.name
        )
    })
}

/// Checks that the config (or its `text_config`) has the required keys.
fn check_needs(config: &Json, arch: &Arch) -> Result<(), ArchError> {
    let is = |spelling: &str, key: &str| {
        spelling == key || arch.configs.iter().any(|class| class.full_name(spelling) == key)
    };
    let has = |key: &str| {
        [Some(config), text_config(config)]
            .into_iter()
            .flat_map(|config| config.and_then(Json::as_object))
            .flatten()
            .any(|(spelling, value)| !value.is_null() && is(spelling, key))
    };
    match arch.needs.iter().find(|key| !has(key)) {
        Some(key) => Err(missing(key)),
        None => Ok(()),
    }
}
