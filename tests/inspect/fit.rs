//! `gguf-inspect fit`: files that fit, in a table and in JSON.

use crate::common::{Sandbox, succeed, words};
use serde_json::Value;

#[test]
fn largest_fitting_file_is_reported() {
    let sandbox = Sandbox::with_golden("llama");
    let types = "f16,q8_0,q4_k_m";
    succeed(sandbox.convert(&["llama", "out/m-{ftype}.gguf", "-t", types, "-q"]));
    sandbox.write("out/notes.txt", "no model");
    sandbox.write("out/damaged.gguf", "GGUF");
    let ran = succeed(sandbox.inspect(&words("fit out --memory 24MB --context 256,512 --json")));
    ran.says("damaged.gguf");
    let json = ran.json();
    let files = json["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["m-q4_k_m.gguf", "m-q8_0.gguf", "m-f16.gguf"]);
    // Two layers, two heads of keys and of values with 64 elements each in f16: 1024 bytes for each token.
    for file in files {
        let uses = file["uses"].as_array().unwrap();
        let kv: Vec<u64> = uses.iter().map(|it| it["bytes"]["kv"].as_u64().unwrap()).collect();
        assert_eq!(kv, [256 * 1024, 512 * 1024], "{file}");
        for it in uses {
            let bytes = it["bytes"].as_object().unwrap();
            let sum: u64 = bytes.values().map(|part| part.as_u64().unwrap()).sum();
            assert_eq!(it["total"], sum);
            assert_eq!(it["fits"], sum <= 24_000_000);
        }
    }
    assert_eq!(json["best"]["file"], "m-f16.gguf");

    let text = sandbox.inspect(&words("fit out/m-q8_0.gguf --memory 24MB --context 256"));
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), "next: gguf-eval chat out/m-q8_0.gguf\n"));
    assert!(text.stdout.contains("\nfits in 24.0 MB with 256 tokens: m-q8_0.gguf, "), "{}", text.stdout);
    // Files that are loaded in addition count.
    let more =
        sandbox.inspect(&words("fit out/m-q8_0.gguf --context 256 --with out/m-f16.gguf --json")).json();
    let weights = |json: &Value| json["uses"][0]["bytes"]["weights"].as_u64().unwrap();
    assert_eq!(weights(&more["files"][0]), weights(&files[1]) + weights(&files[2]));
    // The memory of this machine, whose speed is estimated.
    assert_eq!(more["best"]["file"], "m-q8_0.gguf");
    assert!(more["files"][0]["estimated_tokens_per_second"].as_f64().unwrap() > 0.0, "{more}");
    assert_eq!(json["files"][0]["estimated_tokens_per_second"], Value::Null);
}

#[test]
fn no_fitting_file_is_a_failure() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f16");
    let ran = sandbox.inspect(&words("fit m.gguf --memory 1MB --context 256"));
    ran.ends_and_says(1, "error: no file fits in 1.00 MB\n");
    assert!(ran.stdout.contains("none fits"), "{}", ran.stdout);
    // Q8_0 takes 32 elements, and a token has 128 of keys.
    let json = sandbox.inspect(&words("fit m.gguf --context 256 --kv-type q8_0 --json")).json();
    assert_eq!(json["files"][0]["uses"][0]["bytes"]["kv"], 2 * 2 * 256 * 128 / 32 * 34);
    for args in [
        &["fit", "m.gguf", "--memory", "much"][..],
        &["fit", "m.gguf", "--kv-type", "q4_k"],
        &["fit", "m.gguf", "--context", "0"],
    ] {
        assert_eq!(sandbox.inspect(args).code, Some(2), "{args:?}");
    }
    assert_eq!(sandbox.inspect(&["fit", "out"]).code, Some(1));
    // Enough for another type.
    let weights = json["files"][0]["uses"][0]["bytes"]["weights"].to_string();
    let ran = sandbox.inspect(&["fit", "m.gguf", "--memory", &weights]);
    ran.ends_and_says(1, "kB: run `gguf-quantize m.gguf q");
    let ran = sandbox.inspect(&words("fit m.gguf --memory 100K"));
    ran.ends_and_says(1, "hint: the smallest type, q2_k, has ");
}

#[test]
fn checkpoint_is_estimated_by_type() {
    let sandbox = Sandbox::with_golden("llama");
    succeed(sandbox.convert(&words("llama out/m-{ftype}.gguf -t q8_0,q4_k_m -q")));
    let of = |what: &str| succeed(sandbox.inspect(&["fit", what, "--memory", "24MB", "--json"])).json();
    let planned = of("llama");
    for name in ["q8_0", "q4_k_m"] {
        let written = of(&format!("out/m-{name}.gguf"));
        let planned = planned["files"].as_array().unwrap().iter().find(|file| file["type"] == name).unwrap();
        for key in ["uses", "longest_context", "bytes_per_token"] {
            assert_eq!(planned[key], written["files"][0][key], "{name}: {key}");
        }
    }
    assert_eq!(planned["suited"]["type"], "q8_0");
    let ran = succeed(sandbox.inspect(&words("fit llama --memory 24MB")));
    ran.says("type q8_0: ");
    ran.says("next: gguf-convert llama chat.gguf --type q8_0\n");
    assert!(
        ran.stdout.contains("\ntype for 24.0 MB with ") && ran.stdout.contains(": q8_0"),
        "{}",
        ran.stdout
    );
    let text = succeed(sandbox.inspect(&words("fit llama"))).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("\ntokens/s: at most, as memory is read at ")
            && text.ends_with("reach about a third\n")
    );
    let config = sandbox.text("llama/config.json");
    sandbox.write("llama/config.json", config.replace("LlamaForCausalLM", "LldmaForCausalLM"));
    let ran = succeed(sandbox.inspect(&words("fit llama --memory 24MB --json")));
    ran.says("only the bytes of the weights are counted");
    let weights = std::fs::metadata(sandbox.path("llama/model.safetensors")).unwrap().len();
    assert_eq!(ran.json()["files"][0]["uses"][0]["total"], weights);
    let ran = sandbox.inspect(&["fit", "no-such-owner/model"]);
    ran.ends_and_says(1, "`no-such-owner/model` is not in the local Hugging Face cache");
}

#[test]
fn estimates_are_not_below_what_llama_cpp_allocates() {
    // MiB of KV cache and compute buffer that `llama-perplexity -c 32768 -b 512 -v` (b11312) prints for these models: no flash
    // attention in Grok and T5, scores of the indexer of MiniMax M3, caches without causal attention, more layers than run.
    for (golden, kv, compute) in [
        ("grok", 4.0, 320.38),
        ("minimax-m3", 8.0, 352.99),
        ("t5", 8.0, 866.82),
        ("llama-embed", 4.0, 1.02),
        ("lfm2-bidirectional", 2.0, 32.51),
        ("bailingmoe3", 4.5, 32.74),
        ("granite-switch", 5.0, 32.43),
    ] {
        let sandbox = Sandbox::with_converted(golden, "m.gguf", "f32");
        let json = sandbox.inspect(&words("fit m.gguf --context 32768 --memory 64GB --json")).json();
        let mib = |part: &str| json["files"][0]["uses"][0]["bytes"][part].as_f64().unwrap() / 1024.0 / 1024.0;
        assert_eq!(mib("kv"), kv, "{golden}");
        assert!(mib("compute") >= compute, "{golden}: {} of {compute}", mib("compute"));
        assert!(mib("compute") < 1.25 * compute + 32.0, "{golden}: {} of {compute}", mib("compute"));
        if ["grok", "minimax-m3"].contains(&golden) {
            // Not all experts.
            let of_weights = json["files"][0]["uses"][0]["bytes"]["weights"].as_f64().unwrap();
            assert!(json["files"][0]["bytes_per_token"].as_f64().unwrap() < of_weights, "{golden}");
        }
    }
    // Without a cache, whatever the context.
    for golden in ["bert", "gemma-embedding", "dream"] {
        let sandbox = Sandbox::with_converted(golden, "m.gguf", "f32");
        let json = sandbox.inspect(&words("fit m.gguf --context 32768 --memory 64GB --json")).json();
        assert_eq!(json["files"][0]["uses"][0]["bytes"]["kv"], 0, "{golden}");
    }
}

#[test]
fn files_next_to_a_model_are_counted_as_they_are_loaded() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "q8_0");
    succeed(sandbox.quantize(&words("m.gguf small.gguf q4_0 --allow-requantize -q")));
    let total = |args: &str| {
        let args = format!("fit {args} --context 4096 --parallel 2 --memory 8GB --json");
        let json = sandbox.inspect(&words(&args)).json();
        json["files"][0]["uses"][0]["total"].as_u64().unwrap()
    };
    // A draft model has its own cache and buffers.
    assert_eq!(total("m.gguf --with small.gguf"), total("m.gguf") + total("small.gguf"));
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    succeed(sandbox.eval(&words("imatrix m.gguf --text text.txt -c 16 --chunks 2 -o out/imatrix.gguf -q")));
    let report = succeed(sandbox.inspect(&words("verify out/imatrix.gguf --against m.gguf"))).stdout;
    assert!(report.contains("not checked: a file of kind `imatrix` is not compared"), "{report}");
    let ran = sandbox.inspect(&words("fit m.gguf --with out/imatrix.gguf"));
    ran.ends_and_says(1, "expected a projector, draft model or adapter, found an importance matrix");
    std::fs::copy(sandbox.path("m.gguf"), sandbox.path("out/m.gguf")).unwrap();
    let ran = succeed(sandbox.inspect(&words("fit out")));
    assert!(!ran.stderr.contains("--with"), "{}", ran.stderr);
    ran.says("imatrix.gguf: an importance matrix, not loaded with a model");
}

#[test]
fn context_that_fits_is_named() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "q8_0");
    // Without a request, fewer tokens than in training are enough.
    let trained = sandbox.inspect(&words("fit m.gguf --memory 8MB --json")).json();
    let almost = trained["files"][0]["uses"][0]["total"].as_u64().unwrap() - 1;
    let ran = succeed(sandbox.inspect(&["fit", "m.gguf", "--memory", &almost.to_string()]));
    assert!(ran.stdout.contains(" with up to 256 tokens: m.gguf\n"), "{}", ran.stdout);
    let ran = sandbox.inspect(&words("fit m.gguf --context 4096 --memory 8MB"));
    assert_eq!(ran.code, Some(1));
    let hint = ran.stderr.lines().find(|line| line.starts_with("hint: m.gguf fits with ")).unwrap();
    let context = hint.rsplit(' ').next().unwrap();
    succeed(sandbox.inspect(&["fit", "m.gguf", "--memory", "8MB", "--context", context]));
    assert!(ran.stdout.contains(&format!("{context} (not 4096)")), "{}", ran.stdout);
    assert!(ran.stderr.contains("no file fits in 8.00 MB with 4096 tokens"), "{}", ran.stderr);
}

#[test]
fn unknown_architecture_is_estimated_by_its_keys() {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "f16");
    let known = sandbox.inspect(&words("fit m.gguf --context 4096 --memory 8GB --json")).json();
    let bytes = sandbox.read("m.gguf");
    // Same length, so that nothing moves.
    sandbox.write("x.gguf", replaced(&bytes, b"llama", b"lldma"));
    let ran = succeed(sandbox.inspect(&words("fit x.gguf --context 4096 --memory 8GB --json")));
    ran.says("unknown memory layout of `lldma`: the KV cache is estimated from the keys of attention");
    let of = |json: &Value, part: &str| json["files"][0]["uses"][0]["bytes"][part].as_u64().unwrap();
    let unknown = ran.json();
    assert_eq!(of(&unknown, "kv"), of(&known, "kv"));
    assert!(of(&unknown, "compute") >= of(&known, "compute"));
}

/// All occurrences of `from` replaced by `to`, which is as long.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
    bytes
}
