//! Tiny checkpoints, converted and run, against what transformers predicts with them, or libllama where transformers
//! has no class for them; at once, and token by token.

use gguf_types::Problem as _;
use std::{fs, path::Path};

use crate::common::{Sandbox, golden, largest_difference, succeed};
use gguf_container::Value;
use gguf_runtime::{
    Features, Model, Options, Sequence, Session,
    embed::{Pooling, embed},
};

/// The largest difference that is allowed, as a part of the range of the logits.
const ALLOWED: f32 = 2e-4;

/// The same between one pass and a session that gets token by token. Checkpoints whose layers nearly cancel out
/// (dbrx) make much of a last bit.
const ALLOWED_IN_SESSIONS: f32 = 5e-5;

/// Checkpoints that make more of a last bit than others, and why: their sessions may differ as much from one pass as the
/// logits from the golden.
const ILL_CONDITIONED: &[(&str, &str)] = &[
    (
        "gemma4",
        "scalars of about a hundredth leave little of the stream behind each layer: transformers in f32 and in f64 are 1.2e-4 apart",
    ),
    ("gemma4-unified", "the same scalars as in gemma4"),
];

/// The same for checkpoints whose names begin so. Their weights are noise, in which a state contributes little: without
/// any state they would predict the same to 1e-4 of the range (RWKV 6) or 3e-4 (Mamba). A frame of Whisper's input
/// contributes as little, and so do the steps of Granite's and Nemotron's heads (2e-5 to 1e-3), and Granite's rotation
/// where scores are nearly even (8e-6).
const WEAK_STATE: &[&str] = &[
    "arwkv",
    "bamba",
    "granite_swa",
    "granitehybrid",
    "granitemoe_swa",
    "mamba",
    "nemotron-h",
    "plamo2",
    "rwkv",
    "whisper",
];
const ALLOWED_OF_WEAK_STATE: f32 = 1e-6;

/// Contents of `golden/logits/NAME.bin`.
struct Expected {
    tokens: Vec<u32>,
    positions: Vec<usize>,
    n_vocab: usize,
    range: f32,
    /// (positions, n_vocab): logits, or rows of the last layer.
    rows: Vec<f32>,
    is_hidden: bool,
    pooled: Option<Pooled>,
    audio: Option<Audio>,
}

/// The features that an audio model gets before the tokens.
struct Audio {
    n_mels: usize,
    n_frames: usize,
    /// (n_mels, n_frames).
    values: Vec<f32>,
}

impl Audio {
    fn features(&self) -> Features<'_> {
        Features { values: &self.values, n_mels: self.n_mels, n_frames: self.n_frames }
    }
}

/// The rows as one.
struct Pooled {
    how: Pooling,
    range: f32,
    row: Vec<f32>,
}

/// A golden file: a line of JSON, then f32 values.
pub fn read_values(path: &Path) -> (serde_json::Value, Vec<f32>) {
    let bytes = fs::read(path).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let values = bytes[end + 1..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    (serde_json::from_slice(&bytes[..end]).unwrap(), values.collect())
}

fn expected(name: &str) -> Expected {
    let (head, mut rows) = read_values(&golden("logits").join(format!("{name}.bin")));
    let list = |key: &str| -> Vec<u64> {
        head[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let audio = head["features"].as_array().map(|shape| {
        let [n_mels, n_frames] = [0, 1].map(|i| shape[i].as_u64().unwrap() as usize);
        Audio { n_mels, n_frames, values: rows.split_off(rows.len() - n_mels * n_frames) }
    });
    let pooled = head["pooled"].as_str().map(|how| Pooled {
        how: Pooling::ALL.into_iter().find(|pooling| pooling.name() == how).unwrap(),
        range: head["pooled_range"].as_f64().unwrap() as f32,
        row: rows.split_off(rows.len() - head["pooled_width"].as_u64().unwrap() as usize),
    });
    Expected {
        tokens: list("tokens").into_iter().map(|id| id as u32).collect(),
        positions: list("positions").into_iter().map(|p| p as usize).collect(),
        n_vocab: head["n_vocab"].as_u64().unwrap() as usize,
        range: head["range"].as_f64().unwrap() as f32,
        rows,
        is_hidden: head["hidden"].as_bool().unwrap_or(false),
        pooled,
        audio,
    }
}

/// The largest differences of rows, of the pooled row and of a session from one pass, as parts of their ranges; where
/// tokens see later ones, a session predicts something else.
struct Differences {
    rows: f32,
    pooled: Option<f32>,
    session: Option<f32>,
}

/// The differences, or what went wrong.
fn difference(name: &str) -> Result<Differences, String> {
    // Families that the converter does not write have separate files.
    let is_file = gguf_testkit::logits_file_names().iter().any(|file| file == name);
    let sandbox = if is_file { Sandbox::new() } else { Sandbox::with_golden(name) };
    let path = if is_file { gguf_testkit::logits_file(name) } else { sandbox.path("x.gguf") };
    if !is_file {
        // Modules after the pooling are part of the file only on request.
        let has_dense = golden("arch").join(name).join("2_Dense").exists();
        let mut arguments = vec![name, "x.gguf", "-t", "f32", "-q"];
        arguments.extend(has_dense.then_some("--dense-modules"));
        let ran = sandbox.convert(&arguments);
        if ran.code != Some(0) {
            return Err(format!("not converted: {}", ran.stderr));
        }
    }
    let options = Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) };
    let model = Model::open(&path, &options).map_err(|error| error.to_string())?;
    let expected = expected(name);
    if let Some(audio) = &expected.audio {
        return audio_differences(&model, audio, &expected).map_err(|error| error.to_string());
    }
    let hidden = model.run(&[Sequence::new(&expected.tokens)], None).map_err(|error| error.to_string())?;
    let width = if expected.is_hidden { model.n_embd() } else { model.n_vocab() };
    let mut rows = vec![0.0; hidden.n_rows() * width];
    if expected.is_hidden {
        rows.chunks_mut(width).enumerate().for_each(|(i, row)| row.copy_from_slice(hidden.row(i)));
    } else {
        model.logits(&hidden, 0..hidden.n_rows(), None, &mut rows).map_err(|error| error.to_string())?;
    }
    // The converter may pad or cut the vocabulary; the tokens that both have are compared.
    let n = expected.n_vocab.min(width);
    let mut worst = 0.0f32;
    for (i, position) in expected.positions.iter().enumerate() {
        let want = &expected.rows[i * expected.n_vocab..][..n];
        worst = worst.max(largest_difference(want, &rows[position * width..][..n]));
    }
    if model.is_encoder_decoder() {
        worst = worst.max(decoder_difference(&model, &expected).map_err(|error| error.to_string())?);
    }
    let tokens = expected.tokens.clone();
    let pooled = match &expected.pooled {
        None => None,
        Some(pooled) => {
            let made = embed(&model, &[expected.tokens], pooled.how).map_err(|error| error.to_string())?;
            if made[0].len() != pooled.row.len() {
                return Err(format!("expected {} values, found {} pooled", made[0].len(), pooled.row.len()));
            }
            Some(largest_difference(&pooled.row, &made[0]) / pooled.range)
        }
    };
    let causal = format!("{}.attention.causal", model.architecture());
    let is_causal =
        model.file().metadata().iter().all(|(key, value)| *key != causal || *value == Value::Bool(true));
    let session = if expected.is_hidden || model.is_encoder_decoder() || !is_causal {
        None
    } else {
        Some(session_difference(&model, &tokens, &rows).map_err(|error| error.to_string())? / expected.range)
    };
    Ok(Differences { rows: worst / expected.range, pooled, session })
}

/// The largest difference when a model with encoder and decoder reads the tokens and is then given
/// them one by one.
fn decoder_difference(model: &Model, expected: &Expected) -> Result<f32, gguf_runtime::Error> {
    let mut session = Session::new();
    let mut hidden = model.begin(&mut session, &expected.tokens)?;
    let mut worst = 0.0f32;
    for (position, token) in expected.tokens.iter().enumerate() {
        if let Some(i) = expected.positions.iter().position(|selected| *selected == position) {
            let mut logits = vec![0.0; model.n_vocab()];
            model.logits(&hidden, 0..1, None, &mut logits)?;
            worst = worst
                .max(largest_difference(&expected.rows[i * expected.n_vocab..][..expected.n_vocab], &logits));
        }
        hidden = model.continue_with(&mut session, &[*token])?;
    }
    Ok(worst)
}

/// The differences of an audio model: of sessions that get all tokens to a position at once, and of one that gets one
/// at a time from those.
fn audio_differences(
    model: &Model,
    audio: &Audio,
    expected: &Expected,
) -> Result<Differences, gguf_runtime::Error> {
    let mut fresh = Session::new();
    model.encode_audio(&mut fresh, audio.features())?;
    let mut session = fresh.clone();
    let (mut row, mut worst, mut apart) = (vec![0.0; model.n_vocab()], 0.0f32, 0.0f32);
    for (position, token) in expected.tokens.iter().enumerate() {
        let hidden = model.continue_with(&mut session, &[*token])?;
        let Some(i) = expected.positions.iter().position(|selected| *selected == position) else { continue };
        let want = &expected.rows[i * expected.n_vocab..][..expected.n_vocab];
        model.logits(&hidden, 0..1, None, &mut row)?;
        worst = worst.max(largest_difference(want, &row));
        let one_at_a_time = row.clone();
        let hidden = model.continue_with(&mut fresh.clone(), &expected.tokens[..=position])?;
        model.logits(&hidden, 0..1, None, &mut row)?;
        worst = worst.max(largest_difference(want, &row));
        apart = apart.max(largest_difference(&row, &one_at_a_time));
    }
    let range = expected.range;
    Ok(Differences { rows: worst / range, pooled: None, session: Some(apart / range) })
}

/// The largest difference from the rows of one pass in a session that gets three tokens and then one at a time.
fn session_difference(model: &Model, tokens: &[u32], rows: &[f32]) -> Result<f32, gguf_runtime::Error> {
    let (mut session, mut row, mut worst) = (Session::new(), vec![0.0; model.n_vocab()], 0.0f32);
    for at in std::iter::once(0..3).chain((3..tokens.len()).map(|i| i..i + 1)) {
        let hidden = model.continue_with(&mut session, &tokens[at.clone()])?;
        model.logits(&hidden, 0..1, None, &mut row)?;
        worst = worst.max(largest_difference(&rows[(at.end - 1) * row.len()..][..row.len()], &row));
    }
    Ok(worst)
}

#[test]
fn logits_match_reference_whole_and_by_token() {
    let mut names: Vec<String> = fs::read_dir(golden("logits"))
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().to_str().unwrap().strip_suffix(".bin").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let selected = std::env::var("LOGITS").unwrap_or_default();
    let mut problems = Vec::new();
    for name in names.iter().filter(|name| name.contains(&selected)) {
        let is_in = |list: &[(&str, &str)]| list.iter().any(|(different, _)| different == name);
        match difference(name) {
            Ok(Differences { rows, pooled, session }) => {
                // `cargo test --test all models::logits -- --nocapture` shows them.
                let text = |what: &str, part: Option<f32>| {
                    part.map_or(String::new(), |part| format!(", {what} {part:.1e}"))
                };
                let (pooled_text, session_text) = (text("pooled", pooled), text("in a session", session));
                println!("{name}: {rows:.1e} of the range{pooled_text}{session_text}");
                let is_weak = WEAK_STATE.iter().any(|start| name.starts_with(start));
                if rows > if is_weak { ALLOWED_OF_WEAK_STATE } else { ALLOWED } {
                    problems.push(format!("{name}: {rows:.1e} of the range"));
                }
                if pooled.is_some_and(|pooled| pooled > ALLOWED) {
                    problems.push(format!("{name}: of the range{pooled_text}"));
                }
                let allowed = if is_in(ILL_CONDITIONED) { ALLOWED } else { ALLOWED_IN_SESSIONS };
                if session.is_some_and(|session| session > allowed) {
                    problems.push(format!("{name}: of the range{session_text}"));
                }
            }
            Err(error) => problems.push(format!("{name}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), names.len(), problems.join("\n"));
}

/// A tiny checkpoint in f32, opened.
fn converted(name: &str) -> Model {
    let sandbox = Sandbox::with_golden(name);
    succeed(sandbox.convert(&[name, "x.gguf", "-t", "f32", "-q"]));
    Model::open(&sandbox.path("x.gguf"), &Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) })
        .unwrap()
}

#[test]
fn audio_frames_count_and_other_shapes_fail() {
    let (model, expected) = (converted("whisper"), expected("whisper"));
    let audio = expected.audio.as_ref().unwrap();
    assert_eq!(model.audio_input(), Some((audio.n_mels, audio.n_frames)));
    let logits_of = |values: &[f32]| {
        let mut session = Session::new();
        model.encode_audio(&mut session, Features { values, ..audio.features() }).unwrap();
        let hidden = model.continue_with(&mut session, &expected.tokens).unwrap();
        let mut row = vec![0.0; model.n_vocab()];
        model.logits(&hidden, 0..1, None, &mut row).unwrap();
        row
    };
    // Without a difference here, the comparison with the golden would not test the encoder. Each frame makes one, the
    // first and the last among them, and so does their order.
    let as_it_is = logits_of(&audio.values);
    let mut others: Vec<Vec<f32>> = (0..audio.n_frames)
        .map(|frame| {
            let mut values = audio.values.clone();
            values.iter_mut().skip(frame).step_by(audio.n_frames).for_each(|value| *value = -*value);
            values
        })
        .collect();
    others.push(audio.values.iter().rev().copied().collect());
    for (i, values) in others.iter().enumerate() {
        let apart = largest_difference(&as_it_is, &logits_of(values)) / expected.range;
        assert!(apart > 10.0 * ALLOWED_OF_WEAK_STATE, "{i}: {apart:.1e}");
    }

    let shapes = [(audio.n_mels, audio.n_frames - 2), (audio.n_frames, audio.n_mels), (usize::MAX, 2)];
    let mut session = Session::new();
    for (n_mels, n_frames) in shapes {
        let features = Features { values: &audio.values, n_mels, n_frames };
        let error = model.encode_audio(&mut session, features).unwrap_err();
        assert!(
            matches!(error, gguf_runtime::Error::FeatureShape { found, .. } if found == (n_mels, n_frames))
        );
    }
    let features = Features { values: &audio.values[1..], ..audio.features() };
    let error = model.encode_audio(&mut session, features).unwrap_err();
    assert!(matches!(error, gguf_runtime::Error::FeatureShape { .. }) && error.hint().is_some(), "{error}");
    for error in [
        model.continue_with(&mut session, &expected.tokens).unwrap_err(),
        model.begin(&mut session, &expected.tokens).unwrap_err(),
        model.run(&[Sequence::new(&expected.tokens)], None).unwrap_err(),
        model.need_next_token().unwrap_err(),
        embed(&model, std::slice::from_ref(&expected.tokens), Pooling::Mean).unwrap_err(),
    ] {
        assert!(matches!(error, gguf_runtime::Error::NoFeatures { .. }) && error.hint().is_some(), "{error}");
    }
    model.encode_audio(&mut session, audio.features()).unwrap();
    let too_many = vec![3; expected.tokens.len() + 1];
    let error = model.continue_with(&mut session, &too_many).unwrap_err();
    assert!(matches!(error, gguf_runtime::Error::TooLong { limit: 20, .. }), "{error}");

    let error = converted("llama").encode_audio(&mut session, audio.features()).unwrap_err();
    assert!(matches!(error, gguf_runtime::Error::NoAudioInput { .. }), "{error}");
}

/// The file of K2-Horizon with one key changed, or the error of opening it.
fn k2_horizon_with(key: &str, value: u32) -> Result<Model, String> {
    let sandbox = Sandbox::with_golden("k2-horizon");
    let changed = format!("k2-horizon.{key}=int:{value}");
    succeed(sandbox.convert(&["k2-horizon", "x.gguf", "-t", "f32", "-q", "--override-kv", &changed]));
    let options = Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) };
    Model::open(&sandbox.path("x.gguf"), &options).map_err(|error| error.to_string())
}

#[test]
fn value_experts_and_norm_groups_are_checked() {
    for (key, value, expected) in [
        ("attention.group_norm_groups", 3, "a divisor of the embedding length"),
        ("attention.value_expert_used_count", 0, "a part of the value experts"),
        ("attention.value_expert_used_count", 4, "a part of the value experts"),
        ("attention.value_expert_count", 4, "[32, 16, 4, 1]"),
        ("attention.value_expert_count", 0, "[32, 16, 0, 1]"),
        ("expert_gating_func", 3, "1 or 2 with value experts"),
    ] {
        let error = k2_horizon_with(key, value).err().unwrap_or_default();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
    // 0 is the default: sigmoids, as the golden has them.
    let (model, expected) = (k2_horizon_with("expert_gating_func", 0).unwrap(), expected("k2-horizon"));
    let hidden = model.run(&[Sequence::new(&expected.tokens)], None).unwrap();
    let mut last = vec![0.0; model.n_vocab()];
    let n = hidden.n_rows();
    model.logits(&hidden, n - 1..n, None, &mut last).unwrap();
    let of_golden = &expected.rows[expected.rows.len() - last.len()..];
    assert!(largest_difference(of_golden, &last) / expected.range < ALLOWED);
}
