//! `gguf-inspect recipe`: the types of a file, out of its header, applied to the weights that it was made of.

use std::fs;

use crate::common::{Output, Sandbox, words};
use serde_json::Value as Json;

const INSPECT: &str = env!("CARGO_BIN_EXE_gguf-inspect");

/// A place with a checkpoint and a file of it in a mix of types.
pub fn place() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    let types = ["--tensor-type", "blk.0.ffn_down=iq4_nl", "--tensor-type", "blk.1.attn_k=q5_1"];
    done(
        &sandbox,
        sandbox.convert(&[&["llama", "out/theirs.gguf", "-t", "q4_k_m", "-q"], &types[..]].concat()),
    );
    sandbox
}

fn done(_: &Sandbox, ran: Output) -> String {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

#[test]
fn recipe_reproduces_the_file() {
    let sandbox = place();
    let ran = sandbox.inspect(&["recipe", "out/theirs.gguf", "-o", "theirs.json"]);
    let message = "wrote theirs.json: Q4_K_M, 21 tensors: ";
    assert!(ran.code == Some(0) && ran.stderr.starts_with(message), "{}", ran.stderr);
    // On stdout the same.
    let text = sandbox.text("theirs.json");
    assert_eq!(done(&sandbox, sandbox.inspect(&["recipe", "out/theirs.gguf"])), text);
    done(&sandbox, sandbox.convert(&words("llama out/ours.gguf --recipe theirs.json -q")));
    assert!(sandbox.read("out/ours.gguf") == sandbox.read("out/theirs.gguf"), "other bytes");
    // By gguf-quantize too, from a file of floats.
    done(&sandbox, sandbox.convert(&words("llama out/bf16.gguf -t bf16 -q")));
    done(&sandbox, sandbox.quantize(&words("--recipe theirs.json -q out/bf16.gguf out/again.gguf")));
    assert!(sandbox.read("out/again.gguf") == sandbox.read("out/theirs.gguf"), "other bytes");
}

#[test]
fn recipe_dry_run_writes_nothing() {
    let sandbox = place();
    let before = sandbox.listing("");
    let message = done(&sandbox, sandbox.inspect(&words("recipe out/theirs.gguf -o x.json --dry-run")));
    assert!(message.starts_with("Q4_K_M, 21 tensors: ") && message.contains("1 iq4_nl"), "{message}");
    let json = done(&sandbox, sandbox.inspect(&["recipe", "out/theirs.gguf", "--json"]));
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["type"], &json["n_tensors"], &json["output"]),
        (&"Q4_K_M".into(), &21.into(), &Json::Null)
    );
    assert_eq!(json["recipe"]["outputs"][0]["dtypes"]["blk.1.attn_k.weight"], "q5_1");
    assert_eq!(json["dtypes"]["iq4_nl"], 1);
    assert_eq!(sandbox.listing(""), before);
    // Existing files are only replaced with --force.
    sandbox.write("x.json", "mine");
    assert_eq!(sandbox.inspect(&["recipe", "out/theirs.gguf", "-o", "x.json"]).code, Some(1));
    assert_eq!(sandbox.text("x.json"), "mine");
    done(&sandbox, sandbox.inspect(&words("recipe out/theirs.gguf -o x.json --force -q")));
}

#[test]
fn files_without_file_type_or_tensors() {
    let sandbox = place();
    done(&sandbox, sandbox.inspect(&["unset", "out/theirs.gguf", "general.file_type", "-q"]));
    let ran = sandbox.inspect(&["recipe", "out/theirs.gguf", "--dry-run"]);
    ran.says("missing metadata key `general.file_type`: ");
    assert_eq!(ran.code, Some(0));
    done(&sandbox, sandbox.convert(&["vocab", "llama", "out/vocab.gguf", "-q"]));
    let ran = sandbox.inspect(&["recipe", "out/vocab.gguf"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "error: out/vocab.gguf: no tensors\n"));
}

#[cfg(feature = "remote")]
pub mod remote {
    use crate::hub_server::{COMMIT, Fault, HubServer, TOKEN};

    use super::*;

    pub fn run(sandbox: &Sandbox, server: &HubServer, args: &[&str]) -> Output {
        let mut command = sandbox.command(INSPECT);
        for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"] {
            command.env_remove(variable);
        }
        let output =
            command.env("HF_ENDPOINT", &server.endpoint).env("HF_TOKEN", TOKEN).args(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    #[test]
    fn only_header_of_remote_file_is_read() {
        let sandbox = place();
        done(&sandbox, sandbox.inspect(&words("split out/theirs.gguf out/part --split-max-tensors 8 -q")));
        let local = done(&sandbox, sandbox.inspect(&["recipe", "out/theirs.gguf"]));
        let server = HubServer::of(&sandbox.path("out"), |name| name.ends_with(".gguf"));
        server.need_token();
        let address = format!("{}/org/model/resolve/{COMMIT}/theirs.gguf", server.endpoint);
        for file in ["hf://org/model/theirs.gguf", "hf://org/model@main/theirs.gguf", &address] {
            let ran = run(&sandbox, &server, &["recipe", file]);
            assert_eq!((ran.code, &ran.stdout), (Some(0), &local), "{file}: {}", ran.stderr);
        }
        let log = server.log();
        assert!(
            log.iter().all(|request| request.at_storage == request.token.is_none()),
            "the token is the Hub's"
        );
        let fetched = log.iter().filter(|request| request.at_storage);
        let whole = fs::metadata(sandbox.path("out/theirs.gguf")).unwrap().len() as usize;
        let fetched: Vec<_> = fetched.map(|request| request.range.unwrap()).collect();
        assert!(
            whole > 300_000 && fetched.iter().all(|range| *range == (0, 256 << 10)),
            "{fetched:?} of {whole}"
        );
        // Shards by the name of any of them.
        let ran = run(&sandbox, &server, &["recipe", "hf://org/model/part-00002-of-00003.gguf", "-q"]);
        assert_eq!((ran.code, &ran.stdout), (Some(0), &local), "{}", ran.stderr);
    }

    #[test]
    fn recipe_of_remote_file_is_used_directly() {
        let sandbox = place();
        let server = HubServer::of(&sandbox.path("out"), |name| name.ends_with(".gguf"));
        let args = words("llama ours.gguf --recipe hf://org/model/theirs.gguf -q");
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-convert"));
        for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"] {
            command.env_remove(variable);
        }
        let ran = command.env("HF_ENDPOINT", &server.endpoint).args(args).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(sandbox.read("ours.gguf") == sandbox.read("out/theirs.gguf"));
        assert!(server.log().iter().all(|request| request.range.is_none_or(|(_, end)| end <= 256 << 10)));
    }

    #[test]
    fn failing_server_is_retried_lying_refused() {
        let sandbox = place();
        let local = done(&sandbox, sandbox.inspect(&["recipe", "out/theirs.gguf"]));
        let server = HubServer::of(&sandbox.path("out"), |name| name.ends_with(".gguf"));
        let recipe = |file: &str| run(&sandbox, &server, &["recipe", file, "-q"]);
        let faults =
            [Fault::Cut(1000), Fault::IgnoreRange, Fault::IgnoreRangeAndCut(5000), Fault::OtherRange];
        for fault in faults {
            server.fail(fault.clone(), 1);
            let ran = recipe("hf://org/model/theirs.gguf");
            assert_eq!((ran.code, &ran.stdout), (Some(0), &local), "{fault:?}: {}", ran.stderr);
        }
        server.fail(Fault::Cut(1000), 1);
        server.fail(Fault::OtherTag, 1);
        assert!(recipe("hf://org/model/theirs.gguf").stderr.contains("the tag"));
        server.reset();
        for (file, message) in [
            ("hf://org/model/none.gguf", "404"),
            ("hf://org/model", "write hf://OWNER/MODEL/FILE"),
            ("hf://org/model/../x.gguf", "write hf://OWNER/MODEL/FILE"),
            ("http://", "not a valid URL"),
        ] {
            let ran = recipe(file);
            assert!(ran.code == Some(1) && ran.stderr.contains(message), "{file}: {}", ran.stderr);
        }
    }

    #[test]
    fn other_remote_files_end_after_first_bytes() {
        let sandbox = place();
        sandbox.write("out/x.gguf", vec![7; 1 << 20]);
        // A header that claims more than the file has.
        let mut cut = sandbox.read("out/theirs.gguf");
        cut.truncate(2000);
        sandbox.write("out/cut.gguf", &cut);
        let server = HubServer::of(&sandbox.path("out"), |name| name.ends_with(".gguf"));
        for (name, message) in
            [("x", "expected `GGUF` at the start"), ("cut", "does not fit in the remaining")]
        {
            let ran = run(&sandbox, &server, &["recipe", &format!("hf://org/model/{name}.gguf"), "-q"]);
            assert!(ran.code == Some(1) && ran.stderr.contains(message), "{name}: {}", ran.stderr);
        }
        let at_storage = server.log().iter().filter(|request| request.at_storage).count();
        assert_eq!(at_storage, 2, "one request for each");
    }
}
