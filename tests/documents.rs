//! The worked example of ARCHITECTURE.md: each of its numbers comes out of the program.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;

use common::{Sandbox, golden};
use serde_json::Value as Json;

#[test]
fn the_tensor_that_architecture_md_follows() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).unwrap();
    let (_, page) = page.split_once("## One tensor, from safetensors to byte").unwrap();
    let page: String = page.split("\n## ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let states = |what: String| assert!(page.contains(&what), "ARCHITECTURE.md does not say `{what}`");

    // Source: length of the header, place of the tensor, row 32 of its 512-byte rows.
    let checkpoint = fs::read(golden("arch").join("llama/model.safetensors")).unwrap();
    let header_len = u64::from_le_bytes(checkpoint[..8].try_into().unwrap()) as usize;
    let header: Json = serde_json::from_slice(&checkpoint[8..8 + header_len]).unwrap();
    let entry = &header["model.layers.0.self_attn.q_proj.weight"];
    let [start, end] = [0, 1].map(|i| entry["data_offsets"][i].as_u64().unwrap() as usize);
    states(format!("({header_len} bytes)"));
    states(format!("bytes {start} to {end} of the data"));
    let source_row = 8 + header_len + start + 512 * 32;
    states(format!("source row 32, at byte {source_row}"));
    let bytes = &checkpoint[source_row..source_row + 4];
    states(format!("`{:02x} {:02x} {:02x} {:02x}`, which in bf16", bytes[0], bytes[1], bytes[2], bytes[3]));
    let bf16 = |at: usize| f32::from_bits(u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])) << 16);
    states(format!("{:.8}, {:.8}", bf16(0), bf16(2)));

    // File: end of the metadata, offset of the tensor, row 1 of its 144-byte rows.
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&["llama", "out.gguf", "--type", "q4_k_m"]).code, Some(0));
    let file = gguf::File::open(&sandbox.path("out.gguf")).unwrap();
    let tensor = file.tensor("blk.0.attn_q.weight").unwrap();
    let (data, offset) = (file.data_offset(), tensor.offset);
    let at = data + offset + 144;
    states(format!("{data} + {offset} + 144 = {at} to {}", at + 144));
    let block = &file.bytes()[at as usize..at as usize + 144];
    states(format!("`{:02x} {:02x} {:02x} {:02x}`: d", block[0], block[1], block[2], block[3]));

    // Q4_K: d and dmin as f16, then 6-bit scales and minima, then 4-bit levels.
    let f16 = |at: usize| half(u16::from_le_bytes([block[at], block[at + 1]]));
    let (d, dmin) = (f16(0), f16(2));
    states(format!("d = {d:.11} and dmin = {dmin:.10} as f16"));
    let (scale, min) = (block[4] & 63, block[8] & 63);
    let levels = [16, 17].map(|at| block[at] & 15);
    states(format!(
        "scale {scale} and minimum {min}, its first two weights the levels {} and {}",
        levels[0], levels[1]
    ));
    let weights = levels.map(|level| d * f32::from(scale) * f32::from(level) - dmin * f32::from(min));
    states(format!("= {:.4} and {:.4}", weights[0], weights[1]));
}

/// A half-precision number that is neither infinite nor subnormal.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15)
}
