//! The documents: the worked example of ARCHITECTURE.md, whose values come out of the program; the book and its commands.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

use crate::common::{Sandbox, copy_folder, golden, succeed};

#[test]
fn architecture_md_example_matches_program() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).unwrap();
    let (_, page) = page.split_once("## One tensor, from safetensors to byte").unwrap();
    let page: String = page.split("\n## ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let states = |what: String| assert!(page.contains(&what), "ARCHITECTURE.md does not say `{what}`");

    // Source: length of the header, place of the tensor, row 32 of its 512-byte rows.
    let checkpoint = fs::read(golden("arch").join("llama/model.safetensors")).unwrap();
    let (_, data) = gguf_testkit::safetensors_header(&checkpoint);
    let place = gguf_testkit::place_in_safetensors(&checkpoint, "model.layers.0.self_attn.q_proj.weight");
    states(format!("({} bytes)", data - 8));
    states(format!("bytes {} to {} of the data", place.start - data, place.end - data));
    let source_row = place.start + 512 * 32;
    states(format!("source row 32, at byte {source_row}"));
    let bytes = &checkpoint[source_row..source_row + 4];
    states(format!("`{:02x} {:02x} {:02x} {:02x}`, which in bf16", bytes[0], bytes[1], bytes[2], bytes[3]));
    let bf16 = |at: usize| f32::from_bits(u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])) << 16);
    states(format!("{:.8}, {:.8}", bf16(0), bf16(2)));

    // File: end of the metadata, offset of the tensor, row 1 of its 144-byte rows.
    let sandbox = Sandbox::with_golden("llama");
    succeed(sandbox.convert(&["llama", "out.gguf", "--type", "q4_k_m"]));
    let file = sandbox.file("out.gguf");
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
fn book_lists_every_page_and_links_resolve() {
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

#[test]
fn paths_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = pages();
    for path in ["ARCHITECTURE.md", "CONTRIBUTING.md", "golden/README.md"] {
        pages.insert(path.to_owned(), fs::read_to_string(root.join(path)).unwrap());
    }
    let mut n_paths = 0;
    for (page, text) in &pages {
        for path in text.split('`').skip(1).step_by(2) {
            let is_path =
                path.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c));
            let first = path.split('/').next().unwrap_or_default();
            // Paths below a crate may omit `crates/`.
            let is_ours = ["crates", "tests", "scripts", "docs", "python"].contains(&first)
                || (path.contains("/src/") || path.contains("/tests/")) && path.ends_with(".rs");
            // Each crate has such a folder.
            if !is_path || !is_ours || !path.contains('/') || path.starts_with("tests/all") {
                continue;
            }
            n_paths += 1;
            let exists = root.join(path).exists() || root.join("crates").join(path).exists();
            assert!(exists, "{page}: no such path: `{path}`");
        }
    }
    assert!(n_paths > 180, "{n_paths} paths found");
}

/// Reductions in percent at Q4_K_M: the smallest and the largest of the tables in docs/notes/quality.md, each rounded.
#[test]
fn claim_about_calibration_matches_tables() {
    let pages = pages();
    let tables = pages["docs/notes/quality.md"].split("## Tails").next().unwrap();
    let rows = tables.lines().filter_map(|line| line.strip_prefix("| Q4_K_M |"));
    let reductions: Vec<f64> = rows
        .map(|row| {
            let values: Vec<f64> = row.split('|').take(2).map(|cell| cell.trim().parse().unwrap()).collect();
            100.0 * (1.0 - values[1] / values[0])
        })
        .collect();
    assert_eq!(reductions.len(), 4, "models");
    let least = reductions.iter().copied().fold(f64::INFINITY, f64::min).round();
    let most = reductions.iter().copied().fold(0.0, f64::max).round();
    let claim = format!("Q4_K_M files have a {least}% to {most}% lower KL divergence");
    for page in ["README.md", "docs/guides/calibration.md"] {
        assert!(pages[page].contains(&claim), "{page}: {claim}");
    }
}

/// Text of the blocks of a page in a language: `sh` blocks need only the model in a folder, `console` blocks another model,
/// another program or a network.
fn blocks(page: &str, language: &str) -> String {
    let mark = format!("\n```{language}\n");
    let blocks = page.split(&mark).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    blocks.flat_map(|block| [block, "\n"]).collect()
}

/// Our commands among the `console` blocks of a page, except those that need a network or files that no golden has.
fn console_commands(page: &str) -> Vec<String> {
    let text = blocks(page, "console").replace("\\\n", " ");
    let cannot_run = [
        "hf://",
        "https://",
        "flux.dat",
        "meta-llama/",
        "gemma-3-4b-it",
        "--lora-tokenizer",
        "qwen3-vl.gguf",
    ];
    let is_run =
        |line: &&str| line.starts_with("gguf-") && !cannot_run.iter().any(|part| line.contains(part));
    let without_comment = |line: &str| line.split("  #").next().unwrap_or_default().to_owned();
    text.lines().filter(is_run).map(without_comment).collect()
}

/// A sandbox with the models, adapters and texts that pages name.
fn with_models() -> Sandbox {
    let sandbox = Sandbox::with_projector("qwen3vl");
    fs::rename(sandbox.path("qwen3vl"), sandbox.path("Qwen3-VL-4B-Instruct")).unwrap();
    for name in ["Llama-3.2-1B", "Llama-3.1-70B", "Llama-3.1-405B"] {
        copy_folder(&gguf_testkit::checkpoint("llama"), &sandbox.path(name));
    }
    copy_folder(&gguf_testkit::checkpoint("bert"), &sandbox.path("bert"));
    copy_folder(&golden("lora-merged/quantized/adapter-0"), &sandbox.path("my-adapter"));
    fs::copy(golden("vision/picture.jpg"), sandbox.path("cat.jpg")).unwrap();
    copy_folder(&gguf_testkit::projector("qwen2.5vl"), &sandbox.path("Qwen2.5-VL-7B-Instruct"));
    copy_folder(&gguf_testkit::checkpoint("t5-encoder"), &sandbox.path("t5-v1_1-xxl"));
    for (from, to) in [("base", "flux1-dev"), ("adapter", "style")] {
        let from = golden(&format!("diffusion-adapters/flux-kohya/{from}.safetensors"));
        fs::copy(from, sandbox.path(&format!("{to}.safetensors"))).unwrap();
    }
    fs::copy(golden("diffusion-layouts/wan.safetensors"), sandbox.path("wan2.2.safetensors")).unwrap();
    add_text_encoders(&sandbox);
    copy_folder(&gguf_testkit::foreign("whisper-v3"), &sandbox.path("whisper-large-v3-turbo"));
    copy_folder(&gguf_testkit::audio("voxtral"), &sandbox.path("Voxtral-Mini-3B-2507"));
    fs::copy(golden("audio/sound.mp3"), sandbox.path("talk.mp3")).unwrap();
    let text = "The quick brown fox jumps over the lazy dog, reads some files and writes others. ".repeat(80);
    for name in ["wiki.test.raw", "wiki.txt", "code.txt", "calibration.txt"] {
        sandbox.write(name, &text);
    }
    sandbox.write("question.txt", "What is a llama?\n");
    sandbox.write("lines.txt", "A llama eats.\nA fox jumps.\n");
    let chat = r#"[{"role": "user", "content": "Hello"}]"#;
    sandbox.write("chat.json", chat);
    sandbox.write("tools.json", "[]");
    sandbox.write("fixed.jinja", "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}");
    for name in ["chat.jsonl", "chats.jsonl"] {
        let turn = text.replace('"', "");
        let line = format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{turn}\"}}]}}\n");
        sandbox.write(name, line);
    }
    let files = "\
        gguf-convert Llama-3.2-1B model-{ftype}.gguf --type bf16,q4_k_m -q
        cp model-bf16.gguf model-BF16.gguf; cp model-bf16.gguf llama-bf16.gguf; cp model-bf16.gguf model-it.gguf
        cp model-q4_k_m.gguf model-Q4_K_M.gguf; cp model-q4_k_m.gguf llama-q4_k_m.gguf; cp model-q4_k_m.gguf chat.gguf
        gguf-eval imatrix model-bf16.gguf --text wiki.txt --output imatrix.gguf -q
        gguf-inspect recipe model-q4_k_m.gguf --output theirs.json
        gguf-inspect split model-q4_k_m.gguf Llama-3.1-70B-Q4_K_M --split-max-tensors 12
        gguf-convert bert all-minilm.gguf --type f16 -q
        gguf-convert Qwen3-VL-4B-Instruct Qwen3-VL-4B-Instruct-Q4_K_M.gguf --type q4_k_m -q
        gguf-convert mmproj Qwen3-VL-4B-Instruct mmproj-Qwen3-VL-4B-Instruct-F16.gguf --type f16 -q
        gguf-convert Voxtral-Mini-3B-2507 Voxtral-Mini-3B-2507-Q4_K_M.gguf --type q4_k_m -q
        gguf-convert mmproj Voxtral-Mini-3B-2507 mmproj-Voxtral-Mini-3B-2507-F16.gguf --type f16 -q
        gguf-convert flux1-dev.safetensors flux1-dev-BF16.gguf --type bf16 -q
        mkdir -p .lmstudio/models/my-name; cp -r Llama-3.2-1B tuned; cp model-q4_k_m.gguf tuned-q4_k_m.gguf";
    for ending in ["json", "f32"] {
        let record = golden(&format!("check-against/llama.{ending}"));
        fs::copy(record, sandbox.path(&format!("tuned.record.{ending}"))).unwrap();
    }
    shell(&sandbox, files, "preparation");
    sandbox
}

/// Adds text encoders: in a pipeline, without a tokenizer, and as single files.
fn add_text_encoders(sandbox: &Sandbox) {
    for name in ["FLUX.1-dev/text_encoder_2", "FLUX.1-dev/tokenizer_2", "t5-encoder"] {
        fs::create_dir_all(sandbox.path(name)).unwrap();
        copy_folder(&gguf_testkit::checkpoint("t5-encoder"), &sandbox.path(name));
    }
    for name in ["FLUX.1-dev/text_encoder_2", "t5-encoder"] {
        fs::remove_file(sandbox.path(name).join("spiece.model")).unwrap();
        fs::remove_file(sandbox.path(name).join("tokenizer_config.json")).unwrap();
    }
    let weights = sandbox.path("t5-encoder/model.safetensors");
    fs::copy(weights, sandbox.path("t5xxl_fp16.safetensors")).unwrap();
    let umt5 = gguf_testkit::checkpoint("umt5-encoder");
    let spiece = fs::read(umt5.join("spiece.model")).unwrap();
    fs::copy(umt5.join("model.safetensors"), sandbox.path("umt5.safetensors")).unwrap();
    let mut tensors = sandbox.tensors("umt5.safetensors");
    tensors.insert("spiece_model".to_owned(), ("U8".to_owned(), vec![spiece.len() as u64], spiece));
    sandbox.write_tensors("umt5_xxl_fp8_e4m3fn_scaled.safetensors", &tensors);
}

/// Runs a script with our programs in its path and the sandbox as home.
fn shell(sandbox: &Sandbox, script: &str, name: &str) {
    let programs = Path::new(env!("CARGO_BIN_EXE_gguf-convert")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap_or_default());
    let mut command = sandbox.command("sh");
    command.args(["-euc", script]).env("PATH", path).env("HOME", sandbox.path("."));
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{name}: {}\n{script}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
#[cfg(unix)]
fn commands_of_the_book_run() {
    let mut n_commands = 0;
    for (name, page) in pages() {
        let script = blocks(&page, "sh");
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
        copy_folder(&sandbox.path("llama"), &sandbox.path("model"));
        fs::rename(sandbox.path("llama"), sandbox.path("Llama-3.2-1B")).unwrap();
        fs::create_dir(sandbox.path("eval")).unwrap();
        // Nothing is there that a page does not make.
        fs::remove_dir(sandbox.path("out")).unwrap();
        let text =
            "The quick brown fox jumps over the lazy dog, reads some files and writes others. ".repeat(40);
        for name in ["wiki.test.raw", "calibration.txt", "eval/wiki.txt"] {
            sandbox.write(name, &text);
        }
        sandbox.write("hellaswag.txt", "A llama\n0\neats\nflies\nreads\nsings\n".repeat(3));
        shell(&sandbox, &script, &name);
    }
    assert!(n_commands >= 30, "{n_commands} commands were run");
}

#[test]
#[cfg(unix)]
fn console_commands_of_the_book_run() {
    let mut n_commands = 0;
    let models = with_models();
    for (name, page) in pages() {
        let commands = console_commands(&page);
        if commands.is_empty() || name.starts_with("docs/notes/") {
            continue;
        }
        let sandbox = Sandbox::new();
        copy_folder(&models.path("."), &sandbox.path("."));
        for command in &commands {
            // Commands of a page are alternatives or steps: a later one may replace the output of an earlier one.
            shell(&sandbox, &format!("rm -rf out; mkdir out\n{command} || {command} --force"), &name);
        }
        n_commands += commands.len();
    }
    assert!(n_commands >= 20, "{n_commands} commands were run");
}
