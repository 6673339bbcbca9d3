//! Hessians of the inputs of every matrix of tiny models of all graphs: compared with sums in f64 and with
//! the importance matrix, and equal for every way of gathering.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::common::{Sandbox, golden};
use gguf_refinement::{
    Error,
    moments::{Found, Input, MomentsCache, Options, Plan, Summary, Texts, Watch, gather},
};
use gguf_runtime::{Model, Observer, Part, Sequence, chunks::Chunk, importance::Collector};

/// Any text will do, however short: the models are noise.
pub fn options() -> Options {
    Options { least_per_column: 0.0, ..Options::default() }
}

/// Keeps everything.
#[derive(Default)]
pub struct Kept {
    pub inputs: Vec<Input>,
    /// Number of findings.
    pub n_found: usize,
    /// Stops the run after this many of them.
    pub at_most: Option<usize>,
}

impl Watch for Kept {
    fn found(&mut self, found: Found) -> Result<(), Error> {
        self.n_found += 1;
        self.inputs.extend(found.inputs);
        Ok(())
    }

    fn progress(&mut self, _done: usize, _of: usize) -> bool {
        self.at_most.is_none_or(|most| self.n_found < most)
    }
}

impl Kept {
    pub fn sorted(mut self) -> Vec<Input> {
        self.inputs.sort_by(|a, b| a.of.cmp(&b.of));
        self.inputs
    }
}

fn gathered(model: &Model, texts: &Texts, options: &Options) -> Result<(Vec<Input>, Summary), Error> {
    let mut kept = Kept::default();
    let plan = Plan::new(model, texts, options)?;
    let summary = gather(model, texts, options, &plan, None, &mut kept)?;
    Ok((kept.sorted(), summary))
}

/// The model of a golden, in f32.
fn converted(name: &str, threads: usize) -> (Sandbox, Model) {
    let is_file = gguf_testkit::logits_file_names().iter().any(|file| file == name);
    let sandbox = if is_file { Sandbox::new() } else { Sandbox::with_golden(name) };
    let path = if is_file { gguf_testkit::logits_file(name) } else { sandbox.path("x.gguf") };
    if !is_file {
        assert_eq!(sandbox.convert(&[name, "x.gguf", "-t", "f32", "-q"]).code, Some(0), "{name}");
    }
    let model = open(&path, threads);
    (sandbox, model)
}

pub fn open(path: &Path, threads: usize) -> Model {
    let options =
        gguf_runtime::Options { threads: Some(threads), ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
    Model::open(path, &options).unwrap()
}

/// Index of a part among the matrices of its tensor; none if there is only one.
pub fn index(part: Part) -> Option<usize> {
    match part {
        Part::Whole => None,
        Part::Expert { index, .. } | Part::Head { index, .. } => Some(index),
    }
}

/// Windows of tokens that are anything.
fn windows(model: &Model, seed: u64, n: usize, len: usize) -> Vec<Vec<u32>> {
    let n_tokens = model.n_vocab() as u64;
    let token =
        |window: usize, at: usize| (gguf_testkit::mix(seed, (window * len + at) as u64) % n_tokens) as u32;
    (0..n).map(|window| (0..len).map(|at| token(window, at)).collect()).collect()
}

/// `sum x x^T` in f64 for each matrix: a loop that knows nothing of the other.
#[derive(Default)]
struct Direct(BTreeMap<(String, Part), (usize, u64, Vec<f64>)>);

impl Observer for Direct {
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize) {
        let sum = self.0.entry((tensor.to_owned(), part)).or_insert((n_in, 0, vec![0.0; n_in * n_in]));
        for row in input.chunks_exact(n_in) {
            sum.1 += 1;
            for (i, a) in row.iter().enumerate() {
                for (j, b) in row.iter().enumerate() {
                    sum.2[i * n_in + j] += f64::from(*a) * f64::from(*b);
                }
            }
        }
    }
}

/// Dense, mixtures with shared and with latent parts, several streams with separate inputs, heads with
/// separate matrices, states, first values that later layers see, keys and values that later layers share, an
/// encoder and a decoder.
const DIRECT: &[&str] =
    &["llama", "qwen2moe", "gemma3n", "deepseek2", "mamba2", "rwkv7", "gemma4", "t5", "bert"];

#[test]
fn sums_match_plain_loop() {
    for name in DIRECT {
        let (_sandbox, model) = converted(name, 2);
        let windows = windows(&model, 3, 9, 7);
        let texts = Texts::from_chunks(windows.clone());
        let (inputs, _) = gathered(&model, &texts, &options()).unwrap();
        let (mut fit, mut held) = (Direct::default(), Direct::default());
        for (index, window) in windows.iter().enumerate() {
            let sums = if index % 8 == 7 { &mut held } else { &mut fit };
            let hidden = model.run(&[Sequence::new(window)], Some(sums)).unwrap();
            // Logits show the rows of the output matrix.
            let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
            if model.logits(&hidden, 0..0, None, &mut []).is_ok() {
                model.logits(&hidden, 0..hidden.n_rows(), Some(sums), &mut logits).unwrap();
            }
        }
        let mut n_compared = 0;
        for input in &inputs {
            for matrix in &input.of {
                for (found, direct) in [(&input.fit, &fit), (&input.held, &held)] {
                    let Some((n_in, n_tokens, sums)) = direct.0.get(matrix) else {
                        assert_eq!(found.n_tokens(), 0, "{name}: {matrix:?}");
                        continue;
                    };
                    assert_eq!(
                        (found.n_columns(), found.n_tokens()),
                        (*n_in, *n_tokens),
                        "{name}: {matrix:?}"
                    );
                    let mean = (0..*n_in).map(|i| sums[i * (n_in + 1)]).sum::<f64>() / *n_in as f64;
                    for (at, (a, b)) in found.sums().iter().zip(sums).enumerate() {
                        // Upper bound of a sum, from the diagonal. Single chunks and batches differ in the
                        // last bits of an activation, which shows if activations are much smaller than
                        // others.
                        let (i, j) = (at / n_in, at % n_in);
                        let scale = (sums[i * (n_in + 1)] * sums[j * (n_in + 1)]).sqrt();
                        let difference = (f64::from(*a) - b).abs();
                        assert!(
                            difference <= 2e-5 * scale + 1e-6 * mean,
                            "{name}: {matrix:?} {i} {j}: {a} {b}"
                        );
                    }
                    n_compared += 1;
                }
            }
        }
        // Nothing that was multiplied is missing.
        let of: BTreeSet<&(String, Part)> = inputs.iter().flat_map(|input| &input.of).collect();
        assert!(fit.0.keys().all(|matrix| of.contains(matrix)), "{name}");
        assert!(n_compared >= fit.0.len(), "{name}: {n_compared}");
    }
}

#[test]
fn every_graph_gathers_moments_and_importance() {
    let names = fs::read_dir(golden("logits")).unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().unwrap().strip_suffix(".bin").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut problems = Vec::new();
    let (mut n_gathered, mut n_of_sound) = (0, 0);
    let selected = std::env::var("LOGITS").unwrap_or_default();
    for name in names.iter().filter(|name| name.contains(&selected)) {
        let (_sandbox, model) = converted(name, 1);
        // More than one batch would be had of thousands of tokens alone; small models are not wide enough for that.
        let windows = windows(&model, 5, 3, 9);
        let texts = Texts::from_chunks(windows.clone());
        if model.audio_input().is_some() {
            let refused = Plan::new(&model, &texts, &options());
            assert!(matches!(refused, Err(Error::Eval(gguf_runtime::Error::NoFeatures { .. }))), "{name}");
            n_of_sound += 1;
            continue;
        }
        let (_, summary) = match gathered(&model, &texts, &options()) {
            Ok(gathered) => gathered,
            Err(error) => {
                problems.push(format!("{name}: {error}"));
                continue;
            }
        };
        let chunk = |tokens: &Vec<u32>| Chunk { tokens: tokens.clone(), counted: 0..1, targets: vec![0] };
        let mut collector = Collector::new(false);
        collector.add(&model, &windows.iter().map(chunk).collect::<Vec<_>>()).unwrap();
        let (expected, found) = (collector.sums(9).unwrap(), summary.importance.sums(9).unwrap());
        if expected != found || expected.entries.is_empty() {
            problems.push(format!("{name}: the importance matrix differs"));
        }
        n_gathered += 1;
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(!selected.is_empty() || (n_gathered > 100 && n_of_sound > 0), "{n_gathered} {n_of_sound}");
}

#[test]
fn threads_and_memory_change_no_bit() {
    // Batches of mixtures have four times the rows.
    for (name, n_windows) in [("llama", 40), ("gemma3n", 40), ("qwen2moe", 160), ("t5", 40)] {
        let (sandbox, model) = converted(name, 1);
        let texts = Texts::from_chunks(windows(&model, 11, n_windows, 90));
        let plan = Plan::new(&model, &texts, &options()).unwrap();
        assert!(plan.n_batches() > 1, "{name}: one batch would show little");
        let (expected, summary) = gathered(&model, &texts, &options()).unwrap();
        let path = if sandbox.path("x.gguf").exists() {
            sandbox.path("x.gguf")
        } else {
            gguf_testkit::logits_file(name)
        };
        for threads in [2, 3, 7] {
            let (found, _) = gathered(&open(&path, threads), &texts, &options()).unwrap();
            assert!(found == expected, "{name}: {threads} threads");
        }
        // On the disk what batches leave between layers; and sums in rounds, each no larger than the largest input.
        let widest = plan.steps.iter().flat_map(|step| step.rounds.iter().flatten());
        let gram_bytes = widest.map(|input| input.gram_bytes()).max().unwrap();
        for tight in [
            Options { state_bytes: 0, ..options() },
            Options { gram_bytes, ..options() },
            Options { gram_bytes, state_bytes: 0, ..options() },
            Options { gram_bytes: 1, ..options() },
        ] {
            let plan = Plan::new(&model, &texts, &tight).unwrap();
            assert_eq!(plan.is_spilled, tight.state_bytes == 0);
            assert!(plan.gram_bytes <= tight.gram_bytes.max(gram_bytes), "{name}: the widest is alone");
            let is_in_rounds = plan.steps.iter().any(|step| step.rounds.len() > 1);
            assert_eq!(is_in_rounds, tight.gram_bytes <= gram_bytes, "{name}");
            let mut rounds = plan.steps.iter().flat_map(|step| &step.rounds);
            assert_eq!(rounds.all(|round| round.len() <= 1), tight.gram_bytes == 1, "{name}");
            let (found, again) = gathered(&model, &texts, &tight).unwrap();
            assert!(found == expected, "{name}: {tight:?}");
            assert_eq!(again.importance.sums(90).unwrap(), summary.importance.sums(90).unwrap());
        }
        // Matrices that do not fit at all are named.
        let narrow = Options { widest_bytes: gram_bytes - 1, ..options() };
        let (found, summary) = gathered(&model, &texts, &narrow).unwrap();
        assert!(!summary.too_wide.is_empty());
        assert_eq!(found.len() + summary.too_wide.len(), expected.len());
    }
}

/// The files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|it| (it.file_name().into_string().unwrap(), fs::read(it.path()).unwrap())).collect()
}

/// A run with a cache.
fn cached(
    model: &Model,
    texts: &Texts,
    folder: &Path,
    at_most: Option<usize>,
) -> Result<(Vec<Input>, Summary), Error> {
    let plan = Plan::new(model, texts, &options())?;
    let mut cache = MomentsCache::open(folder, model, texts, &options(), &plan)?;
    let mut kept = Kept { at_most, ..Kept::default() };
    let summary = gather(model, texts, &options(), &plan, Some(&mut cache), &mut kept)?;
    Ok((kept.sorted(), summary))
}

#[test]
fn run_resumes_after_existing_steps() {
    for name in ["gemma3n", "qwen2moe"] {
        let (sandbox, model) = converted(name, 2);
        let texts = Texts::from_chunks(windows(&model, 7, 9, 20));
        let (expected, summary) = gathered(&model, &texts, &options()).unwrap();
        let whole = sandbox.path("whole");
        let (found, _) = cached(&model, &texts, &whole, None).unwrap();
        assert!(found == expected, "{name}");
        // Stopped after the second step: two files, to which the next run adds the rest.
        let folder = sandbox.path("stopped");
        assert!(matches!(cached(&model, &texts, &folder, Some(2)), Err(Error::Interrupted)));
        assert_eq!(files(&folder).len(), 2);
        let (found, again) = cached(&model, &texts, &folder, None).unwrap();
        assert!(found == expected, "{name}");
        assert_eq!(again.importance.sums(20).unwrap(), summary.importance.sums(20).unwrap());
        assert_eq!(
            (&again.few, &again.unreached, &again.dead),
            (&summary.few, &summary.unreached, &summary.dead)
        );
        assert!(files(&folder) == files(&whole), "{name}");
        // One step is made anew; where all are there, nothing runs.
        fs::remove_file(folder.join("step-00001.gguf")).unwrap();
        cached(&model, &texts, &folder, None).unwrap();
        assert!(files(&folder) == files(&whole), "{name}");
        assert!(cached(&model, &texts, &folder, Some(0)).is_ok());

        // Every matrix by its name.
        let cache = MomentsCache::read(&folder).unwrap();
        assert_eq!(cache.importance().unwrap().sums(20).unwrap(), summary.importance.sums(20).unwrap());
        for input in &expected {
            for (tensor, part) in &input.of {
                let (fit, held) = cache.gram(tensor, index(*part)).unwrap().unwrap();
                assert!(fit == input.fit && held == input.held, "{name}: {tensor} {part:?}");
            }
        }
        assert_eq!(cache.gram("blk.0.nothing.weight", None).unwrap(), None);
    }
}

#[test]
fn halves_add_up_to_whole() {
    let (sandbox, model) = converted("qwen2moe", 2);
    let all = windows(&model, 13, 16, 10);
    let (first, second) = (Texts::from_chunks(all[..8].to_vec()), Texts::from_chunks(all[8..].to_vec()));
    let both = Texts::joined([first.clone(), second.clone()]);
    let path = |name: &str| sandbox.path(name);
    let (a, _) = cached(&model, &first, &path("a"), None).unwrap();
    let (b, _) = cached(&model, &second, &path("b"), None).unwrap();
    let (_, whole) = gathered(&model, &both, &options()).unwrap();
    let merged = MomentsCache::merge(&[&path("a"), &path("b")], &path("both")).unwrap();
    assert_eq!(merged.importance().unwrap().sums(10).unwrap(), whole.importance.sums(10).unwrap());
    for (mut a, b) in a.into_iter().zip(b) {
        assert_eq!(a.of, b.of);
        assert!(a.fit.add(&b.fit) && a.held.add(&b.held));
        let (tensor, part) = &a.of[0];
        let found = merged.gram(tensor, index(*part)).unwrap().unwrap();
        assert!(found == (a.fit, a.held), "{tensor} {part:?}");
    }
    // Opened this way, they equal those of a run over both texts.
    let plan = Plan::new(&model, &both, &options()).unwrap();
    MomentsCache::open(&path("both"), &model, &both, &options(), &plan).unwrap();

    let refused = |folders: &[&Path], output: &str| {
        MomentsCache::merge(folders, &path(output)).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(&[&path("a"), &path("a")], "twice").contains("duplicate text"));
    assert!(refused(&[&path("a"), &path("b")], "both").contains("already"));
    fs::remove_file(path("b").join("step-00000.gguf")).unwrap();
    assert!(refused(&[&path("a"), &path("b")], "lacking").contains("missing steps"));
}

#[test]
fn foreign_statistics_are_refused_by_name() {
    let (sandbox, model) = converted("llama", 1);
    let texts = Texts::from_chunks(windows(&model, 17, 3, 10));
    let folder = sandbox.path("moments");
    cached(&model, &texts, &folder, None).unwrap();
    let what = |model: &Model, texts: &Texts, options: &Options| {
        let plan = Plan::new(model, texts, options).unwrap();
        match MomentsCache::open(&folder, model, texts, options, &plan) {
            Err(Error::OtherMoments { quantity, .. }) => quantity,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let (_other_sandbox, other) = converted("qwen2", 1);
    assert_eq!(what(&other, &texts, &options()), "model");
    assert_eq!(what(&model, &Texts::from_chunks(windows(&model, 18, 3, 10)), &options()), "text");
    let held = Options { held_every: 4, ..options() };
    assert_eq!(what(&model, &texts, &held), "share of held-out chunks");
    assert_eq!(
        what(&model, &texts, &Options { with_output: true, ..options() }),
        "treatment of the output matrix"
    );

    // The same but for its first weight.
    let mut bytes = sandbox.read("x.gguf");
    let first = model.file().first().data_offset() as usize;
    bytes[first] ^= 1;
    sandbox.write("y.gguf", &bytes);
    assert_eq!(what(&open(&sandbox.path("y.gguf"), 1), &texts, &options()), "model");
}

#[test]
fn damaged_statistics_are_errors() {
    let (sandbox, model) = converted("qwen2moe", 1);
    let texts = Texts::from_chunks(windows(&model, 17, 3, 10));
    let folder = sandbox.path("moments");
    cached(&model, &texts, &folder, None).unwrap();
    let path = folder.join("step-00001.gguf");
    let whole = fs::read(&path).unwrap();
    let n_header = gguf_container::File::parse(whole.clone()).unwrap().data_offset() as usize;
    let read = |bytes: &[u8]| -> Result<(), Error> {
        // Written as a new file: a mapped file must not change.
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let cache = MomentsCache::read(&folder)?;
        cache.importance()?;
        for layer in 0..3 {
            for expert in 0..4 {
                cache.gram(&format!("blk.{layer}.ffn_down_exps.weight"), Some(expert))?;
            }
        }
        Ok(())
    };
    assert!(read(&whole).is_ok());
    for end in [0, 10, n_header / 2, n_header, whole.len() / 2, whole.len() - 64] {
        assert!(read(&whole[..end]).is_err(), "{end}");
    }
    // Header and lists changed at will: an error or other statistics, never a panic.
    gguf_testkit::mutants(60, |draw| {
        let mut bytes = whole[..n_header].to_vec();
        gguf_testkit::mutate(&mut bytes, draw);
        bytes.extend(&whole[n_header..]);
        read(&bytes).is_ok()
    });
    // A sum that is NaN.
    let mut bytes = whole.clone();
    let tensor = gguf_container::File::parse(whole.clone()).unwrap();
    let fit = tensor.tensor("fit.0").unwrap();
    let start = tensor.range(fit).unwrap().start;
    bytes[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    let cache = MomentsCache::read(&folder).unwrap();
    let tensors: Vec<String> = model.file().tensors().map(|(_, info)| info.name.clone()).collect();
    let broken =
        tensors.iter().filter(|name| matches!(cache.gram(name, None), Err(Error::BrokenMoments { .. })));
    assert!(broken.count() >= 1);
}

#[test]
fn nan_is_named_with_its_token() {
    let (sandbox, model) = converted("llama", 1);
    let windows = vec![vec![1, 2, 3, 4], vec![5, 6, 7, 8, 9], vec![1, 7, 1]];
    let (start, row_bytes) = {
        let (file, info) = model.file().tensor("token_embd.weight").unwrap();
        (file.range(info).unwrap().start, info.shape.row_elems() as usize * 4)
    };
    drop(model);
    let mut bytes = sandbox.read("x.gguf");
    // The embedding of token 7, in column 5.
    let at = start + 7 * row_bytes + 5 * 4;
    bytes[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    sandbox.write("y.gguf", &bytes);
    let model = open(&sandbox.path("y.gguf"), 1);
    let error = gathered(&model, &Texts::from_chunks(windows), &options()).unwrap_err();
    let Error::NotFiniteInput { tensor, chunk: window, token, .. } = error else { panic!("{error}") };
    assert_eq!((tensor.as_str(), window, token), ("blk.0.attn_q.weight", 2, 3));
}

#[test]
fn short_texts_and_unused_experts_are_reported() {
    let (_sandbox, model) = converted("qwen2moe", 1);
    let texts = Texts::from_chunks(windows(&model, 19, 2, 4));
    let refused = gathered(&model, &texts, &Options::default());
    assert!(matches!(refused, Err(Error::TooFewTokens { found: 4, .. })), "{:?}", refused.map(|_| ()));
    let (inputs, summary) = gathered(&model, &texts, &options()).unwrap();
    // Four tokens reach no more experts than four times as many as each is sent to.
    let is_expert = |of: &[(String, Part)]| matches!(of[0].1, Part::Expert { .. });
    assert!(summary.few.iter().any(|(of, n)| !is_expert(of) && *n < 1.0));
    assert!(summary.unreached.iter().all(|of| is_expert(of)));
    let without = inputs.iter().filter(|input| input.fit.n_tokens() == 0).count();
    assert_eq!(summary.unreached.len(), without);
    assert!(matches!(
        gathered(&model, &Texts::from_chunks(Vec::new()), &options()),
        Err(Error::TooFewTokens { found: 0, needed: 1, .. })
    ));
}

#[test]
fn chats_are_rendered_by_template() {
    let (_sandbox, model) = converted("llama", 1);
    let lines = concat!(
        r#"{"messages": [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Good day"}]}"#,
        "\n\n",
        r#"{"messages": [{"role": "user", "content": "Bye"}], "id": 7}"#,
        "\n"
    );
    let texts = Texts::from_chats(&model, lines.as_bytes(), 8).unwrap();
    assert!(texts.chunks().len() > 2 && texts.chunks().iter().all(|window| window.len() <= 8));
    let tokenizer = model.tokenizer();
    let bos = tokenizer.bos().unwrap();
    assert!(tokenizer.adds_bos() && texts.chunks().iter().all(|window| window[0] == bos));
    let text: Vec<u8> =
        texts.chunks().iter().flat_map(|window| tokenizer.decode(&window[1..]).unwrap()).collect();
    // Each begins a new chunk, and no turn starts after the last.
    assert_eq!(String::from_utf8(text).unwrap(), "[user] Hello there\n[assistant] Good day\n[user] Bye\n");
    let wrong = |line: &str| match Texts::from_chats(&model, line.as_bytes(), 8) {
        Err(Error::Chat { line, problem }) => (line, problem),
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong("\n{").0, 2);
    assert!(wrong("{\"prompt\": \"x\"}").1.contains("missing `messages`"));
    assert!(wrong("{\"messages\": [{\"role\": \"user\"}]}").1.contains("missing `content`"));
    let (_other, without) = converted("bert", 1);
    let absent = Texts::from_chats(&without, lines.as_bytes(), 8).unwrap_err();
    assert_eq!(absent.to_string(), "line 1: missing metadata key `tokenizer.chat_template`");
}
