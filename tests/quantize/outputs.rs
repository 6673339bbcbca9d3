//! `gguf-quantize`: what it writes, and what it says where it writes nothing.

use std::fs;

use crate::common::{Output, Sandbox, failed, golden, silent, succeed, words};

/// A sandbox that holds `llama.gguf` at bf16, as the reference's converter writes it.
fn with_bf16(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    assert_eq!(sandbox.convert(&[name, &format!("{name}.gguf"), "-t", "bf16", "-q"]), silent());
    sandbox
}

/// The lines of a golden of the form `key name bytes digest`.
fn lines(file: &str, key: &str) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(golden(file)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    rows.map(|row| {
        let [name, bytes, digest] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("`{row}`") };
        (name.to_owned(), bytes.to_owned(), digest.to_owned())
    })
    .collect()
}

#[test]
fn every_weighted_type_matches_reference() {
    for (model, matrix) in [("llama", "cli/llama.imatrix.gguf"), ("mixtral", "recipes/imatrix/mixtral.gguf")]
    {
        let sandbox = with_bf16(model);
        let imatrix = format!("{model}.imatrix.gguf");
        fs::copy(golden(matrix), sandbox.path(&imatrix)).unwrap();
        let rows = lines("cli/imatrix.txt", model);
        assert_eq!(rows.len(), 33);
        let (refused, written): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.1 == "refused");
        let input = format!("{model}.gguf");
        let names: Vec<&str> = written.iter().map(|(name, ..)| name.as_str()).collect();
        let ran = sandbox.quantize(&["--imatrix", &imatrix, &input, "out/{ftype}", &names.join(","), "-q"]);
        assert_eq!(ran, silent());
        let expected = written.iter().map(|(name, _, digest)| (name.clone(), digest.clone())).collect();
        assert_eq!(sandbox.listing("out"), expected, "{model}");
        for (name, ..) in refused {
            let ran = sandbox.quantize(&["--imatrix", &imatrix, &input, "x", &name, "-q"]);
            assert_eq!(ran.code, Some(1), "{name}");
        }
    }
}

#[test]
fn options_choose_dtypes() {
    let sandbox = with_bf16("llama");
    let dtypes = |args: &[&str]| {
        let json = succeed(sandbox.quantize(&[args, &["--dry-run", "--json"]].concat())).json();
        let tensors = json["outputs"][0]["tensors"].as_array().unwrap().clone();
        move |name: &str| {
            let tensor = tensors.iter().find(|tensor| tensor["name"] == name).unwrap();
            tensor["dtype"].as_str().unwrap().to_owned()
        }
    };
    let plain = dtypes(&["llama.gguf", "q4_k_m"]);
    assert_eq!((plain("output.weight"), plain("blk.1.attn_v.weight")), ("q6_K".into(), "q6_K".into()));
    let pure = dtypes(&["llama.gguf", "q4_k_m", "--pure"]);
    assert_eq!((pure("output.weight"), pure("blk.1.attn_v.weight")), ("q4_K".into(), "q4_K".into()));
    let left = dtypes(&["llama.gguf", "q4_k_m", "--leave-output-tensor"]);
    assert_eq!(left("output.weight"), "bf16");
    let asked = ["--output-tensor-type", "Q8_0", "--token-embedding-type", "f16"];
    let asked = dtypes(&[&["llama.gguf", "q4_k_m"], &asked[..]].concat());
    assert_eq!((asked("output.weight"), asked("token_embd.weight")), ("q8_0".into(), "f16".into()));
    sandbox.write("types", "ffn_up=q5_k\nattn_k=q3_k");
    let listed = ["--tensor-type", r"blk\.0\.ffn_up=iq4_nl", "--tensor-type-file", "types"];
    let listed = dtypes(&[&["llama.gguf", "q4_k_m"], &listed[..]].concat());
    assert_eq!(listed("blk.0.ffn_up.weight"), "iq4_nl");
    assert_eq!(
        (listed("blk.1.ffn_up.weight"), listed("blk.1.attn_k.weight")),
        ("q5_K".into(), "q3_K".into())
    );
    assert!(sandbox.outputs().is_empty());
}

#[test]
fn invalid_calls_are_refused_or_warned() {
    let sandbox = with_bf16("llama");
    let before = sandbox.listing("llama");
    let needs = "error: llama.gguf: IQ2_XXS: tensor `blk.0.attn_k.weight`: type iq2_xxs needs an importance matrix\nhint: compute one with `gguf-eval imatrix` and pass it with --imatrix\n";
    assert_eq!(sandbox.quantize(&["llama.gguf", "out/x", "iq2_xxs"]), failed(needs));

    let itself = "error: output `llama.gguf` is also the input\n\
                  hint: choose another output; the input is never written to\n";
    assert_eq!(sandbox.quantize(&["llama.gguf", "llama.gguf", "q4_0", "--force"]), failed(itself));

    assert_eq!(sandbox.quantize(&["llama.gguf", "q4.gguf", "q4_0", "-q"]), silent());
    let twice = "error: q4.gguf: tensor `token_embd.weight` is already quantized: q4_0 would become q5_0\n\
                 hint: use the original weights, or accept the extra loss with `gguf-quantize --allow-requantize`\n";
    assert_eq!(sandbox.quantize(&["q4.gguf", "out/x", "q5_0"]), failed(twice));
    assert!(sandbox.outputs().is_empty());
    let ran = sandbox.quantize(&words("q4.gguf out/x q5_0 --allow-requantize --tensor-type foo=q8_0"));
    let stderr = "warning: --tensor-type: `foo` does not match any tensor\n\
                  warning: out/x: 15 tensors are already quantized; quantizing them again loses more precision\n\
                  wrote out/x: 974880 bytes (975 kB), 5.60 bits/weight\n";
    assert_eq!(ran, Output { stderr: stderr.into(), ..silent() });

    let bytes = sandbox.read("llama.gguf");
    sandbox.write("cut.gguf", &bytes[..bytes.len() - 5000]);
    let ran = sandbox.quantize(&["cut.gguf", "out/y", "q4_0"]);
    ran.ends_and_begins(1, "error: cut.gguf: tensor `");

    fs::copy(golden("cli/llama.imatrix.gguf"), sandbox.path("m.gguf")).unwrap();
    let ran = sandbox.quantize(&words("--imatrix llama.gguf llama.gguf out/y q4_0"));
    ran.ends_and_begins(1, "error: llama.gguf: ");
    let of_one = ["--imatrix", "m.gguf", "--include-weights", "blk.0.attn_k.weight"];
    let ran = sandbox.quantize(&[&of_one[..], &["llama.gguf", "out/y", "iq2_xxs"]].concat());
    let absent = "the importance matrix has no entry for the tensor\nhint: use an importance matrix that has the tensor";
    assert!(ran.code == Some(1) && ran.stderr.contains(absent), "{}", ran.stderr);
    assert_eq!(sandbox.outputs(), ["x"]);
    assert_eq!(sandbox.listing("llama"), before);

    for args in [
        &["llama.gguf"][..],
        &["llama.gguf", "q4_x"],
        &["llama.gguf", "out/x", "q4_0", "many"],
        &["llama.gguf", "q4_0", "--tensor-type", "x"],
        &["llama.gguf", "q4_0", "--include-weights", "x"],
    ] {
        assert_eq!(sandbox.quantize(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn split_model_is_read_as_one() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("out")).unwrap();
    for shard in ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"] {
        fs::copy(golden("gguf").join(shard), sandbox.path(shard)).unwrap();
    }
    let ran = sandbox.quantize(&["split-00001-of-00002.gguf", "out/x.gguf", "copy", "-q"]);
    assert_eq!(ran, silent());
    let json = sandbox.inspect(&["show", "out/x.gguf", "--json"]).json();
    let metadata = json["metadata"].as_object().unwrap();
    assert!(!metadata.is_empty() && !metadata.keys().any(|key| key.starts_with("split.")));
    assert_eq!(json["tensors"].as_array().unwrap().len(), shard_tensors(&sandbox));
}

/// Tensors of both shards together, as listed one by one.
fn shard_tensors(sandbox: &Sandbox) -> usize {
    let of = |shard: &str| {
        let json = sandbox.inspect(&["show", shard, "--json"]).json();
        json["tensors"].as_array().unwrap().len()
    };
    of("split-00001-of-00002.gguf") + of("split-00002-of-00002.gguf")
}
