//! Tiny checkpoints of every family, converted and run in pieces, against themselves in one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::{collections::BTreeSet, fs};

use common::{Place, golden, largest_difference};
use eval::{
    Error, Model, Options, Session, Window,
    importance::{Collector, gaps},
    perplexity::Cut,
};

/// The largest difference that is allowed, as a part of the range of the rows, and as a part of what a row differs by
/// that is told nothing of the tokens before it: some tiny models of noise remember faintly.
const ALLOWED: f32 = 2e-5;
const ALLOWED_OF_MEMORY: f32 = 0.1;

/// Families that can be run, and of which there is no tiny checkpoint, because the converter does not write them.
const WITHOUT_CHECKPOINT: &[&str] = &["dream", "exaone", "qwen", "qwen2vl", "refact", "seed_oss", "xverse"];

/// The checkpoint as a file in f32, opened; none where nothing runs its architecture.
fn open(name: &str) -> Result<Option<Model>, String> {
    let place = Place::with_golden(name);
    let ran = place.convert(&[name, "x.gguf", "-t", "f32", "-q"]);
    if ran.code != Some(0) {
        return Err(format!("not converted: {}", ran.stderr));
    }
    let options = Options { threads: Some(1), ..Options::default() };
    match Model::open(&place.path("x.gguf"), &options) {
        Ok(model) => Ok(Some(model)),
        Err(Error::UnknownArchitecture { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The rows of all positions, for each window.
fn run(model: &Model, windows: &[&[u32]]) -> Result<Vec<Vec<f32>>, Error> {
    let windows: Vec<Window<'_>> = windows.iter().map(|tokens| Window::new(tokens)).collect();
    let hidden = model.run(&windows, None)?;
    let rows = |i: usize| hidden.rows_of(i).flat_map(|row| hidden.row(row).to_vec()).collect();
    Ok((0..windows.len()).map(rows).collect())
}

/// The largest difference between one pass over all tokens and what a session gives that gets them in pieces, and
/// between windows run side by side and each run alone, as a part of the range; and what is allowed.
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
        // Several at once, among them fewer and more than convolutions look back on, and one after the other.
        for piece in [5, 1, 1, 2, 1, 7, 1, 1, 1] {
            let end = session.n_past() + piece;
            let hidden = model.continue_with(&mut session, &tokens[end - piece..end])?;
            compare(hidden.row(0), &whole[(end - 1) * n_embd..end * n_embd]);
        }
    }

    let windows = [&tokens[..1], &tokens[..], &tokens[3..9], &tokens[..12]];
    for (tokens, found) in windows.iter().zip(run(model, &windows)?) {
        compare(&found, &run(model, &[*tokens])?[0]);
    }
    let (low, high) = whole.iter().fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let last = run(model, &[&tokens[19..]])?.remove(0);
    let memory = largest_difference(&last, &whole[whole.len() - last.len()..]) / (high - low);
    Ok((worst / (high - low), ALLOWED.min(ALLOWED_OF_MEMORY * memory)))
}

/// Matrices of the layers that are run and whose input nobody is shown.
fn unobserved(model: &Model) -> Result<Vec<String>, String> {
    let tokens: Vec<u32> = (3..23).collect();
    let cut = Cut { counted: 0..tokens.len() - 1, targets: tokens[1..].to_vec(), tokens };
    let mut collector = Collector::new(false);
    collector.add(model, &[cut]).map_err(|error| error.to_string())?;
    let sums = collector.sums(20).map_err(|error| error.to_string())?;
    let layer = |name: &str| name.split('.').nth(1).map(str::to_owned);
    let tensors = model.file().tensors().map(|(_, info)| &info.name);
    let not_run: Vec<_> = tensors.filter(|name| name.contains(".nextn.")).map(|name| layer(name)).collect();
    let gaps = gaps(model, &sums).into_iter().filter(|gap| gap.experts.is_empty()).map(|gap| gap.tensor);
    // The first layer of RWKV 7 takes all of its own values, whatever is stored of how many.
    let has_use = |tensor: &String| !tensor.starts_with("blk.0.time_mix_v") || tensor.contains("value");
    Ok(gaps.filter(|tensor| !not_run.contains(&layer(tensor)) && has_use(tensor)).collect())
}

#[test]
fn in_pieces_and_beside_others_they_predict_as_in_one_and_show_every_product() {
    let mut names: Vec<String> = fs::read_dir(golden("arch"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let wanted = std::env::var("LOGITS").unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for name in names.iter().filter(|name| name.contains(&wanted)) {
        let model = match open(name) {
            Ok(Some(model)) => model,
            Ok(None) => continue,
            Err(error) => {
                problems.push(format!("{name}: {error}"));
                continue;
            }
        };
        seen.insert(model.architecture().to_owned());
        // `tests/logits.rs` runs what hears, in sessions.
        if model.hears().is_some() {
            continue;
        }
        match difference(&model) {
            Ok((part, allowed)) if part <= allowed => match unobserved(&model) {
                Ok(tensors) if tensors.is_empty() => {}
                problem => problems.push(format!("{name}: not observed: {problem:?}")),
            },
            Ok((part, allowed)) => {
                problems.push(format!("{name}: {part:.1e} of the range, above {allowed:.1e}"));
            }
            Err(error) => problems.push(format!("{name}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), names.len(), problems.join("\n"));
    if wanted.is_empty() {
        let unseen: Vec<&str> = eval::architectures().filter(|name| !seen.contains(*name)).collect();
        assert_eq!(unseen, WITHOUT_CHECKPOINT);
    }
}
