//! The verbs of `gguf-inspect` that change, copy and describe containers, held to the reference's scripts and programs
//! (`golden/cli/container-tools.txt`, `golden/cli/big-endian.txt`).

use std::{collections::BTreeMap, fs};

use crate::common::{Output, Sandbox, golden, sha256, succeed, words};
use gguf_container::{File, Value};
use serde_json::Value as Json;

/// Digests by what was done.
fn digests() -> BTreeMap<String, String> {
    let text = fs::read_to_string(golden("cli/container-tools.txt")).unwrap();
    let rows = text.lines().map(|line| line.split_once('\t').unwrap());
    rows.map(|(what, digest)| (what.to_owned(), digest.to_owned())).collect()
}

/// A sandbox with the file `m.gguf`, which the reference's converter makes too.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "m.gguf", "bf16");
    assert_eq!(digest(&sandbox, "m.gguf"), digests()["convert"]);
    sandbox
}

fn digest(sandbox: &Sandbox, name: &str) -> String {
    sha256(&sandbox.read(name))
}

fn done(sandbox: &Sandbox, args: &[&str]) -> Output {
    let ran = sandbox.inspect(args);
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
    ran
}

fn open(sandbox: &Sandbox, name: &str) -> File {
    File::open(&sandbox.path(name)).unwrap()
}

/// The data of all tensors, with their names.
fn data(sandbox: &Sandbox, name: &str) -> Vec<(String, Vec<u8>)> {
    let file = open(sandbox, name);
    file.tensors().iter().map(|it| (it.name.clone(), file.data(it).unwrap().to_vec())).collect()
}

/// The digest of `scripts/golden/container_tools.py`.
const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}\n{% endfor %}";

#[test]
fn set_and_unset_match_reference_scripts() {
    let (sandbox, digests) = (sandbox(), digests());
    sandbox.write("template.jinja", TEMPLATE);
    fs::copy(sandbox.path("m.gguf"), sandbox.path("set.gguf")).unwrap();
    let report = done(
        &sandbox,
        &words("set set.gguf tokenizer.ggml.bos_token_id=7 llama.rope.freq_base=f32:12345.5 --json"),
    )
    .json();
    assert_eq!((report["in_place"].as_bool(), report["changes"].as_array().unwrap().len()), (Some(true), 2));
    assert_eq!(digest(&sandbox, "set.gguf"), digests["set"]);

    let set = [
        "set",
        "m.gguf",
        "general.name=Another name",
        "--chat-template",
        "template.jinja",
        "-o",
        "half.gguf",
    ];
    done(&sandbox, &set);
    done(&sandbox, &["unset", "half.gguf", "general.size_label", "-q"]);
    assert_eq!(digest(&sandbox, "half.gguf"), digests["new"]);
    assert_eq!(digest(&sandbox, "m.gguf"), digests["convert"], "the source of -o changed");
    let listed = sandbox.listing("");
    assert!(!listed.keys().any(|name| name.contains("partial") || name.contains("backup")), "{listed:?}");
}

#[test]
fn header_slack_allows_edit_in_place() {
    let sandbox = sandbox();
    sandbox.write("long.jinja", format!("{{{{ messages[0].content }}}}{}", "x".repeat(4975)));
    sandbox.write("longer.jinja", format!("{{{{ messages[0].content }}}}{}", "y".repeat(8975)));
    let plain = open(&sandbox, "m.gguf").get("tokenizer.chat_template").unwrap().to_string();
    sandbox.write("plain.jinja", plain);
    // A conversion leaves room as well, and nothing else is different.
    let slack = ["llama", "c.gguf", "-t", "bf16", "-q", "--header-slack", "8000"];
    succeed(sandbox.convert(&slack));
    done(&sandbox, &words("set m.gguf --header-slack 8000 -o s.gguf -q"));
    assert_eq!(data(&sandbox, "c.gguf"), data(&sandbox, "m.gguf"));
    for name in ["c.gguf", "s.gguf"] {
        let before = sandbox.read(name);
        let start = open(&sandbox, name).data_offset() as usize;
        let report = |args: &[&str]| -> Json {
            serde_json::from_str(&done(&sandbox, &[&["set", name, "--json"], args].concat()).stdout).unwrap()
        };
        let planned = report(&["--chat-template", "long.jinja", "--dry-run"]);
        assert_eq!((planned["in_place"].as_bool(), planned["written"].as_bool()), (Some(true), Some(false)));
        assert!(sandbox.read(name) == before);
        let made = report(&["--chat-template", "long.jinja"]);
        assert_eq!((made["in_place"].as_bool(), made["written"].as_bool()), (Some(true), Some(true)));
        let after = sandbox.read(name);
        assert!(before.len() == after.len() && before[start..] == after[start..]);
        let file = open(&sandbox, name);
        assert_eq!(file.get("tokenizer.chat_template").and_then(Value::as_str).map(str::len), Some(5000));
        assert_eq!(file.data_offset() as usize, start);
        // More than there is room for is written anew; less gives the room back.
        assert_eq!(report(&["--chat-template", "longer.jinja"])["in_place"], false);
        assert_eq!(data(&sandbox, name), data(&sandbox, "m.gguf"));
        assert_eq!(report(&["--chat-template", "plain.jinja"])["in_place"], true);
        done(&sandbox, &["set", name, "--header-slack", "0", "-q"]);
        let (file, plain) = (open(&sandbox, name), open(&sandbox, "m.gguf"));
        assert_eq!(file.metadata(), plain.metadata(), "{name}");
        assert!(sandbox.read(name) == sandbox.read("m.gguf"));
        succeed(sandbox.inspect(&["verify", name, "--against", "llama", "--strict", "-q"]));
    }
}

#[test]
fn unfinished_edit_is_named() {
    let sandbox = sandbox();
    sandbox.write("m.gguf.header-backup", "old");
    let before = sandbox.listing("");
    let ran = sandbox.inspect(&["set", "m.gguf", "tokenizer.ggml.bos_token_id=7"]);
    ran.ends_and_says(1, "`m.gguf.header-backup` exists: an edit of `m.gguf` was interrupted");
    ran.says("`dd if=m.gguf.header-backup of=m.gguf conv=notrunc`");
    assert_eq!(sandbox.listing(""), before);
}

#[test]
#[cfg(unix)]
fn link_is_not_written_through() {
    let sandbox = sandbox();
    std::os::unix::fs::symlink("m.gguf", sandbox.path("link.gguf")).unwrap();
    let ran = sandbox.inspect(&["set", "link.gguf", "general.name=x"]);
    assert_eq!(
        (ran.code, digest(&sandbox, "m.gguf")),
        (Some(1), digests()["convert"].clone()),
        "{}",
        ran.stderr
    );
    done(&sandbox, &words("set link.gguf general.name=x -o other.gguf -q"));
}

#[test]
fn wrong_edits_change_nothing() {
    let sandbox = sandbox();
    sandbox.write("bad.json", r#"{"a": {"type": "u8", "value": 300}}"#);
    sandbox.write("there.gguf", "there");
    let before = sandbox.listing("");
    for (code, args) in [
        (2, &["set", "m.gguf"][..]),
        (2, &["set", "m.gguf", "new.key=1"]),
        (2, &["set", "m.gguf", "llama.block_count=u8:1000"]),
        (1, &["set", "m.gguf", "--from", "bad.json"]),
        (1, &["set", "m.gguf", "general.alignment=u32:64"]),
        (1, &["set", "m.gguf", "x=str:@none"]),
        (1, &["set", "none", "general.name=x"]),
        (1, &words("set m.gguf general.name=x -o there.gguf")),
        (1, &["unset", "m.gguf", "no.such.key"]),
        (1, &["unset", "m.gguf", "no.such.*"]),
        (1, &["rename", "m.gguf", "no.such=x"]),
        (1, &["rename", "m.gguf", "general.name=general.architecture"]),
        (2, &["rename", "m.gguf", "general.name"]),
        (1, &words("split m.gguf none/x --split-max-tensors 3")),
        (2, &["split", "m.gguf", "x"]),
        (2, &words("split m.gguf x --split-max-size 2X")),
        (1, &["merge", "m.gguf", "there.gguf"]),
        (1, &words("endian m.gguf there.gguf --order big")),
        (1, &words("extract m.gguf blk.0.attn_q --output x.npy")),
        (2, &words("extract m.gguf output.weight --output x.txt")),
        (2, &words("extract m.gguf output.weight output_norm.weight --output x.npy")),
        (1, &["hash", "--check", "bad.json"]),
        (1, &["hash", "bad.json"]),
        (2, &["hash"]),
        (1, &["diff", "m.gguf", "none"]),
        (1, &["export-metadata", "m.gguf", "--prefix", "nothing."]),
    ] {
        let ran = sandbox.inspect(args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert_eq!(sandbox.listing(""), before, "{args:?}");
    }
    // Dry runs say what they would do.
    for args in [
        &["set", "m.gguf", "general.name=x", "--dry-run"][..],
        &["unset", "m.gguf", "general.name", "--dry-run", "-o", "there.gguf"],
        &["rename", "m.gguf", "general.name=general.title", "--dry-run", "--json"],
        &["split", "m.gguf", "x", "--split-max-tensors", "3", "--dry-run"],
        &["merge", "m.gguf", "x.gguf", "--dry-run", "--json"],
        &["endian", "m.gguf", "x.gguf", "--order", "big", "--dry-run"],
        &["extract", "m.gguf", "output.weight", "--output", "x.npy", "--dry-run", "--json"],
    ] {
        assert!(!done(&sandbox, args).stdout.is_empty(), "{args:?}");
        assert_eq!(sandbox.listing(""), before, "{args:?}");
    }
}

#[test]
fn metadata_export_and_import_round_trip() {
    let sandbox = sandbox();
    fs::copy(golden("gguf/py-little.gguf"), sandbox.path("all.gguf")).unwrap();
    for name in ["all.gguf", "m.gguf"] {
        done(&sandbox, &["export-metadata", name, "-o", "all.json", "--force"]);
        // Into a file that has none of these keys, whose own are taken out.
        fs::copy(golden("gguf/cpp-flat.gguf"), sandbox.path("x.gguf")).unwrap();
        done(&sandbox, &["unset", "x.gguf", "*", "-q"]);
        assert!(open(&sandbox, "x.gguf").metadata().is_empty());
        let alignment = open(&sandbox, name).alignment();
        let ran = sandbox.inspect(&words("set x.gguf --from all.json -q --force"));
        if alignment == 32 {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert_eq!(open(&sandbox, "x.gguf").metadata(), open(&sandbox, name).metadata(), "{name}");
        } else {
            ran.says("alignment");
        }
    }
    done(&sandbox, &words("rename m.gguf llama.*=my.* general.name=general.title -q --force"));
    let file = open(&sandbox, "m.gguf");
    assert!(file.metadata().iter().all(|(key, _)| !key.starts_with("llama.")));
    assert!(file.metadata().contains("my.block_count") && file.metadata().contains("general.title"));
}

#[test]
fn split_matches_reference_and_merge_restores() {
    let (sandbox, digests) = (sandbox(), digests());
    done(&sandbox, &words("split m.gguf by-tensors --split-max-tensors 8 -q"));
    done(&sandbox, &words("split m.gguf by-size --split-max-size 1M --no-tensor-first-split -q"));
    let mut n_shards = 0;
    for (name, expected) in digests.iter().filter(|(name, _)| name.ends_with(".gguf")) {
        assert_eq!(digest(&sandbox, name), *expected, "{name}");
        n_shards += 1;
    }
    assert_eq!(n_shards, 7);
    for (number, shard) in
        ["by-tensors-00002-of-00003.gguf", "by-size-00001-of-00004.gguf"].iter().enumerate()
    {
        let merged = format!("merged-{number}.gguf");
        done(&sandbox, &["merge", shard, &merged, "-q"]);
        assert_eq!(digest(&sandbox, &merged), digests["convert"], "{shard}");
    }
    // A split model is split anew, and turned as it is.
    done(&sandbox, &words("split by-size-00002-of-00004.gguf again --split-max-tensors 8 -q"));
    assert_eq!(digest(&sandbox, "again-00003-of-00003.gguf"), digests["by-tensors-00003-of-00003.gguf"]);
    done(&sandbox, &words("endian by-tensors-00001-of-00003.gguf big.gguf --order big -q"));
    done(&sandbox, &["merge", "big-00003-of-00003.gguf", "big.gguf", "-q"]);
    done(&sandbox, &words("endian big.gguf little.gguf --order little -q"));
    assert_eq!(digest(&sandbox, "little.gguf"), digests["convert"]);
}

#[test]
fn byte_order_conversion_matches_reference() {
    let sandbox = Sandbox::with_golden("llama");
    let text = fs::read_to_string(golden("cli/big-endian.txt")).unwrap();
    let mut n_files = 0;
    for row in text.lines().filter(|row| row.contains("+endian")) {
        let [_, kind, _, expected] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        succeed(sandbox.convert(&["llama", "m.gguf", "-t", kind, "-q", "--force"]));
        done(&sandbox, &words("endian m.gguf big.gguf --order big -q --force"));
        assert_eq!(digest(&sandbox, "big.gguf"), expected, "{kind}");
        done(&sandbox, &words("endian big.gguf back.gguf --order little -q --force"));
        assert_eq!(digest(&sandbox, "back.gguf"), digest(&sandbox, "m.gguf"), "{kind}");
        n_files += 1;
    }
    assert_eq!(n_files, 3);
}

#[test]
fn hashes_match_reference_and_are_checked() {
    let (sandbox, digests) = (sandbox(), digests());
    let listed = done(&sandbox, &["hash", "m.gguf", "--tensors", "-q"]).stdout;
    let mut lines: BTreeMap<&str, &str> =
        listed.lines().filter_map(|line| line.split_once("  ")).map(|(a, b)| (b, a)).collect();
    assert_eq!(lines.remove("m.gguf"), Some(digests["convert"].as_str()));
    let whole = lines.remove("m.gguf:*").unwrap().to_owned();
    assert_eq!(lines.len(), 21);
    for (name, digest) in lines {
        assert_eq!(digest, digests[name.strip_prefix("m.gguf:").unwrap()], "{name}");
    }
    // Of metadata, the order of tensors and the byte order nothing depends.
    done(&sandbox, &words("set m.gguf general.name=x -o other.gguf -q"));
    let quantize = ["other.gguf", "sorted.gguf", "copy", "-q"];
    succeed(sandbox.quantize(&quantize));
    done(&sandbox, &words("endian sorted.gguf big.gguf --order big -q"));
    assert_ne!(data(&sandbox, "sorted.gguf"), data(&sandbox, "m.gguf"));
    for name in ["other.gguf", "sorted.gguf", "big.gguf"] {
        let listed = done(&sandbox, &["hash", name, "--tensors", "--json", "-q"]).stdout;
        let listed: Json = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed[format!("{name}:*")], Json::from(whole.clone()), "{name}");
    }

    done(&sandbox, &words("hash m.gguf other.gguf --tensors --output SHA256SUMS -q"));
    let checked = done(&sandbox, &["hash", "--check", "SHA256SUMS", "-q"]).stdout;
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), 2 * 23);
    // The system's own program reads the list of files.
    done(&sandbox, &words("hash m.gguf other.gguf --output FILES -q"));
    if let Ok(output) = sandbox.command("sha256sum").args(["-c", "FILES"]).output() {
        assert!(output.status.success());
    }
    let file = open(&sandbox, "other.gguf");
    let at = file.range(file.tensor("blk.1.ffn_up.weight").unwrap()).unwrap().start;
    drop(file);
    let mut bytes = sandbox.read("other.gguf");
    bytes[at] ^= 1;
    sandbox.write("other.gguf", bytes);
    let ran = sandbox.inspect(&["hash", "--check", "SHA256SUMS", "-q"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(1), "error: SHA256SUMS: 3 of 46 files have a wrong checksum or are missing\n")
    );
    let failed: Vec<&str> = ran.stdout.lines().filter(|line| !line.ends_with(": OK")).collect();
    assert_eq!(
        failed,
        ["other.gguf: FAILED", "other.gguf:blk.1.ffn_up.weight: FAILED", "other.gguf:*: FAILED"]
    );
}

#[test]
fn extracted_tensors_keep_their_values() {
    let sandbox = sandbox();
    let file = open(&sandbox, "m.gguf");
    let norm = file.data(file.tensor("output_norm.weight").unwrap()).unwrap();
    let query = file.data(file.tensor("blk.0.attn_q.weight").unwrap()).unwrap();
    done(&sandbox, &words("extract m.gguf output_norm.weight --output x.npy -q"));
    let npy = sandbox.read("x.npy");
    // numpy.lib.format, version 1.0.
    let header = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (256,), }";
    assert!(npy.starts_with(header) && npy[127] == b'\n' && npy[128..] == *norm, "{:?}", &npy[..128]);
    // numpy has no bfloat16.
    done(&sandbox, &words("extract m.gguf blk.0.attn_q.weight --output q.npy -q"));
    let wide: Vec<u8> = query.chunks_exact(2).flat_map(|half| [0, 0, half[0], half[1]]).collect();
    assert!(sandbox.read("q.npy")[128..] == wide);
    let names = ["blk.0.attn_q.weight", "output_norm.weight"];
    done(&sandbox, &["extract", "m.gguf", names[0], names[1], "--output", "x.safetensors", "-q"]);
    let bytes = sandbox.read("x.safetensors");
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Json = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    assert_eq!(header[names[0]]["dtype"], "BF16");
    assert_eq!(header[names[0]]["shape"], serde_json::json!([256, 256]));
    assert_eq!(header[names[1]]["data_offsets"], serde_json::json!([131_072, 132_096]));
    assert!(bytes[8 + len..] == [query, norm].concat());
    // Blocks become what they stand for.
    succeed(sandbox.convert(&words("llama q.gguf -t q8_0 -q")));
    done(&sandbox, &["extract", "q.gguf", names[0], "--output", "b.npy", "-q"]);
    let quantized = open(&sandbox, "q.gguf");
    let tensor = quantized.tensor(names[0]).unwrap();
    let mut values = vec![0.0; tensor.shape.n_elems() as usize];
    gguf_quant::decode(
        tensor.dtype,
        gguf_quant::Level::detect(),
        quantized.data(tensor).unwrap(),
        &mut values,
    )
    .unwrap();
    let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(sandbox.read("b.npy")[128..] == expected);
}

#[test]
fn differences_are_shown() {
    let sandbox = sandbox();
    sandbox.write("a.jinja", "one\ntwo\nthree\n");
    sandbox.write("b.jinja", "one\n2\nthree\n");
    done(&sandbox, &words("set m.gguf --chat-template a.jinja -q --force"));
    done(&sandbox, &["diff", "m.gguf", "m.gguf", "-q"]);
    // Neither shards nor byte order are a difference.
    done(&sandbox, &words("split m.gguf s --split-max-tensors 8 -q"));
    done(&sandbox, &words("endian m.gguf big.gguf --order big -q"));
    done(&sandbox, &["diff", "s-00001-of-00003.gguf", "big.gguf", "-q"]);

    let set = ["set", "m.gguf", "llama.context_length=128", "new.key=u8:1", "-o", "n.gguf", "-q"];
    done(&sandbox, &set);
    done(&sandbox, &words("set n.gguf --chat-template b.jinja -q --force"));
    done(&sandbox, &["unset", "n.gguf", "general.size_label", "-q"]);
    let quantize = ["n.gguf", "q.gguf", "q8_0", "-q"];
    succeed(sandbox.quantize(&quantize));
    let ran = sandbox.inspect(&["diff", "m.gguf", "q.gguf", "-q"]);
    ran.ends_and_begins(1, "error: m.gguf and q.gguf differ in ");
    for line in [
        "- general.size_label: 1.4M",
        "+ new.key: 1",
        "~ llama.context_length: 512 -> 128",
        "~ tokenizer.chat_template:\n  @@ line 1 of A, line 1 of B @@\n   one\n  -two\n  +2\n   three\n",
        "~ blk.0.attn_q.weight: bf16 [256, 256] -> q8_0 [256, 256], error 0.00",
    ] {
        assert!(ran.stdout.contains(line), "`{line}` is not in\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("output_norm"), "{}", ran.stdout);
    let json = sandbox.inspect(&words("diff m.gguf q.gguf --json -q")).stdout;
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!((json["equal"].as_bool(), json["tensors"].as_array().unwrap().len()), (Some(false), 16));
    let error = json["tensors"][0]["error"].as_f64().unwrap();
    assert!(error > 1e-3 && error < 1e-2, "{error}");
}
