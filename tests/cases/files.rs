//! Good files that a tool must not refuse or blame.

use std::fs;

use crate::common::{Sandbox, succeed, words};

fn with_model() -> Sandbox {
    Sandbox::with_converted("llama", "in.gguf", "bf16")
}

#[test]
fn nan_metadata_equals_nan() {
    let sandbox = with_model();
    let nans = [
        "x.f32=f32:nan",
        "x.f64=f64:nan",
        r#"x.f32s=arr[f32]:[1.5, "NaN"]"#,
        r#"x.f64s=arr[f64]:["NaN", "Infinity"]"#,
    ];
    succeed(sandbox.inspect(&[&["set", "in.gguf", "-q"], &nans[..]].concat()));
    fs::copy(sandbox.path("in.gguf"), sandbox.path("b.gguf")).unwrap();
    let equal = sandbox.inspect(&["diff", "in.gguf", "b.gguf"]);
    assert!(equal.code == Some(0) && equal.stdout.is_empty(), "{}{}", equal.stdout, equal.stderr);
    let same = succeed(sandbox.inspect(&["set", "b.gguf", "x.f32=f32:nan"]));
    assert!(same.stdout.is_empty() && same.stderr.contains("no changes"), "{}{}", same.stdout, same.stderr);
    succeed(sandbox.inspect(&["set", "b.gguf", r#"x.f32s=arr[f32]:["NaN", 1.5]"#]));
    let other = sandbox.inspect(&["diff", "in.gguf", "b.gguf"]);
    assert!(other.code == Some(1) && other.stdout.starts_with("~ x.f32s"), "{}", other.stdout);
}

#[test]
fn merge_takes_one_shard_or_all() {
    let sandbox = with_model();
    succeed(sandbox.inspect(&words("split in.gguf s --split-max-tensors 6 -q")));
    let shards: Vec<String> = (1..=4).map(|n| format!("s-{n:05}-of-00004.gguf")).collect();
    let [a, b, c, d] = [0, 1, 2, 3].map(|n: usize| shards[n].as_str());
    let original = sandbox.read("in.gguf");
    for inputs in [&[a][..], &[c], &[a, b, c, d], &[d, b, "./s-00001-of-00004.gguf"]] {
        succeed(sandbox.inspect(&[&["merge"], inputs, &["out.gguf", "--force"]].concat()));
        assert!(sandbox.read("out.gguf") == original, "{inputs:?}");
    }
    let before = sandbox.listing("");
    // The last shard in place of the output.
    let forgotten = sandbox.inspect(&["merge", a, b, c, d]);
    assert_eq!(forgotten.code, Some(1), "{}", forgotten.stderr);
    fs::copy(sandbox.path("in.gguf"), sandbox.path("other.gguf")).unwrap();
    let other = sandbox.inspect(&["merge", a, "other.gguf", "new.gguf"]);
    other.ends_and_says(1, "other.gguf: not a shard of the same model as");
    let added: Vec<String> =
        sandbox.listing("").into_keys().filter(|name| !before.contains_key(name)).collect();
    assert_eq!(added, ["other.gguf"]);
    assert!(before.iter().all(|(name, digest)| sandbox.listing("").get(name) == Some(digest)));
}

#[test]
fn types_of_forks_are_shown_by_name() {
    let sandbox = with_model();
    let mut bytes = sandbox.read("in.gguf");
    for (name, type_id) in [("blk.0.ffn_down.weight", 139u32), ("blk.1.ffn_down.weight", 9999)] {
        let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        // After the name: the number of dimensions and two dimensions.
        let at = at + name.len() + 4 + 2 * 8;
        bytes[at..at + 4].copy_from_slice(&type_id.to_le_bytes());
    }
    sandbox.write("fork.gguf", bytes);
    let shown = succeed(sandbox.inspect(&["show", "fork.gguf", "--full"])).stdout;
    let row = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("blk.0.ffn_down.weight")[3..], ["iq4_k", "262144"]);
    assert_eq!(row("blk.1.ffn_down.weight")[3..], ["type", "9999", "262144"]);
    assert!(shown.contains("Tensors: 21,"), "{shown}");
    assert_eq!(row("iq4_k"), ["iq4_k", "1", "131072", "262144", "262", "kB", "16.0000"]);
    let json = succeed(sandbox.inspect(&["show", "fork.gguf", "--json"])).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let tensors = json["tensors"].as_array().unwrap();
    let foreign = tensors.iter().find(|tensor| tensor["name"] == "blk.0.ffn_down.weight").unwrap();
    assert!(foreign["bytes"] == 262_144 && foreign["dtype"] == "iq4_k");
    let keys = |file| succeed(sandbox.inspect(&["export-metadata", file])).stdout;
    assert_eq!(keys("fork.gguf"), keys("in.gguf"));
    let hash = succeed(sandbox.inspect(&["hash", "fork.gguf"])).stdout;
    assert!(hash.starts_with(&sandbox.listing("")["fork.gguf"]), "{hash}");
    // The data of a tensor need its size.
    let tensors = sandbox.inspect(&["hash", "fork.gguf", "--tensors"]);
    assert!(tensors.code == Some(1) && tensors.stderr.contains("iq4_k"), "{}", tensors.stderr);
}

#[cfg(unix)]
#[test]
fn publish_writes_non_utf8_folders() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let sandbox = Sandbox::with_base_and_text();
    let folder = |name: &'static [u8]| OsStr::from_bytes(name);
    fs::rename(sandbox.path("llama"), sandbox.path(".").join(folder(b"m\xff"))).unwrap();
    fs::rename(sandbox.path("base.gguf"), sandbox.path(".").join(folder(b"b\xff.gguf"))).unwrap();
    for (source, out) in [(&b"m\xff"[..], &b"p\xffub"[..]), (b"b\xff.gguf", b"q\xffub")] {
        // The second call finds the stages of the first.
        for _ in 0..2 {
            let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-publish"));
            command.args([OsStr::from_bytes(source), OsStr::from_bytes(out)]);
            command.args([
                "--type",
                "q8_0",
                "--chunks",
                "1",
                "-c",
                "64",
                "--no-imatrix",
                "--eval-text",
                "text",
            ]);
            let ran = command.output().unwrap();
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(0), "{out:?}: {stderr}");
        }
        let published = fs::read_dir(sandbox.path(".").join(OsStr::from_bytes(out))).unwrap();
        let names: Vec<_> = published.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "README.md"), "{names:?}");
    }
}

#[cfg(unix)]
#[test]
fn quantize_and_split_write_non_utf8_folders() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let sandbox = with_model();
    let folder = sandbox.path(".").join(OsStr::from_bytes(b"o\xff"));
    fs::create_dir(&folder).unwrap();
    let run = |binary: &str, args: &[&[u8]]| {
        let ran =
            sandbox.command(binary).args(args.iter().map(|arg| OsStr::from_bytes(arg))).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    run(env!("CARGO_BIN_EXE_gguf-quantize"), &[b"in.gguf", b"o\xff/q\xff.gguf", b"q4_0"]);
    assert!(folder.join(OsStr::from_bytes(b"q\xff.gguf")).is_file());
    let inspect = env!("CARGO_BIN_EXE_gguf-inspect");
    run(inspect, &[b"split", b"in.gguf", b"o\xff/s", b"--split-max-tensors", b"20"]);
    run(inspect, &[b"merge", b"o\xff/s-00001-of-00002.gguf", b"o\xff/s-00002-of-00002.gguf", b"out.gguf"]);
    assert!(sandbox.read("out.gguf") == sandbox.read("in.gguf"));
}
