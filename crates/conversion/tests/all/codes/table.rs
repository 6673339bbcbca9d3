//! ggml types that can represent the values of each form: every row of the table of lossless repacks.

use gguf_types::DType;

use super::{
    check_repack,
    module::{COLUMNS, Module, Zeros},
    values,
};

/// Codes with integer zeros: the types that can represent them, smallest first.
#[test]
fn repack_types_of_integer_zeros() {
    use DType::{Q2_0, Q4_0, Q4_K, Q5_0, Q8_0, TQ1_0, TQ2_0};
    let any = |bits, group| Module { bits, group, zeros: Zeros::Any, largest: 255 };
    let middle = |bits, group| Module { zeros: Zeros::None, ..any(bits, group) };
    let one = |bits, group| Module { zeros: Zeros::One, ..any(bits, group) };
    let cases: &[(Module, &[DType])] = &[
        (middle(4, 32), &[Q4_0, Q5_0, Q8_0]),
        (middle(4, 128), &[Q4_0, Q5_0, Q8_0]),
        (any(4, 128), &[Q5_0, Q8_0]),
        (any(4, 256), &[Q4_K, Q5_0, Q8_0]),
        (any(4, COLUMNS), &[Q4_K, Q5_0, Q8_0]),
        (any(3, 64), &[Q4_0, Q5_0, Q8_0]),
        (middle(3, 32), &[Q4_0, Q5_0, Q8_0]),
        (any(2, 32), &[Q4_0, Q5_0, Q8_0]),
        (middle(2, 64), &[Q2_0, Q4_0, Q5_0, Q8_0]),
        (middle(2, 32), &[Q4_0, Q5_0, Q8_0]),
        (one(2, 128), &[Q2_0, Q4_0, Q5_0, Q8_0]),
        (one(2, COLUMNS), &[Q2_0, Q4_0, Q4_K, Q5_0, Q8_0]),
        (Module { largest: 2, ..one(2, COLUMNS) }, &[TQ1_0, TQ2_0, Q2_0, Q4_0, Q4_K, Q5_0, Q8_0]),
        (middle(5, 32), &[Q5_0, Q8_0]),
        (any(5, 32), &[Q8_0]),
        (any(6, 32), &[Q8_0]),
        (any(7, 32), &[Q8_0]),
        (middle(8, 32), &[Q8_0]),
        (any(8, 32), &[]),
        (Module { largest: 90, ..one(8, 32) }, &[Q8_0]),
        (middle(4, 16), &[]),
        (Module { zeros: Zeros::Middle, ..any(4, 64) }, &[Q4_0, Q5_0, Q8_0]),
    ];
    for (module, expected) in cases {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut checkpoints = vec![module.packed(folders[0].path())];
        // GPTQ stores other widths as planes.
        if [2, 3, 4, 8].contains(&module.bits) {
            checkpoints.push(module.gptq(folders[1].path()));
        }
        for checkpoint in checkpoints {
            let found = check_repack(&checkpoint, checkpoint.tensor("a.weight").unwrap());
            assert_eq!(found.clone().unwrap_or_default(), *expected, "{module:?}: {found:?}");
        }
    }
}

/// A GPTQ zero that is one more than the largest code.
#[test]
fn gptq_zero_of_16_is_repacked() {
    use DType::{Q4_K, Q5_0, Q8_0};
    let folder = tempfile::tempdir().unwrap();
    for (group, expected) in [(128, vec![Q5_0, Q8_0]), (256, vec![Q4_K, Q5_0, Q8_0])] {
        let module = Module { bits: 4, group, zeros: Zeros::Any, largest: 255 };
        module.gptq(folder.path());
        let open =
            |unmasked| gguf_checkpoint::open(crate::folder(folder.path()).unmasked_zeros(unmasked)).unwrap();
        let [masked, unmasked] = [false, true].map(|unmasked| {
            let checkpoint = open(unmasked);
            let tensor = checkpoint.tensor("a.weight").unwrap();
            assert_eq!(check_repack(&checkpoint, tensor).unwrap(), expected);
            values(&checkpoint, tensor)
        });
        assert_ne!(masked, unmasked, "some zero is 16");
    }
}

/// Goldens of other programs, by the rows of the table: the types that can represent a tensor, or the
/// beginning of the reason why no type can.
const GOLDENS: &[(&str, &str, &str)] = &[
    // MLX 4 bit affine: Q4_1; 5 bit: Q5_1; 2 and 3 bit: Q4_1; 6 and 8 bit: no type. Groups of 128 there have
    // scales of f32.
    ("dialects/mlx-affine", "b2.g32.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b2.g64.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b3.g32.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b3.g64.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b4.g32.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b4.g64.weight", "q4_1 q5_1"),
    ("dialects/mlx-affine", "b5.g32.weight", "q5_1"),
    ("dialects/mlx-affine", "b5.g64.weight", "q5_1"),
    ("dialects/mlx-affine", "b6.g32.weight", "no: no ggml type can hold codes of 6 bits with an offset"),
    ("dialects/mlx-affine", "b6.g64.weight", "no: no ggml type can hold codes of 6 bits with an offset"),
    ("dialects/mlx-affine", "b8.g32.weight", "no: no ggml type can hold codes of 8 bits with an offset"),
    ("dialects/mlx-affine", "b8.g64.weight", "no: no ggml type can hold codes of 8 bits with an offset"),
    ("dialects/mlx-affine", "b4.g128.weight", "no: scale "),
    ("dialects/mlx-affine", "small.weight", "no: scale "),
    ("dialects/mlx-affine", "switch_mlp.up_proj.weight", "q4_1 q5_1"),
    ("dialects/mlx-metal", "a.weight", "q4_1 q5_1"),
    ("dialects/mlx-llama", "lm_head.weight", "q4_1 q5_1"),
    (
        "dialects/mlx-llama",
        "model.layers.0.mlp.down_proj.weight",
        "no: no ggml type can hold codes of 6 bits with an offset",
    ),
    ("dialects/mlx-llama", "model.layers.0.mlp.gate_proj.weight", "q4_1 q5_1"),
    // 4 bit, zero 8: Q4_0. Integers of Gemma, Quark, ModelOpt, torchao, compressed-tensors.
    ("dialects/gemma-ints", "layers.0.self_attn.q_proj.weight", "q4_0 q5_0 q8_0"),
    ("dialects/gemma-ints", "layers.1.self_attn.k_proj.weight", "no: scale "),
    ("dialects/quark-int4", "a.weight", "q4_0 q5_0 q8_0"),
    ("dialects/quark-int4-before1", "b.weight", "q4_0 q5_0 q8_0"),
    ("dialects/modelopt-awq", "b.weight", "q4_0 q5_0 q8_0"),
    ("dialects/torchao-int8", "intx.4.weight", "q4_0 q5_0 q8_0"),
    ("codes/packed", "m.b4-group.weight", "q4_0 q5_0 q8_0"),
    ("codes/packed", "m.b4-tensor.weight", "q4_0 q5_0 q8_0"),
    // 4 bit, any zero: Q5_0. AWQ, GPTQ, AutoRound, Quark, torchao.
    ("codes/awq", "m.g32.weight", "q5_0 q8_0"),
    ("codes/awq", "m.g80.weight", "no: groups of 80 in rows of 160 are not whole blocks of 32"),
    ("codes/awq", "m.g160.weight", "q5_0 q8_0"),
    ("codes/awq-gemv", "m.g32.weight", "q5_0 q8_0"),
    ("codes/awq-act", "h.0.mlp.fc_in.weight", "q5_0 q8_0"),
    ("codes/gptq", "m.b4-g32.weight", "q5_0 q8_0"),
    ("codes/gptq", "m.b4-g160.weight", "q5_0 q8_0"),
    ("codes/auto-round", "m.b4.weight", "q5_0 q8_0"),
    ("codes/auto-round-awq", "m.g32.weight", "q5_0 q8_0"),
    ("codes/auto-round-gptq", "m.b4.weight", "q5_0 q8_0"),
    ("dialects/quark-uint4", "a.weight", "q5_0 q8_0"),
    ("dialects/quark-uint4-order", "b.weight", "q5_0 q8_0"),
    ("dialects/torchao-int4", "int32.weight", "q5_0 q8_0"),
    ("dialects/torchao-int8", "intx.asymmetric4.weight", "q5_0 q8_0"),
    // 2 and 3 bit, any zero: Q4_0; 2 bit, zero 2: Q2_0.
    ("codes/gptq", "m.b3-g32.weight", "q4_0 q5_0 q8_0"),
    ("codes/gptq", "m.b2-g32.weight", "q4_0 q5_0 q8_0"),
    ("codes/auto-round", "m.b2.weight", "q4_0 q5_0 q8_0"),
    ("dialects/gemma-ints", "layers.0.self_attn.k_proj.weight", "q2_0 q4_0 q5_0 q8_0"),
    ("dialects/torchao-int8", "intx.2.weight", "q4_0 q5_0 q8_0"),
    ("dialects/torchao-int8", "intx.3.weight", "q4_0 q5_0 q8_0"),
    // 5 bit, zero 16: Q5_0; 5 bit, 6 and 7 bit, any zero: Q8_0; 8 bit: Q8_0 if the values are signed bytes.
    ("dialects/torchao-int8", "intx.5.weight", "q5_0 q8_0"),
    ("codes/auto-round", "m.b5.weight", "q8_0"),
    ("codes/gptq-planes", "m.b5.weight", "q8_0"),
    ("dialects/torchao-int8", "intx.6.weight", "q8_0"),
    ("codes/gptq-planes", "m.b7.weight", "q8_0"),
    ("codes/packed", "m.b7-group.weight", "q8_0"),
    ("dialects/torchao-int8", "int8.f16.weight", "q8_0"),
    ("dialects/torchao-int8", "intx.8.weight", "q8_0"),
    ("dialects/torchao-int8", "intx.asymmetric8.weight", "no: codes minus zero points range from"),
    ("codes/gptq", "m.b8-g32.weight", "no: codes minus zero points range from"),
    // BitNet: ternary types if the scale fits f16, which is rare for one that was a divisor.
    ("dialects/bitnet-offline", "a.weight", "tq1_0 tq2_0 q2_0 q4_0 q4_K q5_0 q8_0"),
    ("dialects/bitnet-offline", "b.weight", "q4_0 q5_0 q8_0"),
    ("dialects/bitnet-offline", "c.weight", "no: scale "),
    ("dialects/bitnet-bitlinear", "a.weight", "no: scale "),
    ("dialects/bitnet-bitlinear", "b.weight", "q4_0 q5_0 q8_0"),
    // MXFP4 in every spelling: MXFP4. NVFP4 has a separate scale and is always kept.
    ("dialects/fp4-compressed-mxfp4", "layers.0.q_proj.weight", "mxfp4"),
    ("dialects/fp4-compressed-mxfp4", "layers.1.q_proj.weight", "mxfp4"),
    ("dialects/fp4-gpt-oss", "model.layers.0.mlp.experts.down_proj_blocks", "mxfp4"),
    ("dialects/fp4-gpt-oss", "model.layers.0.mlp.experts.gate_up_proj_blocks", "mxfp4"),
    ("dialects/fp4-mimo", "layers.0.ffn.experts.0.w1.weight", "mxfp4"),
    ("dialects/fp4-quark", "layers.0.ffn.experts.0.w1.weight", "mxfp4"),
    ("dialects/fp4-deepseek", "layers.0.ffn.experts.0.w1.weight", "mxfp4"),
    (
        "dialects/fp4-compressed-nvfp4",
        "layers.0.q_proj.weight",
        "no: the tensor has a scale in addition to its block scales",
    ),
    ("dialects/fp4-compressed-mxfp6", "layers.0.q_proj.weight", "no: no ggml type has such codes"),
    // No type: float offsets (HQQ, quanto, tinygemm), float tables, 8-bit floats, scales of f32.
    ("dialects/hqq-forms", "b8.axis1.weight", "no: no ggml type can hold such values"),
    ("dialects/hqq-forms", "b4.axis0.weight", "no: no ggml type can hold such values"),
    ("dialects/hqq-forms", "b4.axis1.weight", "no: no ggml type can hold such values"),
    ("dialects/quanto-packed", "b4.self_attn.q_proj.weight", "no: no ggml type can hold such values"),
    ("dialects/quanto-int8", "a.weight", "no: no ggml type can hold such values"),
    ("dialects/torchao-int4", "plain.weight", "no: there are zero points and offsets"),
    ("dialects/torchao-int4", "tiled.weight", "no: no ggml type can hold such values"),
    ("dialects/bnb-4bit", "nf4.nested.weight", "no: no ggml type can hold such values"),
    ("dialects/bnb-4bit", "fp4.plain.weight", "no: no ggml type can hold such values"),
    ("dialects/bnb-8bit", "a.weight", "no: no ggml type can hold such values"),
    ("dialects/fp8-compressed-tensor", "layers.0.q_proj.weight", "no: no ggml type can hold such values"),
    ("dialects/torchao-int8", "float8.weight", "no: no ggml type can hold such values"),
    ("dialects/quark-int8", "a.weight", "no: scale "),
    ("dialects/modelopt-int8", "b.weight", "no: scale "),
    ("codes/int-quantized", "m.channel-zeros.weight", "no: scale "),
    // No type: groups out of order, and factors of columns.
    ("codes/gptq", "m.b4-g32-order.weight", "no: the columns are not in group order (act-order)"),
    ("codes/gptq-planes", "m.b6.weight", "no: the columns are not in group order (act-order)"),
    ("codes/awq-act", "h.0.mlp.fc_out.weight", "no: it has per-column factors"),
    ("dialects/modelopt-awq", "a.weight", "no: it has per-column factors"),
    ("dialects/torchao-int4", "scaled.weight", "no: it has per-column factors"),
    ("dialects/fp4-modelopt", "layers.0.q_proj.weight", "no: it has per-column factors"),
];

#[test]
fn repack_types_of_golden_tensors() {
    let mut wrong = String::new();
    for (golden, name, expected) in GOLDENS {
        let checkpoint =
            gguf_checkpoint::open(crate::folder(gguf_testkit::golden_path(golden).as_path())).unwrap();
        let Some(tensor) = checkpoint.tensor(name) else {
            wrong += &format!("{golden}: no {name}\n");
            continue;
        };
        let found = match check_repack(&checkpoint, tensor) {
            Ok(types) => types.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" "),
            Err(why) => format!("no: {why}"),
        };
        if !(found == *expected || expected.starts_with("no: ") && found.starts_with(expected)) {
            wrong += &format!("{golden}: {name}: {found}, not {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
