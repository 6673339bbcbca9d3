//! `gguf-convert BASE OUT --lora ADAPTER[=SCALE]`: adapters merged while weights are read.

use std::{collections::BTreeMap, fs};

use gguf_container::{Endian, File, Plan, Value};

use crate::common::{Output, Sandbox, Tensors, copy_folder, floats, golden, sha256, succeed, words};

/// Contents of a golden's `expected.txt`.
struct Golden {
    base: String,
    pre: Option<String>,
    adapters: Vec<String>,
    /// Type and digest of the entire file.
    files: Vec<(String, String)>,
    /// Elements that were compared with PEFT.
    n_elems: u64,
    /// Difference to PEFT, in units in the last place.
    ulps: u64,
}

impl Golden {
    fn read(name: &str) -> Golden {
        let text = fs::read_to_string(golden("lora-merged").join(name).join("expected.txt")).unwrap();
        let values = |key: &str| {
            let key = format!("# {key} ");
            text.lines().filter_map(|line| line.strip_prefix(&key).map(str::to_owned)).collect::<Vec<_>>()
        };
        let [peft] = &values("peft")[..] else { panic!("{name}: one line about PEFT") };
        let numbers: Vec<u64> = peft.split(' ').filter_map(|word| word.parse().ok()).collect();
        let files = text.lines().filter(|line| !line.starts_with('#'));
        Golden {
            base: values("base").concat(),
            pre: values("pre").pop(),
            adapters: values("lora"),
            files: files
                .map(|line| line.split_once(' ').unwrap())
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .collect(),
            n_elems: numbers[0],
            ulps: numbers[2],
        }
    }
}

/// A place with a golden's base model and adapters, and the arguments that merge them.
fn place(name: &str, golden_of: &Golden) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::checkpoint(&golden_of.base), &sandbox.path(&golden_of.base));
    let mut args = vec![golden_of.base.clone(), "out/{ftype}.gguf".to_owned(), "-q".to_owned()];
    for adapter in &golden_of.adapters {
        let folder = adapter.split('=').next().unwrap();
        copy_folder(&golden("lora-merged").join(name).join(folder), &sandbox.path(folder));
        args.extend(["--lora".to_owned(), adapter.clone()]);
    }
    args.extend(golden_of.pre.iter().flat_map(|pre| ["--pre".to_owned(), pre.clone()]));
    fs::create_dir(sandbox.path("out")).unwrap();
    (sandbox, args)
}

/// A merged file without the keys that state the merge: as the reference writes the merged checkpoint.
fn without_merge(bytes: Vec<u8>, adapters: &[String]) -> Vec<u8> {
    let file = File::parse(bytes).unwrap();
    let mut metadata = file.metadata().clone();
    let stated = metadata.remove("gguf_tools.merged_adapters").unwrap();
    let adapters: Vec<String> = adapters.iter().map(|adapter| adapter.replace("=2.0", "=2")).collect();
    assert_eq!(stated, Value::from(adapters.clone()));
    let base = metadata.get("general.base_model.0.name").unwrap().clone();
    let names: Vec<&str> = adapters.iter().map(|adapter| adapter.split('=').next().unwrap()).collect();
    let name = format!("{base} + {}", names.join(" + "));
    assert_eq!(metadata.get("general.name").and_then(Value::as_str), Some(name.as_str()));
    metadata.set("general.name", base);
    metadata.retain(|key, _| !key.starts_with("general.base_model."));
    let tensors = file.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype));
    let plan = Plan::new(&metadata, tensors.collect(), Endian::Little, 32).unwrap();
    let data: Vec<&[u8]> = file.tensors().iter().map(|tensor| file.data(tensor).unwrap()).collect();
    plan.to_bytes(&data).unwrap()
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(golden("lora-merged")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn merged_files_match_merged_checkpoint() {
    let names = names();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let golden_of = Golden::read(&name);
        let (sandbox, args) = place(&name, &golden_of);
        let types: Vec<&str> = golden_of.files.iter().map(|(outtype, _)| outtype.as_str()).collect();
        let types = types.join(",");
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["-t", &types]).collect();
        let ran = sandbox.convert(&args);
        assert_eq!(ran, Output { code: Some(0), stdout: String::new(), stderr: String::new() }, "{name}");
        let sandbox_digests = sandbox.listing("out");
        let mut have = Vec::new();
        for (outtype, _) in &golden_of.files {
            let file =
                sandbox.outputs().into_iter().find(|path| path.to_lowercase().contains(outtype)).unwrap();
            let merged = fs::read(sandbox.path("out").join(file)).unwrap();
            have.push((outtype.clone(), sha256(&without_merge(merged, &golden_of.adapters))));
        }
        assert_eq!(have, golden_of.files, "{name}");
        println!("{name}: {} elements, PEFT at most {} ulp away", golden_of.n_elems, golden_of.ulps);
        // Without vector instructions the same bytes come out.
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-convert"));
        command.args(&args).arg("--force").env(gguf_quant::LEVEL_VARIABLE, "scalar");
        assert!(command.output().unwrap().status.success(), "{name}");
        let again = sandbox.listing("out").into_values();
        assert!(again.eq(sandbox_digests.into_values()), "{name}");
        // Norms are summed in another order by torch; all else is PEFT's to the last bit.
        assert!(golden_of.ulps == 0 || name.starts_with("dora"), "{name}");
    }
}

/// The base model and the adapter of the golden `patterns`, of which `edit` changes something.
fn damaged(edit: impl Fn(&Sandbox)) -> Sandbox {
    let (sandbox, _) = place("patterns", &Golden::read("patterns"));
    edit(&sandbox);
    sandbox
}

#[test]
fn given_name_leaves_base_model_its_own() {
    let (sandbox, args) = place("patterns", &Golden::read("patterns"));
    let name = |more: &[&str]| {
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["-t", "q8_0", "--force"]).collect();
        succeed(sandbox.convert(&[&args, more].concat()));
        let file = sandbox.file("out/q8_0.gguf");
        ["general.name", "general.base_model.0.name"].map(|key| file.header().get(key).cloned())
    };
    let [_, base] = name(&[]);
    assert!(base.is_some());
    assert_eq!(name(&["--model-name", "Captain"]), [Some(Value::from("Captain")), base]);
}

#[track_caller]
fn refused(sandbox: &Sandbox, lora: &str, message: &str) {
    let ran = sandbox.convert(&["llama-head-dim", "out/x.gguf", "-q", "-t", "q8_0", "--lora", lora]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    ran.begins(message);
    assert!(sandbox.finished_outputs().is_empty());
}

const CONFIG: &str = "adapter-0/adapter_config.json";
const WEIGHTS: &str = "adapter-0/adapter_model.safetensors";

#[test]
fn mismatched_adapter_is_refused_by_name() {
    // Another base model: shapes, and layers that are not there.
    let sandbox = damaged(|sandbox| {
        fs::remove_dir_all(sandbox.path("llama-head-dim")).unwrap();
        copy_folder(&gguf_testkit::checkpoint("llama"), &sandbox.path("llama-head-dim"));
    });
    refused(&sandbox, "adapter-0", "error: adapter `adapter-0`: tensor `base_model.model.model.layers.0.");
    let sandbox = damaged(|sandbox| {
        sandbox.edit(WEIGHTS, "layers.1.mlp.up_proj.lora_A", "layers.7.mlp.up_proj.lora_A")
    });
    let message = "error: adapter `adapter-0`: 2 missing tensors: `base_model.model.model.layers.1.mlp.up_proj.lora_A.weight`, `base_model.model.model.layers.7.mlp.up_proj.lora_B.weight`\n";
    refused(&sandbox, "adapter-0", message);
    let sandbox = damaged(|sandbox| {
        sandbox.edit(WEIGHTS, "layers.1.mlp.up_proj.lora_A", "layers.7.mlp.up_proj.lora_A");
        sandbox.edit(WEIGHTS, "layers.1.mlp.up_proj.lora_B", "layers.7.mlp.up_proj.lora_B");
    });
    let message = "error: adapter `adapter-0`: 1 tensor without a match in the base model: `base_model.model.model.layers.7.mlp.up_proj.lora_A.weight`\nhint: use the base model that the adapter was trained on";
    refused(&sandbox, "adapter-0", message);

    // Tensors of other kinds, ranks of another config.
    let sandbox = damaged(|sandbox| {
        sandbox.edit(WEIGHTS, "1.mlp.up_proj.lora_A.weight", "1.mlp.up_proj.lora_E.weight")
    });
    refused(
        &sandbox,
        "adapter-0",
        "error: adapter `adapter-0`: 1 tensor not recognized as LoRA halves or whole weights: `",
    );
    let sandbox = damaged(|sandbox| sandbox.edit(CONFIG, r#""r": 4"#, r#""r": 3"#));
    refused(&sandbox, "adapter-0", "error: adapter `adapter-0`: tensor `base_model.model.model.layers.0.");
    let sandbox = damaged(|sandbox| sandbox.edit(CONFIG, r#""use_dora": false"#, r#""use_dora": true"#));
    refused(
        &sandbox,
        "adapter-0",
        "error: adapter `adapter-0`: 1 missing tensor: `base_model.model.model.layers.0.",
    );
}

#[test]
fn unsupported_kinds_are_refused_by_name() {
    for (from, to, message) in [
        (
            r#""LORA""#,
            r#""LOHA""#,
            "key `peft_type` is LOHA: only LoRA adapters are supported\nhint: merge it with PEFT's",
        ),
        (r#""LORA""#, r#"null"#, "missing key `peft_type`\n"),
        (
            r#""init_lora_weights": true"#,
            r#""init_lora_weights": "pissa_niter_4""#,
            "key `init_lora_weights` is pissa_niter_4: its initialization ",
        ),
        (
            r#""arrow_config": null"#,
            r#""arrow_config": {"top_k": 2}"#,
            "key `arrow_config` is {\"top_k\":2}: it routes ",
        ),
        (
            r#""target_parameters": null"#,
            r#""target_parameters": "x""#,
            "key `target_parameters`: expected a list of names, found \"x\"\n",
        ),
        (
            r#""trainable_token_indices": null"#,
            r#""trainable_token_indices": [-1]"#,
            "key `trainable_token_indices`: expected a list of numbers of tokens, or one for each embedding, found [-1]",
        ),
        (r#""lora_alpha": 6"#, r#""lora_alpha": "6""#, "key `lora_alpha`: expected a number, found \"6\"\n"),
        (r#""lora_alpha": 6"#, r#""lora_omega": 6"#, "missing key `lora_alpha`\n"),
        (r#""r": 4"#, r#""r": 0"#, "key `r`: expected a rank of 1 or more, found 0\n"),
        (
            r#""use_rslora": false"#,
            r#""use_rslora": "no""#,
            "key `use_rslora`: expected true or false, found \"no\"\n",
        ),
        (
            r#""k_proj": 7.5"#,
            r#""(k_proj": 7.5"#,
            "key `alpha_pattern`: pattern `(k_proj`: regex parse error:",
        ),
    ] {
        let sandbox = damaged(|sandbox| sandbox.edit(CONFIG, from, to));
        refused(
            &sandbox,
            "adapter-0",
            &format!("error: adapter `adapter-0`: `adapter_config.json`: {message}"),
        );
    }
    let sandbox = damaged(|sandbox| sandbox.edit(CONFIG, "{", "["));
    refused(&sandbox, "adapter-0", "error: adapter `adapter-0`: `adapter_config.json`: ");
    let sandbox = damaged(|sandbox| fs::remove_file(sandbox.path(WEIGHTS)).unwrap());
    refused(&sandbox, "adapter-0", "error: adapter `adapter-0`: ");
    refused(&sandbox, "nowhere", "error: adapter `nowhere`: cannot open: ");
    // A header that ends beyond the file.
    let sandbox = damaged(|sandbox| {
        let bytes = sandbox.read(WEIGHTS);
        sandbox.write(WEIGHTS, &bytes[..bytes.len() - 2]);
    });
    refused(&sandbox, "adapter-0", "error: adapter `adapter-0`: `adapter_model.safetensors`: ");
}

#[test]
fn whole_tensors_must_match_the_base() {
    let (sandbox, _) = place("whole", &Golden::read("whole"));
    // A vocabulary that has grown: the base model's has 384.
    fs::rename(sandbox.path("llama-bias"), sandbox.path("llama-head-dim")).unwrap();
    copy_folder(&sandbox.path("adapter-0"), &sandbox.path("other"));
    let run = |loras: &[&str]| {
        let mut args = vec!["llama-head-dim", "out/x.gguf", "-q", "--force", "-t", "f32"];
        args.extend(loras.iter().flat_map(|lora| ["--lora", lora]));
        sandbox.convert(&args)
    };
    let ran = run(&["adapter-0", "other"]);
    let message = "error: adapter `other`: tensor `base_model.model.";
    assert!(ran.code == Some(1) && ran.stderr.starts_with(message), "{}", ran.stderr);
    ran.says(", which an earlier adapter changes\n");
    let weights = sandbox.read(WEIGHTS);
    let (from, to) = ("[384,64]", "[64,384]");
    let at = weights.windows(8).position(|window| window == from.as_bytes()).unwrap();
    let turned = [&weights[..at], to.as_bytes(), &weights[at + 8..]].concat();
    sandbox.write(WEIGHTS, turned);
    let ran = run(&["adapter-0"]);
    let message = "error: adapter `adapter-0`: tensor `base_model.model.lm_head.weight`: expected the same shape, found shape [64, 384] (`lm_head.weight` has [384, 64])\nhint: ";
    assert!(ran.code == Some(1) && ran.stderr.starts_with(message), "{}", ran.stderr);
    assert!(sandbox.finished_outputs().is_empty());
}

#[test]
fn nan_weights_are_refused() {
    let sandbox = damaged(|sandbox| {
        let mut bytes = sandbox.read(WEIGHTS);
        // The last tensor's last number, in bf16.
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&[0xc0, 0x7f]);
        sandbox.write(WEIGHTS, bytes);
    });
    refused(&sandbox, "adapter-0", "error: llama-head-dim: tensor `blk.1.attn_v.weight`: row ");
}

#[test]
fn merged_adapters_are_reported() {
    let (sandbox, _) = place("patterns", &Golden::read("patterns"));
    let call =
        |more: &[&str]| sandbox.convert(&[&["llama-head-dim", "out/x.gguf", "-t", "q8_0"], more].concat());
    let ran = succeed(call(&["--lora", "adapter-0=0.5", "--dry-run"]));
    ran.says("note: adapter `adapter-0`: LoRA merged 0.5 times into 14 tensors\n");
    let changed = ran.stdout.lines().filter(|line| line.contains("bf16+lora")).count();
    assert_eq!(changed, 14, "{}", ran.stdout);
    // A folder's own name may look like one with a scale.
    fs::rename(sandbox.path("adapter-0"), sandbox.path("adapter=2")).unwrap();
    let ran = call(&["--lora", "adapter=2", "--dry-run", "--json"]);
    assert!(ran.stdout.contains("adapter `adapter=2`: LoRA merged into 14 tensors"), "{}", ran.stderr);
    for wrong in [
        &["--lora", "adapter=x"][..],
        &["--lora", "adapter=inf"],
        &["--lora", "adapter=2", "--base", "llama-head-dim"],
        &["--lora", "adapter=2", "--vocab-only"],
        &["--lora", "adapter=2", "--to", "hf"],
    ] {
        assert_eq!(call(wrong).code, Some(2), "{wrong:?}");
    }
    // Nothing is written into an adapter's folder.
    let ran = sandbox.convert(&words("llama-head-dim adapter=2/x.gguf -t q8_0 --lora adapter=2"));
    assert!(ran.code == Some(1) && ran.stderr.contains("is inside the input folder"), "{}", ran.stderr);
    assert!(sandbox.finished_outputs().is_empty());
}

/// The base model and the adapters of a golden, of which `edit` changes something: the error of merging them all.
fn refusal_of(name: &str, edit: impl Fn(&Sandbox)) -> String {
    let golden_of = Golden::read(name);
    let (sandbox, args) = place(name, &golden_of);
    edit(&sandbox);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["-t", "f32"]).collect();
    let ran = sandbox.convert(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}: {}", ran.stderr);
    assert!(sandbox.outputs().is_empty(), "{name}");
    ran.stderr
}

#[test]
fn mismatched_trained_tokens_are_refused() {
    const TOKENS: &str = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
    let edited = |from: &str, to: &str, message: &str| {
        let error = refusal_of("tokens", |sandbox| {
            let config = sandbox.text(CONFIG);
            let squeezed: String = config.split_whitespace().collect();
            assert!(squeezed.contains(from), "{squeezed}");
            sandbox.write(CONFIG, squeezed.replace(from, to));
        });
        assert!(error.starts_with(&format!("error: adapter `adapter-0`: {message}")), "{error}");
    };
    let indices = "\"trainable_token_indices\":[383,7,0]";
    let with = |indices: &str| format!("\"trainable_token_indices\":{indices}");
    edited(
        indices,
        &with("[384,7,0]"),
        &format!("tensor `{TOKENS}`: token 384 is out of range for the base model's vocabulary\nhint: "),
    );
    edited(indices, &with("[383,7,7]"), &format!("tensor `{TOKENS}`: token 7 is a duplicate\n"));
    edited(
        indices,
        &with("[383,7]"),
        &format!("tensor `{TOKENS}`: expected 2 rows of 64, as adapter_config.json has, found shape [3, 64]"),
    );
    edited(indices, &with("null"), "`adapter_config.json`: missing key `trainable_token_indices`\n");
    edited(
        indices,
        &with("{\"lm_head\":[383,7,0]}"),
        "`adapter_config.json`: missing key `trainable_token_indices`\n",
    );
    let error = refusal_of("tokens-tied", |sandbox| {
        fs::remove_dir_all(sandbox.path("adapter-1")).unwrap();
        copy_folder(&sandbox.path("adapter-0"), &sandbox.path("adapter-1"));
    });
    assert!(error.contains("token 1 was also trained by an earlier adapter\n"), "{error}");
}

/// PEFT writes bare names for `all-linear` of a model with experts: `down_proj` is a parameter of the experts, and no other
/// module has one of that name.
#[test]
fn bare_parameter_targets_keep_plain_pairs() {
    let (sandbox, args) = place("parameters", &Golden::read("parameters"));
    let config = sandbox.text(CONFIG);
    let bare = config.replace("\"mlp.experts.", "\"");
    assert_ne!(bare, config);
    sandbox.write(CONFIG, bare);
    let ran =
        sandbox.convert(&[&args.iter().map(String::as_str).collect::<Vec<_>>()[..], &["-t", "f32"]].concat());
    assert_eq!(ran.stderr, "");
    let Golden { adapters, files, .. } = Golden::read("parameters");
    assert_eq!(sha256(&without_merge(sandbox.read("out/f32.gguf"), &adapters)), files[0].1);
}

#[test]
fn mismatched_parameter_pairs_are_refused() {
    let name = "base_model.model.model.layers.0.mlp.experts";
    // A rank of other experts than the base model has.
    let error = refusal_of("parameters", |sandbox| {
        sandbox.edit(CONFIG, "\"experts.down_proj\": 2", "\"experts.down_proj\": 1")
    });
    let message = format!("error: adapter `adapter-0`: tensor `{name}.lora_A.weight`: expected a pair of ");
    assert!(error.starts_with(&message) && error.contains(", found shape [8, 96]"), "{error}");
    // Layers that are not there.
    let error = refusal_of("parameters", |sandbox| {
        for half in ["A", "B"] {
            let (from, to) =
                (format!("layers.1.mlp.experts.lora_{half}"), format!("layers.7.mlp.experts.lora_{half}"));
            sandbox.edit(WEIGHTS, &from, &to);
        }
    });
    assert!(
        error.starts_with("error: adapter `adapter-0`: 1 tensor without a match in the base model: "),
        "{error}"
    );
    let error =
        refusal_of("parameters", |sandbox| sandbox.edit(CONFIG, "\"use_dora\": false", "\"use_dora\": true"));
    assert!(
        error.starts_with("error: adapter `adapter-0`: `adapter_config.json`: key `target_parameters` is "),
        "{error}"
    );
}

#[test]
fn tokenizer_next_to_adapter_is_ignored_with_note() {
    let (sandbox, _) = place("patterns", &Golden::read("patterns"));
    let call =
        || sandbox.convert(&words("llama-head-dim out/x.gguf -t q8_0 --lora adapter-0 --dry-run")).stderr;
    assert!(!call().contains("is ignored"), "{}", call());
    // The same as the base model's, in other bytes.
    let config = sandbox.text("llama-head-dim/tokenizer_config.json");
    sandbox.write("adapter-0/tokenizer_config.json", format!(" {config}"));
    assert!(!call().contains("is ignored"), "{}", call());
    sandbox.write("adapter-0/chat_template.jinja", "{{ messages }}");
    sandbox.write("adapter-0/added_tokens.json", "{\"<new>\": 384}");
    let note = "note: adapter `adapter-0`: its own tokenizer or chat template is ignored: `added_tokens.json`, `chat_template.jinja`\n";
    assert!(call().contains(note), "{}", call());
}

/// The tensors of a file by name.
fn tensors_of(sandbox: &Sandbox, file: &str) -> BTreeMap<String, Vec<u8>> {
    let file = sandbox.file(file);
    let tensors = file.tensors().iter();
    tensors.map(|tensor| (tensor.name.clone(), file.data(tensor).unwrap().to_vec())).collect()
}

/// Codes are decoded, then the adapter is added, as if the decoded weights had been stored as f32.
#[test]
fn quantized_base_merges_as_decoded() {
    for form in ["fp8-block", "gptq-4bit-order", "packed-4bit-zeros"] {
        let sandbox = Sandbox::with_form(form);
        let config = sandbox.json(&format!("{form}/config.json"));
        let [width, inner] = ["hidden_size", "intermediate_size"].map(|key| config[key].as_u64().unwrap());
        let mut pairs = Tensors::new();
        for (module, n_outputs, n_inputs) in
            [("self_attn.q_proj", width, width), ("mlp.down_proj", width, inner)]
        {
            for (half, shape) in [("A", [3, n_inputs]), ("B", [n_outputs, 3])] {
                let name = format!("base_model.model.model.layers.1.{module}.lora_{half}.weight");
                pairs.insert(name, floats(pairs.len() as u64, &shape));
            }
        }
        sandbox.write_tensors("adapter/adapter_model.safetensors", &pairs);
        let config = r#"{"peft_type": "LORA", "r": 3, "lora_alpha": 64}"#;
        sandbox.write("adapter/adapter_config.json", config);

        for call in [
            &[form, "out/plain.gguf"][..],
            &["export", "out/plain.gguf", "decoded"],
            &["decoded", "out/decoded.gguf", "--lora", "adapter"],
            &[form, "out/merged.gguf", "--lora", "adapter"],
        ] {
            let ran = sandbox.convert(&[call, &["-q", "-t", "f32"]].concat());
            assert_eq!(ran.code, Some(0), "{form}: {}", ran.stderr);
        }
        let [plain, decoded, merged] =
            ["plain", "decoded", "merged"].map(|name| tensors_of(&sandbox, &format!("out/{name}.gguf")));
        assert_eq!(decoded, merged, "{form}");
        let changed: Vec<&str> = plain
            .iter()
            .filter(|(name, data)| merged[*name] != **data)
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(changed, ["blk.1.attn_q.weight", "blk.1.ffn_down.weight"], "{form}");
    }
}
