//! `gguf-convert`: outputs, and errors without an output.

use std::{collections::BTreeSet, fs, path::Path};

use crate::common::{Checkpoint, Output, Sandbox, golden, sha256, silent, succeed, words};

/// Note of the reference's converter about the tokenizer of these checkpoints.
const NOTE: &str = "note: `tokenizer.model` collapses repeated spaces, but llama.cpp keeps them: text with repeated spaces is tokenized differently than in training\n";

/// Types and digests of `golden/cli/two-step.txt`: float types as the converter alone writes
/// them, all others as converter at bf16 and llama-quantize do.
fn two_step() -> Vec<(String, u64, String)> {
    let text = fs::read_to_string(golden("cli/two-step.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [steps, name, bytes, digest] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("`{line}`")
        };
        (steps.to_owned(), name.to_owned(), bytes.parse().unwrap(), digest.to_owned())
    });
    let is_float = |name: &str| ["f32", "f16", "bf16"].contains(&name);
    rows.filter(|(steps, name, ..)| (steps == "convert") == is_float(name))
        .map(|(_, name, bytes, digest)| (name, bytes, digest))
        .collect()
}

#[test]
fn every_type_matches_reference() {
    let sandbox = Sandbox::with_golden("llama");
    let rows = two_step();
    let mut compared = BTreeSet::new();
    for (name, n_bytes, digest) in &rows {
        let ran = sandbox.convert(&["llama", "out/{ftype}.gguf", "--type", name, "--quiet"]);
        assert_eq!(ran, silent(), "{name}");
        let bytes = sandbox.read(&format!("out/{name}.gguf"));
        assert_eq!((bytes.len() as u64, sha256(&bytes)), (*n_bytes, digest.clone()), "{name}");
        compared.insert(name.as_str());
    }
    // Every type of the issue that asked for them, so that a line lost from the golden shows.
    let expected =
        "bf16 f16 f32 q2_k q3_k_l q3_k_m q3_k_s q4_0 q4_1 q4_k_m q4_k_s q5_0 q5_1 q5_k_m q5_k_s q6_k q8_0";
    assert_eq!(compared.into_iter().collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn via_bf16_keeps_bf16_checkpoint_bytes() {
    let sandbox = Sandbox::with_golden("llama");
    let digest = two_step().into_iter().find(|row| row.0 == "q4_k_m").unwrap().2;
    let ran = sandbox.convert(&words("llama out/x -t q4_k_m -q --via bf16"));
    assert_eq!(ran, silent());
    assert_eq!(sandbox.listing("out")["x"], digest);
}

#[test]
fn outputs_have_conventional_names() {
    let sandbox = Sandbox::with_golden("llama");
    let name = "Llama-1.4M-Q4_K_M.gguf";
    let wrote = |path: &str| Output {
        stderr: format!(
            "{NOTE}wrote {path}: 857376 bytes (857 kB), 4.92 bits/weight\n\
             chat with it: gguf-eval chat {path}\n"
        ),
        ..silent()
    };
    // Without OUT: the convention, in the current folder.
    assert_eq!(sandbox.convert(&["llama", "--type", "Q4_K_M"]), wrote(name));
    assert!(sandbox.path(name).is_file());
    // A folder; an alias is named by what it stands for.
    assert_eq!(sandbox.convert(&["llama", "out", "-t", "q4_k"]), wrote(&format!("out/{name}")));
    assert_eq!(sandbox.convert(&words("llama out/ -t Q4_K_M --force")), wrote(&format!("out/{name}")));
    // A template.
    assert_eq!(
        sandbox.convert(&["llama", "out/{FTYPE}-{ftype}", "-t", "q4_K_m"]),
        wrote("out/Q4_K_M-q4_k_m")
    );
    assert_eq!(sandbox.outputs(), [name, "Q4_K_M-q4_k_m"]);

    let unknown = sandbox.convert(&["llama", "out/{type}", "-t", "q4_0"]);
    let stderr = "error: unknown placeholder `{type}` in the output name\n\
                  hint: use {ftype}, {FTYPE}, {outtype} or {OUTTYPE}\n";
    assert_eq!(unknown, Output { code: Some(1), stdout: String::new(), stderr: stderr.into() });
    let same = sandbox.convert(&["llama", "out/x", "-t", "q4_0,q5_0"]);
    let stderr = "error: 2 types would be written to the same file `out/x`\n\
                  hint: use a folder, or a name with {ftype}\n";
    assert_eq!(same, Output { code: Some(1), stdout: String::new(), stderr: stderr.into() });
}

#[test]
fn dry_run_reads_no_weights() {
    let sandbox = Sandbox::with_golden("llama");
    // A NaN shows that weights are not looked at; the real run below stops at it.
    poison(&sandbox, "model.layers.1.mlp.down_proj.weight", 3 * 512 + 7, 0x7fc0);
    let ran = sandbox.convert(&words("llama out --type q4_k_m,f16 --dry-run"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), NOTE));
    let expected = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/gguf-convert-dry-run.txt"),
    )
    .unwrap();
    assert_eq!(ran.stdout, expected);
    assert!(expected.lines().all(|line| line.chars().count() <= 80), "{expected}");
    assert!(sandbox.outputs().is_empty());
    let summary = sandbox.convert(&words("llama out --type q4_k_m,f16 --dry-run --no-tensors -q"));
    assert!(
        summary.stdout.contains("out/Llama-1.4M-F16.gguf: F16 of llama") && !summary.stdout.contains("blk.0")
    );

    let json = sandbox.convert(&words("llama out --type q4_k_m,f16 --dry-run --json -q"));
    assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""));
    let json = json.json();
    assert_eq!(json["dry_run"], true);
    assert_eq!(json["architecture"], "llama");
    let output = &json["outputs"][0];
    assert_eq!(output["path"], "out/Llama-1.4M-Q4_K_M.gguf");
    assert_eq!((&output["file_type"], &output["bytes"]), (&15.into(), &857_376.into()));
    assert_eq!(output["totals"]["q6_K"]["tensors"], 3);
    let tensor = &output["tensors"][0];
    assert_eq!((&tensor["name"], &tensor["dtype"]), (&"output.weight".into(), &"q6_K".into()));
    assert_eq!((&tensor["from"], &tensor["shape"][0]), (&"bf16".into(), &256.into()));
    assert_eq!(json["outputs"][1]["bytes"], 2_768_160);
}

#[test]
fn json_lists_written_files() {
    let sandbox = Sandbox::with_golden("llama");
    let ran = sandbox.convert(&words("llama out --type q8_0 --json -q"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["dry_run"], false);
    let path = json["outputs"][0]["path"].as_str().unwrap();
    let bytes = sandbox.read(path);
    assert_eq!(json["outputs"][0]["bytes"], bytes.len());
    // A tensor lies where the report says: the first row of the reference's listing.
    let tensors = json["outputs"][0]["tensors"].as_array().unwrap();
    let end = tensors.last().unwrap();
    let end = end["offset"].as_u64().unwrap() + end["bytes"].as_u64().unwrap();
    assert!(end <= bytes.len() as u64 && end + 32 > bytes.len() as u64);
}

#[test]
fn indivisible_rows_fall_back_with_note() {
    let sandbox = Sandbox::new();
    Checkpoint { hidden: 96, feed_forward: 256, heads: 2 }.write(&sandbox);
    let mut ran = sandbox.convert(&["tiny", "out", "--type", "q4_k_m"]);
    // All weights of this checkpoint are zero.
    let (zeros, other): (Vec<&str>, Vec<&str>) =
        ran.stderr.split_inclusive('\n').partition(|line| line.contains("entirely zero"));
    assert_eq!(zeros.len(), 6, "five tensors, and the number of the others");
    ran.stderr = other.concat();
    let stderr = format!(
        "{NOTE}\
         warning: Q4_K_M: tensor `token_embd.weight` and 5 more: rows of 96 elements cannot be stored as q4_K; using q5_0\n\
         warning: Q4_K_M: tensor `blk.0.attn_v.weight`: a row of 96 elements cannot be stored as q6_K; using q8_0\n\
         warning: Q4_K_M: fallbacks add 0.67 bits/weight (14.7 kB)\n\
         wrote out/Tiny-175K-Q4_K_M.gguf: 150336 bytes (150 kB), 6.40 bits/weight\n\
         chat with it: gguf-eval chat out/Tiny-175K-Q4_K_M.gguf\n"
    );
    assert_eq!(ran, Output { stderr, ..silent() });
}

/// Sets one element of a bf16 tensor in `llama/model.safetensors`.
fn poison(sandbox: &Sandbox, tensor: &str, index: usize, bits: u16) {
    let mut bytes = sandbox.read("llama/model.safetensors");
    let at = gguf_testkit::place_in_safetensors(&bytes, tensor).start + 2 * index;
    bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    sandbox.write("llama/model.safetensors", bytes);
}

#[test]
fn nan_and_inf_are_named() {
    for (bits, value) in [(0x7fc0, "NaN"), (0x7f80, "inf"), (0xff80, "-inf"), (0x7f81, "NaN")] {
        for name in ["q4_k_m", "bf16", "f32", "f16"] {
            let sandbox = Sandbox::with_golden("llama");
            poison(&sandbox, "model.layers.1.mlp.down_proj.weight", 3 * 512 + 7, bits);
            let before = sandbox.listing("llama");
            let ran = sandbox.convert(&["llama", "out", "-q", "--type", name]);
            let stderr = format!(
                "error: llama: tensor `blk.1.ffn_down.weight`: row 3, column 7 is {value}\n\
                 hint: download the weights again if they are damaged; use --allow-nonfinite if they were trained that way\n"
            );
            // The rows that are done are kept, because an option permits the others.
            assert!(ran.code == Some(1) && ran.stderr.starts_with(&stderr), "{}", ran.stderr);
            assert!(sandbox.finished_outputs().is_empty());
            assert_eq!(sandbox.listing("llama"), before);
            let ran =
                sandbox.convert(&["llama", "out", "-q", "--type", name, "--allow-nonfinite", "--force"]);
            assert_eq!(ran, silent());
            assert_eq!(sandbox.outputs().len(), 1);
        }
    }
}

#[test]
fn value_beyond_type_range_is_named() {
    let sandbox = Sandbox::with_golden("llama");
    // 2^127 is a bf16 and no f16.
    poison(&sandbox, "model.layers.0.mlp.up_proj.weight", 5 * 256 + 9, 0x7f00);
    let begin = |dtype: &str| {
        format!(
            "error: llama: tensor `blk.0.ffn_up.weight`: row 5, column 9: 170141180000000000000000000000000000000 is out of range for {dtype}\n\
             hint: choose a type with a wider range (bf16, f32) for this tensor\n"
        )
    };
    sandbox.convert(&words("llama out -q -t f16")).ends_and_begins(1, &begin("f16"));
    assert!(sandbox.finished_outputs().is_empty());
    let ran = sandbox.convert(&words("llama out -q -t q8_0"));
    ran.ends_and_says(1, "is out of range for q8_0");
    assert!(sandbox.finished_outputs().is_empty());
    assert_eq!(sandbox.convert(&words("llama out -q -t bf16")), silent());
}

#[test]
fn existing_output_stays_unless_forced() {
    let sandbox = Sandbox::with_golden("llama");
    sandbox.write("out/x.gguf", "mine");
    let ran = sandbox.convert(&words("llama out/x.gguf -t q4_0 -q"));
    let stderr = "error: `out/x.gguf` already exists\nhint: use --force to overwrite it\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), stderr));
    assert_eq!(sandbox.read("out/x.gguf"), b"mine");
    assert_eq!(sandbox.convert(&words("llama out/x.gguf -t q4_0 -q --force")), silent());
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
    assert_eq!(sandbox.read("out/x.gguf")[..4], *b"GGUF");
    // A failed run leaves the old file whole, even when it was to be replaced.
    poison(&sandbox, "lm_head.weight", 0, 0x7fc0);
    let before = sandbox.read("out/x.gguf");
    assert_eq!(sandbox.convert(&words("llama out/x.gguf -t q4_0 -q --force")).code, Some(1));
    assert!(sandbox.finished_outputs() == ["x.gguf"] && sandbox.read("out/x.gguf") == before);
}

#[test]
fn output_inside_input_is_refused() {
    let sandbox = Sandbox::with_golden("llama");
    fs::create_dir(sandbox.path("llama/deep")).unwrap();
    for out in ["llama", "llama/x.gguf", "llama/deep/x.gguf", "out/../llama/x.gguf"] {
        let before = sandbox.listing("llama");
        let ran = sandbox.convert(&["llama", out, "-t", "q4_0", "-q"]);
        assert_eq!(ran.code, Some(1), "{out}");
        let name = if out == "llama" { "llama/Llama-1.4M-Q4_0.gguf" } else { out };
        let stderr = format!(
            "error: output `{name}` is inside the input folder\n\
             hint: choose an output outside the input folder, which is never written to\n"
        );
        assert_eq!(ran.stderr, stderr);
        assert_eq!(sandbox.listing("llama"), before);
    }
    // Nor through a link, to the folder or to what it links to.
    #[cfg(unix)]
    {
        let before = sandbox.listing("llama");
        // As in the Hub's cache: other links out of the folder are refused.
        let blob = "models--a--b/blobs/x";
        fs::create_dir_all(sandbox.path("models--a--b/blobs")).unwrap();
        fs::rename(sandbox.path("llama/config.json"), sandbox.path(blob)).unwrap();
        std::os::unix::fs::symlink(sandbox.path(blob), sandbox.path("llama/config.json")).unwrap();
        for (link, to) in [("a.gguf", "llama/model.safetensors"), ("b.gguf", blob)] {
            std::os::unix::fs::symlink(sandbox.path(to), sandbox.path(link)).unwrap();
            let ran = sandbox.convert(&["llama", link, "-t", "q4_0", "-q", "--force"]);
            assert_eq!(ran.code, Some(1), "{link}");
            let inside = format!("error: output `{link}` is inside the input folder\n");
            ran.begins(&inside);
        }
        assert_eq!(sandbox.listing("llama"), before);
    }
    let ran = sandbox.convert(&words("llama nowhere/x.gguf -t q4_0 -q"));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(1), "error: folder `nowhere` does not exist\nhint: create the folder first\n")
    );
}

/// One way in which a checkpoint can be wrong: the golden, the change, the message.
struct Bad {
    name: &'static str,
    golden: &'static str,
    damage: fn(&Sandbox),
    stderr: &'static str,
}

const BAD: &[Bad] = &[
    Bad {
        name: "missing shard",
        golden: "llama-sharded",
        damage: |sandbox| {
            fs::remove_file(sandbox.path("llama-sharded/model-00003-of-00005.safetensors")).unwrap()
        },
        stderr: "error: llama-sharded: missing weight file `model-00003-of-00005.safetensors`: `model.safetensors.index.json` lists 6 tensors of that file\n\
                 hint: download the missing file into the folder\n",
    },
    Bad {
        name: "an index that names an absent tensor",
        golden: "llama-sharded",
        damage: |sandbox| {
            let entry = r#""weight_map": {"model.layers.7.w": "model-00001-of-00005.safetensors","#;
            sandbox.edit("llama-sharded/model.safetensors.index.json", r#""weight_map": {"#, entry);
        },
        stderr: "error: llama-sharded: `model.safetensors.index.json` does not match the weight files: no file contains `model.layers.7.w`\n\
                 hint: the folder may mix two downloads, or a file may be missing; download the folder again\n",
    },
    Bad {
        name: "truncated weights",
        golden: "llama",
        damage: |sandbox| {
            let path = sandbox.path("llama/model.safetensors");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
        },
        stderr: "error: llama: `model.safetensors`: expected 2757304 bytes (header and tensors), found 2757204\n\
                 hint: download the file again, and compare its size with the one on the model page\n",
    },
    Bad {
        name: "weights cut inside the header",
        golden: "llama",
        damage: |sandbox| {
            let path = sandbox.path("llama/model.safetensors");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..300]).unwrap();
        },
        stderr: "error: llama: `model.safetensors`: expected a header of 2232 bytes, but the file has 300\n\
                 hint: download the file again, and compare its size with the one on the model page\n",
    },
    Bad {
        name: "a tensor twice",
        golden: "llama",
        damage: |sandbox| {
            let from = sandbox.path("llama/model.safetensors");
            fs::copy(from, sandbox.path("llama/model-again.safetensors")).unwrap();
        },
        stderr: "error: llama: tensor `lm_head.weight` is in both `model-again.safetensors` and `model.safetensors`\n\
                 hint: remove one of the two files, or add an index that lists the file of each tensor\n",
    },
    Bad {
        name: "a dtype that does not exist",
        golden: "llama",
        damage: |sandbox| sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""BF17""#),
        stderr: "error: llama: `model.safetensors`: tensor `lm_head.weight`: unknown dtype `BF17`\n",
    },
    Bad {
        name: "a dtype of another size",
        golden: "llama",
        damage: |sandbox| sandbox.edit("llama/model.safetensors", r#""BF16""#, r#""F32" "#),
        stderr: "error: llama: `model.safetensors`: tensor `lm_head.weight`: shape [384, 256] of F32 needs 393216 bytes, but the header states bytes 0 to 196608\n",
    },
    Bad {
        name: "a config without a needed key",
        golden: "llama",
        damage: |sandbox| sandbox.edit("llama/config.json", r#""num_attention_heads": 4,"#, ""),
        stderr: "error: llama: `config.json`: missing key `num_attention_heads`\n",
    },
    Bad {
        name: "a config that is not JSON",
        golden: "llama",
        damage: |sandbox| sandbox.edit("llama/config.json", r#""architectures": ["#, r#""architectures" ["#),
        stderr: "error: llama: `config.json`: expected `:` at line 2 column 19\n\
                 hint: if the file starts with `version https://git-lfs` or `<html>`, download it again; otherwise correct the JSON\n",
    },
    Bad {
        name: "no config",
        golden: "llama",
        damage: |sandbox| fs::remove_file(sandbox.path("llama/config.json")).unwrap(),
        stderr: "error: llama: missing file `config.json`\n\
                 hint: use the complete checkpoint folder, including all small files\n",
    },
    Bad {
        name: "no weights",
        golden: "llama",
        damage: |sandbox| fs::remove_file(sandbox.path("llama/model.safetensors")).unwrap(),
        stderr: "error: llama: no weights found; looked for model*.safetensors, pytorch_model*.bin, gptq_model-*.safetensors, gptq_model-*.bin, consolidated*.safetensors, consolidated.*.pth, consolidated.*.pt, adapter_model.*, *.gguf\n",
    },
    Bad {
        name: "no tokenizer",
        golden: "llama",
        damage: |sandbox| fs::remove_file(sandbox.path("llama/tokenizer.model")).unwrap(),
        stderr: "error: llama: no tokenizer found; looked for `tokenizer.model`; `tokenizer.json`; `vocab.json` with `merges.txt`\n\
                 hint: copy the tokenizer files next to config.json; for a fine-tune, use those of its base model\n",
    },
    Bad {
        name: "a vocabulary larger than the embedding",
        golden: "llama",
        damage: |sandbox| sandbox.edit("llama/config.json", r#""vocab_size": 384"#, r#""vocab_size": 500"#),
        stderr: "error: llama: the vocabulary has 500 tokens, but the token embedding has 384 rows\n\
                 hint: if the tokens without a row are unused, set `vocab_size` in config.json to the number of rows\n",
    },
    Bad {
        name: "more layers than weights",
        golden: "llama",
        damage: |sandbox| {
            sandbox.edit("llama/config.json", r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 3"#)
        },
        stderr: "error: llama: 9 missing tensors: `model.layers.2.input_layernorm.weight`, `model.layers.2.post_attention_layernorm.weight`, `model.layers.2.self_attn.q_proj.weight`, `model.layers.2.self_attn.k_proj.weight`, `model.layers.2.self_attn.v_proj.weight`, `model.layers.2.self_attn.o_proj.weight`, `model.layers.2.mlp.gate_proj.weight`, `model.layers.2.mlp.up_proj.weight` and 1 more\n\
                 hint: a shard may be missing, or `num_hidden_layers` in config.json may be too large\n",
    },
    Bad {
        name: "more experts than weights",
        golden: "mixtral",
        damage: |sandbox| {
            sandbox.edit("mixtral/config.json", r#""num_local_experts": 4"#, r#""num_local_experts": 5"#)
        },
        stderr: "error: mixtral: 6 missing tensors: `model.layers.0.block_sparse_moe.experts.4.w1.weight`, `model.layers.1.block_sparse_moe.experts.4.w1.weight`, `model.layers.0.block_sparse_moe.experts.4.w2.weight`, `model.layers.1.block_sparse_moe.experts.4.w2.weight`, `model.layers.0.block_sparse_moe.experts.4.w3.weight`, `model.layers.1.block_sparse_moe.experts.4.w3.weight`\n\
                 hint: a shard may be missing, or the number of experts in config.json may be too large\n",
    },
    Bad {
        name: "fewer experts than weights",
        golden: "mixtral",
        damage: |sandbox| {
            sandbox.edit("mixtral/config.json", r#""num_local_experts": 4"#, r#""num_local_experts": 3"#)
        },
        stderr: "error: mixtral: 6 tensors not used by this architecture: `model.layers.0.block_sparse_moe.experts.3.w1.weight`, `model.layers.0.block_sparse_moe.experts.3.w2.weight`, `model.layers.0.block_sparse_moe.experts.3.w3.weight`, `model.layers.1.block_sparse_moe.experts.3.w1.weight`, `model.layers.1.block_sparse_moe.experts.3.w2.weight`, `model.layers.1.block_sparse_moe.experts.3.w3.weight`\n\
                 hint: config.json may state too few experts\n",
    },
    Bad {
        name: "a prediction that the config does not announce",
        golden: "glm4moe-old",
        damage: |sandbox| {
            let announced = r#""num_nextn_predict_layers": 1"#;
            sandbox.edit("glm4moe-old/config.json", announced, r#""num_nextn_predict_layers": 0"#)
        },
        stderr: "error: glm4moe-old: 30 tensors not used by this architecture: `model.layers.2.eh_proj.weight`, `model.layers.2.embed_tokens.weight`, `model.layers.2.enorm.weight`, `model.layers.2.hnorm.weight`, `model.layers.2.input_layernorm.weight`, `model.layers.2.mlp.experts.0.down_proj.weight`, `model.layers.2.mlp.experts.0.gate_proj.weight`, `model.layers.2.mlp.experts.0.up_proj.weight` and 22 more\n\
                 hint: set `num_nextn_predict_layers` in config.json to the number of MTP layers\n",
    },
    Bad {
        name: "a text part of an unknown class",
        golden: "smolvlm",
        damage: |sandbox| sandbox.edit("smolvlm/config.json", "VLlama3ForCausalLM", "ZebraForCausalLM"),
        stderr: "error: smolvlm: unknown architecture `ZebraForCausalLM`; nearest known: DbrxForCausalLM, GemmaForCausalLM, BambaForCausalLM\n",
    },
    Bad {
        name: "fewer layers than weights",
        golden: "llama",
        damage: |sandbox| {
            sandbox.edit("llama/config.json", r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 1"#)
        },
        stderr: "error: llama: the weights have layers 0 to 1, but `num_hidden_layers` in config.json is 1 (9 unused tensors)\n\
                 hint: if the model was made by stacking layers, set `num_hidden_layers` to 2\n",
    },
];

#[test]
fn invalid_input_is_named_and_writes_nothing() {
    let mut wrong = String::new();
    for Bad { name, golden, damage, stderr } in BAD {
        let sandbox = Sandbox::with_golden(golden);
        damage(&sandbox);
        let before = sandbox.listing(golden);
        let ran = sandbox.convert(&[golden, "out", "--type", "q4_k_m", "-q"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}: {}", ran.stderr);
        assert!(sandbox.outputs().is_empty(), "{name}");
        assert_eq!(sandbox.listing(golden), before, "{name}");
        if ran.stderr != *stderr {
            wrong += &format!("{name}:\n{}", ran.stderr);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn wrong_calls_end_with_code_2() {
    let sandbox = Sandbox::with_golden("llama");
    for args in [
        &["llama", "out", "--type", "q4_x"][..],
        &["llama", "out", "--type", "copy"],
        &["llama", "out", "--type", "q4_0", "--threads", "0"],
        &["llama", "out", "--type", "q4_0", "--via", "q8_0"],
        &["llama", "out", "--type", "q4_0", "--no-such-option"],
        &[],
    ] {
        let ran = sandbox.convert(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(!ran.stderr.is_empty());
    }
    assert!(sandbox.outputs().is_empty());
    let missing = sandbox.convert(&["nowhere", "out", "--type", "q4_0"]);
    missing.ends_and_begins(1, "error: nowhere: ");

    let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-convert"));
    let output = command.args(["llama", "out", "-t", "q4_0"]).env("GGUF_CPU_LEVEL", "mmx").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.starts_with(
        "error: GGUF_CPU_LEVEL: level `mmx` is not supported by this machine\nhint: available: scalar"
    ));
}

#[test]
fn help_and_completions_are_printed() {
    let sandbox = Sandbox::new();
    let help = sandbox.convert(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("Examples:") && help.stdout.contains("--dry-run"), "{}", help.stdout);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.convert(&["--completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.stdout.contains("dry-run"), "{shell}");
    }
}

/// A limit on the size of files stands in for a full disk.
#[test]
#[cfg(unix)]
fn full_disk_leaves_no_output() {
    let sandbox = Sandbox::with_golden("llama");
    let mut command = sandbox.command("sh");
    // Ignored, the signal becomes an error of the write.
    let script = r#"trap '' XFSZ; ulimit -f 100; exec "$0" llama out -t q4_k_m -q"#;
    let output = command.args(["-c", script, env!("CARGO_BIN_EXE_gguf-convert")]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("File too large"), "{stderr}");
    assert!(sandbox.outputs().is_empty());
}

#[test]
fn reranker_is_not_a_generating_model() {
    let sandbox = Sandbox::with_golden("qwen3");
    fs::rename(sandbox.path("qwen3"), sandbox.path("Qwen3-Reranker-0.6B")).unwrap();
    let ran = sandbox.convert(&["Qwen3-Reranker-0.6B", "out.gguf", "--type", "f32"]);
    assert_eq!(ran.code, Some(1));
    // Its tokenizer is too small for the two tokens that a reranker answers with.
    ran.says("reranker whose tokenizer lacks");
    ran.says("--arch-as qwen3");
    assert!(!sandbox.path("out.gguf").exists());
    let ran = sandbox.convert(&words("Qwen3-Reranker-0.6B out.gguf --type f32 --arch-as qwen3 -q"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // By a title of its README, like the reference; a mention is not a title.
    let sandbox = Sandbox::with_golden("qwen3");
    let args = ["qwen3", "out.gguf", "--type", "f32", "-q", "--force"];
    sandbox.write("qwen3/README.md", "---\nlicense: mit\n---\n# Small\nUnlike Qwen3-Reranker.\n");
    succeed(sandbox.convert(&args));
    fs::remove_file(sandbox.path("out.gguf")).unwrap();
    sandbox.write("qwen3/README.md", "---\nlicense: mit\n---\n# Qwen3-Reranker-0.6B\n");
    let ran = sandbox.convert(&args);
    ran.ends_and_says(1, "reranker whose tokenizer lacks");
    assert!(!sandbox.path("out.gguf").exists());
}

/// `--architecture` for unknown classes: the output contains what that architecture can express, with
/// warnings about the rest.
#[test]
fn arch_as_lists_differences() {
    let keys = |sandbox: &Sandbox| -> Vec<String> {
        let file = sandbox.file("out.gguf");
        file.metadata().iter().map(|(key, _)| key.clone()).collect()
    };
    // GLM 4.7 Flash is written as `deepseek2` by its own row too, which adds keys to those of DeepSeek.
    let sandbox = Sandbox::with_golden("glm4-moe-lite-old");
    let args = ["glm4-moe-lite-old", "out.gguf", "--type", "f32", "--pre", "llama-bpe", "--force"];
    succeed(sandbox.convert(&args));
    let own = keys(&sandbox);
    let ran = succeed(sandbox.convert(&[&args[..], &["--arch-as", "deepseek2"]].concat()));
    let note = "note: `Glm4MoeLiteForCausalLM` is a class of `glm4-moe-lite`; as `deepseek2`, it may be a different model";
    ran.says(note);
    let plain = keys(&sandbox);
    assert!(plain.iter().all(|key| own.contains(key)), "{plain:?} {own:?}");

    // Qwen 2.5 VL as a plain Qwen 2 has no sections of rotated dimensions, which is reported.
    let sandbox = Sandbox::with_golden("qwen2.5vl");
    let args = ["qwen2.5vl", "out.gguf", "--type", "f32", "--pre", "llama-bpe", "--arch-as", "qwen2"];
    let ran = succeed(sandbox.convert(&args));
    let note = "is a class of `qwen2vl`; as `qwen2`, it may be a different model";
    ran.says(note);
}
