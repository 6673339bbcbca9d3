//! Checkpoints in NVFP4 and MXFP4, and files with scales next to their blocks.

use std::{fs, path::Path};

use gguf_container::{DEFAULT_ALIGNMENT, Endian, File, Plan};
use gguf_types::{DType, Shape};

use crate::common::{Sandbox, succeed, words};

/// Converting directly gives the same file as converting to bf16, which keeps the blocks, and requantizing it.
fn assert_direct_equals_requantized(sandbox: &Sandbox, name: &str, types: &[&str]) {
    succeed(sandbox.convert(&[name, "two.gguf", "-t", "bf16", "-q"]));
    for kind in types {
        succeed(sandbox.convert(&[name, "one.gguf", "-t", kind, "-q", "--force", "--dry-run"]));
        succeed(sandbox.convert(&[name, "one.gguf", "-t", kind, "-q", "--force"]));
        let two = ["two.gguf", "two-q.gguf", kind, "--allow-requantize", "-q", "--force"];
        succeed(sandbox.quantize(&two));
        let [one, two] = ["one.gguf", "two-q.gguf"].map(|file| sandbox.read(file));
        assert!(one == two, "{name} {kind}");
        succeed(sandbox.inspect(&["verify", "one.gguf", "-q"]));
    }
}

#[test]
fn nvfp4_becomes_every_type_in_one_step() {
    let types = ["q8_0", "q4_k_m", "q4_0", "iq4_nl", "q5_1", "mxfp4_moe"];
    for name in ["nvfp4-compressed", "nvfp4-modelopt", "nvfp4-modelopt-experts"] {
        assert_direct_equals_requantized(&Sandbox::with_form(name), name, &types);
    }
}

#[test]
fn mxfp4_experts_become_every_type_in_one_step() {
    assert_direct_equals_requantized(
        &Sandbox::with_golden("gpt-oss-mxfp4"),
        "gpt-oss-mxfp4",
        &["q8_0", "q4_k_m", "q4_0"],
    );
}

#[test]
fn nvfp4_file_is_verified_and_runs() {
    for name in ["nvfp4-compressed", "nvfp4-modelopt-experts"] {
        let sandbox = Sandbox::with_form(name);
        sandbox.add_text();
        succeed(sandbox.convert(&[name, "m.gguf", "-t", "bf16", "-q"]));
        let file = File::open(&sandbox.path("m.gguf")).unwrap();
        assert!(file.tensors().iter().any(|tensor| tensor.name.ends_with(".scale")), "{name} has scales");
        succeed(sandbox.inspect(&["verify", "m.gguf", "-q"]));
        succeed(sandbox.eval(&words("imatrix m.gguf --text text -o i.gguf --context 64 --chunks 1 -q")));
    }
}

/// Copies the file at `from`, with matrices of `parts` divided by the power of two `scale` and the scale next to them.
fn with_scales(from: &Path, to: &Path, parts: &[&str], scale: f32) {
    let file = File::open(from).unwrap();
    let mut tensors: Vec<(String, Shape, Vec<u8>)> = Vec::new();
    for info in file.tensors() {
        assert_eq!(info.dtype, DType::F32);
        let mut bytes = file.data(info).unwrap().to_vec();
        let is_part = parts.iter().any(|part| info.name.ends_with(&format!("{part}.weight")));
        if is_part {
            for value in bytes.chunks_exact_mut(4) {
                let own = f32::from_le_bytes(value.try_into().unwrap());
                value.copy_from_slice(&(own / scale).to_le_bytes());
            }
            let n = if info.shape.n_dims() > 2 { info.shape.dim(2) } else { 1 };
            let name = info.name.replace(".weight", ".scale");
            let scales = scale.to_le_bytes().repeat(n as usize);
            tensors.push((name, Shape::new(&[n]).unwrap(), scales));
        }
        tensors.push((info.name.clone(), info.shape, bytes));
    }
    let listed = tensors.iter().map(|(name, shape, _)| (name.clone(), *shape, DType::F32)).collect();
    let plan = Plan::new(file.metadata(), listed, Endian::Little, DEFAULT_ALIGNMENT).unwrap();
    let data: Vec<&[u8]> = tensors.iter().map(|(_, _, bytes)| bytes.as_slice()).collect();
    fs::write(to, plan.to_bytes(&data).unwrap()).unwrap();
}

#[test]
fn scale_next_to_a_matrix_multiplies_its_products() {
    let all = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"];
    let experts = ["attn_q", "attn_output", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    for (name, parts) in [("llama", &all[..]), ("mixtral", &experts)] {
        let sandbox = Sandbox::with_golden(name);
        sandbox.add_text();
        succeed(sandbox.convert(&[name, "plain.gguf", "-t", "f32", "-q"]));
        with_scales(&sandbox.path("plain.gguf"), &sandbox.path("scaled.gguf"), parts, 4.0);
        succeed(sandbox.inspect(&["verify", "scaled.gguf", "-q"]));
        let perplexity = |file: &str| {
            let args = ["perplexity", file, "--text", "text", "--context", "64", "--chunks", "2", "-q"];
            succeed(sandbox.eval(&args)).stdout
        };
        // Powers of two do not round.
        assert_eq!(perplexity("scaled.gguf"), perplexity("plain.gguf"), "{name}");
    }
}
