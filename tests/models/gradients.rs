//! Backward pass through models: gradients at the output of every matrix, compared with finite differences of
//! the loss.

use std::{collections::BTreeMap, path::Path};

use super::moments::{self, Kept, index};
use crate::common::Sandbox;
use gguf_refinement::{
    Error,
    moments::{Input, MomentsCache, Options, Plan, Texts, gather_outputs},
};
use gguf_runtime::{Between, Model, Observer, Part, Sequence, Steps};
use gguf_types::DType;

/// Models with a backward pass, with their distinguishing features.
const MODELS: &[&str] = &[
    "llama",      // grouped heads, gates
    "qwen2",      // biases
    "qwen3",      // norms of queries and keys
    "gemma",      // scaled embeddings
    "gemma2",     // caps of scores and logits, norms behind the parts, windows
    "gemma3",     // both kinds of norms, windows
    "gpt2",       // means taken off, fused projections, no gate
    "gptneox",    // both parts side by side, each with its norm; a part of a head rotates
    "phi2",       // side by side with one norm
    "phi3",       // gate and up in one matrix
    "olmo2",      // norms behind the parts alone, over all heads
    "cohere2",    // layers without rotation, scaled logits
    "starcoder2", // biases everywhere
    "bloom",      // slopes by distance
    "granite",    // factors of what is added to the stream
];

/// The same of mixtures of experts.
const MIXTURES: &[&str] = &[
    "mixtral",        // weights normalized
    "deepseek",       // weights as they are; shared experts
    "qwen2moe",       // a gate of the shared one
    "granitemoe_swa", // gate and up in one matrix
    "llama4",         // sigmoids, weights before the function
    "dots1",          // sigmoids with a bias that chooses
    "bailingmoe2",    // groups
    "hunyuan-moe",    // norms of queries and keys, softmax of all
    "k2-horizon",     // values by experts, norms in groups, gates of attention by log2(1 + 2^x)
    "laguna",         // gates of attention by softplus, one for each head
    "afmoe",          // the same by sigmoids, one for each element
];

/// Models whose loss curves within the step along the gradient: factors make their gradients small
/// relative to their weights, so that a measurable step is a long one.
const BENT: &[&str] = &["cohere2", "granite", "granitemoe_swa"];

/// Rows by tensor, and by which of a stack.
#[derive(Default)]
struct Shown(BTreeMap<(String, usize), (Vec<f32>, usize)>);

impl Observer for Shown {
    fn mul_mat(&mut self, tensor: &str, part: Part, rows: &[f32], width: usize) {
        let index = index(part).unwrap_or(0);
        let before = self.0.insert((tensor.to_owned(), index), (rows.to_vec(), width));
        assert!(before.is_none(), "{tensor} {index} is shown once");
    }
}

fn open(sandbox: &Sandbox, threads: usize) -> Model {
    moments::open(&sandbox.path("x.gguf"), threads)
}

/// Two sequences of unlike lengths, longer than the windows of the tiny models.
fn sequences(model: &Model) -> [Vec<u32>; 2] {
    let token = |byte: &u8| u32::from(*byte) % model.n_vocab() as u32;
    [21, 13].map(|n| gguf_testkit::bytes(n as u64, n).iter().map(token).collect())
}

/// The target of a row.
fn target(row: usize, n_vocab: usize) -> usize {
    gguf_testkit::bytes(5, row + 1).iter().map(|byte| usize::from(*byte)).sum::<usize>() % n_vocab
}

/// Inputs of each matrix, and gradients at its outputs, of the sum of `-ln p(target)`.
fn both_sides(model: &Model) -> (Shown, Shown) {
    shown_of(model, &|steps, last| steps.loss_back(last, &mut |row, p| target(row, p.len())).unwrap())
}

/// Inputs of each matrix, and gradients at its outputs, from those after the last step.
fn shown_of(model: &Model, back: &dyn Fn(&Steps<'_>, &Between) -> Between) -> (Shown, Shown) {
    let sequences = sequences(model);
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let steps = Steps::new(model).unwrap();
    let (mut inputs, mut outputs) = (Shown::default(), Shown::default());
    let (mut between, mut entered) = (Between::default(), Vec::new());
    for step in 0..steps.n_steps() {
        entered.push(between.clone());
        between = steps.run(step, &sequences, between, Some(&mut inputs)).unwrap();
    }
    let mut gradients = back(&steps, &between);
    for (step, entered) in entered.into_iter().enumerate().rev() {
        gradients = steps.backward(step, &sequences, entered, gradients, Some(&mut outputs)).unwrap();
    }
    (inputs, outputs)
}

/// The sum of `-ln p(target)`.
fn loss(model: &Model) -> f64 {
    let sequences = sequences(model);
    let sequences: Vec<Sequence<'_>> = sequences.iter().map(|tokens| Sequence::new(tokens)).collect();
    let hidden = model.run(&sequences, None).unwrap();
    let n_vocab = model.n_vocab();
    let mut logits = vec![0.0; hidden.n_rows() * n_vocab];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).unwrap();
    let of_row = |(row, logits): (usize, &[f32])| {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
        sum.ln() + f64::from(most) - f64::from(logits[target(row, n_vocab)])
    };
    logits.chunks(n_vocab).enumerate().map(of_row).sum()
}

/// Logits of all rows.
fn logits(model: &Model) -> Vec<f32> {
    let sequences = sequences(model);
    let sequences: Vec<Sequence<'_>> = sequences.iter().map(|tokens| Sequence::new(tokens)).collect();
    let hidden = model.run(&sequences, None).unwrap();
    let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).unwrap();
    logits
}

/// Change of the loss per unit of a change of a matrix, by a difference over `2 size` units.
fn difference(model: &Model, tensor: &str, change: &[f64], size: f64, loss: &dyn Fn(&Model) -> f64) -> f64 {
    let (file, info) = model.file().tensor(tensor).unwrap();
    let weights = file.data(info).unwrap().as_chunks::<4>().0;
    let at = |sign: f64| {
        let moved = weights
            .iter()
            .zip(change)
            .map(|(weight, change)| (f64::from(f32::from_le_bytes(*weight)) + sign * size * change) as f32);
        let bytes = moved.flat_map(f32::to_le_bytes).collect();
        model.replace(tensor, DType::F32, bytes).unwrap();
        let value = loss(model);
        model.restore();
        value
    };
    (at(1.0) - at(-1.0)) / (2.0 * size)
}

#[test]
fn gradients_of_divergence_match_finite_differences() {
    let (sandbox, of_base) = (
        Sandbox::with_converted("llama", "x.gguf", "f32"),
        Sandbox::with_converted("llama", "x.gguf", "q4_0"),
    );
    let (model, base) = (open(&sandbox, 2), open(&of_base, 2));
    let base_logits = logits(&base);
    let n_vocab = model.n_vocab();
    let log_softmax = |logits: &[f32]| -> Vec<f64> {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
        logits.iter().map(|logit| f64::from(logit - most) - sum.ln()).collect()
    };
    let divergence = |model: &Model| -> f64 {
        let logits = logits(model);
        let of_row = |(base, ours): (&[f32], &[f32])| -> f64 {
            let (base, ours) = (log_softmax(base), log_softmax(ours));
            base.iter().zip(&ours).map(|(base, ours)| base.exp() * (base - ours)).sum()
        };
        base_logits.chunks(n_vocab).zip(logits.chunks(n_vocab)).map(of_row).sum()
    };
    let of_base = sequences(&base);
    let of_base: Vec<&[u32]> = of_base.iter().map(Vec::as_slice).collect();
    let base_steps = Steps::new(&base).unwrap();
    let run = |between, step| base_steps.run(step, &of_base, between, None);
    let base_last = (0..base_steps.n_steps()).try_fold(Between::default(), run).unwrap();
    let (inputs, outputs) =
        shown_of(&model, &|steps, last| steps.divergence_back(last, &base_steps, &base_last).unwrap());
    assert!(outputs.0.len() >= 8);
    for (key @ (tensor, _), (g, n_out)) in &outputs.0 {
        let (x, n_in) = &inputs.0[key];
        let mut gradient = vec![0.0; n_out * n_in];
        for (g, x) in g.chunks(*n_out).zip(x.chunks(*n_in)) {
            for (row, g) in gradient.chunks_mut(*n_in).zip(g) {
                row.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*g) * f64::from(*x));
            }
        }
        let norm = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(norm > 0.0, "{tensor}");
        let along: Vec<f64> = gradient.iter().map(|x| x / norm).collect();
        let found = difference(&model, tensor, &along, 0.02, &divergence);
        assert!((found - norm).abs() < 0.02 * norm, "{tensor}: {found}, expected {norm}");
    }
}

#[test]
fn gradients_match_finite_differences() {
    for (name, has_experts) in
        MODELS.iter().map(|name| (name, false)).chain(MIXTURES.iter().map(|name| (name, true)))
    {
        let sandbox = Sandbox::with_converted(name, "x.gguf", "f32");
        let model = open(&sandbox, 2);
        let (inputs, outputs) = both_sides(&model);
        // All matrices but the last, whose rows are tokens.
        assert!(outputs.0.len() >= 4 && outputs.0.len() + 1 == inputs.0.len(), "{name}");
        // The gradient of each tensor: of each of its matrices the sum over tokens of g x^T. Experts without a token have none.
        let mut gradients: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (key @ (tensor, index), (g, n_out)) in &outputs.0 {
            let (x, n_in) = &inputs.0[key];
            assert_eq!((g.len() / n_out, g.len() % n_out), (x.len() / n_in, 0), "{name} {tensor}");
            let n_elems = model.file().tensor(tensor).unwrap().1.shape.n_elems() as usize;
            let whole = gradients.entry(tensor).or_insert_with(|| vec![0.0; n_elems]);
            let gradient = &mut whole[index * n_out * n_in..][..n_out * n_in];
            for (g, x) in g.chunks(*n_out).zip(x.chunks(*n_in)) {
                for (row, g) in gradient.chunks_mut(*n_in).zip(g) {
                    row.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*g) * f64::from(*x));
                }
            }
        }
        for (at, (tensor, gradient)) in gradients.into_iter().enumerate() {
            let norm = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!(norm > 0.0, "{name} {tensor}");
            // The step that would show so small a gradient of a router sends all tokens elsewhere.
            if has_experts && tensor.ends_with("ffn_gate_inp.weight") && norm < 0.01 {
                continue;
            }
            let along: Vec<f64> = gradient.iter().map(|x| x / norm).collect();
            let n = gradient.len();
            let across: Vec<f64> = (0..n)
                .map(|i| f64::from(gguf_testkit::normal(at as u64, i as u64)) / (n as f64).sqrt())
                .collect();
            let expected: f64 = across.iter().zip(&gradient).map(|(a, b)| a * b).sum();
            // The loss is a sum of 34 logarithms of single-precision rows, so that a last bit of it is some 1e-5. Over a change of
            // 0.04 along the gradient that is 3e-4 of the norm. In a direction of no preference the step is ten times as long, and
            // the noise a tenth; the gradient's share there is 3e-4 to 3e-3 of the norm.
            // Where a step sends tokens to other experts the loss jumps. It is halved until it does not; a wrong gradient fits none.
            let n_steps = if has_experts { 11 } else { 1 };
            let differences = |change: &[f64], size: f64| {
                let (model, change) = (&model, change.to_vec());
                (0..n_steps).map(move |halved| {
                    difference(model, tensor, &change, size * 0.5f64.powi(halved) / norm, &loss)
                })
            };
            let is_bent = BENT.contains(name);
            let is_along = |found: f64| (found / norm - 1.0).abs() < 4e-3;
            assert!(
                is_bent || differences(&along, 0.02).any(is_along),
                "{name} {tensor}: not {norm} along it"
            );
            let tolerance = if is_bent { 2e-4 } else { 1e-4 };
            let is_across = |found: f64| (found - expected).abs() < tolerance * norm;
            assert!(differences(&across, 0.2).any(is_across), "{name} {tensor}: not {expected} of {norm}");
        }
    }
}

fn options() -> Options {
    Options { held_every: 3, ..moments::options() }
}

fn gathered(
    model: &Model,
    options: &Options,
    folder: Option<&Path>,
    at_most: Option<usize>,
) -> Result<Vec<Input>, Error> {
    let texts = texts(model);
    let plan = Plan::new(model, &texts, options)?.plan_outputs(model, options)?;
    let mut cache = match folder {
        Some(folder) => Some(MomentsCache::open(folder, model, &texts, options, &plan)?),
        None => None,
    };
    let mut kept = Kept { at_most, ..Kept::default() };
    gather_outputs(model, &texts, options, &plan, cache.as_mut(), &mut kept)?;
    let mut inputs = kept.sorted();
    inputs.retain(|input| !input.of.is_empty());
    Ok(inputs)
}

fn texts(model: &Model) -> Texts {
    let [long, short] = sequences(model);
    Texts::from_chunks(vec![long.clone(), short, long[3..12].to_vec(), long[..7].to_vec()])
}

/// Draws like the crate: SplitMix64 of chunk and token, into consecutive probabilities.
fn drawn(window: u64, token: u64, p: &[f32]) -> usize {
    let mut z = (window << 32 | token).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let u = ((z ^ (z >> 31)) >> 11) as f64 / 2f64.powi(53);
    let mut sum = 0.0;
    p.iter()
        .position(|p| {
            sum += f64::from(*p);
            u < sum
        })
        .unwrap()
}

#[test]
fn wide_outputs_are_not_observed() {
    // Feed-forward layers are four times as wide as the rest.
    let sandbox = Sandbox::with_converted("gpt2", "x.gguf", "f32");
    let found = gathered(&open(&sandbox, 2), &options(), None, None).unwrap();
    let has = |role: &str| {
        let tensor = format!("blk.0.{role}.weight");
        found.iter().flat_map(|input| &input.of).any(|(observed, _)| *observed == tensor)
    };
    assert!(["attn_qkv", "attn_output", "ffn_down"].into_iter().all(has));
    assert!(!has("ffn_up"));
}

#[test]
fn moments_are_sums_over_drawn_tokens() {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "f32");
    let model = open(&sandbox, 2);
    let found = gathered(&model, &options(), None, None).unwrap();
    // The same, a window after the other, in double precision.
    let steps = Steps::new(&model).unwrap();
    let mut sums: BTreeMap<(String, bool), (Vec<f64>, u64)> = BTreeMap::new();
    for (window, tokens) in texts(&model).chunks().iter().enumerate() {
        let (mut between, mut entered, mut shown) = (Between::default(), Vec::new(), Shown::default());
        for step in 0..steps.n_steps() {
            entered.push(between.clone());
            between = steps.run(step, &[tokens], between, None).unwrap();
        }
        let mut choose = |row: usize, p: &[f32]| drawn(window as u64, row as u64, p);
        let mut gradients = steps.loss_back(&between, &mut choose).unwrap();
        for (step, entered) in entered.into_iter().enumerate().rev() {
            gradients = steps.backward(step, &[tokens], entered, gradients, Some(&mut shown)).unwrap();
        }
        for ((tensor, _), (rows, n)) in shown.0 {
            // Every third window is held out.
            let (sum, n_tokens) = sums.entry((tensor, window % 3 == 2)).or_default();
            sum.resize(n * n, 0.0);
            for g in rows.chunks(n) {
                *n_tokens += 1;
                for (at, sum) in sum.iter_mut().enumerate() {
                    *sum += f64::from(g[at / n]) * f64::from(g[at % n]);
                }
            }
        }
    }
    assert_eq!(found.len(), 14);
    for input in &found {
        assert_eq!(input.of.len(), 1);
        for (is_held, gram) in [(false, &input.fit), (true, &input.held)] {
            let (expected, n_tokens) = &sums[&(input.of[0].0.clone(), is_held)];
            assert_eq!(gram.n_tokens(), *n_tokens);
            let n = gram.n_columns();
            for (at, (found, expected_sum)) in gram.sums().iter().zip(expected).enumerate() {
                let size = (expected[at / n * (n + 1)] * expected[at % n * (n + 1)]).sqrt();
                let off = (f64::from(*found) - expected_sum).abs();
                assert!(off <= 1e-4 * size, "{:?} {at}: {found} {expected_sum}", input.of);
            }
        }
    }
}

#[test]
fn moments_do_not_depend_on_gathering() {
    for name in ["llama", "gpt2", "mixtral"] {
        let sandbox = Sandbox::with_converted(name, "x.gguf", "f32");
        let model = open(&sandbox, 1);
        let expected = gathered(&model, &options(), None, None).unwrap();
        for threads in [2, 3, 7] {
            let found = gathered(&open(&sandbox, threads), &options(), None, None).unwrap();
            assert!(found == expected, "{name}: {threads} threads");
        }
        // On the disk; one matrix at a time, as large as the largest is.
        let disk = Options { state_bytes: 0, ..options() };
        assert!(gathered(&model, &disk, None, None).unwrap() == expected, "{name}");
        let largest = expected.iter().map(|input| input.fit.n_columns()).max().unwrap() as u64;
        let tight = Options { gram_bytes: 8 * largest * largest, ..options() };
        assert!(gathered(&model, &tight, None, None).unwrap() == expected, "{name}");
        // Kept in a folder, stopped, and gone on with.
        let folder = sandbox.path("outputs");
        assert!(matches!(gathered(&model, &options(), Some(&folder), Some(2)), Err(Error::Interrupted)));
        assert!(gathered(&model, &options(), Some(&folder), None).unwrap() == expected, "{name}");
        assert!(
            gathered(&model, &options(), Some(&folder), Some(0)).is_ok(),
            "{name}: nothing is left to do"
        );
        let cache = MomentsCache::read(&folder).unwrap();
        for input in &expected {
            let (fit, held) = cache.gram(&input.of[0].0, None).unwrap().unwrap();
            assert!(fit == input.fit && held == input.held, "{name}: {:?}", input.of);
        }
        // They are not taken for those of inputs.
        let texts = texts(&model);
        let plan = Plan::new(&model, &texts, &options()).unwrap();
        let error = MomentsCache::open(&folder, &model, &texts, &options(), &plan).unwrap_err().to_string();
        assert!(
            error.ends_with("belong to another kind of statistics: expected inputs, found outputs"),
            "{error}"
        );
    }
}

#[test]
fn gradients_do_not_depend_on_threads() {
    for name in ["llama", "gpt2", "gemma3", "qwen2moe"] {
        let sandbox = Sandbox::with_converted(name, "x.gguf", "f32");
        let (_, expected) = both_sides(&open(&sandbox, 1));
        for threads in [2, 3, 7] {
            let (_, found) = both_sides(&open(&sandbox, threads));
            assert!(found.0 == expected.0, "{name}: {threads} threads");
        }
    }
}

#[test]
fn missing_backward_pass_states_the_reason() {
    for (name, part) in [
        ("gpt-oss", "its experts"),
        ("mamba", "its token mixer"),
        ("gemma3n", "its several residual streams"),
    ] {
        let sandbox = Sandbox::with_converted(name, "x.gguf", "f32");
        let model = open(&sandbox, 1);
        let error = Steps::new(&model).unwrap().need_backward().unwrap_err().to_string();
        assert!(error.ends_with(part), "{name}: {error}");
    }
}
