//! Models of the Hub that are read over the network, from a server in the test that also fails on purpose.

use std::{fs, path::Path, process::Command, time::Instant};

use crate::common::{Output, Sandbox, copy_folder, signal, succeed};
use crate::hub_server::{COMMIT, Fault, HubServer, TOKEN};

const WEIGHTS: &str = "model.safetensors";

fn is_weights(name: &str) -> bool {
    name.ends_with(".safetensors")
}

/// The checkpoint `golden/arch/NAME` in the folder `model` of a fresh place, what its conversion to Q4_K_M gives, and
/// a server that has it.
fn place(name: &str) -> (Sandbox, Vec<u8>, HubServer) {
    let sandbox = folder(name);
    let local = local(&sandbox, "q4_k_m");
    let server = HubServer::of(&sandbox.path("model"), is_weights);
    (sandbox, local, server)
}

fn folder(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::checkpoint(name), &sandbox.path("model"));
    fs::remove_file(sandbox.path("model/expected.json")).unwrap();
    fs::create_dir(sandbox.path("out")).unwrap();
    fs::create_dir(sandbox.path("tmp")).unwrap();
    sandbox
}

fn local(sandbox: &Sandbox, file_type: &str) -> Vec<u8> {
    succeed(sandbox.convert(&["model", "out/local.gguf", "-t", file_type, "-q"]));
    sandbox.read("out/local.gguf")
}

fn command(sandbox: &Sandbox, server: &HubServer) -> Command {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-convert"));
    for variable in
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
    {
        command.env_remove(variable);
    }
    command.env("HF_ENDPOINT", &server.endpoint).env("HF_TOKEN", TOKEN).env("TMPDIR", sandbox.path("tmp"));
    command
}

fn run(sandbox: &Sandbox, server: &HubServer, args: &[&str]) -> Output {
    let output = command(sandbox, server).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn convert(sandbox: &Sandbox, server: &HubServer, file_type: &str) -> Output {
    run(sandbox, server, &["hf://org/model", "out/remote.gguf", "-t", file_type, "--force"])
}

/// Converts, and expects what the folder gives and nothing else on the disk.
fn expect_same(sandbox: &Sandbox, server: &HubServer, file_type: &str, local: &[u8], what: &str) {
    let ran = convert(sandbox, server, file_type);
    assert_eq!(ran.code, Some(0), "{what}: {}", ran.stderr);
    assert!(sandbox.read("out/remote.gguf") == local, "{what}: other bytes");
    expect_nothing_left(sandbox, &["local.gguf", "remote.gguf"]);
    fs::remove_file(sandbox.path("out/remote.gguf")).unwrap();
}

fn expect_nothing_left(sandbox: &Sandbox, outputs: &[&str]) {
    assert_eq!(sandbox.outputs(), outputs);
    assert!(sandbox.listing("tmp").is_empty(), "{:?}", sandbox.listing("tmp"));
    assert!(!sandbox.path("hf").exists());
}

/// Such files may be programs, which are not fetched otherwise, and in a folder.
#[test]
fn remote_model_is_recognized_by_its_files() {
    for (name, architecture, kind) in [
        ("clef", "clef", "clef"),
        ("d1", "lfm2", "lfm2-d1"),
        ("laya", "modern-bert", "laya"),
        ("openjev", "qwen35", "openjev"),
        ("pplx-decider", "qwen35", "pplx-decider"),
    ] {
        let (sandbox, local, server) = place(name);
        expect_same(&sandbox, &server, "q4_k_m", &local, name);
        let file = sandbox.file("out/local.gguf");
        assert_eq!(file.metadata().get(&format!("{architecture}.decision.type")), Some(&kind.into()));
    }
}

#[test]
fn remote_file_matches_local_folder() {
    let (sandbox, local, server) = place("llama");
    server.need_token();
    expect_same(&sandbox, &server, "q4_k_m", &local, "plain");
    let log = server.log();
    assert!(
        log.iter().all(|request| request.token.is_some() != request.at_storage),
        "the token is for the Hub alone"
    );
    let weights: Vec<_> = log.iter().filter(|request| request.at_storage).collect();
    assert!(weights.iter().all(|request| request.range.is_some()), "weights come in ranges");
    let n_bytes: usize =
        weights.iter().filter_map(|request| request.range).map(|(first, end)| end - first).sum();
    let n_file = fs::metadata(sandbox.path("model").join(WEIGHTS)).unwrap().len() as usize;
    // A block may come twice where tensors that share it lie far apart in the output.
    assert!(n_bytes >= n_file && n_bytes < n_file * 3 / 2, "{n_bytes} of {n_file} bytes");
    let n_resolved =
        log.iter().filter(|request| !request.at_storage && request.path.ends_with(WEIGHTS)).count();
    assert!(n_resolved <= 4, "{n_resolved} signatures");

    // Plans read the header, a vocabulary of a stated type not even that.
    for (args, at_most) in [
        (&["--dry-run", "-t", "q4_k_m"][..], 1 << 18),
        (&["--dry-run", "-t", "q4_k_m", "-j", "1"], 1 << 18),
        (&["--vocab-only", "-t", "f16"], 1 << 18),
        (&["--vocab-only"], 1 << 18),
    ] {
        server.reset();
        let ran = run(&sandbox, &server, &[&["org/model", "out/x.gguf", "--force"], args].concat());
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
        let of_weights = server.log().into_iter().filter(|request| request.at_storage);
        let n_bytes: usize =
            of_weights.filter_map(|request| request.range).map(|(first, end)| end - first).sum();
        assert!(n_bytes <= at_most, "{args:?}: {n_bytes} bytes of weights");
    }
}

#[test]
fn transfer_faults_change_no_byte() {
    let (sandbox, local, server) = place("llama");
    for (fault, times) in [
        (Fault::Cut(1000), 20),
        (Fault::Cut(0), 3),
        (Fault::Cut(300_000), 3),
        (Fault::Slow, 1000),
        (Fault::Status(429, "Retry-After: 1"), 1),
        (Fault::Status(500, "X: y"), 2),
        (Fault::Status(503, "Retry-After: 0"), 4),
        (Fault::Status(408, "X: y"), 1),
        (Fault::Status(403, "X: y"), 1),
        (Fault::OtherRange, 2),
        (Fault::IgnoreRange, 1),
        (Fault::IgnoreRange, 1000),
        (Fault::IgnoreRangeAndCut(700_000), 4),
    ] {
        server.reset();
        server.fail(fault.clone(), times);
        expect_same(&sandbox, &server, "q4_k_m", &local, &format!("{fault:?}, {times} times"));
    }
    for (fault, times) in [
        (Fault::Cut(10), 3),
        (Fault::Status(429, "Retry-After: 0"), 3),
        (Fault::Status(502, "X: y"), 1),
        (Fault::Redirect("/api/models/org/model/revision/main".to_owned()), 1),
    ] {
        server.reset();
        server.fail_at_hub(fault.clone(), times);
        expect_same(&sandbox, &server, "q4_k_m", &local, &format!("at the Hub: {fault:?}, {times} times"));
    }
    // Each signature is good for what is asked before the next one is given.
    server.reset();
    server.fail(Fault::Slow, 2);
    server.expire_signatures();
    expect_same(&sandbox, &server, "q4_k_m", &local, "expired signatures");
}

#[test]
fn unavailable_model_is_reported_and_writes_nothing() {
    let (sandbox, _, server) = place("llama");
    // Seven attempts would take longer.
    let start = Instant::now();
    let mut unknown = command(&sandbox, &server);
    unknown.env("HF_ENDPOINT", "http://hub.invalid").args(["hf://org/model", "-q"]);
    let stderr = String::from_utf8(unknown.output().unwrap().stderr).unwrap();
    assert!(stderr.contains("cannot reach hub.invalid: ") && stderr.contains("or pass a folder"), "{stderr}");
    assert!(start.elapsed().as_secs() < 15, "{stderr}");
    let elsewhere = HubServer::of(&sandbox.path("model"), is_weights);
    let away = format!("{}/org/model/resolve/{COMMIT}/{WEIGHTS}?signature=1", elsewhere.endpoint);
    for (fault, times, message, hint) in [
        (Fault::OtherTag, 1, "expected the tag", "run the command again"),
        (Fault::OtherLength, 1, "expected the length", "run the command again"),
        (Fault::Status(418, "X: y"), 1, "the server returned status 418", "check the network"),
        (Fault::Status(500, "Retry-After: 0"), 1000, "the server returned status 500", "check the network"),
        (Fault::Redirect("ftp://x/y".to_owned()), 1, "redirect to `ftp://x/y`", ""),
    ] {
        server.reset();
        // The first answer has the right tag.
        let what = format!("{fault:?}");
        if fault == Fault::OtherTag {
            server.fail(Fault::Slow, 1);
        }
        server.fail(fault, times);
        let ran = convert(&sandbox, &server, "q4_k_m");
        assert_eq!(ran.code, Some(1), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(message) && ran.stderr.contains(hint), "{what}: {}", ran.stderr);
        // Recorded work of the stopped run stays for the next.
        for left in sandbox.outputs().iter().filter(|name| name.starts_with(".remote.gguf.")) {
            fs::remove_file(sandbox.path("out").join(left)).unwrap();
        }
        expect_nothing_left(&sandbox, &["local.gguf"]);
    }
    for (fault, message, hint) in [
        (Fault::Status(401, "X-Error-Code: GatedRepo"), "accept the terms", "as the owner of the token"),
        (Fault::Status(403, "X: y"), "no access", "check the access of your token"),
        (Fault::Status(404, "X: y"), "no such model", "write ./NAME for a local folder"),
    ] {
        server.reset();
        server.fail_at_hub(fault, 1000);
        let ran = convert(&sandbox, &server, "q4_k_m");
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(message) && ran.stderr.contains(hint), "{}", ran.stderr);
    }
    server.reset();
    let ran = run(&sandbox, &server, &["org/model@none", "out/x.gguf", "-t", "q8_0"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("returned status 404: Invalid rev id: none"),
        "{}",
        ran.stderr
    );
    // Without a token the advice is another one.
    server.need_token();
    let output =
        command(&sandbox, &server).env_remove("HF_TOKEN").args(["org/model", "x", "-t", "q8_0"]).output();
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(stderr.contains("then set HF_TOKEN or log in"), "{stderr}");
    // Another server never receives the token, even after a redirect from the Hub.
    server.reset();
    server.fail(Fault::Redirect(away), 1000);
    let ran = convert(&sandbox, &server, "q4_k_m");
    let (has_token, asked) =
        (elsewhere.log().iter().any(|logged| logged.token.is_some()), elsewhere.log().len());
    assert!(ran.code == Some(0) && asked > 0 && !has_token, "{asked} requests: {}", ran.stderr);
    fs::remove_file(sandbox.path("out/remote.gguf")).unwrap();
    // Complete files whose content differs from the Hub's checksum.
    server.reset();
    server.fail_at_hub(Fault::Slow, 3);
    server.fail_at_hub(Fault::OtherByte, 1000);
    let ran = convert(&sandbox, &server, "q4_k_m");
    assert!(ran.code == Some(1) && ran.stderr.contains("expected checksum"), "{}", ran.stderr);
    expect_nothing_left(&sandbox, &["local.gguf"]);
}

#[test]
fn kept_download_is_reused() {
    let (sandbox, local, server) = place("llama");
    let args = ["org/model", "out/kept.gguf", "-t", "q4_k_m", "--force", "--keep"];
    server.fail(Fault::Cut(100_000), 3);
    succeed(run(&sandbox, &server, &args));
    assert!(sandbox.read("out/kept.gguf") == local);
    let snapshot = sandbox.path("hf/hub/models--org--model/snapshots").join(COMMIT);
    for entry in fs::read_dir(sandbox.path("model")).unwrap() {
        let path = entry.unwrap().path();
        let kept = snapshot.join(path.file_name().unwrap());
        assert!(fs::read(&kept).unwrap() == fs::read(&path).unwrap(), "{}", kept.display());
        if cfg!(unix) {
            assert!(fs::read_link(&kept).unwrap().starts_with("../../blobs"));
        }
    }
    let blobs = fs::read_dir(sandbox.path("hf/hub/models--org--model/blobs")).unwrap();
    let names: Vec<_> = blobs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name.len() == 40 || name.len() == 64), "{names:?}");
    // The cache serves it now, without any request.
    server.reset();
    let ran = run(&sandbox, &server, &["org/model", "out/again.gguf", "-t", "q4_k_m"]);
    assert!(ran.code == Some(0) && sandbox.read("out/again.gguf") == local);
    assert!(server.log().is_empty());
    // Where a name is gone, its blob is used; if a blob is gone, it comes again.
    for gone in ["config.json", WEIGHTS] {
        fs::remove_file(snapshot.join(gone)).unwrap();
    }
    let ran = run(&sandbox, &server, &args);
    assert!(ran.code == Some(0) && snapshot.join(WEIGHTS).is_file(), "{}", ran.stderr);
    assert!(!cfg!(unix) || !server.log().iter().any(|request| request.at_storage));
    fs::remove_file(fs::canonicalize(snapshot.join(WEIGHTS)).unwrap()).unwrap();
    server.fail(Fault::OtherByte, 1000);
    let ran = run(&sandbox, &server, &args);
    ran.ends_and_says(1, "`model.safetensors`: expected checksum");
    assert!(!snapshot.join(WEIGHTS).exists(), "what is wrong is not kept");
    // The file of the call before stays, and a new one does not appear.
    assert!(sandbox.read("out/kept.gguf") == local);
    let ran = run(&sandbox, &server, &["org/model", "out/new.gguf", "-t", "q4_k_m", "--keep"]);
    ran.ends_and_says(1, "`model.safetensors`: expected checksum");
    assert_eq!(sandbox.outputs(), ["again.gguf", "kept.gguf", "local.gguf"]);
}

/// Cuts the weights of a folder into two files with an index.
fn shard(folder: &Path) {
    let tensors = gguf_testkit::read_safetensors(&fs::read(folder.join(WEIGHTS)).unwrap());
    let tensors: Vec<_> = tensors.iter().collect();
    let mut map = serde_json::Map::new();
    for (number, half) in tensors.chunks(tensors.len().div_ceil(2)).enumerate() {
        let file = format!("model-0000{}-of-00002.safetensors", number + 1);
        map.extend(half.iter().map(|(name, _)| ((*name).clone(), file.clone().into())));
        let half = half.iter().map(|(name, (dtype, shape, bytes))| (&name[..], &dtype[..], shape, bytes));
        fs::write(folder.join(file), gguf_testkit::safetensors(half)).unwrap();
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    fs::remove_file(folder.join(WEIGHTS)).unwrap();
}

#[test]
fn remote_shards_and_transposed_matrices_match_local() {
    for name in ["llama", "gpt2", "gpt-oss-mxfp4"] {
        let sandbox = folder(name);
        shard(&sandbox.path("model"));
        let local = local(&sandbox, "bf16");
        let server = HubServer::of(&sandbox.path("model"), is_weights);
        expect_same(&sandbox, &server, "bf16", &local, name);
        server.fail(Fault::Cut(5000), 20);
        expect_same(&sandbox, &server, "bf16", &local, name);
    }
}

#[cfg(unix)]
#[test]
fn interrupt_works_while_waiting_for_bytes() {
    let (sandbox, _, server) = place("llama");
    server.fail(Fault::Hang, 1000);
    let mut command = command(&sandbox, &server);
    let child = command.args(["org/model", "out/x.gguf", "-t", "q8_0"]).stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    while !server.log().iter().any(|request| request.at_storage) {
        std::thread::yield_now();
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    expect_nothing_left(&sandbox, &["local.gguf"]);
}

#[test]
fn offline_mode_sends_no_request() {
    let (sandbox, _, server) = place("llama");
    let output = command(&sandbox, &server)
        .env("HF_HUB_OFFLINE", "1")
        .args(["hf://org/model", "out/x.gguf", "-t", "q8_0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("HF_HUB_OFFLINE is set"));
    assert!(server.log().is_empty());
}

#[test]
fn weights_without_leading_header_download_whole() {
    for name in ["bin", "bin-sharded"] {
        let sandbox = Sandbox::new();
        copy_folder(&crate::common::golden("torch").join(name), &sandbox.path("model"));
        for folder in ["out", "tmp"] {
            fs::create_dir(sandbox.path(folder)).unwrap();
        }
        for other in ["expected.json", "tokenizer.model"] {
            let _ = fs::remove_file(sandbox.path("model").join(other));
        }
        fs::copy(crate::common::golden("torch/tokenizer.model"), sandbox.path("model/tokenizer.model"))
            .unwrap();
        let local = local(&sandbox, "q8_0");
        let server = HubServer::of(&sandbox.path("model"), |name| name.ends_with(".bin"));
        server.fail(Fault::Cut(3000), 5);
        expect_same(&sandbox, &server, "q8_0", &local, name);
        server.reset();
        succeed(run(&sandbox, &server, &["org/model", "out/vocab.gguf", "--vocab-only"]));
        assert!(!server.log().iter().any(|request| request.at_storage), "a vocabulary needs no weights");
    }
}

/// An adapter that is on the Hub alone, for a base model that is here.
#[test]
fn remote_adapter_merges_as_its_folder() {
    let sandbox = Sandbox::new();
    for folder in ["out", "tmp"] {
        fs::create_dir(sandbox.path(folder)).unwrap();
    }
    copy_folder(&gguf_testkit::checkpoint("llama-head-dim"), &sandbox.path("base"));
    copy_folder(&crate::common::golden("lora-merged/rslora/adapter-0"), &sandbox.path("model"));
    let server = HubServer::of(&sandbox.path("model"), is_weights);
    server.need_token();
    let convert = |out: &str, lora: &str| {
        succeed(run(&sandbox, &server, &["base", out, "-t", "f32", "--lora", lora]));
        sandbox.read(out)
    };
    let local = convert("out/local.gguf", "model=0.3");
    assert!(server.log().is_empty());
    server.fail(Fault::Cut(1000), 2);
    assert!(local == convert("out/remote.gguf", "hf://org/model=0.3"));
    assert!(server.log().iter().any(|request| request.at_storage));
    expect_nothing_left(&sandbox, &["local.gguf", "remote.gguf"]);
}
