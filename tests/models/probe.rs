//! One matrix replaced in a running model, against files that have that matrix.

use std::collections::BTreeMap;

use crate::common::{Sandbox, succeed};
use gguf_refinement::{Error, Prober, Replacement, probe};
use gguf_runtime::{Activations, Model, Options, Sequence, stats::compare_logits};
use gguf_types::DType;

const REPLACED: [&str; 3] = ["token_embd.weight", "blk.1.ffn_up.weight", "output.weight"];

/// The base in a type, and for each of [`REPLACED`] a file with that matrix alone at Q4_0.
fn models(file_type: &str, activations: Activations) -> (Sandbox, Model, Vec<Model>) {
    let sandbox = Sandbox::with_converted("llama", "bf16.gguf", "bf16");
    let made = |more: &[&str]| {
        let args = [&["bf16.gguf", "made.gguf", file_type, "-q", "--force"], more].concat();
        succeed(sandbox.quantize(&args));
        let options = Options { activations, ..Options::new(gguf_models::GRAPHS) };
        Model::open(&sandbox.path("made.gguf"), &options).unwrap()
    };
    let with = |tensor: &&str| made(&["--tensor-type", &format!("^{}$=q4_0", tensor.replace('.', r"\."))]);
    let others = REPLACED.iter().map(with).collect();
    let base = made(&[]);
    (sandbox, base, others)
}

fn windows() -> Vec<Vec<u32>> {
    (0..3).map(|window| (0..40).map(|at| (window * 131 + at * at * 7 + 5) % 384).collect()).collect()
}

/// (positions, n_vocab) of all positions of all windows.
fn logits(model: &Model, windows: &[Vec<u32>]) -> Vec<f32> {
    let sequences: Vec<Sequence<'_>> = windows.iter().map(|tokens| Sequence::new(tokens)).collect();
    let hidden = model.run(&sequences, None).unwrap();
    let mut out = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut out).unwrap();
    out
}

fn replacement(other: &Model, tensor: &str) -> Replacement {
    let (file, info) = other.file().tensor(tensor).unwrap();
    assert_eq!(info.dtype, DType::Q4_0);
    Replacement { dtype: info.dtype, blocks: file.data(info).unwrap().to_vec() }
}

#[test]
fn replaced_matrix_predicts_as_its_file() {
    // Products of floats, of integers, and of floats with rounded activations that become such of integers.
    for (file_type, activations) in
        [("bf16", Activations::F32), ("q8_0", Activations::Rounded), ("bf16", Activations::Rounded)]
    {
        let (_sandbox, base, others) = models(file_type, activations);
        let windows = windows();
        let before = logits(&base, &windows);
        for (tensor, other) in REPLACED.iter().zip(&others) {
            let what = format!("{tensor} of {file_type}, {}", activations.name());
            let Replacement { dtype, blocks } = replacement(other, tensor);
            base.replace(tensor, dtype, blocks.clone()).unwrap();
            let replaced = logits(&base, &windows);
            assert!(replaced != before, "{what}");
            assert!(replaced == logits(other, &windows), "{what}");
            base.restore();
            assert!(logits(&base, &windows) == before, "{what}");

            let error = base.replace(tensor, dtype, blocks[1..].to_vec()).unwrap_err();
            assert!(matches!(error, gguf_runtime::Error::TensorShape { .. }), "{error}");
        }
        let error = base.replace("blk.0.attn_norm.weight", DType::F32, vec![0; 1024]).unwrap_err();
        assert!(matches!(error, gguf_runtime::Error::MissingTensor { .. }), "{error}");
    }
}

struct Files<'a> {
    others: &'a [Model],
    found: BTreeMap<String, f64>,
    reported: Vec<(usize, usize)>,
    most: usize,
}

impl Prober for Files<'_> {
    fn replacement(&mut self, tensor: &str) -> Result<Replacement, Error> {
        let at = REPLACED.iter().position(|it| *it == tensor).unwrap();
        Ok(replacement(&self.others[at], tensor))
    }

    fn found(&mut self, tensors: &[String], cost: f64) -> Result<(), Error> {
        self.found.insert(tensors.join(", "), cost);
        Ok(())
    }

    fn progress(&mut self, done: usize, of: usize) -> bool {
        self.reported.push((done, of));
        done < self.most
    }
}

#[test]
fn probes_match_measured_files() {
    let (_sandbox, base, others) = models("bf16", Activations::F32);
    let mut probes: Vec<Vec<String>> = REPLACED.iter().map(|name| vec![(*name).to_owned()]).collect();
    let together = REPLACED[1..].join(", ");
    probes.push(REPLACED[1..].iter().map(|name| (*name).to_owned()).collect());
    // Chats are windows of any length.
    let uneven =
        [&windows()[0][..], &windows()[1][..1], &windows()[2][..23], &windows()[1]].map(<[u32]>::to_vec);
    for windows in [windows(), uneven.to_vec()] {
        let mut files =
            Files { others: &others, found: BTreeMap::new(), reported: Vec::new(), most: usize::MAX };
        probe(&base, &windows, &probes, &mut files).unwrap();
        assert_eq!(files.reported, [(1, 4), (2, 4), (3, 4), (4, 4)]);
        let n_vocab = base.n_vocab();
        let of_base = logits(&base, &windows);
        // All of every window but its first eighth.
        let places = windows.iter().flat_map(|window| (0..window.len()).map(|at| at >= window.len() / 8));
        let rows: Vec<usize> =
            places.enumerate().filter(|(_, is_compared)| *is_compared).map(|(row, _)| row).collect();
        assert_eq!(files.found.len(), 4);
        let of_all = |at: &[usize]| {
            for (tensor, other) in at.iter().map(|at| (REPLACED[*at], &others[*at])) {
                let Replacement { dtype, blocks } = replacement(other, tensor);
                base.replace(tensor, dtype, blocks).unwrap();
            }
            let found = logits(&base, &windows);
            base.restore();
            found
        };
        let singles = REPLACED.iter().zip(&others).map(|(name, other)| (*name, logits(other, &windows)));
        for (tensor, of_other) in singles.chain([(&together[..], of_all(&[1, 2]))]) {
            let found = files.found[tensor];
            let row = |all: &[f32], row: usize| all[row * n_vocab..(row + 1) * n_vocab].to_vec();
            let kl = |at: &usize| compare_logits(&row(&of_base, *at), &row(&of_other, *at), 0, 1).kl;
            let expected = rows.iter().map(kl).sum::<f64>() / rows.len() as f64;
            assert!(expected > 0.0, "{tensor}");
            assert!((found - expected).abs() < 1e-9 + 1e-4 * expected, "{tensor}: {found}, {expected}");
        }
    }
    let mut stopped = Files { others: &others, found: BTreeMap::new(), reported: Vec::new(), most: 1 };
    let ended = probe(&base, &windows(), &probes, &mut stopped);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert_eq!(stopped.found.len(), 1, "what was found before is told");
    for nothing in [vec![], vec![windows()[0].clone(), vec![]]] {
        let ended = probe(&base, &nothing, &probes, &mut stopped);
        assert!(matches!(ended, Err(Error::NoTokens)), "{ended:?}");
    }
}
