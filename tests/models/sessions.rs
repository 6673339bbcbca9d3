//! Tiny checkpoints of every family: sessions that get tokens in pieces, and sequences in a batch, against one pass.

use std::{collections::BTreeSet, sync::OnceLock};

use crate::common::{Sandbox, largest_difference};
use gguf_runtime::{
    Error, Model, Options, Sequence, Session,
    chunks::Chunk,
    importance::{Collector, gaps, matrices},
};

/// The largest difference that is allowed, as a part of the range of the rows, and as a part of what a row changes by
/// without the tokens before it: in some tiny models of noise a state contributes little.
const ALLOWED: f32 = 2e-5;
const ALLOWED_OF_STATE: f32 = 0.1;
/// The same of models whose goldens magnify rounding: layers of Gemma 4 are scaled by 0.001 to 0.09, see `tests/models/logits.rs`.
const ILL_CONDITIONED: &[(&str, f32)] = &[("gemma4-moe", 2e-4)];

/// Files that are refused, rightly, with a part of the error: shared keys and values without a layer to have them from, and heads that
/// score options.
const REFUSED: &[(&str, &str)] = &[
    ("d1-omni", "cls.norm.bias"),
    ("gemma3n-old", "gemma3n.attention.shared_kv_layers"),
    ("julia", "cls.norm.bias"),
    ("laya", "cls.norm.bias"),
];

/// The checkpoint as a file in f32, opened; none where nothing runs its architecture.
fn open(name: &str) -> Result<Option<Model>, String> {
    let sandbox = Sandbox::with_golden(name);
    let mut args = vec![name, "x.gguf", "-t", "f32", "-q"];
    // Its expressions are not known.
    if name == "julia" {
        args.extend(["--pre", "mmbert"]);
    }
    let ran = sandbox.convert(&args);
    // Drafts have no tokens without the model that they draft for, and no graph.
    if ran.stderr.contains("a draft model needs the tokenizer and sizes") {
        return Ok(None);
    }
    if ran.code != Some(0) {
        return Err(format!("not converted: {}", ran.stderr));
    }
    let options = Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) };
    match Model::open(&sandbox.path("x.gguf"), &options) {
        Ok(model) => Ok(Some(model)),
        Err(Error::UnknownArchitecture { .. } | Error::DraftAlone { .. }) => Ok(None),
        Err(error)
            if REFUSED.iter().any(|(of, message)| name == *of && error.to_string().contains(message)) =>
        {
            Ok(None)
        }
        // Matrices of sentence-transformers after a model: refused, and named.
        Err(Error::UnusedTensors { names, .. }) if names.iter().all(|name| name.starts_with("dense_")) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The rows of all positions, for each sequence.
fn run(model: &Model, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, Error> {
    let sequences: Vec<Sequence<'_>> = sequences.iter().map(|tokens| Sequence::new(tokens)).collect();
    let hidden = model.run(&sequences, None)?;
    let rows = |i: usize| hidden.rows_of(i).flat_map(|row| hidden.row(row).to_vec()).collect();
    Ok((0..sequences.len()).map(rows).collect())
}

/// The largest difference between one pass over all tokens and what a session gives that gets them in pieces, and
/// between sequences run side by side and each run alone, as a part of the range; and what is allowed.
fn difference(model: &Model) -> Result<(f32, f32), Error> {
    let n_vocab = model.n_vocab() as u32;
    let tokens: Vec<u32> = (0..20).map(|i| 3 + (i * i * 31 + i * 7) % (n_vocab - 3)).collect();
    let whole = run(model, &[&tokens])?.remove(0);
    let mut worst = 0.0f32;
    let mut compare =
        |found: &[f32], expected: &[f32]| worst = worst.max(largest_difference(found, expected));

    if model.need_next_token().is_ok() {
        let n_embd = model.n_embd();
        let mut session = Session::new();
        // Several at once, among them fewer and more than convolutions look back on, and one by one.
        for piece in [5, 1, 1, 2, 1, 7, 1, 1, 1] {
            let end = session.n_past() + piece;
            let hidden = model.continue_with(&mut session, &tokens[end - piece..end])?;
            compare(hidden.row(0), &whole[(end - 1) * n_embd..end * n_embd]);
        }
    }

    let sequences = [&tokens[..1], &tokens[..], &tokens[3..9], &tokens[..12]];
    for (tokens, found) in sequences.iter().zip(run(model, &sequences)?) {
        compare(&found, &run(model, &[*tokens])?[0]);
    }
    let (low, high) = whole.iter().fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let last = run(model, &[&tokens[19..]])?.remove(0);
    let state = largest_difference(&last, &whole[whole.len() - last.len()..]) / (high - low);
    Ok((worst / (high - low), ALLOWED.min(ALLOWED_OF_STATE * state)))
}

/// Matrices of executed layers whose input is never observed.
fn unobserved(model: &Model) -> Result<Vec<String>, String> {
    let tokens: Vec<u32> = (3..23).collect();
    let cut = Chunk { counted: 0..tokens.len() - 1, targets: tokens[1..].to_vec(), tokens };
    let mut collector = Collector::new(false);
    collector.add(model, &[cut]).map_err(|error| error.to_string())?;
    let sums = collector.sums(20).map_err(|error| error.to_string())?;
    let layer = |name: &str| name.split('.').nth(1).map(str::to_owned);
    let tensors = model.file().tensors().map(|(_, info)| &info.name);
    let not_run: Vec<_> = tensors.filter(|name| name.contains(".nextn.")).map(|name| layer(name)).collect();
    let gaps =
        gaps(&matrices(model), &sums).into_iter().filter(|gap| gap.experts.is_empty()).map(|gap| gap.tensor);
    // The first layer of RWKV 7 has no value residual, whatever is stored of one.
    let has_use = |tensor: &String| !tensor.starts_with("blk.0.time_mix_v") || tensor.contains("value");
    Ok(gaps.filter(|tensor| !not_run.contains(&layer(tensor)) && has_use(tensor)).collect())
}

/// Data for both tests, for each checkpoint that can run.
struct Checked {
    name: String,
    architecture: String,
    /// None for an audio model, which `tests/models/logits.rs` runs.
    difference: Option<Result<(f32, f32), String>>,
    unobserved: Option<Result<Vec<String>, String>>,
}

/// All tiny checkpoints, converted and run once for both tests; errors of those that could not be opened.
fn checked() -> &'static [Result<Checked, String>] {
    static CHECKED: OnceLock<Vec<Result<Checked, String>>> = OnceLock::new();
    CHECKED.get_or_init(|| {
        let mut names = gguf_testkit::checkpoint_names();
        names.retain(|name| name.contains(&selected()));
        let check = |name: String| {
            let model = match open(&name) {
                Ok(Some(model)) => model,
                Ok(None) => return None,
                Err(error) => return Some(Err(format!("{name}: {error}"))),
            };
            let is_text = model.audio_input().is_none();
            Some(Ok(Checked {
                name,
                architecture: model.architecture().to_owned(),
                difference: is_text.then(|| difference(&model).map_err(|error| error.to_string())),
                unobserved: is_text.then(|| unobserved(&model)),
            }))
        };
        names.into_iter().filter_map(check).collect()
    })
}

/// `LOGITS=NAME` runs checkpoints whose name holds NAME.
fn selected() -> String {
    std::env::var("LOGITS").unwrap_or_default()
}

#[test]
fn sessions_and_batches_match_one_pass() {
    let mut problems = Vec::new();
    for checked in checked() {
        match checked {
            Err(error) => problems.push(error.clone()),
            Ok(Checked { name, difference: Some(difference), .. }) => match difference {
                Ok((part, allowed)) if part <= allowed => {}
                Ok((part, _))
                    if ILL_CONDITIONED.iter().any(|(of, allowed)| name == *of && part <= allowed) => {}
                Ok((part, allowed)) => {
                    problems.push(format!("{name}: {part:.1e} of the range, above {allowed:.1e}"));
                }
                Err(error) => problems.push(format!("{name}: {error}")),
            },
            Ok(_) => {}
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn observer_sees_every_matmul() {
    let mut problems = Vec::new();
    for Checked { name, unobserved, .. } in checked().iter().flatten() {
        match unobserved {
            None => {}
            Some(Ok(tensors)) if tensors.is_empty() => {}
            Some(problem) => problems.push(format!("{name}: not observed: {problem:?}")),
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_graph_has_a_tiny_checkpoint() {
    if selected().is_empty() {
        let seen: BTreeSet<&str> =
            checked().iter().flatten().map(|checked| checked.architecture.as_str()).collect();
        let unseen: Vec<&str> = gguf_models::GRAPHS
            .architectures
            .iter()
            .map(|row| row.name)
            .filter(|name| !seen.contains(name))
            .collect();
        assert!(unseen.is_empty(), "{unseen:?}");
    }
}
