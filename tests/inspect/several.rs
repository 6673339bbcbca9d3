//! `gguf-inspect show`, `verify` and `hash` on several files and folders.

use std::fs;

use serde_json::Value as Json;

use crate::common::{Sandbox, succeed, words};

/// A folder `models` with a model, a split one, a damaged one, and a text file.
fn models() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "q8_0");
    fs::create_dir(sandbox.path("models")).unwrap();
    let bytes = sandbox.read("x.gguf");
    sandbox.write("models/good.gguf", &bytes);
    sandbox.write("models/notes.txt", "text");
    succeed(sandbox.inspect(&words("split x.gguf models/part --split-max-tensors 8 -q")));
    sandbox.write("models/damaged.gguf", &bytes[..bytes.len() / 2]);
    sandbox
}

fn names(values: &Json) -> Vec<String> {
    let name = |value: &Json| value["file"].as_str().unwrap().to_owned();
    values.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn folder_stands_for_its_models() {
    let sandbox = models();
    let all = ["models/damaged.gguf", "models/good.gguf", "models/part-00001-of-00003.gguf"];
    let ran = sandbox.inspect(&["verify", "models", "--json", "-q"]);
    let reports = ran.json();
    assert_eq!((ran.code, names(&reports)), (Some(1), all.map(str::to_owned).to_vec()), "{}", ran.stderr);
    let good: Vec<bool> = reports.as_array().unwrap().iter().map(|report| report["good"] == true).collect();
    assert_eq!(good, [false, true, true]);
    assert!(ran.stderr.ends_with("error: 1 of 3 files failed\n"), "{}", ran.stderr);

    let ran = sandbox.inspect(&["show", "models", "--json"]);
    let shown = ran.json();
    assert_eq!((ran.code, names(&shown)), (Some(1), all.map(str::to_owned).to_vec()), "{}", ran.stderr);
    assert!(shown[0]["error"].is_string() && shown[1]["summary"]["name"].is_string(), "{shown}");
    assert_eq!(shown[2]["summary"]["n_files"], 3);

    // Every shard has a digest.
    fs::remove_file(sandbox.path("models/damaged.gguf")).unwrap();
    let digests = succeed(sandbox.inspect(&["hash", "models"])).stdout;
    assert_eq!(digests.lines().count(), 4, "{digests}");
    assert_eq!(succeed(sandbox.inspect(&["verify", "models", "-q"])).stdout, "");
}

#[test]
fn texts_follow_the_names_of_files() {
    let sandbox = models();
    let shards = ["models/part-00002-of-00003.gguf", "models/part-00003-of-00003.gguf"];
    let ran = succeed(sandbox.inspect(&[&["show", "models/good.gguf"][..], &shards].concat()));
    let heads: Vec<&str> = ran.stdout.lines().filter(|line| line.ends_with(".gguf:")).collect();
    assert_eq!(heads, ["models/good.gguf:", "models/part-00002-of-00003.gguf:"]);
    let single = succeed(sandbox.inspect(&["show", "models/good.gguf"])).stdout;
    assert!(ran.stdout.starts_with(&format!("models/good.gguf:\n{single}\nmodels/part")), "{}", ran.stdout);

    // A missing file does not stop the others, and invalid options do.
    let ran = sandbox.inspect(&["verify", "none.gguf", "models/good.gguf"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.starts_with("models/good.gguf:\nstructure"), "{}", ran.stdout);
    ran.begins("error: none.gguf: cannot open");
    let ran = sandbox.inspect(&["verify", "x.gguf", "models/good.gguf", "--only", "source"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.inspect(&["verify", "empty"]).ends_and_says(1, "empty: the folder has no GGUF file");
}

#[cfg(feature = "remote")]
#[test]
fn remote_file_is_shown_by_its_header() {
    use super::recipe::remote::run;
    use crate::hub_server::HubServer;

    let sandbox = models();
    let server = HubServer::of(&sandbox.path("models"), |name| name.ends_with(".gguf"));
    let local = succeed(sandbox.inspect(&["show", "models/good.gguf", "--list"])).stdout;
    let ran = run(&sandbox, &server, &["show", "hf://org/model/good.gguf", "--list", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let (summary, lists) = local.split_once("\n\n").unwrap();
    let (shown, same) = ran.stdout.split_once("\n\n").unwrap();
    assert!(shown.starts_with(summary) && same == lists, "{}", ran.stdout);
    assert!(shown.contains("only the header was read"), "{shown}");
    let fetched: u64 =
        server.log().iter().filter_map(|request| request.range).map(|(_, end)| end as u64).max().unwrap();
    assert!(fetched <= 256 << 10);
    // Shards by the address of any of them.
    let ran = run(&sandbox, &server, &["show", "hf://org/model/part-00002-of-00003.gguf", "--json", "-q"]);
    let json = ran.json();
    assert_eq!((ran.code, json["summary"]["n_files"].as_u64()), (Some(0), Some(3)), "{}", ran.stderr);
    let whole = fs::metadata(sandbox.path("models/part-00001-of-00003.gguf")).unwrap().len();
    assert!(json["summary"]["file_bytes"].as_u64().unwrap() > whole);
    let ran = run(&sandbox, &server, &["show", "hf://org/model/damaged.gguf", "-q"]);
    ran.ends_and_says(1, "error: hf://org/model/damaged.gguf: ");
    let ran = run(&sandbox, &server, &["verify", "hf://org/model/good.gguf"]);
    ran.ends_and_says(1, "download the file first");
}
