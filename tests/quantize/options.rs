//! Every option of `gguf-quantize` against `golden/cli/quantize.txt`, and messages about bad input.
//! (`gguf_quantize.rs` covers every type with and without an importance matrix.)

use std::{collections::BTreeMap, fs};

use crate::common::{Sandbox, failed, golden, silent, words};

/// A sandbox that holds `NAME.gguf` at bf16, as the reference's converter writes it.
fn with_bf16(names: &[&str]) -> Sandbox {
    let sandbox = Sandbox::with_golden(names[0]);
    for name in names {
        let own = Sandbox::with_converted(name, "x.gguf", "bf16");
        fs::copy(own.path("x.gguf"), sandbox.path(&format!("{name}.gguf"))).unwrap();
    }
    sandbox
}

/// Inputs of the script that made the golden: see `scripts/golden/quantize_cli.sh`.
fn with_inputs() -> Sandbox {
    let sandbox = with_bf16(&["llama", "mixtral"]);
    for (from, to) in [
        ("cli/llama.imatrix.gguf", "llama.imatrix.gguf"),
        ("recipes/imatrix/mixtral.gguf", "mixtral.imatrix.gguf"),
        ("recipes/imatrix/mixtral.dat", "mixtral.imatrix.dat"),
    ] {
        fs::copy(golden(from), sandbox.path(to)).unwrap();
    }
    sandbox.write("types.txt", "ffn_up=q5_k\nattn_k=q3_k  blk\\.1\\.ffn_down=iq4_nl\n");
    let split = ["--split-max-tensors", "6", "llama.gguf", "split.gguf", "copy", "-q"];
    assert_eq!(sandbox.quantize(&split), silent());
    let types = "q8_0,q4_k_m,q6_k,f16,f32";
    assert_eq!(sandbox.quantize(&["llama.gguf", "{ftype}.gguf", types, "-q"]), silent());
    sandbox
}

struct Case {
    name: String,
    args: Vec<String>,
    /// Name, bytes and digest of each file; none if the reference refuses.
    files: Vec<[String; 3]>,
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(golden("cli/quantize.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            // A pattern may contain a bar.
            let (name, rest) = line.split_once('|').unwrap();
            let (args, files) = rest.rsplit_once('|').unwrap();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let files = words(files);
            let files: &[String] = if files == ["refused"] { &[] } else { &files };
            let files = files.as_chunks::<3>().0.to_vec();
            Case { name: name.to_owned(), args: words(args), files }
        })
        .collect()
}

#[test]
fn every_option_matches_reference() {
    let sandbox = with_inputs();
    let cases = cases();
    assert!(cases.len() >= 92, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let _ = fs::remove_dir_all(sandbox.path("out"));
        fs::create_dir(sandbox.path("out")).unwrap();
        let args: Vec<&str> = case.args.iter().map(String::as_str).collect();
        let ran = sandbox.quantize(&[&args[..], &["-q"]].concat());
        if case.files.is_empty() {
            assert_eq!(ran.code, Some(1), "{}: {}", case.name, ran.stderr);
            assert!(sandbox.outputs().is_empty(), "{}", case.name);
            continue;
        }
        let expected: BTreeMap<String, String> =
            case.files.iter().map(|[name, _, digest]| (name.clone(), digest.clone())).collect();
        if ran != silent() || sandbox.listing("out") != expected {
            wrong.push(format!("{} ({}): {}", case.name, args.join(" "), ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    // Each option that decides about bytes is in some case.
    for option in words(
        "--allow-requantize --leave-output-tensor --pure --imatrix --include-weights \
        --exclude-weights --output-tensor-type --token-embedding-type --tensor-type \
        --tensor-type-file --prune-layers --keep-split --override-kv --split-max-size \
        --split-max-tensors",
    ) {
        assert!(cases.iter().any(|case| case.args.iter().any(|arg| arg == option)), "{option}");
    }
}

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

#[test]
fn thread_count_changes_no_byte() {
    let sandbox = with_inputs();
    for name in ["split-max-tensors", "prune-weighted", "keep-split"] {
        let case = case(name);
        for threads in ["1", "2", "3", "7"] {
            let args: Vec<&str> = case.args.iter().map(String::as_str).collect();
            let ran = sandbox.quantize(&[&args[..], &["-q", "--force", "--threads", threads]].concat());
            assert_eq!(ran, silent(), "{name}");
            for [file, _, digest] in &case.files {
                assert_eq!(&sandbox.listing("out")[file], digest, "{name}, {threads} threads");
            }
        }
    }
}

#[test]
fn converter_accepts_the_same_options() {
    let sandbox = with_inputs();
    for name in words(
        "leave-output pure pure-weighted include-weights exclude-weights output-type \
        embedding-type tensor-type tensor-type-file prune-first prune-weighted override-many \
        override-and-weighted split-max-tensors split-max-size",
    ) {
        let case = case(name);
        let [options @ .., input, out, file_type] = &case.args[..] else { panic!("{name}") };
        assert_eq!(input, "llama.gguf");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ran = sandbox.convert(&[&["llama", out, "-t", file_type, "-q"], &options[..]].concat());
        assert_eq!(ran, silent(), "{name}");
        for [file, _, digest] in &case.files {
            assert_eq!(&sandbox.listing("out")[file], digest, "{name}");
            fs::remove_file(sandbox.path("out").join(file)).unwrap();
        }
        assert!(sandbox.outputs().is_empty());
    }
}

#[test]
fn recipe_file_replays_every_choice() {
    let sandbox = with_inputs();
    for (name, types) in
        [("prune-weighted", "iq3_xxs"), ("tensor-type-file", "q4_k_m"), ("split-max-tensors", "q4_k_m")]
    {
        let case = case(name);
        let args: Vec<&str> = case.args.iter().map(String::as_str).collect();
        let saved = sandbox
            .quantize(&[&args[..], &["-q", "--dry-run", "--save-recipe", "r.json", "--force"]].concat());
        assert_eq!((saved.code, saved.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(sandbox.outputs().is_empty());
        let json: serde_json::Value = serde_json::from_str(&sandbox.text("r.json")).unwrap();
        assert_eq!(json["outputs"][0]["type"], types.to_ascii_uppercase());
        // The list of patterns is not needed any more; the matrix may have moved.
        assert_eq!(sandbox.quantize(&words("llama.gguf out/x.gguf --recipe r.json -q")), silent());
        let expected: BTreeMap<String, String> =
            case.files.iter().map(|[name, _, digest]| (name.clone(), digest.clone())).collect();
        assert_eq!(sandbox.listing("out"), expected, "{name}");
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        fs::create_dir(sandbox.path("out")).unwrap();
        let ran = sandbox.convert(&words("llama out/x.gguf --recipe r.json -q"));
        assert_eq!(ran, silent(), "{name}");
        assert_eq!(sandbox.listing("out"), expected, "{name}");
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        fs::create_dir(sandbox.path("out")).unwrap();
    }

    // Several types with explicit dtypes.
    let save = words("llama.gguf out/ q4_k_m,q2_k -q --save-recipe two.json --tensor-type attn_q=q8_0");
    assert_eq!(sandbox.quantize(&save), silent());
    let before = sandbox.listing("out");
    assert_eq!(before.len(), 2);
    let again =
        ["llama.gguf", "out/", "-q", "--force", "--recipe", "two.json", "--save-recipe", "three.json"];
    assert_eq!(sandbox.quantize(&again), silent());
    assert_eq!(sandbox.listing("out"), before);
    assert_eq!(sandbox.text("two.json"), sandbox.text("three.json"));

    let exists = sandbox.quantize(&words("llama.gguf -q --dry-run --recipe two.json --save-recipe two.json"));
    assert_eq!(exists.code, Some(1), "{}", exists.stderr);
    let both = sandbox.quantize(&["llama.gguf", "--recipe", "two.json", "--pure"]);
    assert_eq!(both.code, Some(2));
    let other = sandbox.quantize(&["mixtral.gguf", "out/y", "--recipe", "two.json"]);
    other.ends_and_begins(1, "error: two.json: line ");
    other.says("does not match any tensor of the model");
    sandbox.write("bad.json", sandbox.text("two.json").replace("\"version\": 1", "\"version\": 2"));
    let bad = sandbox.quantize(&["llama.gguf", "out/y", "--recipe", "bad.json"]);
    assert_eq!(
        bad,
        failed(
            "error: bad.json: expected `gguf-tools recipe` version 1, found `gguf-tools recipe` version 2\n"
        )
    );
    let none = sandbox.quantize(&["llama.gguf", "out/y", "--recipe", "types.txt"]);
    assert!(
        none.code == Some(1) && none.stderr.starts_with("error: types.txt: not a recipe file: "),
        "{}",
        none.stderr
    );
    sandbox
        .write("less.json", sandbox.text("two.json").replace("blk.0.attn_q.weight", "blk.0.attn_x.weight"));
    assert_eq!(sandbox.quantize(&["llama.gguf", "out/y", "--recipe", "less.json"]).code, Some(1));
}

/// The tensors of a planned file: name to dtype and reason.
fn plan(sandbox: &Sandbox, args: &[&str]) -> BTreeMap<String, (String, String)> {
    let ran = sandbox.quantize(&[args, &["--dry-run", "--json", "-q"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
    let json = ran.json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let tensors = json["outputs"][0]["tensors"].as_array().unwrap().iter();
    tensors.map(|it| (text(&it["name"]), (text(&it["dtype"]), text(&it["reason"])))).collect()
}

#[test]
fn missing_weight_policies_are_applied() {
    let sandbox = with_inputs();
    let matrix = ["--imatrix", "llama.imatrix.gguf", "--exclude-weights", "blk.0.attn_q"];
    let with = |policy: &str, out: &str| {
        let policy = ["--missing-imatrix", policy, "llama.gguf", out, "iq2_xxs", "-q"];
        sandbox.quantize(&[&matrix[..], &policy[..]].concat())
    };
    let refused = "error: llama.gguf: tensor `blk.0.attn_q.weight`: type iq2_xxs needs importance data, but the importance matrix has no entry for the tensor\n\
                   hint: use an importance matrix that has the tensor, or a larger type with `--missing-imatrix raise-type`\n";
    assert_eq!(with("error", "out/x"), failed(refused));
    for policy in ["ones", "neighbour", "raise-type"] {
        assert_eq!(with(policy, &format!("out/{policy}")), silent());
    }
    assert_eq!(sandbox.outputs(), ["neighbour", "ones", "raise-type"]);
    let listing = sandbox.listing("out");
    assert_ne!(listing["ones"], listing["neighbour"]);

    let raised = [&matrix[..], &["--missing-imatrix", "raise-type", "llama.gguf", "iq2_xxs"]].concat();
    let tensor = &plan(&sandbox, &raised)["blk.0.attn_q.weight"];
    assert_eq!(tensor, &("q2_K".to_owned(), "no importance data for iq2_xxs; default".to_owned()));
    // Only that tensor differs from the file that all weights make.
    let plain = plan(&sandbox, &["--imatrix", "llama.imatrix.gguf", "llama.gguf", "iq2_xxs"]);
    let differing: Vec<String> = plan(&sandbox, &raised)
        .into_iter()
        .filter(|(name, choice)| plain[name] != *choice)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(differing, ["blk.0.attn_q.weight"]);

    // Without a matrix: ones go, neighbours are nowhere.
    assert_eq!(sandbox.quantize(&words("--missing-imatrix ones llama.gguf out/all iq1_s -q")), silent());
    let alone = sandbox.quantize(&words("--missing-imatrix neighbour llama.gguf out/y iq1_s"));
    alone.ends_and_says(1, "no other layer has an entry of its size");
    let unknown = sandbox.quantize(&words("--missing-imatrix guess llama.gguf out/y iq1_s"));
    assert!(
        unknown.code == Some(2)
            && unknown.stderr.contains("possible values: error, ones, neighbour, raise-type")
    );
}

#[test]
fn importance_matrix_coverage_is_reported() {
    let sandbox = with_inputs();
    fs::copy(golden("recipes/imatrix/partial.gguf"), sandbox.path("partial.gguf")).unwrap();
    let ran = sandbox.quantize(&words("--imatrix partial.gguf mixtral.gguf out/x q4_0 --dry-run"));
    let expert = "warning: importance matrix: tensor `blk.0.ffn_up_exps.weight`: 1 of 4 experts received no tokens: 1\n";
    assert!(ran.code == Some(0) && ran.stderr.contains(expert), "{}", ran.stderr);
    let ran = sandbox.quantize(&words(
        "--imatrix llama.imatrix.gguf --include-weights blk.1 llama.gguf q4_0 --dry-run -v",
    ));
    ran.says("note: importance matrix: the data of 7 tensors are not used, as requested");
    ran.says("note: importance matrix of 7 entries: 7 of 16 tensors have data");
    ran.says("note: importance matrix: blk.1.attn_q.weight: ");
    ran.says("note: importance matrix: token_embd.weight: no data");
}

#[test]
fn importance_matrix_of_another_model_is_refused() {
    let sandbox = with_inputs();
    let another = |file: &str| {
        format!(
            "error: {file}: the importance matrix belongs to another model: none of its entries matches a tensor\n"
        )
    };
    // Some names in common, of other sizes.
    let ran = sandbox.quantize(&words("--imatrix mixtral.imatrix.gguf llama.gguf out/x q4_k_m"));
    ran.ends_and_begins(1, &another("mixtral.imatrix.gguf"));
    // A single entry of another size.
    let ran = sandbox
        .quantize(&words("--imatrix mixtral.imatrix.gguf --include-weights attn_q llama.gguf out/x q4_k_m"));
    ran.says("expected 256 values in the importance matrix, found 64");
    // No name in common.
    let mut other = sandbox.read("mixtral.imatrix.dat");
    for at in 0..other.len() - 4 {
        if &other[at..at + 4] == b"blk." {
            other[at..at + 4].copy_from_slice(b"xyz.");
        }
    }
    sandbox.write("other.dat", other);
    let ran = sandbox.quantize(&words("--imatrix other.dat llama.gguf out/x q4_k_m"));
    assert!(ran.code == Some(1) && ran.stderr.starts_with(&another("other.dat")), "{}", ran.stderr);
    assert!(sandbox.outputs().is_empty());
}

#[test]
fn non_finite_weights_are_named() {
    let sandbox = with_bf16(&["llama"]);
    let json = sandbox.convert(&words("llama out -t bf16 --dry-run --json -q")).json();
    let tensors = json["outputs"][0]["tensors"].as_array().unwrap();
    let tensor = tensors.iter().find(|tensor| tensor["name"] == "blk.1.ffn_down.weight").unwrap();
    let offset = tensor["offset"].as_u64().unwrap() as usize + 2 * (3 * 512 + 7);
    let good = sandbox.read("llama.gguf");
    for (bits, value) in [(0x7fc0u16, "NaN"), (0x7f80, "inf"), (0xff80, "-inf")] {
        let mut bad = good.clone();
        bad[offset..offset + 2].copy_from_slice(&bits.to_le_bytes());
        sandbox.write("bad.gguf", bad);
        for name in ["q4_k_m", "q8_0", "f32", "f16", "copy"] {
            let stderr = format!(
                "error: bad.gguf: tensor `blk.1.ffn_down.weight`: row 3, column 7 is {value}\n\
                 hint: download the weights again if they are damaged; use --allow-nonfinite if they were trained that way\n"
            );
            let ran = sandbox.quantize(&["bad.gguf", "out/x", name, "-q", "--force"]);
            ran.ends_and_begins(1, &stderr);
            assert!(sandbox.finished_outputs().is_empty());
        }
        assert_eq!(sandbox.quantize(&words("bad.gguf out/x q8_0 -q --allow-nonfinite --force")), silent());
        fs::remove_file(sandbox.path("out/x")).unwrap();
    }
}

#[test]
fn impossible_calls_are_refused_before_writing() {
    let sandbox = with_inputs();
    let pruned = "error: llama.gguf: layer 7 cannot be removed: the model has only 2 layers, counted from 0\n\
                  hint: layers count from 0\n";
    assert_eq!(sandbox.quantize(&words("llama.gguf out/x q4_0 --prune-layers 0,7")), failed(pruned));
    let all = "error: llama.gguf: all 2 layers would be removed\n";
    assert_eq!(sandbox.quantize(&words("llama.gguf out/x q4_0 --prune-layers 0,1")), failed(all));

    for dtype in ["q8_1", "q8_k", "i32", "f64"] {
        let ran =
            sandbox.quantize(&["llama.gguf", "out/x", "q4_0", "--tensor-type", &format!("attn_v={dtype}")]);
        assert_eq!(ran.code, Some(1), "{dtype}");
        ran.begins("error: llama.gguf: tensor `blk.0.attn_v.weight`: ");
    }
    // A row of 64 elements, and a type of blocks of 128 without a replacement.
    let row = "error: mixtral.gguf: tensor `token_embd.weight`: row length 64 is not a multiple of 128, and q1_0 has no fallback type\n";
    assert_eq!(sandbox.quantize(&["mixtral.gguf", "out/x", "q1_0"]), failed(row));

    // The heads of the model are u32.
    let range = "error: llama.gguf: metadata key `llama.block_count`: -2 is not a valid u32\n\
                 hint: specify a type such as `u64:` to change it\n";
    let ran = sandbox.quantize(&words("llama.gguf out/x q4_0 --override-kv llama.block_count=int:-2"));
    assert_eq!(ran, failed(range));
    for wrong in ["x", "x=1", "x=int:1.5", "x=bool:yes", "x=list:1"] {
        assert_eq!(sandbox.quantize(&["llama.gguf", "out/x", "q4_0", "--override-kv", wrong]).code, Some(2));
    }

    // In place of the input: never, shards and recipe files included.
    let itself = sandbox.quantize(&words("split-00001-of-00004.gguf split.gguf q4_0 --keep-split --force"));
    itself.ends_and_begins(1, "error: output `split-00001-of-00004.gguf` is also the input");
    let recipe = sandbox.quantize(&words("llama.gguf q4_0 --dry-run --save-recipe llama.gguf --force"));
    assert!(recipe.code == Some(1) && recipe.stderr.contains("is also the input"), "{}", recipe.stderr);
    sandbox.write("out/x", "mine");
    let there = sandbox.quantize(&["llama.gguf", "out/x", "q4_0"]);
    assert_eq!(there.code, Some(1));
    assert_eq!(sandbox.read("out/x"), b"mine");
    assert_eq!(sandbox.outputs(), ["x"]);
}

#[test]
fn unmatched_patterns_suggest_similar_names() {
    let sandbox = with_bf16(&["llama"]);
    let ran =
        sandbox.quantize(&["llama.gguf", "q4_0", "--dry-run", "--tensor-type", r"blk\.\d+\.ffn_dwn=q8_0"]);
    assert_eq!(ran.code, Some(0));
    let warning =
        "warning: --tensor-type: `blk\\.\\d+\\.ffn_dwn` does not match any tensor; did you mean `ffn_down`";
    ran.begins(warning);
    let ran = sandbox.convert(&words("llama -t q4_0 --dry-run --tensor-type ouput=q8_0"));
    ran.says("`ouput` does not match any tensor; did you mean `output`");
}

#[test]
fn known_reference_errors_are_avoided() {
    let sandbox = with_inputs();
    let show = |file: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.inspect(&["show", file, "--json"]).stdout).unwrap()
    };
    // Integers keep sign and type, texts their length.
    let long = "long ".repeat(60);
    let name = format!("general.name=str:{long}");
    let numbers = words(
        "--override-kv my.offset=int:-5 --override-kv my.large=int:5000000000 --override-kv my.wide=u64:7",
    );
    let args = ["llama.gguf", "out/x", "q4_0", "-q", "--override-kv", &name];
    let ran = sandbox.quantize(&[&args[..], &numbers].concat());
    assert_eq!(ran, silent());
    let metadata = &show("out/x")["metadata"];
    let text = metadata.to_string();
    assert!(text.contains(&long), "{text}");
    assert!(text.contains("-5") && text.contains("5000000000"), "{text}");
    // Patterns count for float types too.
    let float = plan(&sandbox, &["llama.gguf", "bf16", "--tensor-type", "ffn_down=q8_0"]);
    assert_eq!(float["blk.0.ffn_down.weight"].0, "q8_0");
    assert_eq!(float["blk.0.ffn_up.weight"].0, "bf16");
    // The dtypes of options fall back where rows do not fit.
    let options = ["--output-tensor-type", "q4_k", "--token-embedding-type", "q6_k"];
    let fitted = plan(&sandbox, &[&["mixtral.gguf", "q4_0"], &options[..]].concat());
    assert_eq!(
        (fitted["output.weight"].0.as_str(), fitted["token_embd.weight"].0.as_str()),
        ("q5_0", "q8_0")
    );
    // A tensor larger than the limit gets a separate shard.
    let ran = sandbox.quantize(&words("--split-max-size 1000 llama.gguf out/s.gguf q4_0 -q"));
    assert_eq!(ran, silent());
    let n_shards = sandbox.outputs().iter().filter(|name| name.starts_with("s-")).count();
    assert_eq!(n_shards, show("llama.gguf")["tensors"].as_array().unwrap().len());
}
