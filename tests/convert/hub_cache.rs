//! Models that are named by an address of the Hub: those in its cache.

use std::{fs, path::Path};

use crate::common::{Sandbox, succeed, words};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The checkpoint `golden/arch/NAME` in a folder `NAME`, and in the cache as the model `org/NAME`: names that are
/// links to blobs.
fn with_cache(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    let model = sandbox.path("hf/hub").join(format!("models--org--{name}"));
    let snapshot = model.join("snapshots").join(COMMIT);
    for folder in [&snapshot, &model.join("blobs"), &model.join("refs")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(model.join("refs/main"), COMMIT).unwrap();
    for (number, entry) in fs::read_dir(sandbox.path(name)).unwrap().enumerate() {
        let path = entry.unwrap().path();
        let blob = format!("{number:040x}");
        fs::copy(&path, model.join("blobs").join(&blob)).unwrap();
        link(&Path::new("../../blobs").join(&blob), &snapshot.join(path.file_name().unwrap()));
    }
    sandbox
}

#[cfg(unix)]
fn link(to: &Path, from: &Path) {
    std::os::unix::fs::symlink(to, from).unwrap();
}

#[cfg(not(unix))]
fn link(to: &Path, from: &Path) {
    fs::copy(from.parent().unwrap().join(to), from).unwrap();
}

#[test]
fn cached_model_converts_as_its_folder() {
    let sandbox = with_cache("llama");
    succeed(sandbox.convert(&["llama", "out/local.gguf", "-t", "q8_0"]));
    let local = sandbox.read("out/local.gguf");
    let at_commit = format!("hf://org/llama@{COMMIT}");
    for address in ["hf://org/llama", "org/llama", "hf://org/llama@main", "org/llama@main", &at_commit] {
        let ran = sandbox.convert(&[address, "out/cached.gguf", "-t", "q8_0", "--force"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{address}: {}", ran.stderr);
        ran.says("read from the local Hugging Face cache, ");
        assert!(sandbox.read("out/cached.gguf") == local, "{address}");
    }
    // The name of a file that none was given for is that of the model, not of the commit.
    for (source, folder) in [("org/llama", "cached/"), ("llama", "local/")] {
        succeed(sandbox.convert(&[source, folder, "-t", "bf16", "-q"]));
    }
    let names = |folder: &str| -> Vec<_> {
        fs::read_dir(sandbox.path(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names("cached"), names("local"));
    for mode in [&["--vocab-only"][..], &["--dry-run", "-t", "q4_k_m"]] {
        let ran = sandbox.convert(&[&["org/llama", "out/vocab.gguf"], mode].concat());
        assert_eq!(ran.code, Some(0), "{mode:?}: {}", ran.stderr);
    }
}

/// Adapters too, each with its factor.
#[test]
fn addresses_of_pages_mean_their_model() {
    let sandbox = with_cache("llama");
    succeed(sandbox.convert(&["llama", "out/local.gguf", "-t", "q8_0"]));
    let local = sandbox.read("out/local.gguf");
    for address in [
        "hf://org/llama/",
        "hf:org/llama",
        "hf.co/org/llama",
        "huggingface.co/org/llama",
        "https://huggingface.co/org/llama",
        "https://huggingface.co/org/llama/tree/main",
        "https://huggingface.co/org/llama/blob/main/config.json",
    ] {
        let ran = sandbox.convert(&[address, "out/cached.gguf", "-t", "q8_0", "--force"]);
        assert_eq!(ran.code, Some(0), "{address}: {}", ran.stderr);
        assert!(sandbox.read("out/cached.gguf") == local, "{address}");
    }
}

/// The Hub's cache names folders after commits, ModelScope's writes dots as underscores.
#[test]
fn folder_of_cache_is_named_after_model() {
    let sandbox = with_cache("llama");
    let name = |source: &str| {
        let ran = succeed(sandbox.convert(&[source, "out/x.gguf", "-t", "bf16", "--force"]));
        ran.says("folder of a cache");
        sandbox.file("out/x.gguf").get("general.name").and_then(|name| name.as_str().map(str::to_owned))
    };
    let snapshot = format!("hf/hub/models--org--llama/snapshots/{COMMIT}");
    assert_eq!(name(&snapshot).as_deref(), Some("Llama"));
    fs::rename(sandbox.path("llama"), sandbox.path("Qwen2___5-0___5B-Instruct")).unwrap();
    assert_eq!(name("Qwen2___5-0___5B-Instruct").as_deref(), Some("Qwen2.5 0.5B Instruct"));
}

#[test]
fn cached_adapters_merge_as_their_folders() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("out")).unwrap();
    crate::common::copy_folder(&gguf_testkit::checkpoint("llama-head-dim"), &sandbox.path("base"));
    for adapter in ["adapter-0", "adapter-1"] {
        let snapshot = sandbox.path("hf/hub").join(format!("models--org--{adapter}/snapshots")).join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        let refs = snapshot.join("../../refs");
        fs::create_dir(&refs).unwrap();
        fs::write(refs.join("main"), COMMIT).unwrap();
        for folder in [&snapshot, &sandbox.path(adapter)] {
            crate::common::copy_folder(&crate::common::golden("lora-merged/several").join(adapter), folder);
        }
    }
    let convert = |out: &str, loras: [&str; 2]| {
        let loras = loras.iter().flat_map(|lora| ["--lora", lora]);
        let args: Vec<&str> = ["base", out, "-t", "bf16"].into_iter().chain(loras).collect();
        let ran = succeed(sandbox.convert(&args));
        (sandbox.read(out), ran.stderr)
    };
    let (local, _) = convert("out/local.gguf", ["adapter-0", "adapter-1=-0.25"]);
    let (cached, log) = convert("out/cached.gguf", ["hf://org/adapter-0@main", "org/adapter-1=-0.25"]);
    assert!(local == cached);
    assert!(log.contains("adapter `org/adapter-1`: LoRA merged -0.25 times into "), "{log}");
    let ran = sandbox.convert(&words("base out/x.gguf -t bf16 --lora hf://org/other"));
    assert!(
        ran.code == Some(1) && ran.stderr.contains("is not in the local Hugging Face cache `"),
        "{}",
        ran.stderr
    );
}

#[test]
fn local_folder_precedes_hub_name() {
    let sandbox = with_cache("llama");
    fs::create_dir(sandbox.path("org")).unwrap();
    let ran = sandbox.convert(&["org/llama", "out/x.gguf", "-t", "q8_0"]);
    ran.ends_and_begins(1, "error: org/llama: ");
    succeed(sandbox.convert(&["hf://org/llama", "out/x.gguf", "-t", "q8_0"]));
}

#[test]
fn uncached_model_is_named() {
    let sandbox = with_cache("llama");
    for address in ["hf://org/other", "org/llama@v2", "hf://other/llama"] {
        let ran = sandbox.convert(&[address, "out/x.gguf", "-t", "q8_0"]);
        assert_eq!(ran.code, Some(1), "{address}");
        ran.says("is not in the local Hugging Face cache `");
        ran.says("hint: unset HF_HUB_OFFLINE");
    }
    assert!(!sandbox.path("out/x.gguf").exists());
    // A file that the cache was not filled with is one that is missing.
    let config = sandbox.path("hf/hub").join("models--org--llama/snapshots").join(COMMIT).join("config.json");
    fs::remove_file(config).unwrap();
    let ran = sandbox.convert(&["org/llama", "out/x.gguf", "-t", "q8_0"]);
    ran.ends_and_says(1, "error: org/llama: missing file `config.json`");
}
