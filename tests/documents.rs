//! The documents: the worked example of ARCHITECTURE.md, whose numbers come out of the program; the book and its commands.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

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

/// README and the chapters of the book, by their paths.
fn pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["docs", "docs/guides", "docs/concepts", "docs/reference", "docs/notes"];
    let files = folders.into_iter().flat_map(|folder| {
        let names = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(move |name| format!("{folder}/{}", name.into_string().unwrap()))
    });
    let chapters = files.filter(|path| path.ends_with(".md"));
    let paths = chapters.chain(["README.md".to_owned()]);
    paths.map(|path| (path.clone(), fs::read_to_string(root.join(&path)).unwrap())).collect()
}

/// Targets of the links of a page, except links to other sites.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#'))
}

#[test]
fn the_book_has_every_page_and_its_links_lead_somewhere() {
    let pages = pages();
    let listed: BTreeSet<String> =
        links(&pages["docs/SUMMARY.md"]).map(|name| format!("docs/{name}")).collect();
    let chapters = pages.keys().filter(|path| path.starts_with("docs/") && *path != "docs/SUMMARY.md");
    assert_eq!(chapters.cloned().collect::<BTreeSet<_>>(), listed, "docs/SUMMARY.md lists the chapters");
    for (path, page) in &pages {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        for link in links(page) {
            let target = folder.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{path}: `{link}` leads nowhere");
        }
    }
}

/// Lines of the blocks of a page that are marked with `sh`; those that need a network, or a model that is not here, are
/// marked with `console`.
fn commands(page: &str) -> String {
    let blocks = page.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    blocks.flat_map(|block| [block, "\n"]).collect()
}

#[test]
#[cfg(unix)]
fn every_command_of_the_book_runs() {
    let programs = Path::new(env!("CARGO_BIN_EXE_gguf-convert")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap_or_default());
    let mut n_commands = 0;
    for (name, page) in pages() {
        let script = commands(&page);
        let n = script.lines().filter(|line| line.starts_with("gguf-")).count();
        if n == 0 {
            assert_eq!(script, "", "{name}");
            continue;
        }
        n_commands += n;
        // Readers copy commands for real models: none may be adapted to the small model of this test.
        let is_odd = |line: &str| line.starts_with("gguf-eval") && line.contains("--context ");
        assert!(!script.lines().any(is_odd), "{name}: measures in chunks of an unusual length");
        let sandbox = Sandbox::with_golden("llama");
        fs::rename(sandbox.path("llama"), sandbox.path("Llama-3.2-1B")).unwrap();
        // Nothing is there that a page does not make.
        fs::remove_dir(sandbox.path("out")).unwrap();
        let text =
            "The quick brown fox jumps over the lazy dog, reads some files and writes others. ".repeat(40);
        for name in ["wiki.test.raw", "calibration.txt"] {
            fs::write(sandbox.path(name), &text).unwrap();
        }
        fs::write(sandbox.path("hellaswag.txt"), "A llama\n0\neats\nflies\nreads\nsings\n".repeat(3))
            .unwrap();
        let ran = sandbox.command("sh").args(["-euc", &script]).env("PATH", &path).output().unwrap();
        assert!(ran.status.success(), "{name}: {}\n{script}", String::from_utf8_lossy(&ran.stderr));
    }
    assert!(n_commands >= 30, "{n_commands} commands were run");
}
