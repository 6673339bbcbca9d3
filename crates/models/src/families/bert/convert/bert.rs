//! BERT and CamemBERT, with or without a classifier.
//!
//! Config keys: those of every text model, that attention looks both ways, pooling as
//! sentence-transformers says it, names of classes.
//!
//! Transforms: older names are changed (`bert.` in front, `gamma` and `beta` of norms); the
//! heads that guess words and neighbours are left out, and so is the pooler unless a classifier reads it: the reference always
//! leaves it out, but transformers computes `classifier(tanh(pooler(first token)))`.
//!
//! Source: `BertModel` in `conversion/bert.py`.

use crate::prelude::*;
use gguf_layout::departure;

pub const BERT: Arch = Arch {
    name: "bert",
    classes: &[
        Class::new("BertModel"),
        Class::new("BertForMaskedLM"),
        Class::new("BertForPreTraining"),
        Class::new("CamembertModel"),
        Class::new("ElectraModel"),
        Class::new("BertForSequenceClassification"),
    ],
    example: "BAAI/bge-small-en-v1.5",
    configs: &[ConfigClass::new("bert")],
    tensors: &[EMBEDDINGS, POSITIONS, LAYERS, CLASSIFIER],
    keys,
    drops: |hparams, name| drops(&pooled(hparams, name).unwrap_or_default()),
    rename: pooled,
    harmless: &["position_embedding_type=absolute"],
    prepare: |hparams, tensors| Ok(with_classes(hparams, tensors)),
    export_name: |_, class, name| {
        let ending = name.strip_prefix("classifier.dense.");
        Some(match ending.filter(|_| class.name.ends_with("ForSequenceClassification")) {
            Some(ending) => format!("bert.pooler.dense.{ending}"),
            None => export_name(class, name, "bert."),
        })
    },
    vocab: ROUTE,
    ..DECODER
};

/// WordPiece.
pub const ROUTE: Route =
    Route { fits: |kind, _| kind == "bert", ..Route::new("bert", |writer| writer.wordpiece()) };

/// Words, sentences and their norm.
pub const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(&["embeddings.word_embeddings"], "token_embd"),
    TensorRule::copy(&["embeddings.token_type_embeddings"], "token_types").need(Need::Optional),
    TensorRule::copy(&["embeddings.LayerNorm"], "token_embd_norm"),
];

const POSITIONS: &[TensorRule] = &[TensorRule::copy(&["embeddings.position_embeddings"], "position_embd")];

/// The layers.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.query"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.key"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.value"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.output.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.output.LayerNorm"], "blk.{bid}.attn_output_norm"),
    TensorRule::copy(&["encoder.layer.{bid}.intermediate.dense"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["encoder.layer.{bid}.output.dense"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["encoder.layer.{bid}.output.LayerNorm"], "blk.{bid}.layer_output_norm"),
];

/// A classifier.
pub const CLASSIFIER: &[TensorRule] = &[
    TensorRule::copy(&["classifier.dense", "classifier", "pre_classifier"], "cls").need(Need::Optional),
    TensorRule::copy(&["classifier.out_proj"], "cls.output").need(Need::Optional),
];

/// The keys.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Every token sees every other; `text_keys` writes the key only if a config has `is_causal`.
    keys.set_prefixed("attention.causal", Value::Bool(false));
    // `_try_set_pooling_type` comes before the names of the classes in the reference.
    pooling::keys(hparams, keys)?;
    // A query and its document differ by the type of their tokens in transformers.
    let n_types = hparams.get("type_vocab_size").and_then(Json::as_u64).unwrap_or(0);
    if is_classifier(hparams) && n_types > 1 {
        keys.notes.push(
            "llama.cpp uses token type 0 for all tokens: scores of text pairs may differ from transformers"
                .to_owned(),
        );
    }
    keys.derived_from("classifier.output_labels", &["id2label"]);
    if let Some(names) = labels(hparams) {
        let names = Value::Array(Array::String(names.into()));
        let theirs = hparams.get(CLASSES).is_none().then_some(&names);
        keys.depart(&LABELS, names.clone(), theirs);
    }
    if hparams.is_true(HAS_POOLER) {
        [&POOLER, &POOLER_BIAS, &departure::SIZE_LABEL].into_iter().for_each(|row| keys.departs(row));
    }
    Ok(())
}

/// Names of classes.
pub const LABELS: Departure = Departure {
    subject: "classifier.output_labels",
    files: "`bert` (classifiers whose config names no classes)",
    reason: "one name for each row of the classifier; llama.cpp does not load a file with another number",
};

/// Pooler of a classifier.
pub const POOLER: Departure = Departure {
    subject: "cls.weight",
    files: "`bert` (classifiers with a pooler)",
    reason: "the pooler, which transformers applies before the classifier; the converter omits it",
};

/// Bias of [`POOLER`].
pub const POOLER_BIAS: Departure = Departure { subject: "cls.bias", ..POOLER };

/// True if the class of a config is a sequence classifier.
pub fn is_classifier(hparams: &Hparams) -> bool {
    let classes = hparams.get("architectures").and_then(Json::as_array);
    classes.is_some_and(|classes| {
        let mut names = classes.iter().filter_map(Json::as_str);
        names.any(|name| name.ends_with("ForSequenceClassification"))
    })
}

/// The name under which the hyperparameters have the classes of a classifier.
const CLASSES: &str = "classes_of_classifier";

/// The name under which the hyperparameters state that a classifier has a pooler.
const HAS_POOLER: &str = "has_pooler";

/// Adds the classes of a classifier by the rows of its last matrix, if the config does not name them. Files of the
/// reference lack the names that transformers puts in for two classes, and llama.cpp then expects one row.
pub fn with_classes(mut hparams: Hparams, tensors: &[SourceTensor]) -> Hparams {
    let is_pooler =
        |tensor: &SourceTensor| ["pooler.dense.weight", "bert.pooler.dense.weight"].contains(&&*tensor.name);
    if is_classifier(&hparams) && tensors.iter().any(is_pooler) {
        hparams = hparams.with(HAS_POOLER, true.into());
    }
    const OUTPUTS: [&str; 2] = ["classifier.out_proj.weight", "classifier.weight"];
    let found = |end: &&str| tensors.iter().find(|tensor| tensor.name.ends_with(*end));
    let is_unnamed = is_classifier(&hparams) && labels(&hparams).is_none();
    let output = OUTPUTS.iter().find_map(found).filter(|_| is_unnamed);
    let Some(output) = output else { return hparams };
    let n_classes = output.shape.n_rows();
    if n_classes > 10_000 {
        return hparams;
    }
    let labels = hparams.get("id2label").and_then(Json::as_object);
    let label = |class: u64| {
        let name = labels.filter(|map| map.len() as u64 == n_classes);
        let name = name.and_then(|map| map.get(&class.to_string())?.as_str());
        name.map_or_else(|| format!("LABEL_{class}"), str::to_owned)
    };
    let names: Vec<Json> = (0..n_classes).map(|class| label(class).into()).collect();
    hparams.with(CLASSES, names.into())
}

/// The name of a tensor, with the pooler as the step before a classifier.
fn pooled(hparams: &Hparams, name: &str) -> Option<String> {
    let name = rename(hparams, name, "bert.")?;
    Some(match name.strip_prefix("pooler.dense.") {
        Some(ending) if is_classifier(hparams) => format!("classifier.dense.{ending}"),
        _ => name,
    })
}

/// The names of the classes in their order; empty for the two that transformers puts in where a
/// config names none.
fn labels(hparams: &Hparams) -> Option<Vec<String>> {
    if let Some(classes) = hparams.get(CLASSES).and_then(Json::as_array) {
        return classes.iter().map(|class| class.as_str().map(str::to_owned)).collect();
    }
    // A file that was saved without names of classes has `num_labels` alone; transformers then names
    // them LABEL_0, LABEL_1, ...
    let Some(map) = hparams.get("id2label").and_then(Json::as_object) else {
        let n_labels = hparams.get("num_labels").and_then(Json::as_u64).filter(|n| *n != 2 && *n < 10_000)?;
        return Some((0..n_labels).map(|label| format!("LABEL_{label}")).collect());
    };
    let mut labels: Vec<(u64, &str)> =
        map.iter().filter_map(|(id, label)| Some((id.parse().ok()?, label.as_str()?))).collect();
    labels.sort_unstable();
    match labels[..] {
        // Exactly two classes of which the first is LABEL_0: the default that every config of
        // transformers has, classifier or not.
        [] | [(0, "LABEL_0"), _] => None,
        _ => Some(labels.into_iter().map(|(_, label)| label.to_owned()).collect()),
    }
}

/// The name without what stands in front of it, norms by their newer names, the classifier by what
/// it is here.
pub fn rename(hparams: &Hparams, name: &str, front: &str) -> Option<String> {
    let mut name = name.strip_prefix(front).unwrap_or(name).to_owned();
    // Checkpoints that were converted from TensorFlow call weight and bias of a norm gamma and beta.
    for (old, new) in [(".gamma", ".weight"), (".beta", ".bias")] {
        if let Some(base) = name.strip_suffix(old) {
            name = format!("{base}{new}");
        }
    }
    match name.strip_prefix("classifier.") {
        // `classifier` alone is the output of rankers and classifiers; next to an unnamed head it is the step
        // before.
        Some(ending @ ("weight" | "bias")) if labels(hparams).is_some() => {
            Some(format!("classifier.out_proj.{ending}"))
        }
        _ => Some(name),
    }
}

/// The name after `front` in classes with a classifier, which itself has another name.
pub fn export_name(class: Class, name: &str, front: &str) -> String {
    if !class.name.ends_with("ForSequenceClassification") {
        return name.to_owned();
    }
    match name.strip_prefix("classifier.out_proj.") {
        Some(ending) => format!("classifier.{ending}"),
        None if ["classifier.", "pre_classifier.", "head."].iter().any(|head| name.starts_with(head)) => {
            name.to_owned()
        }
        None => format!("{front}{name}"),
    }
}

/// Heads that only training needs. The last three are those of AntiBERTy.
const HEADS: &[&str] =
    &["cls.predictions", "cls.seq_relationship", "lm_head.", "cls.species.", "cls.chain.", "cls.graft."];

/// Tensors that an embedding model does not need.
pub fn drops(name: &str) -> Option<&'static str> {
    match name {
        "embeddings.position_ids" => Some("a list of numbers from zero on"),
        "pooler.dense.weight" | "pooler.dense.bias" => Some("the pooler is not used for embeddings"),
        _ if HEADS.iter().any(|head| name.starts_with(head)) => {
            Some("part of what the model was trained with")
        }
        _ => None,
    }
}
