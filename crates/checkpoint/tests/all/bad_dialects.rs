//! Invalid quantized checkpoints: refused with the reason, and never read as something else.

mod edited;
mod floats;
mod ints;

use std::fs;

use edited::{Edited, no_value, read_all, refused};

#[test]
fn rewritten_golden_is_read() {
    let folder = Edited::of("bnb-4bit").folder();
    read_all(&crate::open(folder.path()).unwrap()).unwrap();
}

#[test]
fn invalid_bitsandbytes_floats_are_refused() {
    const STATE: &str = "nf4.nested.weight.quant_state.bitsandbytes__nf4";
    refused("bnb-4bit", |edited| edited.remove(STATE), "tensor `nf4.nested.weight`: U8 codes without scales");
    refused(
        "bnb-4bit",
        |edited| edited.remove("nf4.nested.weight"),
        &format!(
            "tensor `{STATE}`: part of quantized weights whose codes are missing or have the wrong type"
        ),
    );
    refused(
        "bnb-4bit",
        |edited| edited.remove("nf4.nested.weight.absmax"),
        "tensor `nf4.nested.weight`: expected `nf4.nested.weight.absmax`, found no such tensor",
    );
    refused(
        "bnb-4bit",
        |edited| edited.remove("nf4.nested.weight.nested_absmax"),
        "tensor `nf4.nested.weight`: expected `nf4.nested.weight.nested_absmax`, found no such tensor",
    );
    for (from, to, expected) in [
        (r#""blocksize": 64"#, r#""blocksize": 0"#, "STATE`: expected a size at `blocksize`, found 0"),
        (
            r#""blocksize": 64"#,
            r#""blocksize": 32"#,
            "nf4.nested.weight.absmax`: expected 240 elements, found shape [120]",
        ),
        (
            "[48, 160]",
            "[48, 320]",
            "nf4.nested.weight`: expected 7680 bytes for shape [48, 320] of its state, found 3840 bytes",
        ),
        ("[48, 160]", "[48, -160]", "STATE`: expected a list of sizes at `shape`, found [48,-160]"),
        (
            "[48, 160]",
            "[4294967296, 4294967296]",
            "STATE`: expected sizes with a product of 64 bits at `shape`, found [4294967296,4294967296]",
        ),
        (
            "[48, 160]",
            "[0, 160]",
            "STATE`: expected sizes with a product of 64 bits at `shape`, found [0,160]",
        ),
        (
            r#""nf4""#,
            r#""fp4""#,
            "STATE`: expected the type of the tensor's name, nf4 or fp4 at `quant_type`, found \"fp4\"",
        ),
        (
            "0.12862548232078552",
            "NaN",
            "STATE`: expected a number at `nested_offset`, found {\"__float__\":\"NaN\"}",
        ),
    ] {
        let expected = format!("tensor `{}", expected.replace("STATE", STATE));
        refused("bnb-4bit", |edited| edited.respell(STATE, from, to), &expected);
    }
    no_value(
        "bnb-4bit",
        |edited| edited.set_f32("nf4.zeros.weight.absmax", 2, f32::NAN),
        "tensor `nf4.zeros.weight.absmax`: row 2: expected a finite scale, found NaN",
    );
    refused(
        "bnb-4bit",
        |edited| edited.set_f32("nf4.zeros.weight.quant_map", 0, f32::INFINITY),
        "tensor `nf4.zeros.weight.quant_map`: row 0: expected a finite number, found inf",
    );
    // A larger outer block than there are blocks is a short one.
    let mut edited = Edited::of("bnb-4bit");
    edited.respell(STATE, "\"nested_blocksize\": 256", "\"nested_blocksize\": 18446744073709551615");
    read_all(&edited.open().unwrap()).unwrap();
}

#[test]
fn invalid_bitsandbytes_integers_are_refused() {
    refused("bnb-8bit", |edited| edited.remove("a.SCB"), "tensor `a.weight`: I8 codes without scales");
    refused(
        "bnb-8bit",
        |edited| edited.remove("a.weight"),
        "tensor `a.SCB`: part of quantized weights whose codes are missing or have the wrong type",
    );
    refused(
        "bnb-8bit",
        |edited| edited.set("a.weight_format", &[2]),
        "tensor `a.weight_format`: expected 0, codes in rows, found 2",
    );
    refused(
        "bnb-8bit",
        |edited| {
            edited.tensor("a.SCB").bytes.truncate(47 * 4);
            edited.tensor("a.SCB").shape = vec![47];
        },
        "tensor `a.SCB`: expected 48 elements, found shape [47]",
    );
    no_value(
        "bnb-8bit",
        |edited| edited.set_f32("a.SCB", 1, f32::INFINITY),
        "tensor `a.SCB`: row 1: expected a finite scale, found inf",
    );
}

#[test]
fn invalid_hqq_is_refused() {
    refused(
        "hqq-forms",
        |edited| edited.remove("b4.axis1.W_q"),
        "tensor `b4.axis1.axis`: part of quantized weights whose codes are missing or have the wrong type",
    );
    for ending in ["scale", "zero", "shape", "axis", "packing"] {
        let expected = format!("tensor `b4.axis1.W_q`: expected `b4.axis1.{ending}`, found no such tensor");
        refused("hqq-forms", |edited| edited.remove(&format!("b4.axis1.{ending}")), &expected);
    }
    refused(
        "hqq-forms",
        |edited| edited.set("b4.axis1.quant_zero", &[1]),
        "tensor `b4.axis1.quant_zero`: expected 0: scales and zeros that are not quantized themselves, found 1",
    );
    refused(
        "hqq-forms",
        |edited| edited.set("b4.axis1.axis", &2i32.to_le_bytes()),
        "tensor `b4.axis1.axis`: expected 0 or 1, found 2",
    );
    for group in [0, 7, i32::MAX] {
        let expected = format!("tensor `b4.axis1.group_size`: expected a divisor of 7680, found {group}");
        refused("hqq-forms", |edited| edited.set("b4.axis1.group_size", &group.to_le_bytes()), &expected);
    }
    refused(
        "hqq-forms",
        |edited| edited.set("b4.axis1.group_size", &32i32.to_le_bytes()),
        "tensor `b4.axis1.scale`: expected 240 elements, found shape [120, 1]",
    );
    refused(
        "hqq-forms",
        |edited| edited.set("b4.axis1.packing", b"5bit_u8"),
        "tensor `b4.axis1.packing`: expected one of 8bit_u8, 4bit_u8, 2bit_u8, 1bit_u8, 3bit_32, found 5bit_u8",
    );
    refused(
        "hqq-forms",
        |edited| edited.set("b4.axis1.packing", b"2bit_u8"),
        "tensor `b4.axis1.W_q`: expected 1920 bytes of 2bit_u8 for shape [48, 160], found 3840 bytes",
    );
    let shape = |dims: [i64; 2]| dims.map(i64::to_le_bytes).concat();
    let huge = "tensor `b4.axis1.W_q`: expected a matrix, found shape [9223372036854775807, 160]";
    for (dims, expected) in [
        ([i64::MAX, 160], huge),
        ([48, 0], "tensor `b4.axis1.W_q`: expected a matrix, found shape [48, 0]"),
        (
            [96, 160],
            "tensor `b4.axis1.W_q`: expected 7680 bytes of 4bit_u8 for shape [96, 160], found 3840 bytes",
        ),
    ] {
        refused("hqq-forms", |edited| edited.tensor("b4.axis1.shape").bytes = shape(dims), expected);
    }
    no_value(
        "hqq-forms",
        |edited| edited.set_f32("b4.equal.zero", 0, f32::NAN),
        "tensor `b4.equal.zero`: row 0: expected finite scales, found NaN",
    );
}

/// Changes bytes anywhere, in headers, sizes, scales or codes: the result is an error or numbers, never a
/// panic.
#[test]
fn mutants_never_panic() {
    let names = [
        "bnb-4bit",
        "bnb-8bit",
        "fp8-blocks",
        "fp8-fbgemm",
        "fp8-modelopt",
        "hqq-forms",
        "mlx-affine",
        "torchao-int8",
        "torchao-int4",
        "quanto-packed",
        "bitnet-offline",
        "gemma-ints",
        "modelopt-awq",
        "modelopt-int8",
        "quark-uint4",
        "quark-int8",
    ];
    let files = names.map(Edited::of);
    let folder = tempfile::tempdir().unwrap();
    gguf_testkit::mutants(1300, |draw| {
        let mut edited = files[draw.below(files.len())].clone();
        let name = edited.tensors.keys().nth(draw.below(edited.tensors.len())).unwrap().clone();
        let tensor = edited.tensor(&name);
        let n_bytes = tensor.bytes.len();
        match draw.below(4) {
            0 => drop(edited.tensors.remove(&name)),
            1 => {
                // Another shape of equal size, or a shape that does not fit the others.
                let n = tensor.shape.iter_mut().next();
                n.into_iter().for_each(|n| *n += 1);
                let elem = (n_bytes as u64 / tensor.shape.iter().product::<u64>().max(1)).max(1);
                tensor.bytes.resize((tensor.shape.iter().product::<u64>() * elem) as usize, 0);
            }
            _ => {
                gguf_testkit::mutate(&mut tensor.bytes, draw);
                tensor.bytes.resize(n_bytes, 7);
            }
        }
        fs::write(folder.path().join("config.json"), edited.config.to_string()).unwrap();
        fs::write(folder.path().join("model.safetensors"), edited.file()).unwrap();
        crate::open(folder.path()).is_ok_and(|checkpoint| read_all(&checkpoint).is_ok())
    });
}
