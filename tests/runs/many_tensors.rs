//! A checkpoint of very many tensors is planned in a moment: nothing searches them one by one.
//!
//! `TENSORS=100000 cargo test --release --test all runs::many_tensors -- --nocapture` prints the seconds of as many as the
//! largest mixtures have.

use std::{env, fmt::Write as _, fs, path::Path, process::Command, time::Instant};

/// Experts of each layer.
const N_EXPERTS: usize = 256;
const HIDDEN: usize = 16;

/// Writes a Qwen3 mixture of about `n_tensors` tensors whose weights are a hole in the file; gives their number.
fn write_checkpoint(folder: &Path, n_tensors: usize) -> usize {
    let golden = gguf_testkit::checkpoint("qwen3moe");
    fs::create_dir(folder).expect("a folder");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(golden.join(name), folder.join(name)).expect("a tokenizer");
    }
    let n_layers = n_tensors.div_ceil(3 * N_EXPERTS + 9);
    let config = fs::read(golden.join("config.json")).expect("a config");
    let mut config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    config["num_hidden_layers"] = n_layers.into();
    config["num_local_experts"] = N_EXPERTS.into();
    fs::write(folder.join("config.json"), config.to_string()).expect("space");

    let (mut header, mut end, mut n) = (String::from("{"), 0, 0);
    let mut add = |name: String, shape: &[usize]| {
        let begin = end;
        end += 2 * shape.iter().product::<usize>();
        let comma = if n == 0 { "" } else { "," };
        write!(
            header,
            r#"{comma}"{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        )
        .expect("memory");
        n += 1;
    };
    add("lm_head.weight".into(), &[288, HIDDEN]);
    add("model.embed_tokens.weight".into(), &[288, HIDDEN]);
    add("model.norm.weight".into(), &[HIDDEN]);
    for layer in 0..n_layers {
        let at = |part: &str| format!("model.layers.{layer}.{part}.weight");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(at(norm), &[HIDDEN]);
        }
        for norm in ["self_attn.q_norm", "self_attn.k_norm"] {
            add(at(norm), &[8]);
        }
        add(at("self_attn.q_proj"), &[32, HIDDEN]);
        add(at("self_attn.k_proj"), &[16, HIDDEN]);
        add(at("self_attn.v_proj"), &[16, HIDDEN]);
        add(at("self_attn.o_proj"), &[HIDDEN, 32]);
        add(at("mlp.gate"), &[N_EXPERTS, HIDDEN]);
        for expert in 0..N_EXPERTS {
            add(at(&format!("mlp.experts.{expert}.gate_proj")), &[12, HIDDEN]);
            add(at(&format!("mlp.experts.{expert}.up_proj")), &[12, HIDDEN]);
            add(at(&format!("mlp.experts.{expert}.down_proj")), &[HIDDEN, 12]);
        }
    }
    header.push('}');
    let start = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let path = folder.join("model.safetensors");
    fs::write(&path, &start).expect("space");
    let file = fs::File::options().write(true).open(&path).expect("the file");
    file.set_len((start.len() + end) as u64).expect("a hole");
    n
}

#[test]
fn many_tensors_are_planned_quickly() {
    let n_tensors = env::var("TENSORS").map_or(20_000, |text| text.parse().expect("a number"));
    let sandbox = tempfile::tempdir().expect("a folder");
    let folder = sandbox.path().join("model");
    let n = write_checkpoint(&folder, n_tensors);
    let start = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_gguf-convert"))
        .args(["--type", "q8_0", "--dry-run", "--json"])
        .arg(&folder)
        .current_dir(sandbox.path())
        .output()
        .expect("the binary runs");
    let seconds = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{n} tensors: {seconds:.2} s");
    // All experts of a layer are one tensor of the file.
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listed = report["outputs"][0]["tensors"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, 3 + (n - 3) / (3 * N_EXPERTS + 9) * 12);
    // A search for each among all took 19 s of 100,000; a machine that does much else is no reason to fail.
    assert!(seconds < 60.0, "{n} tensors: {seconds:.2} s");
}
