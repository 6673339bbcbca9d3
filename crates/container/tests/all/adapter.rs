//! Valid adapter files, and files that are refused.

use std::fs;

use gguf_container::{Adapter, DEFAULT_ALIGNMENT, Endian, Error, Metadata, Model, Plan};
use gguf_types::{DType, Shape};
use tempfile::tempdir;

type Tensor = (&'static str, Vec<u64>);

fn file(metadata: &Metadata, tensors: &[Tensor]) -> Vec<u8> {
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    let planned = tensors.iter().map(|(name, dims)| ((*name).to_owned(), shape(dims), DType::F32)).collect();
    let plan = Plan::new(metadata, planned, Endian::Little, DEFAULT_ALIGNMENT).unwrap();
    let data: Vec<Vec<u8>> =
        tensors.iter().map(|(_, dims)| vec![0; 4 * dims.iter().product::<u64>() as usize]).collect();
    plan.to_bytes(&data).unwrap()
}

fn metadata() -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in
        [("general.type", "adapter"), ("general.architecture", "llama"), ("adapter.type", "lora")]
    {
        metadata.set(key, value);
    }
    metadata.set("adapter.lora.alpha", 6.0f32);
    metadata
}

/// Pairs for a matrix of 5 rows of 8 and an embedding of 7 tokens, and a norm.
fn pairs() -> Vec<Tensor> {
    vec![
        ("blk.0.ffn_up.weight.lora_a", vec![8, 3]),
        ("blk.0.ffn_up.weight.lora_b", vec![3, 5]),
        ("token_embd.weight.lora_a", vec![2, 7]),
        ("token_embd.weight.lora_b", vec![2, 8]),
        ("blk.0.attn_norm.weight", vec![8]),
    ]
}

fn base() -> Vec<Tensor> {
    vec![
        ("blk.0.ffn_up.weight", vec![8, 5]),
        ("token_embd.weight", vec![8, 7]),
        ("blk.0.attn_norm.weight", vec![8]),
    ]
}

fn open(metadata: &Metadata, pairs: &[Tensor], base: &[Tensor]) -> Result<Adapter, Error> {
    let folder = tempdir().unwrap();
    let [adapter, model] = ["adapter.gguf", "model.gguf"].map(|name| folder.path().join(name));
    fs::write(&adapter, file(metadata, pairs)).unwrap();
    let mut of_model = Metadata::new();
    of_model.set("general.architecture", "llama");
    fs::write(&model, file(&of_model, base)).unwrap();
    let adapter = Adapter::open(&adapter)?;
    adapter.check(&Model::open(&model)?)?;
    Ok(adapter)
}

#[test]
fn pairs_have_scale_and_rank() {
    let adapter = open(&metadata(), &pairs(), &base()).unwrap();
    assert_eq!(adapter.targets().collect::<Vec<_>>(), ["blk.0.ffn_up.weight", "token_embd.weight"]);
    assert_eq!(adapter.norms(), ["blk.0.attn_norm.weight"]);
    let pair = |name: &str, dims: &[u64]| adapter.pair(name, Shape::new(dims).unwrap());
    let up = pair("blk.0.ffn_up.weight", &[8, 5]).unwrap().unwrap();
    assert_eq!((up.rank, up.scale, up.is_embedding), (3, 2.0, false));
    let embedding = pair("token_embd.weight", &[8, 7]).unwrap().unwrap();
    assert_eq!((embedding.rank, embedding.scale, embedding.is_embedding), (2, 3.0, true));
    assert!(pair("blk.0.ffn_down.weight", &[5, 8]).unwrap().is_none());
    assert!(matches!(pair("blk.0.ffn_up.weight", &[8, 6]), Err(Error::AdapterShape { .. })));
    assert!(matches!(pair("blk.0.ffn_up.weight", &[8, 5, 2]), Err(Error::AdapterShape { .. })));
    // Without an alpha, the scale does not depend on the rank.
    let mut without = metadata();
    without.remove("adapter.lora.alpha");
    let adapter = open(&without, &pairs(), &base()).unwrap();
    let shape = Shape::new(&[8, 5]).unwrap();
    assert_eq!(adapter.pair("blk.0.ffn_up.weight", shape).unwrap().unwrap().scale, 1.0);
}

#[test]
fn stack_has_a_pair_for_each_matrix() {
    let of_stack = vec![
        ("blk.0.ffn_up_exps.weight.lora_a", vec![8, 3, 4]),
        ("blk.0.ffn_up_exps.weight.lora_b", vec![3, 5, 4]),
    ];
    let stack = vec![("blk.0.ffn_up_exps.weight", vec![8, 5, 4])];
    open(&metadata(), &of_stack, &stack).unwrap();
    let other = vec![("blk.0.ffn_up_exps.weight", vec![8, 5, 3])];
    assert!(matches!(open(&metadata(), &of_stack, &other), Err(Error::AdapterShape { .. })));
}

#[test]
fn invalid_adapters_are_refused() {
    let with = |key: &str, value: gguf_container::Value| {
        let mut metadata = metadata();
        metadata.set(key, value);
        open(&metadata, &pairs(), &base()).map(drop)
    };
    for (key, value) in [
        ("general.type", "model".into()),
        ("adapter.type", "other".into()),
        ("adapter.alora.invocation_tokens", vec![1u32].into()),
        ("adapter.lora.alpha", f32::NAN.into()),
    ] {
        let found = with(key, value);
        assert!(
            matches!(&found, Err(Error::NotAnAdapter { key: found, .. }) if *found == key),
            "{key}: {found:?}"
        );
    }
    let found = with("general.architecture", "gpt2".into());
    assert!(matches!(&found, Err(Error::AdapterArchitecture { .. })), "{found:?}");
    let replaced = |at: usize, tensor: Tensor| {
        let mut pairs = pairs();
        pairs[at] = tensor;
        open(&metadata(), &pairs, &base()).map(drop)
    };
    for (at, tensor) in [
        (0, ("blk.0.ffn_up.weight.lora_a", vec![8, 2])),
        (0, ("blk.0.ffn_up.weight.lora_c", vec![8, 3])),
        (1, ("blk.1.ffn_up.weight.lora_b", vec![3, 5])),
        (2, ("token_embd.weight.lora_a", vec![7, 2])),
    ] {
        let found = replaced(at, tensor);
        assert!(matches!(&found, Err(Error::AdapterTensor { .. })), "{found:?}");
    }
    for (at, tensor) in [
        (0, ("blk.0.ffn_up.weight.lora_a", vec![9, 3])),
        (1, ("blk.0.ffn_up.weight.lora_b", vec![3, 6])),
        (2, ("token_embd.weight.lora_a", vec![2, 6])),
        (3, ("token_embd.weight.lora_b", vec![2, 9])),
    ] {
        let found = replaced(at, tensor);
        assert!(matches!(&found, Err(Error::AdapterShape { .. })), "{found:?}");
    }
    let found = open(&metadata(), &pairs(), &base()[1..]).map(drop);
    let expected = "the adapter changes tensors that are not matrices of the model: `blk.0.ffn_up.weight`";
    assert_eq!(found.unwrap_err().to_string(), expected);
}
